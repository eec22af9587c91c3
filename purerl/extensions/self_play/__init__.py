"""Self-play: a policy against its earlier selves, and their ratings."""
