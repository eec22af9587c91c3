"""Tasks that cannot be solved without remembering."""
