"""Bandits whose arms are redrawn in every episode: learning to learn."""
