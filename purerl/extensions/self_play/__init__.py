"""Self-play: a policy against its past policies, and their ratings."""
