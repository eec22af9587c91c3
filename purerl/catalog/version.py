"""The version of the package, the one place where it stands."""

VERSION = "0.1.0"
