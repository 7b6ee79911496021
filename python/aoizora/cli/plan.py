"""`aoizora plan`: sharding and placement of a model on a slice."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from typing import Any

from aoizora import _core
from aoizora.cli import Formatter
from aoizora.cli._options import key_value, positive
from aoizora.cli._progress import StageProgress
from aoizora.cli._request import add_model_flags, base_request, read_file

EXAMPLES = """examples:
  aoizora plan wan2.1-t2v-1.3b --slice v5e:4x4
  aoizora plan wan2.1-t2v-14b --slice v5e:4x8 --resolution 720p --out plan.json
  aoizora plan wan2.1-t2v-1.3b --slice v5e:2x4 --cfg off --top-k 10 --json
  aoizora plan wan2.1-t2v-1.3b --slice v5e:4x4 \\
      --compiler-option xla_tpu_enable_async_collective_fusion=true

No TPU is needed. The first plan of a model on a slice takes minutes (it compiles the most promising
shardings with the real compiler), the next one reuses what is in the cache."""


def add_parser(commands: Any) -> None:
    """Adds the command to the parser of `aoizora`."""
    parser = commands.add_parser(
        "plan",
        help="choose sharding and placement of a model on a slice",
        description="Chooses mesh, axis rules, attention strategy and device order.",
        epilog=EXAMPLES,
        formatter_class=Formatter,
    )
    add_model_flags(parser)
    search = parser.add_argument_group("how to look")
    search.add_argument(
        "--top-k", type=positive, default=6, metavar="K", help="candidates to compile; default 6"
    )
    search.add_argument(
        "--habits", action="store_true", help="compile the usual shardings too, to compare with"
    )
    search.add_argument("--jobs", type=positive, metavar="N", help="default: one per core")
    search.add_argument("--profile", metavar="FILE", help="constants of the chip (JSON)")
    search.add_argument(
        "--evaluations", type=positive, metavar="N", help="placements to score per candidate"
    )
    search.add_argument("--seed", type=int, default=0, metavar="N", help="of the placement search")
    compiler = parser.add_argument_group("compiler")
    compiler.add_argument(
        "--compiler-option",
        type=key_value,
        action="append",
        default=[],
        metavar="K=V",
        help="passed to the TPU compiler; part of the plan's key; may be repeated",
    )
    compiler.add_argument(
        "--compile-timeout",
        type=positive,
        default=600,
        metavar="S",
        help="per compile; default 600",
    )
    compiler.add_argument(
        "--compile-memory", type=positive, default=4, metavar="GIB", help="per worker; default 4"
    )
    output = parser.add_argument_group("output")
    output.add_argument("--out", metavar="FILE", help="write the plan there")
    output.add_argument("--json", action="store_true", help="print the plan as JSON")
    output.add_argument(
        "--dump", metavar="DIR", help="write what each stage decided, and the compiled HLO"
    )
    output.add_argument("-q", "--quiet", action="store_true", help="no progress")
    output.add_argument("-v", "--verbose", action="store_true", help="memory and time of workers")
    parser.set_defaults(run=run)


def request_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The request of src/aoizora/plan_service.h."""
    return {
        **base_request(arguments),
        "top_k": arguments.top_k,
        "compile_habits": arguments.habits,
        "jobs": arguments.jobs,
        "seed": arguments.seed,
        "evaluations": arguments.evaluations,
        "profile": read_file(arguments.profile),
        "compiler_options": dict(arguments.compiler_option),
        "compile_timeout_s": arguments.compile_timeout,
        "compile_memory_bytes": arguments.compile_memory << 30,
        "dump_folder": arguments.dump,
    }


def write_plan(path: str, text: str) -> None:
    """Writes the plan; UserError when the path cannot be written."""
    try:
        pathlib.Path(path).write_text(text)
    except OSError as error:
        raise _core.UserError(f"{path}: the plan cannot be written: {error.strerror}") from None


def check_writable(path: str) -> None:
    """Before minutes of work: is there a folder to write the plan to?"""
    folder = pathlib.Path(path).resolve().parent
    if not folder.is_dir():
        raise _core.UserError(f"{path}: there is no folder {folder}")


def run(arguments: argparse.Namespace) -> int:
    """Plans, prints a table (or JSON), and writes the plan file when asked to."""
    if arguments.out:
        check_writable(arguments.out)
    with StageProgress(arguments.quiet) as progress:
        plan = _core.plan(json.dumps(request_of(arguments)), progress)
    if arguments.out:
        write_plan(arguments.out, plan)
    if arguments.json:
        sys.stdout.write(plan)
        return 0
    text = _core.plan_text(
        plan,
        "plan",
        colour=sys.stdout.isatty(),
        candidates=1000 if arguments.verbose else 12,
        verbose=arguments.verbose,
    )
    sys.stdout.write(text)
    if arguments.out:
        print(f"\nwritten to {arguments.out}")
    return 0
