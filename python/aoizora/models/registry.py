"""Finds models by name and turns (model, options, mesh, rules, attention) into a traceable step."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from aoizora.errors import AoizoraError, UserError
from aoizora.models import wan
from aoizora.models.attention import LEGALITY, STRATEGIES, Kernel
from aoizora.models.rules import FALLBACK, Logical, Rules, Sharder
from aoizora.models.wan_params import CONFIGS, Param, WanConfig, is_param, param_specs

RESOLUTIONS = {"480p": (480, 832), "720p": (720, 1280)}  # rows, columns in pixels
VAE_STRIDE = (4, 8, 8)  # frames, rows, columns per latent
GUIDANCE = 5.0  # Wan's default; its value changes no cost


@dataclass(frozen=True)
class Options:
    """What a user may choose about a run of a video model."""

    resolution: str = "480p"
    frames: int = 81
    batch: int = 1
    cfg: bool = True


@dataclass(frozen=True)
class Tensor:
    """A named tensor of the description; kind is parameter, input, output or activation."""

    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    axes: tuple[str | None, ...]

    def to_json(self) -> dict[str, Any]:
        """As the worker's protocol spells it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "axes": list(self.axes),
        }


@dataclass(frozen=True)
class Step:
    """A function ready to be jitted, its abstract arguments and the shardings of its results."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    out_shardings: Any = None
    jitted: bool = False


class Model(Protocol):
    """What trace.py needs from a model."""

    @property
    def name(self) -> str:
        """The name it was asked for by."""

    def options(self, raw: dict[str, Any]) -> Any:
        """Checks and completes the options."""

    def describe(self, options: Any) -> dict[str, Any]:
        """The description of the protocol, without fingerprint."""

    def build(
        self, options: Any, mesh: Mesh | None, rules: Rules, attention: str, flash: bool
    ) -> Step:
        """The step on this mesh; ``mesh=None`` gives the unsharded program."""


def _whole_number(raw: dict[str, Any], name: str, default: int) -> int:
    value = raw.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"{name} must be a whole number of at least 1, not {value!r}")
    return value


def parse_options(raw: dict[str, Any]) -> Options:
    """Checks the options of a video model."""
    unknown = sorted(set(raw) - {"resolution", "frames", "batch", "cfg"})
    if unknown:
        raise UserError(f"unknown option {unknown[0]!r}; known: resolution, frames, batch, cfg")
    resolution = raw.get("resolution", "480p")
    if resolution not in RESOLUTIONS:
        raise UserError(f"unknown resolution {resolution!r}; known: {', '.join(RESOLUTIONS)}")
    frames = _whole_number(raw, "frames", 81)
    if frames % VAE_STRIDE[0] != 1:
        low = frames - (frames - 1) % 4
        raise UserError(
            f"frames must be 4n+1 (1, 5, 9, ..., 77, 81, 85, ...), not {frames}; "
            f"the nearest are {low} and {low + 4}"
        )
    cfg = raw.get("cfg", True)
    if isinstance(cfg, str) and cfg in ("on", "off"):
        cfg = cfg == "on"
    if not isinstance(cfg, bool):
        raise UserError(f"cfg must be on or off, not {cfg!r}")
    return Options(resolution, frames, _whole_number(raw, "batch", 1), cfg)


def latent_size(options: Options) -> tuple[int, int, int]:
    """Latent frames, rows and columns."""
    rows, columns = RESOLUTIONS[options.resolution]
    return (options.frames - 1) // 4 + 1, rows // VAE_STRIDE[1], columns // VAE_STRIDE[2]


def forward_flops(cfg: WanConfig, tokens: int) -> int:
    """FLOPs of one forward of one sample: 2 per multiply-add of every matrix product."""
    c, text = cfg.width, cfg.text_tokens
    volume = math.prod(cfg.patch)
    attend = 4 * tokens * tokens * c + 4 * tokens * text * c
    weights = 2 * tokens * (4 * c * c + 2 * c * c + 2 * c * cfg.mlp) + 2 * text * 2 * c * c
    if cfg.image_dim is not None:
        attend += 4 * tokens * cfg.image_tokens * c
        weights += 2 * cfg.image_tokens * 2 * c * c
    ends = 2 * tokens * volume * c * (cfg.in_channels + cfg.out_channels)
    conditions = 2 * (cfg.freq_dim * c + 7 * c * c) + 2 * text * (cfg.text_dim * c + c * c)
    if cfg.image_dim is not None:
        conditions += 2 * cfg.image_tokens * cfg.image_dim * (cfg.image_dim + c)
    return cfg.layers * (attend + weights) + ends + conditions


def _leaf_name(path: tuple[Any, ...]) -> str:
    return ".".join(str(getattr(k, "key", k)) for k in path)


@dataclass(frozen=True)
class WanModel:
    """One of the Wan 2.1 models."""

    name: str
    config: WanConfig

    def options(self, raw: dict[str, Any]) -> Options:
        """Checks and completes the options."""
        return parse_options(raw)

    def inputs(self, options: Options) -> list[Tensor]:
        """The arrays a step takes beside the parameters."""
        cfg, batch = self.config, options.batch * (2 if options.cfg else 1)
        # With guidance both halves share the latents: they come once and are doubled inside.
        first = None if options.cfg else "activation_batch"
        found = [
            (
                "latents",
                (options.batch, cfg.in_channels, *latent_size(options)),
                cfg.dtype,
                (first, None, None, None, None),
            ),
            ("timestep", (options.batch,), "float32", (first,)),
            (
                "text",
                (batch, cfg.text_tokens, cfg.text_dim),
                cfg.dtype,
                ("activation_batch", None, None),
            ),
        ]
        if cfg.image_dim is not None:
            shape = (batch, cfg.image_tokens, cfg.image_dim)
            found.append(("image", shape, cfg.dtype, ("activation_batch", None, None)))
        return [Tensor(n, "input", s, d, a) for n, s, d, a in found]

    def output(self, options: Options) -> Tensor:
        """The noise prediction, whole on every chip along the sequence."""
        axes: tuple[str | None, ...] = (None if options.cfg else "activation_batch",)
        shape = (options.batch, self.config.out_channels, *latent_size(options))
        return Tensor("noise", "output", shape, self.config.dtype, axes + (None,) * 4)

    def build(
        self, options: Options, mesh: Mesh | None, rules: Rules, attention: str, flash: bool
    ) -> Step:
        """The step on this mesh; ``mesh=None`` gives the unsharded program."""
        if attention not in STRATEGIES:
            raise UserError(f"unknown attention {attention!r}; known: {', '.join(STRATEGIES)}")
        sharder = Sharder(mesh, rules)
        return self._step(options, sharder, attention, flash)

    def _step(self, options: Options, sharder: Sharder, attention: str, flash: bool) -> Step:
        (length_axes,) = sharder.axes(("activation_length",))
        grid = wan.make_grid(self.config, latent_size(options), sharder.size(length_axes))
        run = wan.Run(self.config, grid, sharder, Kernel(flash), attention)

        def abstract(name: str, shape: tuple[int, ...], dtype: str, axes: Logical) -> Any:
            where = sharder.sharding(name, shape, axes) if sharder.mesh is not None else None
            return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype), sharding=where)

        params = jax.tree_util.tree_map_with_path(
            lambda path, p: abstract(_leaf_name(path), p.shape, p.dtype, p.axes),
            param_specs(self.config),
            is_leaf=is_param,
        )
        inputs = [abstract(t.name, t.shape, t.dtype, t.axes) for t in self.inputs(options)]
        fn = (
            functools.partial(wan.guided_step, run, GUIDANCE)
            if options.cfg
            else functools.partial(wan.forward, run)
        )
        out = self.output(options)
        where = sharder.sharding(out.name, out.shape, out.axes) if sharder.mesh else None
        return Step(fn, (params, *inputs), where)

    def tensors(self, options: Options) -> list[Tensor]:
        """Every parameter, input, output and annotated activation, unsharded."""
        found: list[Tensor] = []
        leaves = jax.tree_util.tree_leaves_with_path(param_specs(self.config), is_leaf=is_param)
        for path, p in leaves:
            assert isinstance(p, Param)
            found.append(Tensor(_leaf_name(path), "parameter", p.shape, p.dtype, p.axes))
        sharder = Sharder()
        step = self._step(options, sharder, "all_gather_kv", flash=True)
        jax.eval_shape(step.fn, *step.args)
        found += [*self.inputs(options), self.output(options)]
        # A layer annotates the same tensor several times; once is enough here.
        found += [Tensor(n, "activation", s, d, a) for n, s, d, a in dict.fromkeys(sharder.seen)]
        return found

    def describe(self, options: Options) -> dict[str, Any]:
        """The description of the protocol, without fingerprint."""
        cfg, grid = self.config, wan.make_grid(self.config, latent_size(options))
        tensors = self.tensors(options)
        forwards = options.batch * (2 if options.cfg else 1)
        return {
            "name": self.name,
            "options": {
                "resolution": options.resolution,
                "frames": options.frames,
                "batch": options.batch,
                "cfg": options.cfg,
            },
            "axes": axis_sizes(tensors),
            "tensors": [t.to_json() for t in tensors],
            "attention": {
                "strategies": list(STRATEGIES),
                "legality": LEGALITY,
                "heads": cfg.heads,
                "kv_heads": cfg.heads,
                "head_dim": cfg.head_dim,
                "sequence": grid.padded,
            },
            "tokens": grid.tokens,
            "padded_tokens": grid.padded,
            "token_block": cfg.token_block,
            "shard_block": cfg.shard_block,
            "forwards_per_step": 2 if options.cfg else 1,
            "flops_per_step": forwards * forward_flops(cfg, grid.tokens),
        }


def axis_sizes(tensors: list[Tensor]) -> dict[str, list[int]]:
    """Logical axis -> the sizes it takes in any tensor, ascending."""
    sizes: dict[str, set[int]] = {}
    for tensor in tensors:
        for axis, size in zip(tensor.axes, tensor.shape, strict=True):
            # A rule for the broader name decides for this one too, so its size counts there.
            name = axis
            while name is not None:
                sizes.setdefault(name, set()).add(size)
                name = FALLBACK.get(name)
    return {axis: sorted(sizes[axis]) for axis in sorted(sizes)}


@dataclass(frozen=True)
class FunctionModel:
    """``package.module:function`` taking (mesh, axis_rules, attention).

    It returns a jitted function and its abstract arguments, sharded as the rules say.
    """

    name: str
    function: Callable[..., Any]

    def options(self, raw: dict[str, Any]) -> dict[str, Any]:
        """Such a model has no options of ours."""
        return {}

    def build(
        self, options: Any, mesh: Mesh | None, rules: Rules, attention: str, flash: bool
    ) -> Step:
        """Calls the function; without a mesh, on a mesh of one CPU device."""
        if mesh is None:
            names = tuple(dict.fromkeys(a for _, axes in rules for a in axes)) or ("data",)
            one = np.array(jax.devices("cpu")[:1]).reshape((1,) * len(names))
            mesh = Mesh(one, names)
        listed = [(logical, tuple(axes)) for logical, axes in rules]
        try:
            made = self.function(mesh, listed, attention)
        except AoizoraError:
            raise
        except Exception as error:  # the user's code may raise anything
            raise UserError(f"{self.name} raised {type(error).__name__}: {error}"[:400]) from error
        if not isinstance(made, tuple) or len(made) != 2 or not hasattr(made[0], "trace"):
            raise UserError(f"{self.name} must return (jitted function, tuple of abstract args)")
        return Step(made[0], tuple(made[1]), jitted=True)

    def describe(self, options: Any) -> dict[str, Any]:
        """Axes come from the function's optional ``describe`` attribute, a dict or callable."""
        extra = getattr(self.function, "describe", {})
        extra = extra() if callable(extra) else dict(extra)
        step = self.build(options, None, (), "all_gather_kv", flash=False)
        tensors = [
            Tensor(name, kind, tuple(x.shape), str(x.dtype), (None,) * len(x.shape))
            for kind, trees in (("parameter", step.args[:1]), ("input", step.args[1:]))
            for path, x in jax.tree_util.tree_leaves_with_path(trees)
            for name in [jax.tree_util.keystr(path, simple=True, separator=".")]
        ]
        basic: dict[str, Any] = {
            "name": self.name,
            "options": {},
            "axes": {},
            "tensors": [t.to_json() for t in tensors],
            "attention": {"strategies": ["all_gather_kv"], "heads": 1, "kv_heads": 1},
            "tokens": 0,
            "padded_tokens": 0,
            "forwards_per_step": 1,
            "flops_per_step": 0,
        }
        basic["attention"] |= {"head_dim": 1, "sequence": 0}
        return basic | extra


def find_model(name: str, dtype: str | None = None) -> Model:
    """The model of this name; unknown names are answered with those that exist."""
    if name in CONFIGS:
        config = CONFIGS[name]
        return WanModel(name, replace(config, dtype=dtype) if dtype else config)
    if ":" in name:
        return FunctionModel(name, _import_function(name))
    raise UserError(
        f"unknown model {name!r}; known: {', '.join(CONFIGS)}, or package.module:function"
    )


def _import_function(name: str) -> Callable[..., Any]:
    module_name, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"can't load model {name!r}: {error}") from error
    if not callable(function):
        raise UserError(f"model {name!r} is not a function")
    return function  # type: ignore[no-any-return]
