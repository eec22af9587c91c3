"""Grids of cells, walked in four directions."""
