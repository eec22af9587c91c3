"""A module that raises when it is imported."""

1 / 0  # noqa: B018
