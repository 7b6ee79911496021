"""Wan against diffusers' golden outputs, and properties of its parts."""

from __future__ import annotations

import functools
import json
import pathlib
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wan_helpers import TINY, make_inputs, make_mesh, make_run, tiny_params, unsharded

from aoizora.errors import UserError
from aoizora.models import registry, wan, wan_weights
from aoizora.models.wan_params import CONFIGS, WanConfig, is_param, param_specs

DATA = pathlib.Path(__file__).parent / "data"


def golden(name: str) -> tuple[WanConfig, dict[str, Any], dict[str, Any]]:
    """Config, weights in diffusers' names, and all arrays of a golden file."""
    arrays = dict(np.load(DATA / f"wan_{name}.npz"))
    raw = json.loads(str(arrays["config"]))
    cfg = WanConfig(
        heads=raw["num_attention_heads"],
        layers=raw["num_layers"],
        mlp=raw["ffn_dim"],
        head_dim=raw["attention_head_dim"],
        in_channels=raw["in_channels"],
        out_channels=raw["out_channels"],
        text_dim=raw["text_dim"],
        freq_dim=raw["freq_dim"],
        image_dim=raw.get("image_dim"),
        image_tokens=5,
        dtype="float32",
        token_block=8,
        shard_block=2,
    )
    weights = {k.removeprefix("weight/"): v for k, v in arrays.items() if k.startswith("weight/")}
    return cfg, weights, arrays


def run_case(cfg: WanConfig, params: Any, arrays: dict[str, Any], case: int) -> float:
    """Largest error of one case, relative to nothing: outputs are near one."""
    names = ["latents", "timestep", "text"] + (["image"] if cfg.image_dim else [])
    inputs = [jnp.asarray(arrays[f"case/{case}/{n}"]) for n in names]
    latent = tuple(int(n) for n in inputs[0].shape[2:])
    run = make_run(cfg, latent=(latent[0], latent[1], latent[2]))
    out = jax.jit(functools.partial(wan.forward, run))(params, *inputs)
    return float(np.abs(np.asarray(out) - arrays[f"case/{case}/output"]).max())


@pytest.mark.parametrize("name", ["t2v", "i2v"])
def test_equals_diffusers(name: str) -> None:
    cfg, weights, arrays = golden(name)
    params = wan_weights.convert(weights, cfg)
    errors = [run_case(cfg, params, arrays, case) for case in range(3)]
    assert max(errors) <= 1e-4, errors


@pytest.mark.parametrize("name", ["t2v", "i2v"])
def test_every_weight_of_the_checkpoint_is_used(name: str) -> None:
    cfg, weights, _ = golden(name)
    leaves = jax.tree_util.tree_leaves_with_path(param_specs(cfg), is_leaf=is_param)
    names = {wan_weights.source_name(path) for path, _ in leaves}
    used = {n.format(layer=i) for n in names for i in range(cfg.layers)}
    assert used == set(weights)


def test_safetensors_round_trip(tmp_path: pathlib.Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    cfg, weights, arrays = golden("t2v")
    safetensors.save_file(weights, tmp_path / "model.safetensors")
    params = wan_weights.convert(wan_weights.load_safetensors(str(tmp_path)), cfg)
    assert run_case(cfg, params, arrays, 1) <= 1e-4


def test_missing_and_misshapen_weights_are_named() -> None:
    cfg, weights, _ = golden("t2v")
    weights.pop("proj_out.bias")
    with pytest.raises(UserError, match=r"proj_out\.bias"):
        wan_weights.convert(weights, cfg)
    weights["proj_out.bias"] = np.zeros(3, np.float32)
    with pytest.raises(UserError, match=r"proj_out\.bias"):
        wan_weights.convert(weights, cfg)


grids = st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 5))


@settings(max_examples=8, deadline=None, derandomize=True)
@given(grids, st.integers(1, 2), st.integers(1, 3))
def test_unpatchify_undoes_patchify(grid: tuple[int, int, int], batch: int, channels: int) -> None:
    latent = (grid[0], 2 * grid[1], 2 * grid[2])
    x = jnp.asarray(np.random.default_rng(1).normal(size=(batch, channels, *latent)))
    patches = wan.patchify(x, (1, 2, 2)).reshape(batch, -1, channels, 4)
    made = wan.make_grid(TINY, latent)
    back = wan.unpatchify(patches.swapaxes(2, 3).reshape(batch, -1, 4 * channels), made, (1, 2, 2))
    np.testing.assert_array_equal(back, x)


# Each new shape compiles anew, so few examples; they are the same in every run.
@settings(max_examples=6, deadline=None, derandomize=True)
@given(grids, st.sampled_from([1, 2, 7]))
def test_rotary_keeps_length_and_depends_on_distance_only(
    grid: tuple[int, int, int], sixths: int
) -> None:
    """|R x| = |x|, and R_a x . R_b y is the same for all token pairs one row apart."""
    head_dim = 6 * sixths
    made = wan.make_grid(TINY, (grid[0], 2 * grid[1], 2 * grid[2]))
    cos, sin = wan.rotary_tables(made, head_dim)
    rng = np.random.default_rng(2)
    x, y = (jnp.asarray(rng.normal(size=head_dim), jnp.float32) for _ in range(2))

    def rotate(v: jax.Array) -> jax.Array:
        tiled = jnp.broadcast_to(v, (1, made.padded, 1, head_dim))
        return wan.apply_rotary(tiled, cos, sin)[0, : made.tokens, 0]

    rx, ry = rotate(x), rotate(y)
    np.testing.assert_allclose(jnp.linalg.norm(rx, axis=-1), jnp.linalg.norm(x), rtol=1e-4)
    rows = rx.reshape(*made.patches, head_dim), ry.reshape(*made.patches, head_dim)
    near = (rows[0][:, 1:] * rows[1][:, :-1]).sum(-1)
    if near.size:
        np.testing.assert_allclose(near, jnp.full_like(near, near.flatten()[0]), atol=1e-3)


@settings(max_examples=50, deadline=None)
@given(grids, st.sampled_from([1, 2, 4, 8, 16]))
def test_padding_is_whole_blocks_on_every_shard(grid: tuple[int, int, int], context: int) -> None:
    cfg = CONFIGS["wan2.1-t2v-1.3b"]
    made = wan.make_grid(cfg, (grid[0], 2 * grid[1], 2 * grid[2]), context)
    assert made.padded >= made.tokens
    assert made.padded % cfg.token_block == 0
    assert made.padded % (context * cfg.shard_block) == 0


def test_guided_step_is_the_weighted_sum_of_two_forwards() -> None:
    latents, timestep, text = make_inputs(TINY, batch=1)
    text = jnp.concatenate([text, text + 1.0])
    params = tiny_params(TINY)
    outs = [
        jax.jit(functools.partial(wan.forward, make_run(TINY)))(
            params, latents, timestep, text[i : i + 1]
        )
        for i in range(2)
    ]
    for mesh in (None, make_mesh(data=2, context=2, tensor=2)):
        run = make_run(TINY, mesh)
        step = functools.partial(wan.guided_step, run, 5.0)
        made = jax.jit(step)(params, latents, timestep, text)
        np.testing.assert_allclose(made, outs[0] + 5.0 * (outs[1] - outs[0]), atol=1e-4)


def test_published_sizes() -> None:
    """32,760 and 75,600 tokens, 1.68e15 and 6.52e15 FLOPs per forward of 14B."""
    model = registry.find_model("wan2.1-t2v-14b")
    for resolution, tokens, flops in (("480p", 32760, 1.68e15), ("720p", 75600, 6.52e15)):
        found = model.describe(model.options({"resolution": resolution, "cfg": False}))
        assert found["tokens"] == tokens
        assert found["flops_per_step"] == pytest.approx(flops, rel=0.02)


def test_parameter_counts() -> None:
    """1.3B and 14B, as their names say."""
    for name, billions in (("wan2.1-t2v-1.3b", 1.42), ("wan2.1-t2v-14b", 14.3)):
        leaves = jax.tree.leaves(param_specs(CONFIGS[name]), is_leaf=is_param)
        assert sum(int(np.prod(p.shape)) for p in leaves) / 1e9 == pytest.approx(billions, rel=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"frames": 80}, "nearest are 77 and 81"),
        ({"frames": True}, "whole number"),
        ({"frames": "81"}, "whole number"),
        ({"batch": 0}, "at least 1"),
        ({"resolution": "1080p"}, "known: 480p, 720p"),
        ({"cfg": "maybe"}, "on or off"),
        ({"fps": 16}, "unknown option 'fps'"),
    ],
)
def test_bad_options_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        registry.parse_options(options)


def test_unknown_model_lists_those_that_exist() -> None:
    with pytest.raises(UserError, match=r"wan2\.1-t2v-1\.3b, wan2\.1-t2v-14b, wan2\.1-i2v-14b"):
        registry.find_model("wan3")


def test_bfloat16_is_close_to_float32() -> None:
    low = replace(TINY, dtype="bfloat16")
    params = jax.tree.map(
        lambda p, x: x.astype(p.dtype), param_specs(low), tiny_params(TINY), is_leaf=is_param
    )
    inputs = make_inputs(TINY)
    exact = unsharded(TINY)
    rough = jax.jit(functools.partial(wan.forward, make_run(low)))(params, *inputs)
    rough = rough.astype(jnp.float32)
    assert float(jnp.abs(exact - rough).max()) <= 0.1 * float(jnp.abs(exact).max())
