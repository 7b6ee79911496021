"""Figures of the report (needs matplotlib: testbed/requirements.txt)."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

if TYPE_CHECKING:
    from study.report import Program

BLUE, ORANGE, GREY = "#1f5f8b", "#c8641b", "#8a8a8a"


def save(figure: Any, folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)
    print(f"{folder / name}.svg")


def scatter(programs: list[Program], stem: str, folder: Path) -> None:
    """Predicted against measured, every placement of every program."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.6))
    for held, colour in ((False, BLUE), (True, ORANGE)):
        mine = [p for p in programs if p.held_out == held]
        x = [v / 1e3 for p in mine for v in p.predicted["event"]]
        y = [v / 1e3 for p in mine for v in p.all]
        axes[0].scatter(x, y, s=8, color=colour, alpha=0.6, label="held out" if held else "others")
        relative = [
            (a / min(p.predicted["event"]), b / min(p.all))
            for p in mine
            for a, b in zip(p.predicted["event"], p.all, strict=True)
        ]
        if relative:
            axes[1].scatter(*zip(*relative, strict=True), s=8, color=colour, alpha=0.6)
    for axis, text in zip(axes, ("ms", "times the best"), strict=True):
        low = min(axis.get_xlim()[0], axis.get_ylim()[0])
        high = max(axis.get_xlim()[1], axis.get_ylim()[1])
        axis.plot([low, high], [low, high], color=GREY, linewidth=0.8)
        axis.set_xlabel(f"predicted, {text}")
        axis.set_ylabel(f"measured, {text}")
    axes[0].legend(frameon=False)
    save(figure, folder, f"{stem}-scatter")


def models(programs: list[Program], stem: str, folder: Path) -> None:
    """Regret and rank correlation of the model and of simpler ones."""
    from study.report import MODELS

    some = [p for p in programs if p.ranks]
    regrets = {MODELS[m]: [100 * p.regret(m) for p in some] for m in MODELS}
    for label, text in (("default", "JAX's default order"), ("random", "random order")):
        found = [100 * r for p in some if (r := p.regret_of(label)) is not None]
        if found:
            regrets[text] = found
    figure, axes = plt.subplots(1, 2, figsize=(11, 4))
    names = list(regrets)[::-1]
    axes[0].barh(names, [statistics.fmean(regrets[n]) for n in names], color=BLUE)
    for i, name in enumerate(names):
        axes[0].plot(regrets[name], [i] * len(regrets[name]), "|", color=ORANGE, markersize=7)
    axes[0].set_xscale("symlog", linthresh=1)
    axes[0].set_xlabel("top-1 regret, % (bar: mean; ticks: programs)")
    names = [MODELS[m] for m in MODELS][::-1]
    taus = {MODELS[m]: [p.tau(m) for p in some] for m in MODELS}
    axes[1].boxplot([taus[n] for n in names], orientation="horizontal", tick_labels=names)
    axes[1].set_xlabel("Kendall tau-b, one value a program")
    save(figure, folder, f"{stem}-models")


def draw(programs: list[Program], stem: str, folder: Path) -> None:
    scatter(programs, stem, folder)
    models(programs, stem, folder)


def figure3(file: Path, folder: Path) -> None:
    rows = json.loads(file.read_text())
    figure, axis = plt.subplots(figsize=(9, 4))
    for i, row in enumerate(rows):
        axis.bar(i - 0.2, row["measured_mbit"], 0.38, color=BLUE, label=None if i else "measured")
        axis.bar(i + 0.2, row["predicted_mbit"], 0.38, color=GREY, label=None if i else "predicted")
    axis.set_xticks(
        range(len(rows)), [r["name"] for r in rows], rotation=40, ha="right", fontsize=8
    )
    axis.set_ylabel("bandwidth of each transfer, Mbit/s")
    axis.legend(frameon=False)
    save(figure, folder, "figure3")
