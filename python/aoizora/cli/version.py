"""`aoizora version`: what is installed."""

from __future__ import annotations

import argparse
import json
from importlib import metadata
from typing import Any

from aoizora.cli import Formatter

PACKAGES = ("aoizora", "jax", "jaxlib", "libtpu")


def add_parser(commands: Any) -> None:
    """Adds the command to the parser of `aoizora`."""
    parser = commands.add_parser(
        "version",
        help="versions of AoiZora, JAX and the TPU compiler",
        epilog="examples:\n  aoizora version\n  aoizora version --json",
        formatter_class=Formatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints one line a package; `null` (or "not installed") where it is missing."""
    versions: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    if arguments.json:
        print(json.dumps(versions, indent=2))
    else:
        for name, version in versions.items():
            print(f"{name:8} {version or 'not installed'}")
    return 0
