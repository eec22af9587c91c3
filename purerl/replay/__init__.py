"""Replay: uniform, prioritized, sequences, stacks of frames."""
