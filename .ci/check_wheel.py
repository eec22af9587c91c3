"""Import every module of the installed purerl and load every config. Run from an empty folder.

python check_wheel.py
"""

import importlib
import importlib.util
import pkgutil
import tomllib
from importlib import resources
from pathlib import Path

import purerl
from purerl import registry
from purerl.catalog.algorithms import ALGORITHMS
from purerl.catalog.environments import ENVIRONMENTS

NEED_AN_EXTRA = ("purerl.__main__", "purerl.pool.dm_pool")  # the first runs the command line, the other needs dm_env


def main() -> None:
    """Fail with a traceback if a module or a config is missing from the installed package."""
    home = Path(purerl.__file__).resolve().parent
    assert "site-packages" in home.parts, f"purerl was imported from {home}, not from an installed wheel"
    modules = [module.name for module in pkgutil.walk_packages(purerl.__path__, "purerl.")]
    for name in modules:
        if name not in NEED_AN_EXTRA:
            importlib.import_module(name)
    for path in ENVIRONMENTS.values():
        registry.load(path)
    for name in ALGORITHMS:
        registry.algorithm(name)
    configs = list(resources.files("purerl.configs").rglob("*.toml"))  # type: ignore[attr-defined]
    for file in configs:
        tomllib.loads(file.read_text())
    assert configs, "the wheel holds no configs"
    for outside in ("envs", "algos", "configs", "tests", "benchmarks", "scripts", "tools"):
        assert importlib.util.find_spec(outside) is None, f"the wheel installs a top-level '{outside}'"
    print(f"purerl {purerl.__version__}: {len(modules)} modules and {len(configs)} configs are in the wheel")


if __name__ == "__main__":
    main()
