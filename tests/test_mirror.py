"""The tests mirror the code: each module has a test file with its name in the mirrored folder."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = ROOT / "tests"


def modules():
    """Return the paths of modules with behavior, as "loop/train.py" or "algos/ppo.py"."""
    found = []
    for folder, inside in (("purerl", ""), ("algos", "algos/")):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT / folder)
            if name.parts[0] in ("envs", "algos") or name.stem in ("__init__", "__main__"):
                continue
            found.append(inside + name.as_posix())
    return found


def mirrored(module):
    path = TESTS / module
    return path.with_name(f"test_{path.name}")


def test_a_module_has_its_test_file():
    missing = [mirrored(module).relative_to(ROOT).as_posix() for module in modules() if not mirrored(module).exists()]
    assert not missing


def test_no_test_file_is_of_a_module_that_is_gone():
    """In the folders that mirror the package, a file without a module of its name has a reason to be."""
    folders = {Path(module).parent.as_posix() for module in modules()} - {"."}
    known = {mirrored(module) for module in modules()}
    strangers = {
        path.relative_to(TESTS).as_posix()
        for folder in folders
        for path in (TESTS / folder).glob("test_*.py")
        if path not in known
    }
    assert strangers <= WHOLE


WHOLE = {  # tests of several modules together
    "algos/test_showpieces.py",  # PPO, DQN, SAC, and the configs of all
    "algos/test_time_limits.py",  # every algorithm
    "algos/test_updates.py",  # every algorithm
    "commands/test_bad_lines.py",  # all commands
    "pool/test_clients.py",  # other libraries that learn through the pool
    "pool/test_envpool_conformance.py",  # the complete pool compared with EnvPool
    "pool/test_envpools_own_tests.py",  # EnvPool's tests on the whole pool
    "run/test_recipes.py",  # launch scripts
    "testing/test_conformance.py",  # everything that is registered
}
