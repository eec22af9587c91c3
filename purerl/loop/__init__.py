"""The compiled loop: parallel environments, resets, training, metrics, evaluation, populations."""
