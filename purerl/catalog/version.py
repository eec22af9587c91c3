"""The version of the package, which is defined only here."""

VERSION = "0.1.0"
