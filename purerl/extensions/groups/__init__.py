"""Several policies in one environment, one for each group of agents."""
