"""The default `explain` at every width: error, coverage and seconds, kernelshap and permutation
beside it in one run.

Nine kinds of games with known Shapley values (`tests.benchmarks.games`) of 1 to 1,000 players, as
models: row r holds r + 1 in every column, the one background row 0, and predict looks up which game
and which players it is asked for.  `dshap.explain(Marginal(predict, background), rows)` is all that
is called, at the default budget and on both sides of every border of enumeration.  An error is the
root mean square over rows, players and seeds, over that of φ; a ratio is that of the default to the
better of kernelshap and permutation at as many coalitions; "covered" is the share of intervals φ ±
2.09 std_error that hold the truth, "largest" that of the five players of a row with the largest
|φ|, "means" that of the means over rows, from the cube's block summaries.

Usage: python -m tests.benchmarks.widths [--players 8 18 ...] [--kinds votes ...] [--borders]
[--seeds 5] [--tol 0.05]
       [--json OUT] [--tiny]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from scipy.stats import t

import dshap
from dshap import designs
from dshap.attributors.rounds import at_once
from dshap.core.errors import InputError
from dshap.core.records import BoolArray, FloatArray
from dshap.core.types import Design
from dshap.cube import feature_ranking
from dshap.designs.jackknife import N_REPLICATES
from dshap.values import Marginal
from tests.benchmarks.games import KINDS, Games, estimated, games_of
from tests.benchmarks.peers import write_json

PLAYERS = (
    1,
    2,
    3,
    5,
    8,
    11,
    12,
    13,
    14,
    18,
    20,
    30,
    38,
    44,
    45,
    60,
    64,
    80,
    100,
    150,
    256,
    257,
    500,
    1_000,
)
ROWS = 6
T_QUANTILE = float(t.ppf(0.975, 19))
N_LARGEST = 5
ROUNDING = 1e-8
"""Of the attributions: an error that is none; games of pairs are solved to 1e-9 with 2,048
coalitions."""
HEADER = (
    f"{'d':>5}{'budget':>9}  "
    f"{'games':<24}{'design':<11}{'default':>10}{'kernelshap':>11}{'permutation':>12}"
    f"{'ratio':>7}{'covered':>9}{'largest':>9}{'means':>8}{'seconds':>9}"
)


@dataclass
class Cell:
    """One width, budget and kind of game, over seeds."""

    n_players: int
    budget: int | None
    """None: the default."""
    kind: str
    design: str = ""
    errors: dict[str, list[float]] = field(
        default_factory=lambda: {"default": [], "kernelshap": [], "permutation": []}
    )
    """design -> mean square error over that of φ, one a seed."""
    covered: list[float] = field(default_factory=list)
    of_largest: list[float] = field(default_factory=list)
    of_means: list[float] = field(default_factory=list)
    beyond: list[float] = field(default_factory=list)
    """With a tolerance: whether the worst player of a row whose rounds ended by it is off by more
    than 2.09 of it."""
    seconds: list[float] = field(default_factory=list)

    def rms(self, name: str) -> float:
        return float(np.sqrt(np.mean(self.errors[name]))) if self.errors[name] else math.nan

    @property
    def ratio(self) -> float:
        """To the better of the two others; 0 where there is no error at all."""
        others = [
            own for own in (self.rms("kernelshap"), self.rms("permutation")) if not math.isnan(own)
        ]
        mine = self.rms("default")
        return 0.0 if mine < ROUNDING else mine / max(min(others, default=math.nan), ROUNDING)

    def __str__(self) -> str:
        return (
            f"{self.n_players:>5}{self.budget or 'default':>9}  {self.kind:<24}{self.design:<11}"
            f"{self.rms('default'):>10.5f}{self.rms('kernelshap'):>11.5f}{self.rms('permutation'):>12.5f}"
            f"{self.ratio:>7.2f}{_share(self.covered):>9}{_share(self.of_largest):>9}{_share(self.of_means):>8}{np.mean(self.seconds):>9.2f}"
            + (f"{_share(self.beyond):>9} of {len(self.beyond):>3}" if self.beyond else "")
        )


def _share(values: list[float]) -> str:
    return f"{np.nanmean(values):.1%}" if values and not np.isnan(values).all() else "-"


def budgets_of(d: int, with_borders: bool) -> Iterator[int | None]:
    """The default one, and where the first sizes are all there: with two coalitions less, as many,
    two more."""
    yield None
    whole = 2
    for s in range(1, d // 2 + 1) if with_borders else ():
        whole += math.comb(d, s) * (1 if 2 * s == d else 2)
        if whole > designs.MAX_KRIGED or whole + 2 >= 2**d:
            return
        yield from (whole - 2, whole, whole + 2)


@dataclass(frozen=True)
class Explained:
    """What one explain gave."""

    phi: FloatArray
    """(n, d)"""
    std_error: FloatArray
    mean: FloatArray
    """(d,): over the rows, from the summaries of the cube's blocks."""
    mean_error: FloatArray
    reached: FloatArray
    """(n,): largest standard error of a row over its range; NaN without rounds."""
    design: str
    seconds: float


def model_of(games: Games, d: int) -> tuple[Marginal, FloatArray]:
    """The games as a value function and its rows."""
    rows = np.repeat(np.arange(1.0, ROWS + 1)[:, None], d, axis=1)

    def predict(x: FloatArray) -> FloatArray:
        row, out = x.max(axis=1).astype(int), np.zeros(len(x))
        for r in np.unique(row[row > 0]):
            out[row == r] = games.values(x[row == r] > 0)[r - 1]
        return out

    return Marginal(predict, np.zeros((1, d))), rows


def explained(
    value: Marginal, rows: FloatArray, budget: int | None, tol: float | None
) -> Explained:
    """The default explain."""
    start, (n, d) = time.perf_counter(), rows.shape
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "cube.zarr"
        cube = dshap.explain(
            value, rows, store=store, max_coalitions=budget, tol=tol, progress=False
        ).load()
        seconds, ranking = time.perf_counter() - start, feature_ranking(store)
    is_exact = "std_error" not in cube
    return Explained(
        cube["attribution"].values[..., 0],
        np.zeros((n, d)) if is_exact else cube["std_error"].values[..., 0],
        ranking["mean"].values[:, 0],
        np.zeros(d) if is_exact else ranking["mean_std_error"].values[:, 0],
        np.full(n, np.nan) if tol is None or is_exact else cube["relative_error"].values[:, 0],
        json.loads(cube.attrs["dshap_run"])["fingerprint"]["design"]["design"],
        seconds,
    )


def others(d: int, m: int, seed: int) -> Iterator[tuple[str, Design]]:
    """kernelshap and permutation of as many coalitions, where they have designs of so few."""
    with contextlib.suppress(InputError):
        yield "kernelshap", designs.kernelshap(d, m, seed=seed, n_replicates=0)
    if d > 1 and m >= 2 * d:
        yield (
            "permutation",
            designs.permutation(d, 2 * max(1, (m - 2) // (2 * (d - 1))), seed=seed, n_replicates=0),
        )


def add(cell: Cell, seed: int, tol: float | None) -> None:
    """One more seed of games."""
    games = games_of(cell.kind, cell.n_players, ROWS, seed)
    found = explained(*model_of(games, cell.n_players), cell.budget, tol)
    compare(cell, found, games.shapley, games.values, seed, tol)


def compare(
    cell: Cell,
    found: Explained,
    truth: FloatArray,
    values: Callable[[BoolArray], FloatArray],
    seed: int,
    tol: float | None = None,
) -> None:
    """With φ (n, d), and with the two others on the values (n, m) of coalitions (m, d)."""
    d = cell.n_players
    size = max(float(np.square(truth).sum()), 1e-300)
    cell.design = found.design
    cell.seconds.append(found.seconds)
    cell.errors["default"].append(float(np.square(found.phi - truth).sum()) / size)
    for name, design in others(d, cell.budget or min(max(2_048, 4 * d), 2 ** min(d, 62)), seed):
        cell.errors[name].append(
            float(np.square(estimated(design, values(design.masks))[0] - truth).sum()) / size
        )
    rounding, largest = (
        ROUNDING * np.abs(truth).max(),
        np.argsort(-np.abs(truth), axis=1)[:, :N_LARGEST],
    )
    of_largest = (
        np.take_along_axis(each, largest, axis=1) for each in (found.phi - truth, found.std_error)
    )
    for shares, error, std_error in (
        (cell.covered, found.phi - truth, found.std_error),
        (cell.of_largest, *of_largest),
        (cell.of_means, found.mean - truth.mean(axis=0), found.mean_error),
    ):
        if not np.isnan(std_error).all():
            shares.append(float(np.mean(np.abs(error) <= T_QUANTILE * std_error + rounding)))
    if tol is not None:
        worst = np.abs(found.phi - truth).max(axis=1) / np.maximum(np.ptp(truth, axis=1), 1e-300)
        cell.beyond += (
            (worst > T_QUANTILE * tol)[found.reached * at_once(d, N_REPLICATES) <= tol]
            .astype(float)
            .tolist()
        )


def main(given: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    players, kinds, seeds = given.players, given.kinds, given.seeds
    if given.tiny:
        players, kinds, seeds = [1, 2, 8, 12, 20], ["order 3", "votes"], 1
    print(HEADER + (f"{'beyond tol':>16}" if given.tol else ""))
    cells = []
    for d in players:
        for budget in budgets_of(d, given.borders):
            row = [Cell(d, budget, kind) for kind in kinds]
            for cell in row:
                for seed in range(seeds):
                    add(cell, seed, given.tol)
                print(cell, flush=True)
            cells += row
            write_json(given.json, {"cells": [asdict(cell) for cell in cells]})
    summary(cells)


def summary(cells: list[Cell]) -> None:
    """The worst of the table."""
    sampled = [
        cell for cell in cells if cell.covered and cell.design != "exact" and cell.n_players >= 8
    ]
    worst = max(cells, key=lambda cell: cell.ratio)
    print(
        f"largest ratio {worst.ratio:.2f}: {worst.n_players} players, {worst.budget or 'default'}, "
        f"{worst.kind}"
    )
    if sampled:
        least = min(sampled, key=lambda cell: float(np.mean(cell.covered)))
        every = np.mean([np.mean(cell.covered) for cell in sampled])
        means = np.mean([np.mean(cell.of_means) for cell in sampled])
        largest = min(sampled, key=lambda cell: float(np.mean(cell.of_largest)))
        print(
            f"covered, 8 players and more: {every:.1%} of rows, {means:.1%} of means; "
            f"least {np.mean(least.covered):.1%}: {least.n_players} players, "
            f"{least.budget or 'default'}, {least.kind}"
        )
        print(
            f"of the five largest players of rows at least {np.mean(largest.of_largest):.1%}: "
            f"{largest.n_players} players, {largest.budget or 'default'}, {largest.kind}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--players", type=int, nargs="+", default=PLAYERS)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument(
        "--borders", action="store_true", help="both sides of every border of enumeration too"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tol", type=float, help="rounds, up to the budget")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tiny", action="store_true", help="seconds instead of an hour")
    main(parser.parse_args())
