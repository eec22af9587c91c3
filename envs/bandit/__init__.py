"""Bandits with new arms in every episode, for meta-learning."""
