"""Input from others: `names` is the only place where names become code, and `reading` opens files."""

from purerl.trust.names import (
    checked,
    flags,
    load,
    module_of,
    name_modules,
    names_module,
    trusting,
    typed,
)

__all__ = [
    "checked",
    "flags",
    "load",
    "module_of",
    "name_modules",
    "names_module",
    "trusting",
    "typed",
]
