"""Flags and request that `plan` and `candidates` share (src/aoizora/plan_service.h)."""

from __future__ import annotations

import argparse
import pathlib
import sys
from typing import Any

from aoizora import _core
from aoizora.cli._options import cache_folder, on_off, positive
from aoizora.cli._toolchain import core_digest, toolchain


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """What a step is, and where artefacts are kept."""
    parser.add_argument("model", metavar="MODEL", help="for example wan2.1-t2v-1.3b")
    parser.add_argument("--slice", required=True, metavar="S", help="TPU slice: v5e:4x4")
    work = parser.add_argument_group("what a step is")
    work.add_argument("--resolution", default="480p", help="480p (default) or 720p")
    work.add_argument("--frames", type=positive, default=81, metavar="N", help="default 81")
    work.add_argument("--batch", type=positive, default=1, metavar="N", help="videos; default 1")
    work.add_argument(
        "--cfg",
        type=on_off,
        default=True,
        metavar="on|off",
        help="classifier-free guidance: two forwards a step (default on)",
    )
    parser.add_argument("--space", metavar="FILE", help="which candidates there are (JSON)")
    parser.add_argument("--no-cache", action="store_true", help="neither read nor keep artefacts")
    parser.add_argument("--cache-dir", metavar="DIR", help="default: ~/.cache/aoizora")


def read_file(path: str | None) -> dict[str, str] | None:
    """A file for the core, with its name for messages."""
    if path is None:
        return None
    try:
        return {"file": path, "text": pathlib.Path(path).read_text()}
    except (OSError, UnicodeDecodeError) as error:
        raise _core.UserError(f"{path}: cannot be read: {error}") from None


def base_request(arguments: argparse.Namespace) -> dict[str, Any]:
    """The members of the request that come from `add_model_flags` and from the installation."""
    versions = toolchain()
    missing = [name for name in ("jax", "libtpu") if versions[name] is None]
    return {
        "model": arguments.model,
        "options": {
            "resolution": arguments.resolution,
            "frames": arguments.frames,
            "batch": arguments.batch,
            "cfg": arguments.cfg,
        },
        "slice": arguments.slice,
        "space": read_file(arguments.space),
        "compiler": "null" if missing else "jax",
        "toolchain": versions,
        "core": core_digest(),
        "worker_argv": [sys.executable, "-m", "aoizora.worker"],
        "cache_folder": None if arguments.no_cache else str(arguments.cache_dir or cache_folder()),
    }
