"""Environments: pure functions of their parameters, one per file."""

if __name__ != "purerl.envs":
    raise ImportError("import purerl.envs, not envs")
