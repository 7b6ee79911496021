"""Plans for other programs: the files of `aoizora export`, and the example script."""

from __future__ import annotations

import functools
import itertools
import json
import pathlib
import subprocess
import sys
from typing import Any

import jax
import pytest
from jax.sharding import PartitionSpec
from serving_helpers import ROOT, WAN_TENSORS, Chip, document, environment, load, parts

from aoizora.serving import Plan, PlanError, export


def test_the_jax_file_makes_the_same_mesh(tmp_path: pathlib.Path) -> None:
    plan = load(tmp_path, document())
    program: dict[str, Any] = {}
    exec(export.jax(plan), program)
    table = plan.virtual_coords(jax.devices())
    mesh = program["make_mesh"](coords_of=table.get)
    assert mesh == plan.mesh(coords_of=table)
    for tensor in WAN_TENSORS:
        assert parts(program["partition_spec"](*tensor)) == parts(plan.partition_spec(*tensor))
    with pytest.raises(ValueError, match="8 devices, the plan has 16"):
        program["make_mesh"](jax.devices()[:8], coords_of=table.get)


def test_the_coordinates_in_the_jax_file(tmp_path: pathlib.Path) -> None:
    core = Chip(0, (1, 2, 0), core_on_chip=1, slice_index=3)
    made = document("v7x:2x2x1", {"data": 2, "context": 4, "tensor": 1})
    made["device_coords"] = [[*c, k] for c in made["device_coords"] for k in range(2)]
    assert eval("lambda d: " + export._coords_of(load(tmp_path, made)))(core) == (1, 2, 0, 1)
    assert eval("lambda d: " + export._coords_of(load(tmp_path, document())))(core) == (1, 2, 0)
    made = document("v5e:2x2", {"data": 2, "context": 4, "tensor": 1})
    made["slice"] = "v5e:2x2+2x2"
    made["device_coords"] = [[*c, number] for number in (1, 0) for c in made["device_coords"]]
    assert eval("lambda d: " + export._coords_of(load(tmp_path, made)))(core) == (1, 2, 0, 3)


def test_names_in_a_plan_stay_names_in_the_files(tmp_path: pathlib.Path) -> None:
    made = document()
    made["model"]["name"] = (
        'x"""\nraise SystemExit("ran")\n# attention: evil\n\x85\u2028attention: 1'
    )
    made["axis_rules"] = [*made["axis_rules"], ['"], "evil": ["', ["data"]]]
    plan = load(tmp_path, made)
    for write in (export.flax, export.jax):
        program: dict[str, Any] = {}
        exec(write(plan), program)
        assert program["logical_axis_rules"] == tuple(plan.axis_rules)
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(plan.maxdiffusion_yaml())["attention"] == "flash"


def test_the_json_says_it_all(tmp_path: pathlib.Path) -> None:
    plan = load(tmp_path, document())
    made = json.loads(export.as_json(plan))
    assert made["mesh"] == {"axes": ["data", "context", "tensor"], "shape": [2, 4, 2]}
    assert [tuple(c) for c in made["device_coords"]] == list(plan.device_coords)


def maxdiffusion(plan: Plan) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """The settings, and the rules as its pyconfig turns them into tuples."""
    yaml = pytest.importorskip("yaml")
    base = "attention: 'flash'\nmesh_axes: ['data']\nulysses_shards: -1\n"
    found = yaml.safe_load(base + plan.maxdiffusion_yaml())  # appended, the last of a key counts
    rules = [(n, tuple(a) if isinstance(a, list) else a) for n, a in found["logical_axis_rules"]]
    return found, rules


def test_maxdiffusion_settings(tmp_path: pathlib.Path) -> None:
    linen = pytest.importorskip("flax.linen")
    plan = load(tmp_path, document())
    found, rules = maxdiffusion(plan)
    assert found["mesh_axes"] == ["data", "fsdp", "context", "tensor"]
    sizes = [found[f"ici_{axis}_parallelism"] for axis in found["mesh_axes"]]
    assert sizes == [2, 1, 4, 2]
    assert found["attention"] == "flash" and found["attention_sharding_uniform"] is False
    spec = functools.partial(linen.logical_to_mesh_axes, rules=rules)
    names = ("activation_batch", "activation_self_attn_heads", "activation_self_attn_q_length")
    assert spec((*names, "activation_kv")) == PartitionSpec(
        ("data",), ("tensor",), ("context",), None
    )
    keys = ("activation_batch", "activation_self_attn_heads", "activation_self_attn_kv_length")
    assert spec(keys) == PartitionSpec(("data",), ("tensor",), None), "flash gathers the keys"
    for names in (("embed", "mlp"), ("embed", "heads"), ("batch", "activation_length", "norm")):
        wanted = plan.partition_spec(*("activation_batch" if n == "batch" else n for n in names))
        assert parts(spec(names)) == parts(wanted)
    assert {name for name, _ in rules} >= {"embed", "conv_out", "hidden"}, "NNX needs them all"


def test_maxdiffusion_devices_keep_every_shard_on_its_chip(tmp_path: pathlib.Path) -> None:
    """Axes in another order than MaxDiffusion's: element [d, f, c, t] is the plan's [t, c, d]."""
    plan = load(tmp_path, document(mesh={"tensor": 2, "context": 4, "data": 2}))
    table = plan.virtual_coords(jax.devices())
    ours, theirs = plan.mesh(coords_of=table), plan.maxdiffusion_devices(coords_of=table)
    assert theirs.shape == (2, 1, 4, 2)
    for d, c, t in itertools.product(range(2), range(4), range(2)):
        assert theirs[d, 0, c, t] is ours.devices[t, c, d]


USP = [["activation_batch", ["data"]], ["activation_length", ["ring", "ulysses"]]]


def test_usp_becomes_one_context_axis(tmp_path: pathlib.Path) -> None:
    mesh = {"ulysses": 4, "data": 2, "ring": 2}
    plan = load(tmp_path, document(mesh=mesh, rules=USP, attention="usp"))
    found, rules = maxdiffusion(plan)
    assert (found["attention"], found["ulysses_shards"]) == ("ulysses_ring", 4)
    assert found["ici_context_parallelism"] == 8
    assert dict(rules)["activation_length"] == ("context",)
    table = plan.virtual_coords(jax.devices())
    ours, theirs = plan.mesh(coords_of=table), plan.maxdiffusion_devices(coords_of=table)
    for d, r, u in itertools.product(range(2), range(2), range(4)):
        # Its ulysses_ring splits context into (ring, ulysses), ulysses fastest.
        assert theirs[d, 0, 4 * r + u, 0] is ours.devices[u, d, r]


@pytest.mark.parametrize(
    ("how", "mesh", "rules", "message"),
    [
        ("magic", None, None, "no attention 'magic'"),
        ("ring", {"rows": 16}, [["activation_length", ["rows"]]], "the plan has `rows`"),
        ("usp", None, None, "two mesh axes"),
        ("usp", {"data": 2, "ring": 2, "ulysses": 4}, [*USP, ["mlp", ["ulysses"]]], "`mlp` splits"),
        (
            "usp",
            {"context": 2, "ring": 2, "ulysses": 4},
            [["activation_length", ["ring", "ulysses"]]],
            "beside ring and ulysses",
        ),
    ],
)
def test_what_maxdiffusion_cannot_say_is_refused(
    tmp_path: pathlib.Path, how: str, mesh: Any, rules: Any, message: str
) -> None:
    plan = load(tmp_path, document(mesh=mesh, rules=rules, attention=how))
    with pytest.raises(PlanError, match=message):
        plan.maxdiffusion_yaml()


def test_heads_that_maxdiffusion_keeps_whole_are_pointed_out(tmp_path: pathlib.Path) -> None:
    assert "NOTE" in load(tmp_path, document(attention="ulysses")).maxdiffusion_yaml()
    assert "NOTE" not in load(tmp_path, document()).maxdiffusion_yaml()


def run_export(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, as a process."""
    pytest.importorskip("aoizora._core")
    program = "import sys; from aoizora.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", program, "export", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )


def test_the_command_writes_each_format(tmp_path: pathlib.Path) -> None:
    plan = load(tmp_path, document())
    path = str(tmp_path / "plan.json")
    for name, write in export.FORMATS.items():
        done = run_export(path, "--format", name)
        assert (done.returncode, done.stdout) == (0, write(plan)), done.stderr
    done = run_export(path, "--format", "flax", "-o", str(tmp_path / "rules.py"))
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "rules.py").read_text() == export.flax(plan)


def test_bad_input_of_the_command_is_one_line_and_exit_2(tmp_path: pathlib.Path) -> None:
    load(tmp_path, document())
    path = str(tmp_path / "plan.json")
    for arguments, says in (
        ((str(tmp_path / "no.json"), "--format", "json"), "No such file"),
        ((path, "--format", "toml"), "maxdiffusion"),
        ((path,), "--format"),
        ((path, "--format", "json", "-o", str(tmp_path / "no/x")), "cannot be written"),
    ):
        done = run_export(*arguments)
        assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr


def test_the_example_runs(tmp_path: pathlib.Path) -> None:
    load(tmp_path, document())
    done = subprocess.run(
        [sys.executable, ROOT / "examples/serve_wan.py", tmp_path / "plan.json"],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    assert "all_gather_kv on {'data': 2, 'context': 4, 'tensor': 2}" in done.stdout
