"""Every attention strategy on every mesh equals the unsharded model."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu
from wan_helpers import RULES, TINY, make_mesh, sharded, unsharded

from aoizora.errors import UserError
from aoizora.models import attention
from aoizora.models.rules import parse_rules

MESHES = [
    {"data": 1, "context": 8, "tensor": 1},
    {"data": 2, "context": 4, "tensor": 1},
    {"data": 2, "context": 2, "tensor": 2},
    {"data": 1, "context": 2, "tensor": 4},
    {"data": 1, "context": 1, "tensor": 8},
    {"data": 2, "context": 4, "tensor": 2},
    {"data": 1, "context": 2, "tensor": 8},
]
TOLERANCE = 1e-4


def error(a: jax.Array, b: jax.Array) -> float:
    """Largest absolute difference."""
    return float(jnp.abs(jnp.asarray(a) - jnp.asarray(b)).max())


@pytest.mark.parametrize("axes", MESHES, ids=lambda m: "x".join(map(str, m.values())))
@pytest.mark.parametrize("strategy", ["all_gather_kv", "ulysses", "ring"])
def test_strategy_equals_unsharded(strategy: str, axes: dict[str, int]) -> None:
    if strategy == "ulysses" and (8 // axes["tensor"]) % axes["context"]:
        pytest.skip("illegal: heads do not divide")
    assert error(sharded(TINY, make_mesh(**axes), strategy), unsharded(TINY)) <= TOLERANCE


def test_head_parallel_equals_unsharded() -> None:
    mesh = make_mesh(data=2, context=1, tensor=4)
    assert error(sharded(TINY, mesh, "head_parallel"), unsharded(TINY)) <= TOLERANCE


@pytest.mark.parametrize("tensor", [2, 4])
def test_usp_equals_unsharded(tensor: int) -> None:
    mesh = make_mesh(ring=2, ulysses=2, tensor=tensor)
    rules = parse_rules(
        [
            ["activation_length", ["ring", "ulysses"]],
            ["activation_heads", ["tensor"]],
            ["heads", ["tensor"]],
            ["mlp", ["tensor"]],
        ]
    )
    assert error(sharded(TINY, mesh, "usp", rules), unsharded(TINY)) <= TOLERANCE


def test_weights_sharded_on_embed_equal_unsharded() -> None:
    mesh = make_mesh(data=1, context=4, tensor=2)
    rules = (*RULES, ("embed", ("context",)))
    assert error(sharded(TINY, mesh, "all_gather_kv", rules), unsharded(TINY)) <= TOLERANCE


def test_heads_of_self_attention_on_context_as_maxdiffusion_has_it() -> None:
    mesh = make_mesh(data=1, context=4, tensor=2)
    rules = (("activation_self_attn_heads", ("context", "tensor")), *RULES)
    assert error(sharded(TINY, mesh, "all_gather_kv", rules), unsharded(TINY)) <= TOLERANCE


def test_image_tokens_equal_unsharded() -> None:
    cfg = replace(TINY, image_dim=20, image_tokens=5)
    out = sharded(cfg, make_mesh(data=2, context=2, tensor=2), "ring")
    assert error(out, unsharded(cfg)) <= TOLERANCE


@pytest.mark.parametrize(
    ("strategy", "axes", "message"),
    [
        ("ulysses", {"data": 1, "context": 4, "tensor": 2}, "ulysses degree 4"),
        ("head_parallel", {"data": 1, "context": 4, "tensor": 2}, "not sharded"),
        ("usp", {"data": 1, "context": 4, "tensor": 2}, "two mesh axes"),
        ("all_gather_kv", {"data": 1, "context": 4, "activation_kv": 2}, "head dimension"),
        ("magic", {"data": 1, "context": 4, "tensor": 2}, "known: all_gather_kv"),
    ],
)
def test_illegal_says_why(strategy: str, axes: dict[str, int], message: str) -> None:
    cfg = replace(TINY, heads=4)
    rules = RULES
    if "activation_kv" in axes:
        rules = parse_rules(
            [["activation_length", ["context"]], ["activation_kv", "activation_kv"]]
        )
    with pytest.raises(UserError, match=message):
        sharded(cfg, make_mesh(**axes), strategy, rules)


def qkv(length: int, keys: int) -> list[jax.Array]:
    """Random [1, 2, L, 128] queries, keys and values."""
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.normal(size=(1, 2, n, 128)), jnp.float32) for n in (length, keys, keys)]


@pytest.mark.parametrize("valid", [None, 200])
@pytest.mark.parametrize("keys", [256, 2048])
def test_pallas_kernel_equals_reference(valid: int | None, keys: int) -> None:
    """The TPU kernel, interpreted, with masked keys and with its residuals."""
    args = qkv(128, keys)
    mask = None if valid is None else jnp.arange(keys) < valid
    truth = attention.Kernel(flash=False).partial(*args, mask)
    with pltpu.force_tpu_interpret_mode():
        flash = attention.Kernel(flash=True)
        assert error(flash(*args, mask), truth[0]) <= 1e-5
        for made, wanted in zip(flash.partial(*args, mask), truth, strict=True):
            assert error(made, wanted) <= 1e-3 * float(jnp.abs(wanted).max())


def test_a_chunk_of_padding_only_changes_nothing() -> None:
    """The last ring chunk may hold no true key at all."""
    q, k, v = qkv(8, 16)
    kernel = attention.Kernel(flash=False)
    rows = q.shape[:3]
    state = (jnp.zeros(q.shape), jnp.zeros(rows), jnp.full(rows, jnp.finfo(jnp.float32).min))
    for start in (8, 0):  # the empty chunk first: the harder order
        valid = (jnp.arange(8) + start) < 8
        part = kernel.partial(q, k[:, :, start : start + 8], v[:, :, start : start + 8], valid)
        state = attention._merge(state, part)
    out = state[0] / state[1][..., None]
    assert error(out, kernel(q, k, v, jnp.arange(16) < 8)) <= 1e-5


@pytest.mark.parametrize("length", [128, 2048, 4736, 32768])
def test_blocks_fit(length: int) -> None:
    kernel = attention.Kernel(flash=True)
    assert length % kernel.block(length) == 0
    waste = -(-length // kernel.query_block(length)) * kernel.query_block(length) - length
    assert waste == 0
