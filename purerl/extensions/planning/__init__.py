"""Planning in the environment itself."""
