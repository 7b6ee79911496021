"""`aoizora plan`: sharding and placement of a model on a slice."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from typing import Any

from aoizora import _core
from aoizora.cli import Formatter
from aoizora.cli._options import cache_folder, key_value, on_off, positive
from aoizora.cli._progress import StageProgress
from aoizora.cli._toolchain import toolchain

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
    search = parser.add_argument_group("how to look")
    search.add_argument(
        "--top-k", type=positive, default=6, metavar="K", help="candidates to compile; default 6"
    )
    search.add_argument("--jobs", type=positive, metavar="N", help="default: one per core")
    search.add_argument("--space", metavar="FILE", help="which candidates there are (JSON)")
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
    output.add_argument("--no-cache", action="store_true", help="neither read nor keep artefacts")
    output.add_argument("--cache-dir", metavar="DIR", help="default: ~/.cache/aoizora")
    output.add_argument("--dump", metavar="DIR", help="write what each stage decided")
    output.add_argument("-q", "--quiet", action="store_true", help="no progress")
    output.add_argument("-v", "--verbose", action="store_true", help="memory and time of workers")
    parser.set_defaults(run=run)


def read_file(path: str | None) -> dict[str, str] | None:
    """A file for the core, with its name for messages."""
    if path is None:
        return None
    try:
        return {"file": path, "text": pathlib.Path(path).read_text()}
    except (OSError, UnicodeDecodeError) as error:
        raise _core.UserError(f"{path}: cannot be read: {error}") from None


def request_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The request of src/aoizora/plan_service.h."""
    versions = toolchain()
    missing = [name for name in ("jax", "libtpu") if versions[name] is None]
    cache = None if arguments.no_cache else str(arguments.cache_dir or cache_folder())
    return {
        "model": arguments.model,
        "options": {
            "resolution": arguments.resolution,
            "frames": arguments.frames,
            "batch": arguments.batch,
            "cfg": arguments.cfg,
        },
        "slice": arguments.slice,
        "top_k": arguments.top_k,
        "jobs": arguments.jobs,
        "seed": arguments.seed,
        "evaluations": arguments.evaluations,
        "space": read_file(arguments.space),
        "profile": read_file(arguments.profile),
        "compiler": "null" if missing else "jax",
        "compiler_options": dict(arguments.compiler_option),
        "toolchain": versions,
        "worker_argv": [sys.executable, "-m", "aoizora.worker"],
        "cache_folder": cache,
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
