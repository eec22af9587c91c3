"""What others made: `names` is the one door through which their names become code, `reading` opens their files."""

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
