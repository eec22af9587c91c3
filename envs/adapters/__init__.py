"""Third-party environments, one suite per file, each with `make(name, **parameters)` and `names()`."""
