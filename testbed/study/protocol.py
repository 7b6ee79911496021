"""The measuring protocol, whatever runs: traffic on the testbed, JAX on it, or a real slice.

Decided before anything is measured: which placements, how many repeats, what counts as the answer.

1. Warm-up: the first placement, twice, thrown away.
2. Stage 1: `rounds` rounds over all placements, each round in an order of its own, so that drift of
   the machine hits all alike.
3. Stage 2: the measured fastest, the predicted fastest and the default once more, `finals` rounds,
   interleaved. Regret is taken from these fresh repeats alone: the least of many noisy medians is too
   low, and who was lucky in stage 1 is not lucky again.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass
class Measurement:
    """Times in µs, by placement."""

    stage1: list[list[float]]
    stage2: dict[int, list[float]] = field(default_factory=dict)
    seconds: float = 0.0
    details: list[dict[str, float]] = field(default_factory=list)

    def median(self, i: int) -> float:
        return statistics.median(self.stage1[i] + self.stage2.get(i, []))

    def medians(self) -> list[float]:
        return [self.median(i) for i in range(len(self.stage1))]


def measure(
    run: Callable[[int], dict[str, float]],
    predicted: Sequence[float],
    default: int | None,
    rounds: int = 3,
    finals: int = 5,
    finalists: int = 4,
    seed: int = 0,
) -> Measurement:
    """`run(i)` does placement i once and returns at least `micros`."""
    rng = random.Random(seed)
    count = len(predicted)
    result = Measurement([[] for _ in range(count)])
    began = time.monotonic()
    for _ in range(2):
        run(0)
    for _ in range(rounds):
        order = list(range(count))
        rng.shuffle(order)
        for i in order:
            detail = run(i)
            result.stage1[i].append(detail["micros"])
            result.details.append({"placement": i, **detail})
    measured = [statistics.median(times) for times in result.stage1]
    chosen = {*sorted(range(count), key=lambda i: measured[i])[:finalists]}
    chosen |= {*sorted(range(count), key=lambda i: predicted[i])[:3]}
    if default is not None:
        chosen.add(default)
    for _ in range(finals):
        order = sorted(chosen)
        rng.shuffle(order)
        for i in order:
            detail = run(i)
            result.stage2.setdefault(i, []).append(detail["micros"])
            result.details.append({"placement": i, **detail})
    result.seconds = time.monotonic() - began
    return result
