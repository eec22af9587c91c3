"""MinAtar: five small versions of Atari games."""
