"""Reading speed of the HLO reader and of jaxlib's parser, on one text, in one run.

    python bench/ir_speed.py               compiled Wan text, and a generated module of 24 MB
    python bench/ir_speed.py FILE [...]    texts of yours

The module is the compiled Wan step with its computations repeated under new names (a model whose layers
are not scanned looks like this). Peak memory is of a process that only reads the text; the interpreter's
own is taken off. Seconds are CPU time, the best of those that fit into three seconds.
"""

from __future__ import annotations

import lzma
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WAN = ROOT / "tests/cases/hlo/wan_1.3b_480p_v5e_4x4_context4_tensor4.hlo.xz"


def large_module(text: str, size: int) -> str:
    """Copies of all computations with fresh names, called one after the other from one entry."""
    head, _, body = text.partition("\n\n")
    start = re.search(r"^%", body, re.MULTILINE)
    assert start is not None
    computations = body[start.start() :]
    head = re.sub(r", (entry_computation_layout|frontend_attributes|allow_spmd\w+)=.*", "", head)
    head += ", num_partitions=16"
    parts = [head, ""]
    total = 0
    copy = 0
    while total < size:
        part = re.sub(r"%([\w.\-]+)", rf"%\1.r{copy}", computations)
        part = re.sub(r"^ENTRY ", "", part, flags=re.MULTILINE)
        parts.append(part)
        total += len(part)
        copy += 1
    parts.append("ENTRY %all () -> s32[] {\n  ROOT %zero = s32[] constant(0)\n}\n")
    return "\n".join(parts)


def measure(reader: str, path: str) -> tuple[float, float]:
    """Best of several readings in a process of its own: seconds, and peak bytes above the start."""
    program = f"""
import resource, sys, time
data = open(sys.argv[1], "rb").read()
if {reader!r} == "jaxlib":
    from jaxlib import _hlo
    text = data.decode()
    run = lambda: _hlo.hlo_module_from_text(text)
else:
    from aoizora import _core
    run = lambda: _core.read_only(data, "bench")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
best = 1e9
began = time.perf_counter()
while time.perf_counter() - began < 3:
    start = time.process_time()
    run()
    best = min(best, time.process_time() - start)
print(best, (peak - before) * 1024)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=True
    )
    seconds, peak = done.stdout.split()
    return float(seconds), float(peak)


def main() -> None:
    """Prints one row per text."""
    paths = [pathlib.Path(argument) for argument in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        if not paths:
            text = lzma.decompress(WAN.read_bytes()).decode()
            paths = [pathlib.Path(folder) / "wan.hlo", pathlib.Path(folder) / "large.hlo"]
            paths[0].write_text(text)
            paths[1].write_text(large_module(text, 24_000_000))
        print(
            f"{'text':20} {'MB':>6} {'ours MB/s':>10} {'jaxlib MB/s':>12} {'times':>6} {'peak/text':>10}"
        )
        for path in paths:
            size = path.stat().st_size
            ours, peak = measure("aoizora", str(path))
            theirs, _ = measure("jaxlib", str(path))
            print(
                f"{path.name:20} {size / 1e6:6.1f} {size / ours / 1e6:10.0f} {size / theirs / 1e6:12.1f} "
                f"{theirs / ours:6.1f} {peak / size:10.1f}"
            )


if __name__ == "__main__":
    main()
