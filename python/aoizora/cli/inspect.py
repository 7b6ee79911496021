"""`aoizora inspect`: what a compiled or lowered program communicates."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from aoizora import _core
from aoizora.cli import Formatter

EXAMPLES = """examples:
  aoizora inspect step.hlo
  aoizora inspect step.hlo.xz --json | jq .totals
  python -c 'print(compiled.as_text())' | aoizora inspect -

HLO text from any XLA version and backend, StableHLO with Shardy; plain, gz, xz or zstd. A truncated
dump is read as far as it goes. MLIR in its pretty form and MLIR bytecode need jaxlib."""


def add_parser(commands: Any) -> None:
    """Adds the command to the parser of `aoizora`."""
    parser = commands.add_parser(
        "inspect",
        help="the collectives of an HLO or StableHLO text: bytes, groups, executions",
        description="Counts what a program communicates, per kind and pattern of devices.",
        epilog=EXAMPLES,
        formatter_class=Formatter,
    )
    parser.add_argument("file", metavar="FILE", help="a text, or - for standard input")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the report; bad input raises UserError with its place."""
    data = _core.read_bytes(arguments.file)
    name = arguments.file
    if _core.text_form(data) in ("pretty_mlir", "mlir_bytecode"):
        data = _generic(data, name)
        name += " (generic form)"  # lines and columns are of that text
    sys.stdout.write(_core.inspect(data, name, arguments.json))
    return 0


def _generic(data: bytes, file: str) -> bytes:
    try:
        from aoizora import jaxapi
    except ImportError as error:
        raise _core.UserError(
            f"{file}: MLIR that is not in its generic form needs JAX, which is not there: {error}"
        ) from None
    try:
        return jaxapi.generic_from_mlir(data).encode()
    except ValueError as error:
        raise _core.UserError(f"{file}: {error}") from None
