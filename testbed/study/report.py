"""Tables and figures from the raw results; measures nothing.

    python -m study.report [--json] [--figures FOLDER] [FILE...]

FILE: results/traffic.jsonl, results/gloo.jsonl, results/exhaustive.jsonl (default: all that exist).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path
from typing import Any

from study.harness import FOLDER
from study.statistics import bootstrap, noise_floor, ordered_pairs, percentile, tau_b

MODELS = {
    "event": "AoiZora (event replay)",
    "lock_step": "AoiZora, lock-step",
    "collective": "no contention between collectives",
    "axis": "per-axis alpha-beta",
    "no_contention": "no contention at all",
    "hop_bytes": "hop-bytes",
}


class Program:
    """One program's measurements, with the statistics that are taken from them."""

    def __init__(self, record: dict[str, Any]):
        self.record = record
        self.name: str = record["program"]
        self.held_out: bool = record["held_out"]
        self.why: list[str] = record["why"]
        self.stage1: list[list[float]] = record["stage1"]
        self.stage2 = {int(i): times for i, times in record["stage2"].items()}
        self.predicted: dict[str, list[float]] = record["predicted"]
        self.all = [
            statistics.median(t + self.stage2.get(i, [])) for i, t in enumerate(self.stage1)
        ]
        # Fresh repeats where there are any (see protocol.py).
        self.final = [
            statistics.median(self.stage2.get(i, times)) for i, times in enumerate(self.stage1)
        ]
        self.best = min(statistics.median(times) for times in self.stage2.values())
        self.noise = noise_floor(self.stage1)
        self.spread = max(self.all) / min(self.all) - 1

    @property
    def ranks(self) -> bool:
        """False: the model knows one class of placements only; nothing to choose."""
        return len(self.all) > 1

    def regret(self, model: str, k: int = 1) -> float:
        """Of the fastest of the k that the model puts first, over the best; ties: their mean (k = 1)."""
        scores = self.predicted[model]
        order = sorted(range(len(scores)), key=lambda i: scores[i])
        if k == 1:
            tied = [i for i in order if math.isclose(scores[i], scores[order[0]], rel_tol=1e-9)]
            return statistics.fmean(self.final[i] for i in tied) / self.best - 1
        return min(self.final[i] for i in order[:k]) / self.best - 1

    def regret_of(self, label: str) -> float | None:
        """Mean over the placements with this label (`default`, `random`)."""
        times = [self.final[i] for i, why in enumerate(self.why) if label in why]
        return statistics.fmean(times) / self.best - 1 if times else None

    def tau(self, model: str = "event") -> float:
        return tau_b(self.predicted[model], self.all, self.noise)

    def errors(self) -> list[float]:
        return [p / m - 1 for p, m in zip(self.predicted["event"], self.all, strict=True)]

    def wrong_pairs(self) -> list[tuple[float, float]]:
        """(difference measured, difference predicted) of the pairs beyond noise in the wrong order."""
        found = []
        x, y = self.predicted["event"], self.all
        for i in range(len(x)):
            for j in range(len(x)):
                apart = y[i] / y[j] - 1
                if apart > self.noise and x[i] < x[j] * (1 - 1e-9):
                    found.append((apart, x[j] / x[i] - 1))
        return found

    def row(self) -> dict[str, Any]:
        right, pairs = ordered_pairs(self.predicted["event"], self.all, self.noise)
        errors = self.errors()
        return {
            "program": self.name,
            "held_out": self.held_out,
            "placements": len(self.all),
            "noise": self.noise,
            "spread": self.spread,
            "regret1": self.regret("event"),
            "regret3": self.regret("event", 3),
            "default": self.regret_of("default"),
            "random": self.regret_of("random"),
            "tau": self.tau(),
            "pairs_right": right,
            "pairs": pairs,
            "error_median": statistics.median(errors),
            "error_max": max(map(abs, errors)),
        }


def load(file: Path) -> list[Program]:
    return [Program(json.loads(line)) for line in file.read_text().splitlines()]


def summary(programs: list[Program]) -> dict[str, Any]:
    """Over programs that have something to rank."""
    some = [p for p in programs if p.ranks]
    taus = [p.tau() for p in some]
    errors = [abs(e) for p in some for e in p.errors()]
    right = [ordered_pairs(p.predicted["event"], p.all, p.noise) for p in some]
    regrets = [p.regret("event") for p in some]
    models: dict[str, dict[str, float]] = {}
    for model, text in MODELS.items():
        models[text] = row_of([p.regret(model) for p in some])
        models[text]["regret3_mean"] = statistics.fmean(p.regret(model, 3) for p in some)
        models[text]["tau_mean"] = statistics.fmean(p.tau(model) for p in some)
    for label, text in (("default", "JAX's default order"), ("random", "random order")):
        found = [r for p in some if (r := p.regret_of(label)) is not None]
        if found:
            models[text] = row_of(found)
    return {
        "programs": len(programs),
        "with_a_choice": len(some),
        "runs": sum(len(t) for p in programs for t in [*p.stage1, *p.stage2.values()]),
        "spread_10_times_noise": sum(p.spread >= 10 * p.noise for p in programs),
        "noise_median": statistics.median(p.noise for p in programs),
        "regret1": row_of(regrets),
        "regret1_mean_95": bootstrap(regrets),
        "regret3": row_of([p.regret("event", 3) for p in some]),
        "tau_mean": statistics.fmean(taus),
        "tau_mean_95": bootstrap(taus),
        "tau_min": min(taus),
        "tau_below_0.9": sorted(p.name for p in some if p.tau() < 0.9),
        "pairs_right": sum(r for r, _ in right) / max(1, sum(n for _, n in right)),
        "error": row_of(errors),
        "models": models,
    }


def row_of(values: list[float]) -> dict[str, float]:
    return {
        "mean": statistics.fmean(values),
        "p95": percentile(values, 95),
        "max": max(values),
    }


def pairs_apart(programs: list[Program], apart: float) -> tuple[int, int]:
    """Pairs of placements of a program that differ by more than a part: in the right order, and all."""
    found = [ordered_pairs(p.predicted["event"], p.all, max(apart, p.noise)) for p in programs]
    return sum(r for r, _ in found), sum(n for _, n in found)


def percent(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f}"


def print_table(programs: list[Program]) -> None:
    print(
        f"{'program':<46} {'held':<4} {'n':>3} {'noise':>6} {'spread':>7} {'top-1':>6} {'top-3':>6}"
        f" {'default':>7} {'random':>7} {'tau-b':>6} {'error':>6} {'max':>5}"
    )
    for p in programs:
        row = p.row()
        print(
            f"{row['program']:<46} {'held' if row['held_out'] else '':<4} {row['placements']:>3} "
            f"{percent(row['noise']):>6} {percent(row['spread'], 1):>7} {percent(row['regret1']):>6} "
            f"{percent(row['regret3']):>6} {percent(row['default'], 1):>7} "
            f"{percent(row['random'], 1):>7} {row['tau']:>6.3f} {percent(row['error_median'], 1):>6} "
            f"{percent(row['error_max'], 1):>5}"
        )


def print_summary(title: str, programs: list[Program]) -> None:
    if not any(p.ranks for p in programs):
        return
    s = summary(programs)
    low, high = s["tau_mean_95"]
    print(
        f"\n{title}: {s['programs']} programs, {s['with_a_choice']} with more than one class of placements, "
        f"{s['runs']} runs; noise floor {percent(s['noise_median'])} % (median); "
        f"spread >= 10 x noise in {s['spread_10_times_noise']}"
    )
    for key, text in (
        ("regret1", "top-1 regret"),
        ("regret3", "top-3 regret"),
        ("error", "|error|"),
    ):
        r = s[key]
        print(
            f"  {text:<14} mean {percent(r['mean'])} %  p95 {percent(r['p95'])} %  max {percent(r['max'])} %"
        )
    print(
        f"  tau-b          mean {s['tau_mean']:.3f} (95 %: {low:.3f} to {high:.3f})  min {s['tau_min']:.3f}; "
        f"pairs beyond noise in the right order: {percent(s['pairs_right'], 1)} %"
    )
    shares = []
    for apart in (0.01, 0.02, 0.05):
        right, pairs = pairs_apart(programs, apart)
        shares.append(f"{percent(right / max(1, pairs), 1)} % of those {percent(apart, 0)} % apart")
    print(f"                 in the right order: {', '.join(shares)}")
    print(f"  {'chosen by':<34} {'top-1 mean':>10} {'p95':>7} {'max':>7} {'top-3':>7} {'tau-b':>6}")
    for name, m in s["models"].items():
        print(
            f"  {name:<34} {percent(m['mean']):>10} {percent(m['p95']):>7} {percent(m['max']):>7} "
            f"{percent(m.get('regret3_mean')):>7} "
            f"{m.get('tau_mean', math.nan):>6.2f}"
        )


def print_misses(programs: list[Program]) -> None:
    """Of programs below the goal: which pairs are in the wrong order, and how far apart they are."""
    for p in programs:
        if not p.ranks or p.tau() >= 0.9:
            continue
        wrong = sorted(p.wrong_pairs())
        measured = [m for m, _ in wrong] or [0.0]
        predicted = [x for _, x in wrong] or [0.0]
        near = sum(x < 0.005 for x in predicted)
        print(
            f"  tau-b {p.tau():.3f} {p.name}: {len(wrong)} pairs wrong, {near} of them predicted within "
            f"0.5 % of each other; measured apart {percent(statistics.median(measured), 1)} % (median), "
            f"{percent(max(measured), 1)} % (largest); predicted {percent(max(predicted), 1)} % (largest)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--figures", type=Path, help="draw figures into this folder")
    args = parser.parse_args()
    known = [FOLDER / "results" / f"{n}.jsonl" for n in ("traffic", "gloo", "exhaustive")]
    files = args.files or [f for f in known if f.exists()]
    if args.json:
        print(
            json.dumps(
                {
                    f.stem: {"summary": summary(ps), "programs": [p.row() for p in ps]}
                    for f in files
                    for ps in [load(f)]
                },
                indent=1,
            )
        )
        return
    for file in files:
        programs = load(file)
        print(f"\n=== {file.name} (all figures in %)")
        print_table(programs)
        print_summary("all", programs)
        if len(programs) > 1:
            print_summary("held out", [p for p in programs if p.held_out])
            print_summary("the others", [p for p in programs if not p.held_out])
        print("\nbelow tau-b 0.9:")
        print_misses(programs)
        if args.figures:
            from study.figures import draw

            draw(programs, file.stem, args.figures)


if __name__ == "__main__":
    main()
