"""Leverage sampling: every size equally likely, without replacement."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np

from dshap.designs.coalitions import stream
from dshap.designs.strata import ROUNDING, Sample, Stratum

__all__ = ["counts_by_leverage", "draw_by_leverage"]


def draw_by_leverage(
    strata: Sequence[Stratum], budgets: Sequence[int], seed: int, shells: Sequence[int] | None = None
) -> Sample:
    """Every size equally likely, without replacement: c coalitions of each size, or all where there are no more.

    Parameters
    ----------
    strata : sequence of Stratum
    budgets : sequence of int
        Units in all after each stage; the list of a stage begins with the list of the stage before.
    seed : int
    shells : sequence of int
        Outer strata that each stage takes whole, as long as all their units fit, before the rest of the budget goes to
        the others; nothing may be left for them, so the weights are those of a sample only where something is.

    Notes
    -----
    A unit of stratum h is included with probability e_h/n_h, where Σ e_h is the budget and e_h = min(c·sizes/group,
    n_h), raised to what an earlier stage already drew; its weight is the kernel's divided by that.  Counts are e_h
    rounded down or up at random with the exact total, and their mean is e_h.

    References
    ----------
    C. Musco and R. T. Witter, "Provably accurate Shapley value estimation via leverage score sampling", ICLR 2025,
    arXiv:2410.01917.
    """
    counts, expected = _counts(strata, budgets, seed, shells)
    stages = np.array(counts, dtype=np.int64)  # (stages + 1, strata)
    sequences = [stratum.sequence(stages[1:, h].tolist(), seed) for h, stratum in enumerate(strata)]
    mass = [stratum.mass / float(e) if e else 0.0 for stratum, e in zip(strata, expected, strict=True)]
    parts = [(h, slice(*ends)) for row in pairwise(stages) for h, ends in enumerate(zip(*row, strict=True))]
    drawn = [count / stratum.n_units for stratum, count in zip(strata, counts[-1], strict=True)]
    lengths = [part.stop - part.start for _, part in parts]
    stage_of = np.repeat(np.arange(len(parts)) // len(strata), lengths)
    return Sample(
        np.concatenate([sequences[h][part] for h, part in parts]),
        mass=np.repeat([mass[h] for h, _ in parts], lengths),
        fraction=np.repeat([drawn[h] for h, _ in parts], lengths),
        draws=(stage_of == np.arange(len(budgets))[:, None]).astype(np.int64),
    )


def counts_by_leverage(
    strata: Sequence[Stratum], budgets: Sequence[int], seed: int, shells: Sequence[int] | None = None
) -> list[tuple[int, ...]]:
    """Units of each stratum that `draw_by_leverage` has after each stage."""
    return [tuple(row) for row in _counts(strata, budgets, seed, shells)[0][1:]]


def _counts(
    strata: Sequence[Stratum], budgets: Sequence[int], seed: int, shells: Sequence[int] | None
) -> tuple[list[list[int]], list[Fraction]]:
    """Units of each stratum before the first and after each stage, and what those of the last are in the mean."""
    counts, expected = [[0] * len(strata)], [Fraction(0)] * len(strata)
    for stage, budget in enumerate(budgets):
        least = _with_whole_shells(strata, counts[-1], budget, shells[stage] if shells else 0)
        expected = _expected_counts(strata, least, budget)
        added = _round_at_random([e - c for e, c in zip(expected, counts[-1], strict=True)], seed, stage)
        counts.append([c + a for c, a in zip(counts[-1], added, strict=True)])
    return counts, expected


def _with_whole_shells(strata: Sequence[Stratum], drawn: Sequence[int], budget: int, shells: int) -> list[int]:
    """Units of each stratum that are drawn, all of the first `shells` that fit."""
    least, left = list(drawn), budget - sum(drawn)
    for h, stratum in enumerate(strata[:shells]):
        left -= stratum.n_units - drawn[h]
        if left < 0:
            break
        least[h] = stratum.n_units
    return least


def _expected_counts(strata: Sequence[Stratum], drawn: Sequence[int], budget: int) -> list[Fraction]:
    """e_h = n_sizes·t, at least what is drawn and at most what there is, with t such that the sum is the budget."""
    limits = [(stratum.n_sizes, low, stratum.n_units) for stratum, low in zip(strata, drawn, strict=True)]

    def counts(t: Fraction) -> list[Fraction]:
        return [min(max(rate * t, Fraction(low)), Fraction(high)) for rate, low, high in limits]

    def total(t: Fraction) -> Fraction:
        return sum(counts(t), Fraction(0))

    bends = sorted(Fraction(bound, rate) for rate, *bounds in limits for bound in bounds)
    left = bends[bisect_right(bends, Fraction(budget), key=total) - 1]
    missing = budget - total(left)
    slope = sum(rate for rate, low, high in limits if low <= rate * left < high)
    return counts(left + missing / slope) if missing else counts(left)


def _round_at_random(amounts: Sequence[Fraction], seed: int, stage: int) -> list[int]:
    """Amounts of integer sum rounded down or up: systematic sampling, so means and the total are exact."""
    denominator = math.lcm(*(amount.denominator for amount in amounts))
    offset = Fraction(int(stream(seed, ROUNDING, stage).random() * denominator), denominator)
    edges = [math.floor(edge + offset) for edge in accumulate(amounts, initial=Fraction(0))]
    return [stop - start for start, stop in pairwise(edges)]
