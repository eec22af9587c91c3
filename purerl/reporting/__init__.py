"""The output of a run: progress, tables, curves, comparisons, pictures of episodes."""
