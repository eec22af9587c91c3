"""A module that raises where it is imported."""

1 / 0  # noqa: B018
