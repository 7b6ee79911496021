"""`aoizora rank`: the best device order for a compiled program."""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import Any

from aoizora import _core
from aoizora.cli import Formatter
from aoizora.cli._options import positive
from aoizora.cli._request import read_file

EXAMPLES = """examples:
  aoizora rank step.hlo --slice v5e:4x4 --mesh context=4,tensor=4
  aoizora rank step.hlo --slice v5e:4x4 --mesh context=4,tensor=4 --budget 10s --top 5
  aoizora rank step.hlo --slice v5e:4x4 --mesh context=4,tensor=4 --explain default best
  aoizora rank step.hlo --slice v6e:2x4 --json | jq '.best.coords'"""

PLACEMENTS = (
    "best",
    "chosen",
    "worst",
    "default",
    "create_device_mesh",
    "row_major",
    "default_split",
)
UNITS = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0}


def seconds(text: str) -> float:
    """`10s`, `500ms`, `2m`; a bare number is seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|min)?", text)
    if match is None or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time like 10s, 500ms or 2m")
    return float(match[1]) * UNITS[match[2] or ""]


def mesh(text: str) -> list[tuple[str, int]]:
    """`data=2,context=4`: axis names and sizes, slowest first."""
    axes: list[tuple[str, int]] = []
    for part in text.split(","):
        name, separator, size = part.partition("=")
        if not separator or not name or not size.isdecimal() or int(size) < 1:
            raise argparse.ArgumentTypeError(f"{part!r} is not an axis like context=4")
        if name in dict(axes):
            raise argparse.ArgumentTypeError(f"axis {name} is given twice")
        axes.append((name, int(size)))
    return axes


def add_parser(commands: Any) -> None:
    """Adds the command to the parser of `aoizora`."""
    parser = commands.add_parser(
        "rank",
        help="find the best device order for a compiled program",
        epilog=EXAMPLES,
        formatter_class=Formatter,
    )
    parser.add_argument("file", metavar="FILE", help="compiled HLO text (may be packed: gz, xz)")
    parser.add_argument("--slice", required=True, metavar="S", help="TPU slice: v5e:4x4")
    parser.add_argument(
        "--mesh",
        type=mesh,
        metavar="a=4,b=4",
        help="logical mesh; default: what the program's groups tell",
    )
    parser.add_argument("--profile", metavar="FILE", help="constants of the chip (JSON)")
    search = parser.add_argument_group("how to look")
    search.add_argument(
        "--budget",
        type=seconds,
        metavar="T",
        help="stop after this time (10s, 2m) with the best so far",
    )
    search.add_argument(
        "--evaluations",
        type=positive,
        default=200_000,
        metavar="N",
        help="fast evaluations; default 200000",
    )
    search.add_argument(
        "--replayed", type=positive, default=256, metavar="N", help="full replays; default 256"
    )
    search.add_argument("--seed", type=int, default=0, metavar="N")
    search.add_argument("--jobs", type=positive, metavar="N", help="threads; default: one per core")
    search.add_argument(
        "--assume",
        choices=("all", "default"),
        default="all",
        help="compare the winners under every assumption of the model (default), or only under its own",
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--top", type=positive, default=5, metavar="N", help="how many to list; default 5"
    )
    output.add_argument(
        "--explain",
        nargs=2,
        choices=PLACEMENTS,
        metavar=("A", "B"),
        help=f"the program on two placements, collective by collective: {', '.join(PLACEMENTS)}",
    )
    output.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Ranks and prints. Ctrl-C ends the search with the best so far."""
    request = {
        "path": arguments.file,
        "slice": arguments.slice,
        "mesh": arguments.mesh,
        "profile": read_file(arguments.profile),
        "seed": arguments.seed,
        "evaluations": arguments.evaluations,
        "budget_s": arguments.budget,
        "replayed": arguments.replayed,
        "top": arguments.top,
        "explain": arguments.explain,
        "workers": arguments.jobs or 0,
        "assume": arguments.assume,
    }
    answer = json.loads(_core.rank(json.dumps(request)))
    if not arguments.json:
        sys.stdout.write(answer["text"])
        return 0
    # One object: the ranking, then what was read, and last the only part that differs from run to run.
    result = answer["ranking"] | {"program": answer["program"], "seconds": answer["seconds"]}
    print(json.dumps(result, indent=2))
    return 0
