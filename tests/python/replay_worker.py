"""A worker that answers what the real one answered when tests/cases/pipeline was captured.

Speaks the protocol of `aoizora.worker`. Appends a line to $REPLAY_LOG for each request it begins and
finishes, and kills itself (SIGKILL) on compile number $REPLAY_DIE_ON of that log, as libtpu's aborts and the
kernel's out-of-memory killer would.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import pathlib
import signal
import sys
import time

CASES = pathlib.Path(__file__).resolve().parent.parent / "cases" / "pipeline"
TOOLCHAIN = {"captured": "wan2.1-t2v-1.3b on v5e:2x4"}


def key(request: dict[str, object]) -> str:
    """The artefact's key, as StoredCompiler makes it."""
    job = {**{k: v for k, v in request.items() if k != "out"}, "toolchain": TOOLCHAIN}
    return hashlib.sha256(
        json.dumps(job, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def answer(request: dict[str, object]) -> dict[str, object]:
    """The captured answer; its text goes where the request says."""
    name = key(request)
    meta = json.loads((CASES / name[:2] / f"{name}.json").read_text())["meta"]
    if request["op"] == "describe":
        return {"ok": True, "description": meta["description"]}
    packed = (CASES / name[:2] / f"{name}.text").read_bytes()
    pathlib.Path(str(request["out"])).write_bytes(lzma.decompress(packed))
    if request["op"] == "shard":
        return {"ok": True, "seconds": {}}
    memory = meta["memory"]
    return {
        "ok": True,
        "memory": {
            "argument_bytes": memory["argument"],
            "output_bytes": memory["output"],
            "temp_bytes": memory["temporary"],
            "alias_bytes": memory["alias"],
            "code_bytes": memory["code"],
        },
        "seconds": {},
    }


def note(log: pathlib.Path, line: str) -> None:
    """One line of the log."""
    with log.open("a") as out:
        out.write(line + "\n")


def main() -> None:
    """One answer a line."""
    log = pathlib.Path(os.environ["REPLAY_LOG"])
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "compile":
            begun = log.read_text().count("begin") if log.exists() else 0
            note(log, "begin")
            time.sleep(float(os.environ.get("REPLAY_COMPILE_SECONDS", "0")))
            if str(begun) == os.environ.get("REPLAY_DIE_ON"):
                os.kill(os.getpid(), signal.SIGKILL)
        reply = json.dumps(answer(request))
        note(log, f"{request['op']} {key(request)}")
        print(reply, flush=True)


if __name__ == "__main__":
    main()
