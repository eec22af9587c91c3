"""The life of a run: plan, compile, train, save, resume."""
