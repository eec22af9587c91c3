"""JAX's persistent compilation cache: in the user's cache folder, limited to a size, or in a folder of their choice."""

import os
from pathlib import Path

GIVEN = "JAX_COMPILATION_CACHE_DIR"
MAX_BYTES = 2**30


def folder() -> Path:
    """Return the folder of compiled programs: JAX_COMPILATION_CACHE_DIR, or purerl in the user's cache folder."""
    given = os.environ.get(GIVEN)
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "purerl" / "compiled"


def enable() -> None:
    """Enable JAX's cache of compiled programs; no effect if its folder cannot be written."""
    import jax

    try:
        path = folder()
        path.mkdir(parents=True, exist_ok=True)
        if not os.environ.get(GIVEN):  # such a folder may hold what other programs compiled
            trim(path)
    except (OSError, RuntimeError):  # the latter: a user without a name and a home
        return
    if not os.access(path, os.W_OK):
        return
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def trim(path: Path, max_bytes: int = MAX_BYTES) -> None:
    """Remove the oldest files until the rest is at most `max_bytes`."""
    files = [entry for entry in path.iterdir() if entry.is_file()]
    found = sorted(((stat.st_mtime, stat.st_size, file) for file in files for stat in [file.stat()]), reverse=True)
    total = 0
    for _, size, file in found:
        total += size
        if total > max_bytes:
            file.unlink(missing_ok=True)
