"""What an artefact depends on besides its job: versions, and our JAX side. Imports no JAX."""

from __future__ import annotations

import hashlib
import pathlib
import platform
from importlib import metadata

from aoizora import _core

# Everything that decides which program a worker hands to the compiler.
JAX_SIDE = ("models", "errors.py", "jaxapi.py", "shardy_check.py", "trace.py", "worker.py")


def source_digest() -> str:
    """SHA-256 over the Python files that trace, shard and compile."""
    root = pathlib.Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for name in JAX_SIDE:
        path = root / name
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        for file in files:
            digest.update(str(file.relative_to(root)).encode() + b"\0")
            digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()


def installed(package: str) -> str | None:
    """Version of an installed package; None when it is missing."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def toolchain() -> dict[str, str | None]:
    """Versions in the order a person looks for them."""
    return {
        "aoizora": installed("aoizora"),
        "jax": installed("jax"),
        "jaxlib": installed("jaxlib"),
        "libtpu": installed("libtpu"),
        "python": platform.python_version(),
        "source": source_digest(),
    }


def core_digest() -> str:
    """SHA-256 of the compiled core: a plan that another build made is made again."""
    return hashlib.sha256(pathlib.Path(_core.__file__).read_bytes()).hexdigest()
