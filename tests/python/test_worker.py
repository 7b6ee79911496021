"""The worker's protocol: one response line per request line, whatever happens."""

from __future__ import annotations

import io
import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from aoizora import trace, worker

ROOT = pathlib.Path(__file__).parents[2]
RULES = [
    ["activation_batch", ["data"]],
    ["activation_length", ["context"]],
    ["activation_heads", ["tensor"]],
    ["heads", ["tensor"]],
    ["mlp", ["tensor"]],
    ["norm", ["tensor"]],
]
WAN = {"model": "wan2.1-t2v-1.3b", "options": {}, "slice": "v5e:2x4"}


def candidate(
    shape: tuple[int, ...] = (2, 2, 2), attention: str = "all_gather_kv", rules: Any = None
) -> dict[str, Any]:
    """A candidate over data, context and tensor."""
    return {
        "mesh": {"axes": ["data", "context", "tensor"], "shape": list(shape)},
        "axis_rules": RULES if rules is None else rules,
        "attention": attention,
    }


def ask(**request: Any) -> dict[str, Any]:
    """One request through the real line format, in this process."""
    out = io.StringIO()
    worker.serve(io.StringIO(json.dumps(request) + "\n"), out)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def test_describe() -> None:
    found = ask(op="describe", id=7, model="wan2.1-t2v-1.3b", options={"frames": 5})
    assert found["ok"]
    assert found["id"] == 7
    description = found["description"]
    assert description["options"] == {"resolution": "480p", "frames": 5, "batch": 1, "cfg": True}
    assert description["tokens"] == 2 * 30 * 52
    assert description["padded_tokens"] % 512 == 0
    assert description["axes"]["activation_heads"] == [12]
    assert description["forwards_per_step"] == 2
    assert len(description["fingerprint"]) == 64
    assert {t["kind"] for t in description["tensors"]} == {
        "parameter",
        "input",
        "output",
        "activation",
    }
    assert set(found["versions"]) == {"python", "jax", "jaxlib", "libtpu"}


def test_fingerprint_depends_on_the_program_only() -> None:
    one = ask(op="describe", model="wan2.1-t2v-1.3b", options={"frames": 5})
    same = ask(op="describe", model="wan2.1-t2v-1.3b", options={"frames": 5, "resolution": "480p"})
    other = ask(op="describe", model="wan2.1-t2v-1.3b", options={"frames": 9})
    prints = [r["description"]["fingerprint"] for r in (one, same, other)]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("attention", ["all_gather_kv", "ulysses", "ring"])
def test_shard_real_wan(attention: str, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "new" / "local.mlir"
    found = ask(op="shard", candidate=candidate(attention=attention), out=str(out), **WAN)
    assert found["ok"], found
    assert list(found["seconds"]) == ["trace", "lower", "shardy", "print"]
    text = out.read_text()
    assert "tensor<1x16384x1536xbf16>" in text  # batch over data, sequence over context
    moved = {"all_gather_kv": "all_gather", "ulysses": "all_to_all", "ring": "collective_permute"}
    assert f'"stablehlo.{moved[attention]}"' in text
    assert "tpu_custom_call" in text
    assert [p.name for p in out.parent.iterdir()] == ["local.mlir"]  # nothing temporary is left


def test_coords_and_device_mesh() -> None:
    coords = ask(op="coords", slice="v5e:2x4")["coords"]
    assert sorted(coords) == [[x, y, 0] for x in range(2) for y in range(4)]
    order = ask(op="device_mesh", slice="v5e:2x4", mesh_shape=[2, 4, 1])["coords"]
    assert order == [coords[i] for i in (0, 1, 2, 3, 7, 6, 5, 4)]


def test_placement_puts_chips_where_it_says() -> None:
    order = ask(op="device_mesh", slice="v5e:2x4", mesh_shape=[2, 2, 2])["coords"]
    mesh = trace.make_mesh(trace.parse_candidate(candidate()), "v5e:2x4", order)
    assert [list(d.coords) for d in mesh.devices.flatten()] == order
    default = trace.make_mesh(trace.parse_candidate(candidate()), "v5e:2x4")
    assert [list(d.coords) for d in default.devices.flatten()] == sorted(order)


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"op": "fly"}, "user", "known: describe, shard, compile"),
    ({}, "user", '"op" must be a str'),
    ({"op": "describe", "model": "wan9"}, "user", "known: wan2.1-t2v-1.3b"),
    ({"op": "describe", "model": 3}, "user", '"model" must be a str'),
    (WAN | {"op": "describe", "options": {"frames": 80}}, "user", "nearest are 77 and 81"),
    ({"op": "coords", "slice": "v5e:3x5"}, "user", "known: v4:2x2x1"),
    ({"op": "coords", "slice": "h100:8"}, "user", "known: v4:2x2x1"),
    ({"op": "device_mesh", "slice": "v5e:2x4", "mesh_shape": [3]}, "user", "does not fill the 8"),
    ({"op": "device_mesh", "slice": "v5e:2x4", "mesh_shape": ["a"]}, "user", "whole numbers"),
    (WAN | {"op": "shard", "out": "x", "candidate": {}}, "user", "a candidate needs"),
    (WAN | {"op": "shard", "candidate": candidate()}, "user", '"out" must be a str'),
    (WAN | {"op": "shard", "out": "x", "candidate": candidate((2, 2, 1))}, "user", "4 devices"),
    (WAN | {"op": "shard", "out": "x", "candidate": candidate((1, 1, 8))}, "user", "by 8"),
    (
        WAN | {"op": "shard", "out": "x", "candidate": candidate(rules=[["mlp", ["model"]]])},
        "user",
        "the mesh has data, context, tensor",
    ),
    (
        WAN | {"op": "shard", "out": "x", "candidate": candidate(rules=["mlp"])},
        "user",
        "is not a pair",
    ),
    (
        WAN | {"op": "shard", "out": "/proc/nowhere/x", "candidate": candidate()},
        "user",
        "can't write /proc/nowhere/x",
    ),
    (
        WAN
        | {"op": "compile", "out": "x", "candidate": candidate(), "device_coords": [[0, 0, 0]] * 8},
        "user",
        "exactly once",
    ),
    ({"op": "describe", "model": "no.such:thing"}, "user", "can't load model"),
    ({"op": "describe", "model": "math:pi"}, "user", "is not a function"),
]


@pytest.mark.parametrize(("request_", "kind", "message"), BAD, ids=lambda x: str(x)[:40])
def test_bad_requests_get_one_clear_line(request_: dict[str, Any], kind: str, message: str) -> None:
    found = ask(id="x", **request_)
    assert not found["ok"]
    assert found["id"] == "x"
    assert found["error"]["kind"] == kind, found
    assert message in found["error"]["message"]
    assert "\n" not in found["error"]["message"]


def test_only_responses_reach_stdout() -> None:
    """A real process: noise on fd 1 goes to stderr, bad lines are answered, the end is clean."""
    lines = ["{", "[]", "", json.dumps({"op": "coords", "slice": "v5e:2x2", "id": 1})]
    code = (
        "import os, aoizora.worker as w\n"
        "ask = w.op_coords\n"
        "def noisy(request):\n"
        "    os.write(1, b'noise from libtpu\\n'); print('more noise', flush=True)\n"
        "    return ask(request)\n"
        "w.OPERATIONS['coords'] = noisy\n"
        "w.main()\n"
    )
    env_path = str(pathlib.Path(worker.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {env_path!r})\n{code}"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [a["ok"] for a in answers] == [False, False, True]
    assert "JSON" in answers[0]["error"]["message"]
    assert "noise from libtpu" in done.stderr


@pytest.mark.parametrize(
    ("given", "typed"),
    [("true", True), ("False", False), ("8", 8), ("0.5", 0.5), ("fast", "fast"), (3, 3)],
)
def test_compiler_options_are_typed(given: Any, typed: Any) -> None:
    found = trace.typed_option(given)
    assert found == typed
    assert type(found) is type(typed)


@pytest.mark.slow_compile
def test_compile_real_wan(tmp_path: pathlib.Path) -> None:
    order = ask(op="device_mesh", slice="v5e:2x4", mesh_shape=[2, 2, 2])["coords"]
    found = ask(
        op="compile",
        candidate=candidate(),
        device_coords=order,
        compiler_options={"xla_tpu_enable_async_collective_fusion": "true"},
        out=str(tmp_path / "x.hlo"),
        schedule_out=str(tmp_path / "x.schedule.txt"),
        **WAN | {"options": {"frames": 5}},
    )
    assert found["ok"], found
    assert found["memory"]["argument_bytes"] > 1.4e9  # 1.42e9 parameters over 2, in bf16
    assert "is_scheduled=true" in (tmp_path / "x.hlo").read_text()
    assert "total_cycles" in (tmp_path / "x.schedule.txt").read_text()


def test_unknown_compiler_option_is_the_compilers_error(tmp_path: pathlib.Path) -> None:
    found = ask(
        op="compile",
        candidate=candidate(),
        compiler_options={"xla_no_such_option": "true"},
        out=str(tmp_path / "x.hlo"),
        **WAN,
    )
    assert found["error"]["kind"] == "compiler"
    assert "xla_no_such_option" in found["error"]["message"]


@pytest.mark.parametrize(
    ("model", "attention", "shape"),
    [
        ("examples.flax_dit:make_step", "ulysses", (2, 2, 2)),
        ("examples.llm_decoder:prefill", "head_parallel", (2, 1, 4)),
    ],
)
def test_models_from_outside(
    model: str,
    attention: str,
    shape: tuple[int, ...],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "flax" in model:
        pytest.importorskip("flax", reason="the example is a Flax model; nothing else needs Flax")
    monkeypatch.syspath_prepend(str(ROOT))
    found = ask(op="describe", model=model)
    assert found["ok"], found
    assert found["description"]["axes"]["activation_batch"]
    rules = [*RULES, ["kv_heads", ["tensor"]], ["vocabulary", ["tensor"]]]
    out = tmp_path / "x.mlir"
    wanted = candidate(shape, attention, rules)
    found = ask(op="shard", model=model, slice="v5e:2x4", candidate=wanted, out=str(out))
    assert found["ok"], found
    assert found["notes"] == []


MODELS = """
import jax, jax.numpy as jnp
def deaf(mesh, axis_rules, attention):
    x = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    return jax.jit(lambda x: x @ x), (x,)
def broken(mesh, axis_rules, attention):
    raise RuntimeError("my own mistake")
def nothing(mesh, axis_rules, attention):
    return None
"""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("deaf", "ignores the axis rules"),
        ("broken", "RuntimeError: my own mistake"),
        ("nothing", "must return (jitted function, tuple of abstract args)"),
    ],
)
def test_models_from_outside_are_told_what_is_wrong(
    function: str, message: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_models.py").write_text(MODELS)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = ask(
        op="shard",
        model=f"my_models:{function}",
        slice="v5e:2x4",
        candidate=candidate(),
        out=str(tmp_path / "x.mlir"),
    )
    assert message in (found["notes"][0] if found["ok"] else found["error"]["message"])
    assert found["ok"] or found["error"]["kind"] == "user"


@pytest.mark.parametrize(
    ("message", "needed", "available"),
    [
        ("temporaries (31.25G) exceeds available HBM (31.24G).", 31.25, 31.24),
        ("Used 17.20G of 15.75G hbm. Exceeded hbm capacity by 1.45G.", 17.20, 15.75),
    ],
)
def test_out_of_memory_says_by_how_much(message: str, needed: float, available: float) -> None:
    found = trace._out_of_memory(message)
    assert found is not None
    assert found["needed_bytes"] == int(needed * 2**30)
    assert found["available_bytes"] == int(available * 2**30)
    assert trace._out_of_memory("INTERNAL: something else") is None
