"""Grids of cells with moves in four directions."""
