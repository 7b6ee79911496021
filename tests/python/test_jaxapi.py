"""One test per function of jaxapi.py: when JAX moves, the failing test's name says what broke."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu.flash_attention import BlockSizes
from jax.sharding import NamedSharding, PartitionSpec
from wan_helpers import make_mesh

from aoizora import jaxapi

PACKAGE = pathlib.Path(jaxapi.__file__).parent


def lowered() -> Any:
    """A matmul sharded over its contraction."""
    mesh = make_mesh(x=4)
    spec = NamedSharding(mesh, PartitionSpec(None, "x"))
    a = jax.ShapeDtypeStruct((8, 16), jnp.float32, sharding=spec)
    b = jax.ShapeDtypeStruct((16, 8), jnp.float32)
    whole = NamedSharding(mesh, PartitionSpec())
    return jax.jit(lambda a, b: jnp.square(a) @ b, out_shardings=whole).lower(a, b)


def test_tpu_devices() -> None:
    assert len(jaxapi.tpu_devices("v5e:2x4")) == 8


def test_device_coords() -> None:
    coords = {jaxapi.device_coords(d) for d in jaxapi.tpu_devices("v5e:2x4")}
    assert coords == {(x, y, 0) for x in range(2) for y in range(4)}


@pytest.mark.parametrize("name", ["tpu7x:2x2x1", "v4:2x2x1"])
def test_device_coords_of_a_chip_with_two_devices(name: str) -> None:
    coords = {jaxapi.device_coords(d) for d in jaxapi.tpu_devices(name)}
    assert coords == {(x, y, 0, c) for x in range(2) for y in range(2) for c in range(2)}


def test_default_device_mesh() -> None:
    mesh = jaxapi.default_device_mesh((2, 4), jaxapi.tpu_devices("v5e:2x4"))
    assert [d.id for d in mesh.flatten()] == [0, 1, 2, 3, 7, 6, 5, 4]


def test_lowered_module_and_generic_text() -> None:
    text = jaxapi.generic_text(jaxapi.lowered_module(lowered()))
    assert '"stablehlo.dot_general"(' in text
    assert '"sdy.mesh"()' in text


def test_stablehlo_text_has_no_locations() -> None:
    text = jaxapi.stablehlo_text(lowered())
    assert "stablehlo.dot_general" in text
    assert "loc(" not in text


def test_replace_chlo() -> None:
    module = jaxapi.lowered_module(lowered())
    assert "chlo.square" in jaxapi.generic_text(module)
    assert jaxapi.replace_chlo(module) == ([], [])
    assert "chlo." not in jaxapi.generic_text(module)


@pytest.mark.parametrize("count", range(1, 5))
def test_shardy_passes_exist(count: int) -> None:
    module = jaxapi.lowered_module(lowered())
    jaxapi.replace_chlo(module)
    jaxapi.run_passes(module, jaxapi.SHARDY_PIPELINE[:count])


def test_shardy_makes_local_shapes_and_collectives() -> None:
    module = jaxapi.lowered_module(lowered())
    jaxapi.replace_chlo(module)
    jaxapi.run_passes(module)
    text = jaxapi.generic_text(module)
    assert "stablehlo.all_reduce" in text
    assert "(tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>" in text


def test_sharded_ops() -> None:
    module = jaxapi.lowered_module(lowered())
    jaxapi.replace_chlo(module)
    jaxapi.run_passes(module, jaxapi.SHARDY_PIPELINE[:2])
    found = {op.name: op for op in jaxapi.sharded_ops(module)}
    assert found["stablehlo.multiply"].shards == (1, 4)
    assert found["stablehlo.multiply"].shape == (8, 16)


def test_flash_with_residuals() -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(1, 1, 128, 128)), jnp.float32)
    blocks = BlockSizes(128, 128, 128, 1)
    with pltpu.force_tpu_interpret_mode():
        out, l_sum, m_max = jaxapi.flash_with_residuals(x, x, x, None, scale=0.1, blocks=blocks)
    scores = 0.1 * jnp.einsum("bhld,bhsd->bhls", x, x)
    np.testing.assert_allclose(m_max, scores.max(-1), rtol=1e-3)
    np.testing.assert_allclose(l_sum, jnp.exp(scores - m_max[..., None]).sum(-1), rtol=1e-3)
    assert out.shape == x.shape


def test_no_other_file_uses_private_api() -> None:
    private = re.compile(
        r"jax\._src|\bjaxlib\.mlir|import jaxlib|create_device_mesh\(|get_topology"
    )
    users = {p.name for p in PACKAGE.rglob("*.py") if private.search(p.read_text())}
    assert users == {"jaxapi.py"}
