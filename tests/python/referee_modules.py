"""Writes compiled and lowered programs of many kinds into a folder, for test_inspect_referee.py.

    python referee_modules.py FOLDER

Each is `NAME.hlo` (compiled text) or `NAME.mlir` (StableHLO with Shardy, pretty form); what a
person knows about it without reading it stands in `NAME.json`: how often each kind of collective
must run.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

SLICES = [("v5e:2x2", 1), ("v5e:2x4", 1), ("v6e:2x4", 1), ("v5p:2x2x2", 1), ("v5e:2x2", 2)]
Case = tuple[Callable[..., Any], list[tuple[tuple[int, ...], Any, P]], dict[str, int]]


def ring(axis: str, size: int) -> list[tuple[int, int]]:
    """Each device to the next one."""
    return [(i, (i + 1) % size) for i in range(size)]


def cases(mesh: Mesh) -> dict[str, Case]:
    """Functions, their arguments (shape, type, sharding) and the executions a person knows."""
    x, y = mesh.axis_names
    size = mesh.shape[x]

    def in_shards(body: Callable[..., Any], ins: Any, outs: Any) -> Callable[..., Any]:
        return jax.shard_map(body, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False)

    def collectives(v: Any) -> Any:
        a = lax.psum(v, x)
        b = lax.all_gather(v, y, axis=1, tiled=True)
        c = lax.ppermute(v, x, ring(x, size))
        d = lax.all_to_all(v, y, 1, 0, tiled=True)
        e = lax.psum_scatter(v, x, scatter_dimension=0, tiled=True)
        f = lax.psum(v, (x, y)) if v.dtype != jnp.int8 else v
        return a, b, c, d, e, f

    def scanned(v: Any) -> Any:
        def body(carry: Any, _: Any) -> Any:
            return lax.ppermute(carry * 2, x, ring(x, size)), None

        return lax.scan(body, v, None, length=7)[0]

    def nested(v: Any) -> Any:
        def outer(i: Any, carry: Any) -> Any:
            inner = lax.fori_loop(
                0, 3, lambda j, c: lax.ppermute(c, y, ring(y, mesh.shape[y])), carry
            )
            return lax.ppermute(inner, x, ring(x, size)) + i

        return lax.fori_loop(0, 5, outer, v)

    def conditional(v: Any, flag: Any) -> Any:
        return lax.cond(flag > 0, lambda u: lax.psum(u, x), lambda u: u * 2, v)

    def matmuls(a: Any, b: Any, c: Any) -> Any:
        return jnp.tanh(a @ b) @ c

    def small_types(v: Any) -> Any:
        low = v.astype(jnp.int4).astype(jnp.float32)
        eight = v.astype(jnp.float8_e4m3fn).astype(jnp.float32)
        return low + eight, v.astype(jnp.bfloat16), v.astype(jnp.int4), v > 0

    f32 = jnp.float32
    both = P(x, y)
    return {
        "collectives": (
            in_shards(collectives, both, (both, both, both, both, both, both)),
            [((64, 512), f32, both)],
            {},
        ),
        "scan": (
            in_shards(scanned, both, both),
            [((256, 512), f32, both)],
            {"collective-permute": 7},
        ),
        "nested": (
            in_shards(nested, both, both),
            [((256, 512), f32, both)],
            {"collective-permute": 5 * 3 + 5},
        ),
        "cond": (
            in_shards(conditional, (both, P()), both),
            [((64, 512), f32, both), ((), jnp.int32, P())],
            {"all-reduce": 1},
        ),
        "matmul": (
            matmuls,
            [
                ((512, 1024), jnp.bfloat16, P(x, y)),
                ((1024, 2048), jnp.bfloat16, P(x, y)),
                ((2048, 1024), jnp.bfloat16, P(y, x)),
            ],
            {},
        ),
        "types": (small_types, [((128, 512), f32, both)], {}),
    }


def lower(case: Case, mesh: Mesh) -> Any:
    """The lowered function on the mesh's devices."""
    function, arguments, _ = case
    shapes = [
        jax.ShapeDtypeStruct(shape, kind, sharding=NamedSharding(mesh, spec))
        for shape, kind, spec in arguments
    ]
    return jax.jit(function).lower(*shapes)


def write(folder: pathlib.Path, name: str, case: Case, mesh: Mesh, text: bool = True) -> None:
    """Compiles one case; a case that the compiler refuses is not written."""
    lowered = lower(case, mesh)
    (folder / f"{name}.mlir").write_text(str(lowered.compiler_ir("stablehlo")))
    if not text:
        return
    (folder / f"{name}.hlo").write_text(lowered.compile().as_text())
    (folder / f"{name}.json").write_text(json.dumps({"executions": case[2]}))


def dynamic(folder: pathlib.Path) -> None:
    """Bounded dynamic shapes, which JAX's jit does not make: written by hand."""
    text = """HloModule dynamic, entry_computation_layout={(f32[8]{0}, s32[])->f32[<=8]{0}}
ENTRY %main (p: f32[8], n: s32[]) -> f32[<=8] {
  %p = f32[8]{0} parameter(0)
  %n = s32[] parameter(1)
  %d = f32[<=8]{0} set-dimension-size(f32[8]{0} %p, s32[] %n), dimensions={0}
  %t = (f32[<=8]{0}, token[]) custom-call(%d), custom_call_target="x"
  ROOT %r = f32[<=8]{0} negate(%d)
}
"""
    (folder / "dynamic.hlo").write_text(text)


def flash(folder: pathlib.Path) -> None:
    """A Pallas kernel: a custom call with a kernel in its backend_config."""
    from jax.experimental.pallas.ops.tpu import flash_attention

    devices = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2").devices
    mesh = Mesh(np.array(devices).reshape(2, 2), ("a", "b"))
    spec = P("a", "b")
    body = jax.shard_map(
        flash_attention.flash_attention,
        mesh=mesh,
        in_specs=(spec, spec, spec),
        out_specs=spec,
        check_vma=False,
    )
    case: Case = (body, [((2, 2, 512, 128), jnp.bfloat16, spec)] * 3, {})
    write(folder, "flash-v5e_2x2", case, mesh)


def main() -> None:
    """Writes all."""
    folder = pathlib.Path(sys.argv[1])
    cpu = Mesh(np.array(jax.devices("cpu")[:8]).reshape(2, 4), ("a", "b"))
    for name, case in cases(cpu).items():
        write(folder, f"{name}-cpu", case, cpu)
    for topology, slices in SLICES:
        description = topologies.get_topology_desc(
            platform="tpu", topology_name=topology, **({"num_slices": slices} if slices > 1 else {})
        )
        devices = np.array(description.devices)
        shape = (slices, devices.size // slices) if slices > 1 else (2, devices.size // 2)
        mesh = Mesh(devices.reshape(shape), ("a", "b"))
        label = topology.replace(":", "_") + (f"_x{slices}" if slices > 1 else "")
        wanted = ("matmul", "scan") if slices > 1 else tuple(cases(mesh))
        for name in wanted:
            write(folder, f"{name}-{label}", cases(mesh)[name], mesh)
    dynamic(folder)
    flash(folder)


if __name__ == "__main__":
    main()
