"""What a ranking is worth against measurements. Only numbers go in: `aoizora validate` can use it too."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence


def tau_b(x: Sequence[float], y: Sequence[float], tie: float = 0.0) -> float:
    """Kendall's tau-b of predictions `x` and measurements `y`.

    Two measurements that differ by less than the part `tie` of the smaller (the noise floor) are tied; two
    predictions only when equal up to rounding. 1: the same order; 0: none; nan: all of one are tied.
    """
    concordant = discordant = tied_x = tied_y = 0
    for i in range(len(x)):
        for j in range(i):
            same_x = math.isclose(x[i], x[j], rel_tol=1e-9)
            same_y = abs(y[i] - y[j]) <= tie * min(y[i], y[j])
            if same_x and same_y:
                continue
            if same_x:
                tied_x += 1
            elif same_y:
                tied_y += 1
            elif (x[i] > x[j]) == (y[i] > y[j]):
                concordant += 1
            else:
                discordant += 1
    pairs = concordant + discordant
    if pairs + tied_x == 0 or pairs + tied_y == 0:
        return math.nan
    return (concordant - discordant) / math.sqrt((pairs + tied_x) * (pairs + tied_y))


def ordered_pairs(x: Sequence[float], y: Sequence[float], tie: float) -> tuple[int, int]:
    """Of the pairs whose measurements differ by more than the part `tie`: how many `x` orders
    rightly, and how many there are. A tie in `x` counts half."""
    right = pairs = 0.0
    for i in range(len(x)):
        for j in range(i):
            if abs(y[i] - y[j]) <= tie * min(y[i], y[j]):
                continue
            pairs += 1
            if math.isclose(x[i], x[j], rel_tol=1e-9):
                right += 0.5
            elif (x[i] > x[j]) == (y[i] > y[j]):
                right += 1
    return int(right), int(pairs)


def regret(scores: Sequence[float], measured: Sequence[float], k: int = 1) -> float:
    """Fastest of the `k` best-scored, over the fastest of all, less 1. Equal scores: for k = 1
    their mean, what chance would give; else the first ones."""
    best = min(measured)
    order = sorted(range(len(scores)), key=lambda i: scores[i])
    if k == 1:
        least = scores[order[0]]
        tied = [i for i in order if math.isclose(scores[i], least, rel_tol=1e-9)]
        return statistics.fmean(measured[i] for i in tied) / best - 1
    return min(measured[i] for i in order[:k]) / best - 1


def noise_floor(repeats: Sequence[Sequence[float]]) -> float:
    """How far the medians of two sets of repeats of one thing lie apart: the median over placements of
    1.4826 * MAD / median, over the square root of the repeats, times sqrt(2). A part of the time."""
    parts = []
    for times in repeats:
        if len(times) < 2:
            continue
        middle = statistics.median(times)
        spread = 1.4826 * statistics.median(abs(t - middle) for t in times)
        # MAD of n = 3 is too small by about 1.6 (and of 2 by 1.2..): use the range's estimate there.
        if len(times) <= 4:
            spread = (max(times) - min(times)) / {2: 1.128, 3: 1.693, 4: 2.059}[len(times)]
        parts.append(1.2533 * spread / middle / math.sqrt(len(times)) * math.sqrt(2))
    return statistics.median(parts) if parts else math.nan


def percentile(values: Sequence[float], p: float) -> float:
    """By linear interpolation, p in 0..100."""
    ordered = sorted(values)
    at = (len(ordered) - 1) * p / 100
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def bootstrap(values: Sequence[float], draws: int = 2000, seed: int = 1) -> tuple[float, float]:
    """95 % interval of the mean over resampled programs."""
    rng = random.Random(seed)
    means = sorted(statistics.fmean(rng.choices(values, k=len(values))) for _ in range(draws))
    return means[int(0.025 * draws)], means[int(0.975 * draws)]
