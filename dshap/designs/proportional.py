"""Sampling in proportion to the Shapley kernel, with replacement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dshap.designs.coalitions import SPAN_BYTES, first_distinct, stream
from dshap.designs.strata import DRAWS, Sample, Stratum, random_units
from dshap.types import BoolArray, FloatArray

__all__ = ["draw_by_kernel"]


def draw_by_kernel(strata: Sequence[Stratum], budgets: Sequence[int], seed: int) -> Sample:
    """In proportion to the Shapley kernel, with replacement, until there are as many distinct units as the budget.

    Outer strata are enumerated while the expected draws cover all their units (the rule of shap's KernelExplainer).
    Draws are already in proportion to the kernel, so a unit drawn n times of D weighs n/D of the kernel mass of the
    strata drawn from, and never its kernel weight again; enumerated units weigh what the kernel gives them.

    Parameters
    ----------
    strata : sequence of Stratum, outer sizes first
    budgets : sequence of int
        Distinct units in all after each stage.  Earlier draws from strata that a later stage enumerates are dropped
        from the counts; the others remain draws from the strata that are left.
    seed : int

    References
    ----------
    S. M. Lundberg and S.-I. Lee, "A unified approach to interpreting model predictions", NeurIPS 2017;
    I. Covert and S.-I. Lee, "Improving KernelSHAP", AISTATS 2021 (paired draws).
    """
    stratum_of = {stratum.size: h for h, stratum in enumerate(strata)}
    lookup = np.array([stratum_of.get(size, -1) for size in range(strata[0].n_players)])  # by size of a unit
    units, draws = np.zeros((0, strata[0].n_players), dtype=bool), np.zeros(0, dtype=np.int64)
    drawn = []
    for stage, budget in enumerate(budgets):
        listed = np.bincount(lookup[units.sum(axis=1)], minlength=len(strata))
        n_enumerated = _n_enumerated(strata, listed.tolist(), budget)
        units = np.concatenate([units, *(stratum.enumerate() for stratum in strata[:n_enumerated])])
        units = units[first_distinct(units)[0]]
        draws = np.pad(draws, (0, len(units) - len(draws)))
        before = draws
        units, draws = _draw_until(budget, strata[n_enumerated:], units, draws, stream(seed, DRAWS, stage))
        drawn.append(draws - np.pad(before, (0, len(draws) - len(before))))
    stratum = lookup[units.sum(axis=1)]
    is_listed = stratum < n_enumerated
    mass = _mass(strata, n_enumerated, stratum, draws)
    by_stage = np.stack([np.pad(own, (0, len(units) - len(own))) for own in drawn])
    return Sample(units, mass, is_listed.astype(float), by_stage)


def _mass(
    strata: Sequence[Stratum], n_enumerated: int, stratum: NDArray[np.int64], draws: NDArray[np.int64]
) -> FloatArray:
    """Kernel weight of each unit (units,) where enumerated, else its share of the draws times the mass drawn from."""
    per_unit = np.array([s.mass / s.n_units if h < n_enumerated else 0.0 for h, s in enumerate(strata)])
    draws = np.where(stratum < n_enumerated, 0, draws)
    per_draw = sum(s.mass for s in strata[n_enumerated:]) / max(1, int(draws.sum()))
    mass: FloatArray = per_unit[stratum] + draws * per_draw
    return mass


def _n_enumerated(strata: Sequence[Stratum], listed: Sequence[int], budget: int) -> int:
    """Outer strata whose expected draws cover their units; short of everything, at least one unit is left to draw."""
    if budget == sum(stratum.n_units for stratum in strata):
        return len(strata)
    draws, mass, room = float(budget), sum(stratum.mass for stratum in strata), budget - sum(listed)
    for h, (stratum, count) in enumerate(zip(strata, listed, strict=True)):
        missing = stratum.n_units - count
        # the slack is for rounding: shap's is 1e-8
        if draws * stratum.mass / mass * (1 + 1e-9) < stratum.n_units or missing >= room:
            return h
        draws, mass, room = draws - stratum.n_units, mass - stratum.mass, room - missing
    return len(strata)


def _draw_until(
    budget: int, strata: Sequence[Stratum], units: BoolArray, draws: NDArray[np.int64], rng: np.random.Generator
) -> tuple[BoolArray, NDArray[np.int64]]:
    """Units and how often each was drawn, once there are as many distinct ones as the budget."""
    edges = np.cumsum([stratum.mass for stratum in strata])
    batch = max(64, min(budget, SPAN_BYTES // (8 * units.shape[1])))
    while len(units) < budget:
        chosen = np.searchsorted(edges[:-1], rng.random(batch) * edges[-1], side="right")
        candidates = np.concatenate([units, random_units(rng, strata, chosen)])
        first, which = first_distinct(candidates)
        end = first[budget - 1] + 1 if len(first) >= budget else len(candidates)  # stop at the draw that fills it
        first = first[:budget]
        draws = np.pad(draws, (0, len(first) - len(units))) + np.bincount(which[len(units) : end], minlength=len(first))
        units = candidates[first]
    return units, draws
