"""What a run shows and leaves behind: progress, tables, curves, comparisons, pictures of episodes."""
