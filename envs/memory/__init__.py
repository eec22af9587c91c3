"""Tasks that require memory."""
