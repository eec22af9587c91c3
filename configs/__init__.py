"""Settings per algorithm and task: the TOML files that the published results used."""

if __name__ != "purerl.configs":
    raise ImportError("import purerl.configs, not configs")
