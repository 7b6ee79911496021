"""Seconds per candidate before compilation, and what a compile costs in the same process.

    python bench/shard_speed.py [MODEL] [SLICE] [--compile]

Prints CPU seconds (all threads) and the wall seconds of each part, averaged over all legal
candidates of data x context x tensor and three attention strategies.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")

from aoizora import trace, worker
from aoizora.errors import UserError
from aoizora.models.registry import find_model

RULES = [
    ["activation_batch", ["data"]],
    ["activation_length", ["context"]],
    ["activation_heads", ["tensor"]],
    ["heads", ["tensor"]],
    ["mlp", ["tensor"]],
    ["norm", ["tensor"]],
]


def candidates(chips: int) -> list[trace.Candidate]:
    """All shapes of data (1 or 2) x context x tensor, with three attention strategies."""
    powers = [2**i for i in range(chips.bit_length())]
    return [
        trace.parse_candidate(
            {
                "mesh": {"axes": ["data", "context", "tensor"], "shape": [d, c, chips // d // c]},
                "axis_rules": RULES,
                "attention": attention,
            }
        )
        for attention in ("all_gather_kv", "ulysses", "ring")
        for d in (1, 2)
        for c in powers
        if d * c <= chips
    ]


def measure(
    model: Any, slice_name: str, found: list[trace.Candidate]
) -> tuple[float, trace.Candidate]:
    """Mean CPU seconds per legal candidate and the last one; prints the parts."""
    options = model.options({})
    cpu, count, parts, last = 0.0, 0, dict[str, float](), found[0]
    for candidate in found:
        start = time.process_time()
        try:
            made = trace.local_program(model, options, slice_name, candidate)
        except UserError:
            continue
        cpu, count, last = cpu + time.process_time() - start, count + 1, candidate
        for name, seconds in made.seconds.items():
            parts[name] = parts.get(name, 0.0) + seconds
    means = ", ".join(f"{name} {seconds / count:.3f}" for name, seconds in parts.items())
    print(f"{count} candidates: {cpu / count:.3f} CPU s each; wall s: {means}")
    return cpu / count, last


def main() -> None:
    """Measures sharding, and a compile if asked to."""
    worker.quieten_collector()
    names = [a for a in sys.argv[1:] if not a.startswith("--")]
    model = find_model(names[0] if names else "wan2.1-t2v-1.3b")
    slice_name = names[1] if len(names) > 1 else "v5e:4x4"
    found = candidates(len(trace.slice_devices(slice_name)))
    print(f"{model.name} on {slice_name}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    each, last = measure(model, slice_name, found)
    if "--compile" in sys.argv:
        start = time.process_time()
        trace.compile_hlo(model, model.options({}), slice_name, last)
        cpu = time.process_time() - start
        print(f"one compile: {cpu:.1f} CPU s, {cpu / each:.0f} x a candidate")


if __name__ == "__main__":
    main()
