"""Plans in use: reading with suspicion, matching devices, and the sharded step on the mesh."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import pathlib
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import PartitionSpec
from serving_helpers import ROOT, WAN_TENSORS, Chip, chips, document, environment, load, parts
from wan_helpers import TINY, make_inputs, make_run, sharded, tiny_params, unsharded

import aoizora
from aoizora.axis_rules import mesh_axes, spelled_out
from aoizora.models import attention, wan
from aoizora.models.rules import Sharder, to_spec
from aoizora.serving import Plan, PlanError, export


def order_of(plan: Plan, devices: list[Any], coords_of: Any = None) -> list[Any]:
    """Devices in mesh order. jax.sharding.Mesh takes no stand-ins, so the matching alone."""
    from aoizora.serving.devices import in_plan_order

    return in_plan_order(plan.slice, plan.device_coords, devices, coords_of)


# --- reading -----------------------------------------------------------------------------------


def test_the_fixture_is_a_plan_of_the_published_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs/plan.schema.json").read_text())
    made = document()
    made["predicted"].update({k: 0 for k in schema["properties"]["predicted"]["required"]})
    made["memory_per_chip"].update(
        {k: 0 for k in schema["properties"]["memory_per_chip"]["required"]}
    )
    jsonschema.validate(made, schema)


def test_members(tmp_path: pathlib.Path) -> None:
    plan = load(tmp_path, document())
    assert (plan.slice, plan.model, plan.attention) == (
        "v5e:4x4",
        "wan2.1-t2v-1.3b",
        "all_gather_kv",
    )
    assert plan.model_options["frames"] == 81
    assert plan.predicted_us["step"] == 1000.5
    assert plan.axis_rules[:2] == [
        ("activation_batch", ("data",)),
        ("activation_length", ("context",)),
    ]
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.attention = "ring"  # type: ignore[misc]
    with pytest.raises(TypeError):
        plan.model_options["frames"] = 5  # type: ignore[index]


def edit(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Puts a value at `a.b.0`; `del` takes it away."""

    def apply(made: dict[str, Any]) -> None:
        *steps, last = [int(s) if s.isdigit() else s for s in path.split(".")]
        at: Any = made
        for step in steps:
            at = at[step]
        if value is edit:
            del at[last]
        else:
            at[last] = value

    return apply


BAD: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (edit("format", "other"), "not a plan"),
    (edit("format", edit), "not a plan"),
    (edit("version", 2), r"plan version 2, this AoiZora reads version 1; .*install a newer one"),
    (edit("version", 0), r"plan version 0.*plan again$"),
    (edit("version", "1"), r"version: a whole number expected"),
    (edit("version", True), r"version: a whole number expected"),
    (edit("mesh", edit), r"member `mesh` is missing"),
    (edit("mesh", []), r"\.mesh: an object expected"),
    (edit("mesh.axes", ["data", "data", "tensor"]), r"mesh\.axes\[1\]: axis 'data' is .*repeated"),
    (edit("mesh.axes", ["data"]), r"1 axes but 3 sizes"),
    (edit("mesh.shape.0", 0), r"mesh\.shape\[0\]: a whole number from 1"),
    (edit("mesh.shape.0", 2.0), r"mesh\.shape\[0\]: a whole number expected"),
    (edit("mesh.shape", [1 << 20] * 3), r"more than 1048576 devices"),
    (edit("mesh.shape.0", 10**4000), r"mesh\.shape\[0\]: a whole number from 1"),
    (edit("mesh.shape.0", 4), r"the mesh has 32 positions, the list 16"),
    (edit("axis_rules.0.1.0", "model"), r"`activation_batch` names `model`, which is no axis"),
    (edit("axis_rules.0", ["heads"]), r"axis_rules\[0\]: \[logical axis, \[mesh axes\]\] expected"),
    (edit("axis_rules.0.1", "data"), r"axis_rules\[0\]\[1\]: a list of mesh axes"),
    (edit("axis_rules.0.1", ["data", "data"]), r"each mesh axis once"),
    (edit("axis_rules.0.0", 7), r"axis_rules\[0\]\[0\]: a string"),
    (edit("axis_rules", [["heads", []]] * 5000), r"axis_rules: 5000 elements, at most 4096"),
    (edit("attention", None), r"attention: a string expected"),
    (edit("attention", "x" * 10**5), r"attention: a string of 100000 characters"),
    (edit("device_coords", edit), r"member `device_coords` is missing"),
    (edit("device_coords.3.0", -1), r"device_coords\[3\]\[0\]: a whole number from 0"),
    (edit("device_coords.3.0", 4), r"device_coords\[3\]: slice v5e:4x4 has no chip \(4, "),
    (edit("device_coords.3", [0, 0]), r"device_coords\[3\]: 2 coordinates"),
    (edit("device_coords.3", {}), r"device_coords\[3\]: a list"),
    (edit("slice", "v5e:4x8"), r"16 positions, slice v5e:4x8 has 32 chips"),
    (edit("slice", "v5e:0x8"), r"has 0 chips"),
    (edit("predicted.step_us", -1), r"predicted\.step_us: a time"),
    (edit("predicted.step_us", "fast"), r"predicted\.step_us: a time"),
    (edit("predicted", []), r"predicted: an object"),
    (edit("model.options", []), r"model\.options: an object"),
    (edit("model", "wan"), r"model: an object"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_a_bad_member_is_named(
    tmp_path: pathlib.Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    made = json.loads(json.dumps(document()))
    change(made)
    with pytest.raises(ValueError, match=message) as caught:
        load(tmp_path, made)
    assert isinstance(caught.value, PlanError)
    assert "plan.json" in str(caught.value)
    assert len(str(caught.value)) < 500 and "\n" not in str(caught.value)


def test_a_repeated_coordinate_is_named_with_both_positions(tmp_path: pathlib.Path) -> None:
    made = document()
    made["device_coords"][9] = made["device_coords"][2]
    with pytest.raises(PlanError, match=r"chip \(\d, \d, 0\) is repeated, at positions 2 and 9"):
        load(tmp_path, made)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a JSON file"),
        (json.dumps(document())[:-40], "not a JSON file"),
        ("[1, 2]", "not a plan"),
        ("null", "not a plan"),
        ("[" * 100_000, "not a JSON file: it is nested too deep"),
        ('{"format": NaN}', "NaN is no JSON number"),
        ('{"format": "aoizora.plan", "version": ' + "9" * 5000 + "}", "not a JSON file"),
        ("\udcff".encode("utf-8", "surrogateescape"), "not a JSON file"),
    ],
)
def test_a_corrupt_file_is_refused(tmp_path: pathlib.Path, text: str | bytes, message: str) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(PlanError, match=message) as caught:
        aoizora.load(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_a_folder_and_a_huge_one(tmp_path: pathlib.Path) -> None:
    with pytest.raises(PlanError, match=r"none\.json: the plan cannot be read: No such file"):
        aoizora.load(tmp_path / "none.json")
    with pytest.raises(PlanError, match="Is a directory"):
        aoizora.load(tmp_path)
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(1 << 40)  # sparse
    with pytest.raises(PlanError, match="more than 64 MiB is no plan"):
        aoizora.load(tmp_path / "huge.json")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
USED = ("version", "slice", "model", "key", "mesh", "axis_rules", "attention", "device_coords")


@settings(max_examples=300, deadline=None)
@given(st.sampled_from((*USED, "placement", "predicted")), json_values, st.integers(0, 40))
def test_any_value_in_any_member_is_read_or_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory, name: str, value: Any, depth: int
) -> None:
    """A fuzzer: a member, or something within it, becomes any JSON; no other error gets out."""
    made = json.loads(json.dumps(document()))
    at, key = made, name
    pick = random.Random(depth)
    while isinstance(at[key], (dict, list)) and at[key] and pick.random() < 0.7:
        at = at[key]
        key = pick.choice(list(at) if isinstance(at, dict) else range(len(at)))
    at[key] = value
    try:
        plan = load(tmp_path_factory.getbasetemp(), made)
    except PlanError as error:
        assert "plan.json" in str(error)
        return
    assert len(set(plan.device_coords)) == math.prod(plan.mesh_shape)
    assert all(axis in plan.mesh_axes for _, axes in plan.rules for axis in axes)


def test_loading_imports_neither_jax_nor_numpy_nor_the_core(tmp_path: pathlib.Path) -> None:
    load(tmp_path, document())
    program = (
        "import sys, aoizora; from aoizora.serving import export\n"
        "plan = aoizora.load(sys.argv[1])\n"
        "[make(plan) for make in export.FORMATS.values()]; plan.axis_rules\n"
        "heavy = {'jax', 'numpy', 'flax', 'aoizora._core'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run(
        [sys.executable, "-c", program, tmp_path / "plan.json"], check=True, env=environment()
    )


# --- devices -----------------------------------------------------------------------------------


def test_devices_are_matched_by_coordinates_whatever_their_ids(tmp_path: pathlib.Path) -> None:
    plan = load(tmp_path, document())
    for devices in (chips(4, 4), chips(4, 4)[::-1]):
        assert [d.coords for d in order_of(plan, devices)] == list(plan.device_coords)


def test_two_coordinates_are_the_chip_at_z_0(tmp_path: pathlib.Path) -> None:
    made = document()
    made["device_coords"] = [chip[:2] for chip in made["device_coords"]]
    plan = load(tmp_path, made)
    assert [d.coords[:2] for d in order_of(plan, chips(4, 4))] == list(plan.device_coords)


def test_the_core_counts_where_a_chip_has_two_devices(tmp_path: pathlib.Path) -> None:
    made = document("v7x:2x2x1", {"data": 2, "context": 4, "tensor": 1})
    cores = [[*chip, core] for core in (1, 0) for chip in made["device_coords"]]
    made["device_coords"] = cores
    plan = load(tmp_path, made)
    devices = [
        Chip(2 * i + core, (x, y, 0), core_on_chip=core, device_kind="TPU7x")
        for i, (x, y) in enumerate(itertools.product(range(2), range(2)))
        for core in range(2)
    ]
    found = order_of(plan, devices)
    assert [[*d.coords, d.core_on_chip] for d in found] == cores
    with pytest.raises(PlanError, match=r"no device at \(0, 0, 0, 1\)"):
        order_of(plan, [d for d in devices if d.core_on_chip == 0])


def test_several_slices_are_told_apart(tmp_path: pathlib.Path) -> None:
    made = document("v5e:2x2", {"data": 2, "context": 4, "tensor": 1})
    made["slice"] = "v5e:2x2+2x2"
    made["device_coords"] = [[*c, number] for number in (1, 0) for c in made["device_coords"]]
    plan = load(tmp_path, made)
    devices = [*chips(2, 2), *chips(2, 2, slice_index=1)]
    found = order_of(plan, devices)
    assert [[*d.coords, d.slice_index] for d in found] == made["device_coords"]


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (chips(2, 4), r"8 devices on 2x4 chips; the plan has 16; no device at \(2, 0, 0\)"),
        (chips(2, 4), r"plan again with --slice v5e:2x4"),
        (chips(4, 8), r"32 devices on 4x8 chips.*not in the plan: \(0, 4, 0\).* and 12 more"),
        (chips(8, 2), r"16 devices on 8x2 chips.*no device at \(0, 2, 0\).*--slice v5e:8x2"),
        (chips(4, 4)[1:], r"no device at \(0, 0, 0\); pass the devices of one whole slice"),
        (
            [dataclasses.replace(d, coords=(d.coords[0] + 4, *d.coords[1:])) for d in chips(4, 4)],
            r"starting at \(4, 0, 0\).*pass the devices of one whole slice",
        ),
        (chips(4, 4, device_kind="TPU v6 lite"), r"for v5e:4x4, these devices are TPU v6 lite"),
        ([*chips(4, 4), Chip(99, (0, 0, 0))], r"have the same coordinates"),
        ([], "no devices"),
    ],
)
def test_another_slice_is_refused_and_described(
    tmp_path: pathlib.Path, devices: list[Chip], message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        order_of(load(tmp_path, document()), devices)


def test_a_kind_with_a_new_spelling_is_let_through(tmp_path: pathlib.Path) -> None:
    plan = load(tmp_path, document())
    assert len(order_of(plan, chips(4, 4, device_kind="TPU v5 lite pod"))) == 16


def test_real_devices_without_coordinates_say_how_to_try(tmp_path: pathlib.Path) -> None:
    plan = load(tmp_path, document())
    with pytest.raises(PlanError, match=r"no chip coordinates \(platform cpu\).*virtual_coords"):
        plan.mesh()


def test_coords_of_is_a_map_or_a_function(tmp_path: pathlib.Path) -> None:
    plan = load(tmp_path, document())
    devices = jax.devices()
    table = plan.virtual_coords(devices)
    assert table[devices[1]] == (1, 0, 0) and table[devices[4]] == (0, 1, 0)
    mesh = plan.mesh(devices, coords_of=table)
    assert mesh == plan.mesh(coords_of=lambda d: (d.id % 4, d.id // 4, 0))
    assert [table[d] for d in mesh.devices.flat] == list(plan.device_coords)
    assert mesh.axis_names == plan.mesh_axes and mesh.devices.shape == plan.mesh_shape
    assert [d.id for d in mesh.devices.flat] != list(range(16)), "the order is a permutation"
    with pytest.raises(PlanError, match="coords_of has no coordinates for"):
        plan.mesh(coords_of={})
    with pytest.raises(PlanError, match="have the same coordinates"):
        plan.mesh(coords_of=lambda d: (0, 0, 0))
    with pytest.raises(PlanError, match="8 devices"):
        plan.mesh(devices[:8], coords_of=table)


# --- shardings ---------------------------------------------------------------------------------

NAMES = sorted({n for names in WAN_TENSORS for n in names if n})
random_rules = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.lists(st.sampled_from(("data", "context", "tensor")), max_size=2, unique=True),
    ),
    max_size=8,
)


@settings(max_examples=300, deadline=None)
@given(random_rules)
def test_flax_and_the_exported_file_shard_as_the_model_does(
    rules: list[tuple[str, list[str]]],
) -> None:
    """Three readers of the same rules: the model's Sharder, Flax, and the file of `export`."""
    spmd = pytest.importorskip("flax.linen")
    filed = tuple((name, tuple(axes)) for name, axes in rules)
    given_to_flax = [(name, axes or None) for name, axes in spelled_out(filed)]
    program: dict[str, Any] = {}
    exec("from jax.sharding import PartitionSpec\n" + export._SPEC, program)
    program["logical_axis_rules"] = given_to_flax
    for tensor in WAN_TENSORS:
        wanted = parts(to_spec(mesh_axes(filed, tensor)))
        assert parts(spmd.logical_to_mesh_axes(tensor, given_to_flax)) == wanted, tensor
        assert parts(program["partition_spec"](*tensor)) == wanted, tensor


def test_partition_specs_and_shardings(tmp_path: pathlib.Path) -> None:
    plan = load(tmp_path, document())
    assert plan.partition_spec("activation_batch", "activation_length", None) == PartitionSpec(
        "data", "context", None
    )
    mesh = plan.mesh(coords_of=plan.virtual_coords(jax.devices()))
    sharding = plan.jax_sharding("embed", "heads", mesh=mesh)
    assert sharding.spec == PartitionSpec(None, "tensor") and sharding.mesh == mesh
    x = jax.device_put(jnp.zeros((4, 8)), sharding)
    assert {s.data.shape for s in x.addressable_shards} == {(4, 4)}
    # The shard of position (0, 0, 1) lies on the chip that the plan names.
    second = mesh.devices[0, 0, 1]
    assert plan.virtual_coords(jax.devices())[second] == plan.device_coords[1]
    (index,) = [s.index for s in x.addressable_shards if s.device == second]
    assert index == (slice(None), slice(4, 8))
    with pytest.raises(PlanError, match=r"is not the plan's .*use plan\.mesh\(\)"):
        plan.jax_sharding("embed", mesh=jax.make_mesh((16,), ("data",)))


def test_flax_reads_the_rules_in_the_context(tmp_path: pathlib.Path) -> None:
    linen = pytest.importorskip("flax.linen")
    nnx = pytest.importorskip("flax.nnx")
    plan = load(tmp_path, document())
    with plan.flax_rules():
        assert linen.logical_to_mesh_axes(("embed", "mlp")) == PartitionSpec(None, ("tensor",))
        assert linen.logical_to_mesh_axes(attention.SELF_Q) == PartitionSpec(
            ("data",), ("context",), ("tensor",), None
        )
    assert linen.logical_to_mesh_axes(("embed", "mlp")) == PartitionSpec(None, None)

    mesh = plan.mesh(coords_of=plan.virtual_coords(jax.devices()))
    init = nnx.with_partitioning(nnx.initializers.lecun_normal(), ("embed", "mlp"))
    with plan.flax_rules(), jax.set_mesh(mesh), pytest.raises(ValueError, match="embed"):
        nnx.Linear(8, 16, kernel_init=init, rngs=nnx.Rngs(0))  # a plan that leaves weights whole
    with plan.flax_rules("embed"), jax.set_mesh(mesh):
        layer = nnx.Linear(8, 16, kernel_init=init, rngs=nnx.Rngs(0))
    assert layer.kernel[...].sharding.spec == PartitionSpec(None, "tensor")
    assert layer.kernel[...].sharding.mesh == mesh


@pytest.mark.parametrize(
    ("slice_name", "mesh", "how"),
    [
        ("v5e:2x4", {"data": 2, "context": 2, "tensor": 2}, "all_gather_kv"),
        ("v5e:2x4", {"data": 1, "context": 8, "tensor": 1}, "ulysses"),
        ("v5e:4x4", {"data": 2, "context": 4, "tensor": 2}, "ring"),
        ("v5e:4x4", {"data": 2, "context": 2, "tensor": 4}, "all_gather_kv"),
    ],
)
def test_a_step_on_the_plans_mesh_equals_the_unsharded_one(
    tmp_path: pathlib.Path, slice_name: str, mesh: dict[str, int], how: str
) -> None:
    """Plan file -> mesh in the plan's order -> sharded Wan step = the step on one device."""
    plan = load(tmp_path, document(slice_name, mesh, attention=how))
    devices = jax.devices()[: math.prod(mesh.values())]
    made = plan.mesh(devices, coords_of=plan.virtual_coords(devices))
    assert [d.id for d in made.devices.flat] != list(range(len(devices)))
    out = sharded(TINY, made, plan.attention, plan.rules)
    np.testing.assert_allclose(out, unsharded(TINY), atol=1e-4)


def test_a_step_with_shardings_from_the_plan_alone(tmp_path: pathlib.Path) -> None:
    """As a server writes it: weights placed by plan.jax_sharding, rules by plan.axis_rules."""
    from aoizora.models.rules import parse_rules
    from aoizora.models.wan_params import is_param, param_specs

    plan = load(tmp_path, document())
    mesh = plan.mesh(coords_of=plan.virtual_coords(jax.devices()))
    params = jax.tree.map(
        lambda spec, x: jax.device_put(x, plan.jax_sharding(*spec.axes, mesh=mesh)),
        param_specs(TINY),
        tiny_params(TINY),
        is_leaf=is_param,
    )
    run = make_run(TINY, mesh, plan.attention, rules=parse_rules(plan.axis_rules))
    step = jax.jit(functools.partial(wan.forward, run))
    np.testing.assert_allclose(step(params, *make_inputs(TINY)), unsharded(TINY), atol=1e-4)
    kernel = params["blocks"]["ffn"]["net_0"]["kernel"]
    assert kernel.sharding.mesh == mesh and kernel.sharding.spec == Sharder(mesh, plan.rules).spec(
        ("layers", "embed", "mlp")
    )
