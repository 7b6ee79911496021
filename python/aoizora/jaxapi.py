"""Every call into JAX that is not public API, in one place.

When JAX moves, tests/python/test_jaxapi.py names the function here that broke. Nothing else in
this package may import ``jax._src``, ``jaxlib`` or a private name.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
from jax.experimental import mesh_utils, topologies
from jax.experimental.pallas.ops.tpu import flash_attention as pallas_flash

# Shardy from annotated global shapes to local shapes with explicit collectives. Order matters:
# reshards must be explicit before they can become collectives, and only then is every operation
# local enough to be given local shapes.
SHARDY_PIPELINE = (
    "builtin.module(sdy-propagation-pipeline)",
    "builtin.module(func.func(sdy-insert-explicit-reshards{enable-full-version=true}))",
    "builtin.module(func.func(sdy-reshard-to-collectives))",
    "builtin.module(sdy-convert-global-to-local)",
)


@functools.lru_cache(maxsize=8)
def tpu_devices(topology_name: str) -> tuple[Any, ...]:
    """Compile-only TPU devices of a slice, in the compiler's default order."""
    topology = topologies.get_topology_desc(platform="tpu", topology_name=topology_name)
    return tuple(topology.devices)


def device_coords(device: Any) -> tuple[int, ...]:
    """Chip coordinates of a device, with the core appended where a chip has several devices."""
    coords = tuple(int(c) for c in device.coords)
    core = int(getattr(device, "core_on_chip", 0))
    return (*coords, core) if str(device.device_kind).startswith("TPU7") else coords


def default_device_mesh(shape: tuple[int, ...], devices: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    """The order ``jax.make_mesh`` gives: ``create_device_mesh`` with splitting allowed."""
    mesh: np.ndarray[Any, Any] = mesh_utils.create_device_mesh(
        shape, list(devices), allow_split_physical_axes=True
    )
    return mesh


def lowered_module(lowered: Any) -> Any:
    """The MLIR module (StableHLO with Shardy annotations) of a ``jax.stages.Lowered``."""
    return lowered.compiler_ir(dialect="stablehlo")


def stablehlo_text(lowered: Any) -> str:
    """StableHLO without source locations, so that moving a line changes nothing."""
    return str(lowered_module(lowered).operation.get_asm(enable_debug_info=False))


# jaxlib does not register chlo-legalize-to-stablehlo, and sdy-convert-global-to-local leaves CHLO
# results with global types. These stand for the same work: exact, or of the same cost class.
CHLO_STAND_IN = {"chlo.square": "multiply", "chlo.erf": "tanh", "chlo.tan": "tan"}


def _chlo_operations(module: Any) -> list[Any]:
    from jaxlib.mlir import ir

    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name.startswith("chlo."):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def replace_chlo(module: Any) -> tuple[list[str], list[str]]:
    """Rewrites CHLO operations in place; returns notes and the names it can't rewrite."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    notes: set[str] = set()
    unknown: set[str] = set()
    with module.context:
        for op in _chlo_operations(module):
            name = str(op.name)
            if name not in CHLO_STAND_IN:
                unknown.add(name)
                continue
            x = op.operands[0]
            with ir.InsertionPoint(op), op.location:
                build = getattr(stablehlo, CHLO_STAND_IN[name])
                new = build(x, x) if name == "chlo.square" else build(x)
            if name == "chlo.erf":
                notes.add("chlo.erf stands as stablehlo.tanh (same cost class)")
            op.results[0].replace_all_uses_with(new)
            op.erase()
    return sorted(notes), sorted(unknown)


def run_passes(module: Any, pipelines: tuple[str, ...] = SHARDY_PIPELINE) -> None:
    """Runs MLIR pass pipelines on a module, in place."""
    from jaxlib.mlir import passmanager

    with module.context:
        for pipeline in pipelines:
            passmanager.PassManager.parse(pipeline).run(module.operation)


def generic_text(module: Any) -> str:
    """A module in MLIR's generic form, which has one grammar for all dialects."""
    return str(module.operation.get_asm(print_generic_op_form=True, enable_debug_info=False))


@functools.partial(jax.jit, static_argnames=("scale", "blocks"))
def flash_with_residuals(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    segment_ids: Any,
    *,
    scale: float,
    blocks: Any,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Pallas flash attention that also returns the softmax sums.

    q [B, H, Lq, D], k and v [B, H, Lk, D] -> out [B, H, Lq, D] (normalised), l and m
    [B, H, Lq] float32 (sum of exponents, maximum). The public wrapper drops l and m.
    """
    out, l_sum, m_max = pallas_flash._flash_attention_impl(
        q,
        k,
        v,
        None,
        segment_ids,
        True,
        False,
        scale,
        blocks.block_b,
        blocks.block_q,
        blocks.block_k_major,
        blocks.block_k,
        False,
    )
    return out, l_sum, m_max
