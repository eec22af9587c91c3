"""Trust: which names may be imported. Folders are data; a user's module is imported only if the user names it.

A file may name registered parts and parts of installed suites. A "module:name" in it is rejected before anything is
imported, unless the user named the module: in the command itself, by `--trust MODULE`, or by `trust=True` in Python.
`load` is the one door: every "module:name" passes it, wherever it came from, and nothing is trusted by default.
"""

import contextlib
import importlib
import importlib.machinery
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from purerl.catalog.environments import SUITES
from purerl.errors import InputError, line_of, unknown

ALL = "*"  # every module
_trusted: ContextVar[frozenset[str]] = ContextVar("trusted", default=frozenset())  # modules, and names that were asked


def module_of(name: str) -> str:
    """Return the module of a name: "a.b" for "a.b:C" and for "gymnasium/a.b:C"; "" for other names."""
    suite, _, rest = name.partition("/")
    path = rest if suite in SUITES else name
    return path.partition(":")[0] if ":" in path else ""


def names_module(value: object) -> bool:
    """Return whether a parameter's value looks like "module:name", which a suite may import."""
    module = module_of(value) if isinstance(value, str) else ""
    return bool(module) and all(part.isidentifier() for part in module.split("."))


def name_modules(modules: Iterable[str]) -> None:
    """Trust these modules, and search the current folder for them and their imports last."""
    named = frozenset(modules)
    _trusted.set(_trusted.get() | named)
    if named:
        CurrentFolder.find(named)


def typed(*names: object) -> None:
    """Trust the modules of these names, which a caller in Python wrote; other objects are ignored."""
    _trusted.set(_trusted.get() | {name for name in names if isinstance(name, str) and module_of(name)})


@contextlib.contextmanager
def trusting(everything: bool) -> Iterator[None]:
    """Trust every module that a file names, if `everything` is true; names used meanwhile stay trusted."""
    before = _trusted.get()
    _trusted.set(before | ({ALL} if everything else frozenset()))
    try:
        yield
    finally:
        _trusted.set(_trusted.get() - ({ALL} - before))


def checked(name: str, source: object = "") -> str:
    """Return a name if the module that it needs is trusted; nothing is imported.

    Args:
      name: the name of an algorithm, an environment, an extension or an objective.
      source: the file that gives it, for the message.

    Raises:
      InputError: saying what would be imported, and how to allow it.
    """
    module, trusted = module_of(name), _trusted.get()
    if module and not trusted & {module, name, ALL}:
        what = f"{source} names {name}, which" if source else name
        raise InputError(
            f"{what} is code in the module {module}: add --trust {module} to import it "
            f"(trust=True in Python), if you trust it"
        )
    if module:
        _trusted.set(trusted | {name})
    return name


def load(path: str) -> Any:
    """Return the object at "module:name" from a trusted module.

    Raises:
      InputError: if it is not, or there is no such module or name.
    """
    module_name, _, name = path.partition(":")
    if not name:
        raise InputError(f"'{path}' does not name an object: write module:name")
    if module_name.endswith(".py") or "/" in module_name:
        module = module_name.removesuffix(".py").removeprefix("./").replace("/", ".")
        raise InputError(f"'{path}' names a file: write {module}:{name}")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise InputError(f"'{path}' does not name an object: write module:name")
    checked(path)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and not module_name.startswith(error.name):
            raise _broken(module_name, error) from error
        raise InputError(f"there is no module '{module_name}'") from None
    except Exception as error:  # whatever a user's module raises
        raise _broken(module_name, error) from error
    if not hasattr(module, name):
        own = [n for n, x in vars(module).items() if getattr(x, "__module__", None) == module_name and n[0] != "_"]
        raise unknown(f"name in {module_name}", name, own)
    return getattr(module, name)


def _broken(module_name: str, error: Exception) -> InputError:
    """Return the error for a module that raises while it is imported."""
    if isinstance(error, InputError):
        return error
    first = (str(error).strip() or "without a word").splitlines()[0]
    where = "" if isinstance(error, SyntaxError) else line_of(error)  # it names its place itself
    return InputError(f"{module_name} cannot be imported: {type(error).__name__}: {first}{where}")


def flags(*names: str) -> str:
    """Return the flags that a command needs for these names in its folder, such as " --trust my_module"; or ""."""
    return "".join(f" --trust {module}" for module in dict.fromkeys(map(module_of, names)) if module)


class CurrentFolder:
    """Finds modules in the current folder after all other places: named modules, and those that they import.

    The folder is not on `sys.path`: a file in it must not replace a module that a library looks for, such as a
    package that is not installed, a part of a namespace package, or a plugin.
    """

    def __init__(self, folder: Path):
        """Search a folder, initially for no modules."""
        self.folder, self.named = folder, set[str]()
        self._found = set[str]()

    @classmethod
    def find(cls, modules: Iterable[str]) -> None:
        """Search the current folder for these modules."""
        with contextlib.suppress(FileNotFoundError):  # the current folder is gone
            here = Path.cwd()
            finder = next((one for one in sys.meta_path if isinstance(one, cls) and one.folder == here), None)
            if finder is None:
                finder = cls(here)
                sys.meta_path.append(finder)
            finder.named |= {module.partition(".")[0] for module in modules}

    @classmethod
    def installed(cls) -> tuple["CurrentFolder", ...]:
        """Return the finders of this process; a copy that another process unpickles finds the same modules there."""
        return tuple(one for one in sys.meta_path if isinstance(one, cls))

    def __reduce__(self) -> tuple[Any, ...]:
        return _install, (self.folder, frozenset(self.named))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module, as `importlib.abc.MetaPathFinder` requires."""
        if path is not None or not (fullname in self.named or _asking(sys._getframe(1)) in self._found):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, [str(self.folder)], target)
        if spec is not None:
            self._found.add(fullname)
        return spec


def _install(folder: Path, named: frozenset[str]) -> CurrentFolder:
    """Find modules of a folder in this process, too."""
    finder = CurrentFolder(folder)
    finder.named |= named
    sys.meta_path.append(finder)
    return finder


def _asking(frame: Any) -> str:
    """Return the first part of the importing module's name, such as "a" of "a.b"."""
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return "" if frame is None else str(frame.f_globals.get("__name__", "")).partition(".")[0]
