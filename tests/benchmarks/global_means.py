"""How often the interval of mean |φ| over rows, as `dshap show` prints it, holds the truth: 90 to
97 % are asked for.

Games of seven kinds on 12 players, two of them null, 100 rows each, with Shapley values from all
4,096 coalitions.  The interval is the estimate ± t·std_error with t of 19 degrees of freedom
(nominal 95 %), of the mean, of mean |φ|, of the mean square, and of mean |φ̂| without its bias
taken off, all from the sums that a cube keeps of its blocks.  Players: null, weak (mean |φ| below
three standard errors of a row), strong.

Usage: python -m tests.benchmarks.global_means [--seeds 200] [--designs kernelshap kriging
permutation] [--json OUT]
       [--tiny]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from scipy.stats import t

from dshap import designs
from dshap.core.blocks import EMPTY, FULL, Attribution
from dshap.core.records import BoolArray, FloatArray
from dshap.core.types import Design
from dshap.cube.summary import STATISTICS, block_sums, estimates
from tests.benchmarks.games import estimated, settled

D, N_NULL, N_ROWS = 12, 2, 100
BUDGETS = (128, 512)
WEAK = 3.0
"""Standard errors of a row: a player whose mean |φ| is below is weak."""
ROUNDING = 1e-12
MEASURES = ("mean", "mean_magnitude", "mean_square", "plain")
PLAYERS = ("null", "weak", "strong", "all")


def _sums(rng: np.random.Generator, present: FloatArray, highest: int, n_terms: int) -> FloatArray:
    """Σ_T w_T Π_{j ∈ T} x_j [T ⊆ S] with T of 1 to `highest` players, the first ones most often."""
    a = present.shape[1]
    x, chance = rng.normal(size=(N_ROWS, a)) + 0.5 * (highest > 3), 1.0 / np.arange(1, a + 1)
    values = np.zeros((N_ROWS, len(present)))
    for _ in range(n_terms):
        members = rng.choice(
            a, rng.integers(1, highest + 1), replace=False, p=chance / chance.sum()
        )
        worth = rng.normal() * x[:, members].prod(axis=1)
        values += worth[:, None] * present[:, members].all(axis=1)
    return values


def _weighted(rng: np.random.Generator, a: int, draw: Callable[..., FloatArray]) -> FloatArray:
    """Weights (rows, a), falling with the player."""
    return draw(size=(N_ROWS, a)) / np.arange(1, a + 1)


def _voting(rng: np.random.Generator, present: FloatArray) -> FloatArray:
    weight = _weighted(rng, present.shape[1], rng.exponential)
    return (weight @ present.T > 0.5 * weight.sum(axis=1, keepdims=True)).astype(float)


def _airport(rng: np.random.Generator, present: FloatArray) -> FloatArray:
    weight = _weighted(rng, present.shape[1], rng.exponential)
    return np.array([(own * present).max(axis=1) for own in weight])


def _heavy(rng: np.random.Generator, present: FloatArray) -> FloatArray:
    total = _weighted(rng, present.shape[1], lambda size: rng.standard_t(2, size)) @ present.T
    return total + 0.3 * np.abs(total) * total


def _network(rng: np.random.Generator, present: FloatArray) -> FloatArray:
    a = present.shape[1]
    inner, bias = 2 * rng.normal(size=(a, 20)) / np.arange(1, a + 1)[:, None], rng.normal(size=20)
    outer = rng.normal(size=20)
    return np.array(
        [np.tanh((x * present) @ inner + bias) @ outer for x in rng.normal(size=(N_ROWS, a))]
    )


def _logistic(rng: np.random.Generator, present: FloatArray) -> FloatArray:
    slope = 3 * rng.normal(size=present.shape[1]) / np.arange(1, present.shape[1] + 1)
    return 1 / (
        1 + np.exp(-(rng.normal(size=(N_ROWS, len(slope))) * slope) @ present.T - rng.normal())
    )


KINDS: Mapping[str, Callable[[np.random.Generator, FloatArray], FloatArray]] = {
    "order 3": lambda rng, present: _sums(rng, present, 3, 40),
    "products": lambda rng, present: _sums(rng, present, present.shape[1], 40),
    "voting": _voting,
    "airport": _airport,
    "heavy tails": _heavy,
    "network": _network,
    "logistic": _logistic,
}


def game(kind: str, seed: int, masks: BoolArray) -> FloatArray:
    """Values (rows, m); two players, at random places, are in no rule of the game."""
    rng = np.random.default_rng([seed, sorted(KINDS).index(kind)])
    return KINDS[kind](rng, masks[:, rng.permutation(D)[: D - N_NULL]].astype(float))


def design_of(name: str, n_coalitions: int, seed: int) -> Design:
    """Of so many coalitions; as many orders as give them."""
    if name == "permutation":
        return designs.permutation(D, 2 * (n_coalitions // (2 * (D - 1))), seed=seed)
    made: Design = getattr(designs, name)(D, n_coalitions, seed=seed)
    return made


def attributed(design: Design, values: FloatArray) -> Attribution:
    """Of values (rows, m) of all coalitions of the design, which has chosen from sixteen rows what
    it chooses."""
    phi, replicates = (own[..., None] for own in estimated(design, values))
    ends = values[0, EMPTY, None], values[:, FULL, None]
    return Attribution(phi, *ends, np.ones(len(values), np.int8), replicates)


def held(found: Attribution, truth: FloatArray) -> dict[str, BoolArray]:
    """measure -> (d,): its interval holds the truth (rows, d)."""
    means = dict(
        zip(STATISTICS, block_sums(found)[..., 0].swapaxes(0, 1) / len(truth), strict=True)
    )
    wanted = {
        "mean": truth,
        "mean_magnitude": np.abs(truth),
        "mean_square": np.square(truth),
        "plain": np.abs(truth),
    }
    plain = means["sum_of_magnitudes"]
    own = dict(estimates(means)) | {
        "plain": (plain[0], np.sqrt(np.square(plain[1:] - plain[0]).sum(axis=0)))
    }
    quantile = t.ppf(0.975, len(plain) - 2)
    off = {name: np.abs(own[name][0] - wanted[name].mean(axis=0)) for name in MEASURES}
    return {name: off[name] <= quantile * own[name][1] + ROUNDING for name in MEASURES}


def coverage(
    name: str, kind: str, n_coalitions: int, seeds: int
) -> dict[str, dict[str, tuple[float, int]]]:
    """measure -> players -> (share of intervals that hold the truth, how many there are)."""
    full = designs.exact(D)
    masks, bits = full.masks, 1 << np.arange(D)
    place = np.argsort(masks @ bits)
    kept: dict[str, dict[str, list[bool]]] = {
        measure: {players: [] for players in PLAYERS} for measure in MEASURES
    }
    for seed in range(seeds):
        values = game(kind, seed, masks)
        pilot = values[:: len(values) // 16 or 1]
        design = settled(
            design_of(name, n_coalitions, seed),
            lambda asked, pilot=pilot: pilot[:, place[asked @ bits]],
        )
        ends = values[:, EMPTY, None], values[:, FULL, None]
        truth = full.finish(np.matmul(full.block(0, 1 << D).score.T, values[:, :, None]), *ends)[
            ..., 0
        ]
        found = attributed(
            design, values[:, place[design.block(0, design.n_coalitions).masks @ bits]]
        )
        assert found.std_error is not None
        size, error = (
            np.abs(truth).mean(axis=0),
            np.sqrt(np.square(found.std_error[..., 0]).mean(axis=0)),
        )
        is_null = size < 1e-12
        of = {"null": is_null, "weak": ~is_null & (size < WEAK * error), "all": np.ones(D, bool)}
        of["strong"] = ~of["null"] & ~of["weak"]
        for measure, is_held in held(found, truth).items():
            for players in PLAYERS:
                kept[measure][players] += is_held[of[players]].tolist()
    return {
        measure: {
            players: (float(np.mean(own)) if own else np.nan, len(own))
            for players, own in by.items()
        }
        for measure, by in kept.items()
    }


def main(given: argparse.Namespace) -> None:
    seeds = 1 if given.tiny else given.seeds
    print(
        f"{'design':<13}{'m':>4}  {'game':<12}" + "".join(f"{measure:>31}" for measure in MEASURES)
    )
    print(" " * 31 + f"{'null weak strong all':>31}" * len(MEASURES))
    found = {}
    for name in given.designs:
        for n_coalitions in BUDGETS:
            for kind in KINDS:
                own = coverage(name, kind, n_coalitions, seeds)
                found[f"{name} {n_coalitions} {kind}"] = own
                cells = "".join(
                    f"{' '.join(f'{own[measure][players][0]:6.1%}' for players in PLAYERS):>31}"
                    for measure in MEASURES
                )
                print(f"{name:<13}{n_coalitions:>4}  {kind:<12}{cells}", flush=True)
            each = [own for key, own in found.items() if key.startswith(f"{name} {n_coalitions} ")]
            cells = "".join(
                f"{' '.join(f'{_pooled([own[measure][players] for own in each]):6.1%}' for players in PLAYERS):>31}"
                for measure in MEASURES
            )
            print(f"{name:<13}{n_coalitions:>4}  {'all kinds':<12}{cells}", flush=True)
    if given.json:
        Path(given.json).write_text(json.dumps(found, indent=1))


def _pooled(shares: list[tuple[float, int]]) -> float:
    """The share of all, of shares and their numbers."""
    total = sum(number for _, number in shares)
    return sum(share * number for share, number in shares if number) / total if total else np.nan


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--designs", nargs="+", default=["kernelshap", "kriging", "permutation"])
    parser.add_argument("--json")
    parser.add_argument("--tiny", action="store_true", help="seconds instead of half an hour")
    main(parser.parse_args())
