"""The compiled loop: environments side by side, resets, training, metrics, evaluation, populations."""
