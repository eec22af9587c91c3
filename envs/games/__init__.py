"""Small games of several agents with known equilibria."""
