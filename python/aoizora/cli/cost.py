"""`aoizora cost`: what one collective costs on a slice."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from aoizora import _core
from aoizora.cli import Formatter
from aoizora.cli._options import key_value, positive
from aoizora.cli._request import read_file
from aoizora.cli.rank import mesh

KINDS = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "permute", "broadcast")

EXAMPLES = """examples:
  aoizora cost all-gather --slice v5e:4x4 --mesh a=4,b=4 --axis b --bytes 33550000
  aoizora cost all-reduce --slice v6e:16x16 --mesh all=256 --axis all --bytes 1e8 --json
  aoizora cost all-gather --slice v5e:2x4 --mesh a=8 --axis a --bytes 1e7 --order create_device_mesh

--bytes is the full array of all-gather, reduce-scatter, all-reduce and broadcast, and the buffer
of one device of all-to-all and permute. All groups of the axis run at once."""


def byte_count(text: str) -> int:
    """A whole number of bytes; `1e8` is one."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes") from None
    if not 0 <= value < 1e15 or value != int(value):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of bytes below 1e15")
    return int(value)


def assumptions(text: str) -> list[tuple[str, str]]:
    """`ring=given,routing=yx`."""
    return [key_value(part) for part in text.split(",")]


def add_parser(commands: Any) -> None:
    """Adds the command to the parser of `aoizora`."""
    parser = commands.add_parser(
        "cost",
        help="the time of one collective on a slice",
        epilog=EXAMPLES,
        formatter_class=Formatter,
    )
    parser.add_argument("kind", metavar="KIND", choices=KINDS, help=", ".join(KINDS))
    parser.add_argument(
        "--slice", required=True, metavar="S", help="TPU slice (v5e:4x4) or graph file (.json)"
    )
    parser.add_argument("--mesh", type=mesh, required=True, metavar="a=4,b=4", help="logical mesh")
    parser.add_argument("--axis", required=True, metavar="b", help="the axis, or several: a,b")
    parser.add_argument("--bytes", type=byte_count, required=True, metavar="N")
    parser.add_argument(
        "--order",
        default="row-major",
        metavar="ORDER",
        help="row-major (default), create_device_mesh, or a file with coordinates by mesh position",
    )
    parser.add_argument(
        "--concurrent", type=positive, default=1, metavar="K", help="K of them at once"
    )
    parser.add_argument(
        "--assume",
        type=assumptions,
        default=[],
        metavar="NAME=VALUE,...",
        help="ring=given|reordered|compiled, routing=xy|yx|split",
    )
    parser.add_argument(
        "--strategy", default="", metavar="NAME", help="the compiler's, as StrategyRing"
    )
    parser.add_argument("--profile", metavar="FILE", help="constants of the chip (JSON)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prices and prints."""
    request = {
        "kind": arguments.kind,
        "slice": arguments.slice,
        "mesh": arguments.mesh,
        "axes": arguments.axis.split(","),
        "bytes": arguments.bytes,
        "order": _order(arguments),
        "concurrent": arguments.concurrent,
        "assume": arguments.assume,
        "strategy": arguments.strategy,
        "profile": read_file(arguments.profile),
    }
    sys.stdout.write(_core.cost(json.dumps(request), arguments.json))
    return 0


def _order(arguments: argparse.Namespace) -> dict[str, str] | None:
    if arguments.order == "row-major":
        return None
    if arguments.order == "create_device_mesh":
        return {
            "file": arguments.order,
            "text": _core.device_mesh_order(arguments.slice, arguments.mesh),
        }
    return read_file(arguments.order)
