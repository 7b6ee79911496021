"""`aoizora calibrate`: fits a profile's network constants to measured points."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from typing import Any

from aoizora import _core
from aoizora.cli import Formatter
from aoizora.cli._request import read_file

EXAMPLES = """examples:
  aoizora calibrate points.csv
  aoizora calibrate points.csv --fit launch,link_bandwidth,hop_latency --output my_v5e.json
  aoizora cost all-gather ... --profile my_v5e.json

The CSV has the header name,kind,slice,mesh,axis,bytes,time_us, for example
  row 33 MB,all-gather,v5e:4x8,a=8;b=4,b,33550000,680
All points are of one chip kind, on row-major device order."""


def add_parser(commands: Any) -> None:
    """Adds the command to the parser of `aoizora`."""
    parser = commands.add_parser(
        "calibrate",
        help="fit a chip's network constants to measured collectives",
        epilog=EXAMPLES,
        formatter_class=Formatter,
    )
    parser.add_argument("points", metavar="CSV", help="measured points")
    parser.add_argument(
        "--fit",
        default="link_bandwidth,launch",
        metavar="NAMES",
        help="which constants: link_bandwidth, launch, hop_latency; default the first two",
    )
    parser.add_argument(
        "--profile", metavar="FILE", help="where to start from; default: the built-in one"
    )
    parser.add_argument("--output", metavar="FILE", help="write the fitted profile here")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Fits, prints the errors, and writes the profile."""
    request = {
        "points": read_file(arguments.points),
        "profile": read_file(arguments.profile),
        "fit": arguments.fit.split(","),
    }
    answer = _core.calibrate(json.dumps(request))
    if arguments.output is not None:
        profile = json.dumps(json.loads(answer)["profile"], indent=2) + "\n"
        try:
            pathlib.Path(arguments.output).write_text(profile)
        except OSError as error:
            raise _core.UserError(f"{arguments.output}: cannot be written: {error}") from None
    sys.stdout.write(answer if arguments.json else _core.calibration_text(answer))
    return 0
