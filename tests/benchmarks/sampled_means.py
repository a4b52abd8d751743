"""How often φ ± t·std_error holds the true value where values are means over few draws: the draws
of `Gaussian` and `Copula`, and backgrounds of few rows of a table.

A model is a sum over blocks of at most five columns, of products of two columns ("quadratic"), of
rules of two columns ("rule") or of exponentials ("exponential").  Blocks are exactly independent in
the data, and columns of a block correlated, so that the attributions of a block are those of the
block alone: the truth is `exact` with `TRUE_SAMPLES` draws, or with all rows of the table.

With `--magnitudes`: how often the interval of mean |φ| of `dshap show` holds the mean
over all rows of the table, with backgrounds of few rows.

Usage: python -m tests.benchmarks.coverage --draws [--seeds 60] [--players 5 14 24] [--json OUT]
[--magnitudes] [--tiny]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.linalg import hadamard
from scipy.stats import t

import dshap
from dshap.core.records import FloatArray
from dshap.cube import feature_ranking

MODELS = ("quadratic", "rule", "exponential")
VALUES = {"Gaussian": dshap.values.Gaussian, "Copula": dshap.values.Copula}
BLOCK = 5
"""The most columns of a block."""
N_SAMPLES = 200
"""Draws of the estimates: fewer than the default, whose means are closer to normal."""
TRUE_SAMPLES = 100_000
N_TABLE = 896
"""Rows of the table that backgrounds are taken from: a multiple of the eight signs of the blocks."""
N_BACKGROUND = 20
BACKGROUNDS = (5, 20, 100)
"""Rows of the backgrounds whose mean magnitudes are compared."""
N_EXPLAINED = 200
"""Rows that mean magnitudes are over."""
N_ROWS = 4
N_COALITIONS = 500
DESIGNS = {
    "exact": lambda d, seed: dshap.designs.exact(d),
    "kernelshap": lambda d, seed: dshap.designs.kernelshap(d, N_COALITIONS, seed=seed),
    "kriging": lambda d, seed: dshap.designs.kriging(d, N_COALITIONS, seed=seed),
}
EXACT_PLAYERS = 14
"""The most players whose coalitions are all listed."""


@dataclass(frozen=True)
class Model:
    """A model that is a sum over blocks of columns, in which the blocks are independent."""

    kind: str
    n_players: int

    @property
    def blocks(self) -> list[slice]:
        starts = range(0, self.n_players, BLOCK)
        return [slice(start, min(start + BLOCK, self.n_players)) for start in starts]

    def of_block(self, block: int) -> Callable[[FloatArray], FloatArray]:
        """The part of the model on the columns of a block alone."""
        return partial(TERMS[self.kind], block)

    def __call__(self, rows: FloatArray) -> FloatArray:
        parts = (self.of_block(b)(rows[:, block]) for b, block in enumerate(self.blocks))
        return sum(parts, np.zeros(len(rows)))

    def table(self, n_rows: int, seed: int) -> FloatArray:
        """Rows (n_rows, d), normal; signs of the blocks make their covariances exactly 0."""
        signs = hadamard(8)[:, 1 : 1 + len(self.blocks)]
        rng = np.random.default_rng([seed, self.n_players])
        few = np.concatenate([self._normal(block, n_rows // 8, rng) for block in self.blocks], 1)
        parts = []
        for sign in signs:
            of_columns = np.concatenate(
                [np.full(b.stop - b.start, s) for b, s in zip(self.blocks, sign, strict=True)]
            )
            parts.append(few * of_columns)
        return np.concatenate(parts)

    def _normal(self, block: slice, n_rows: int, rng: np.random.Generator) -> FloatArray:
        width = block.stop - block.start
        shared = rng.normal(size=(n_rows, 1))
        return np.sqrt(0.5) * (shared + rng.normal(size=(n_rows, width)))


def _quadratic(block: int, x: FloatArray) -> FloatArray:
    return x[:, 0] * x[:, 1] + 0.5 * x[:, 2] * x[:, 3] + x[:, 0] ** 2 + 0.3 * block * x[:, 1]


def _rule(block: int, x: FloatArray) -> FloatArray:
    first = (x[:, 0] > 0.3) & (x[:, 1] > 0.0)
    second = (x[:, 2] < 0.5) & (x[:, 3] > -0.5)
    return 1.0 * first + 0.5 * second + 0.1 * block * x[:, 0]


def _exponential(block: int, x: FloatArray) -> FloatArray:
    return np.exp(0.5 * x[:, 0] + 0.4 * x[:, 1] - 0.5 * x[:, 3]) + 0.1 * block * x[:, 2]


TERMS = {"quadratic": _quadratic, "rule": _rule, "exponential": _exponential}


@dataclass(frozen=True)
class Coverage:
    """One line of the table."""

    value: str
    model: str
    design: str
    n_players: int
    seeds: int
    covered: float
    """Share of rows, players and seeds whose interval holds the truth."""
    ratio: float
    """Root of the mean std_error² over root of the mean error²."""
    error: float
    """Root of the mean error², in root mean squares of the attributions."""

    def __str__(self) -> str:
        return (
            f"{self.value:<12}{self.model:<13}{self.design:<12}{self.n_players:>4}"
            f"{self.covered:>9.1%}{self.ratio:>8.2f}{self.error:>9.2%}"
        )


Truth = Callable[[Model, FloatArray, FloatArray], FloatArray]
"""A function of a model, its table (N, d) and rows (n, d), with the true attributions (n, d)."""


def true_over_draws(kind: str, model: Model, table: FloatArray, rows: FloatArray) -> FloatArray:
    """φ (n, d) by very many draws, block by block."""
    found = []
    for b, block in enumerate(model.blocks):
        value = VALUES[kind](
            model.of_block(b), table[:, block], n_samples=TRUE_SAMPLES, seed=1_000_003
        )
        cube = dshap.explain(value, rows[:, block], design="exact", dtype="float64")
        found.append(cube.attribution.values[:, :, 0])
    return np.concatenate(found, axis=1)


def true_over_rows(model: Model, table: FloatArray, rows: FloatArray) -> FloatArray:
    """φ (n, d) over all rows of the table, block by block."""
    found = []
    for b, block in enumerate(model.blocks):
        value = dshap.values.Marginal(model.of_block(b), table[:, block])
        cube = dshap.explain(value, rows[:, block], design="exact", dtype="float64")
        found.append(cube.attribution.values[:, :, 0])
    return np.concatenate(found, axis=1)


def drawn_value(kind: str, model: Model, table: FloatArray, seed: int) -> dshap.ValueFunction:
    return VALUES[kind](model, table, n_samples=N_SAMPLES, seed=seed)


def background_value(method: str, model: Model, table: FloatArray, seed: int) -> object:
    """`Marginal` over few rows of the table, whose order is random."""
    rows = np.random.default_rng(seed).permutation(table)
    background = dshap.choose_background(rows, N_BACKGROUND, method=method, seed=seed)
    return dshap.values.Marginal(model, background)


def covered(
    called: str,
    value_of: Callable[[Model, FloatArray, int], object],
    truth: Truth,
    model: Model,
    design: str,
    seeds: int,
) -> Coverage:
    """Coverage over seeds of the draws, and of the coalitions where they are sampled."""
    table = model.table(N_TABLE, seed=0)
    rows = model.table(N_TABLE, seed=1)[np.random.default_rng(2).permutation(N_TABLE)[:N_ROWS]]
    true = truth(model, table, rows)
    held, errors, variances = [], [], []
    for seed in range(seeds):
        cube = dshap.explain(
            value_of(model, table, seed),
            rows,
            design=DESIGNS[design](model.n_players, seed),
            dtype="float64",
        )
        error = np.abs(cube.attribution.values[:, :, 0] - true)
        std_error = cube.std_error.values[:, :, 0]
        held.append(error <= t.ppf(0.975, 19) * std_error + 1e-9)
        errors.append(np.square(error))
        variances.append(np.square(std_error))
    return Coverage(
        called,
        model.kind,
        design,
        model.n_players,
        seeds,
        covered=float(np.mean(held)),
        ratio=float(np.sqrt(np.mean(variances) / np.mean(errors))),
        error=float(np.sqrt(np.mean(errors) / np.mean(np.square(true)))),
    )


def magnitudes(model: Model, method: str, n_background: int, seeds: int) -> tuple[float, float]:
    """(share of intervals of mean |φ| that hold the truth, mean of the estimates over the truth)."""
    table = model.table(N_TABLE, seed=0)
    rows = model.table(N_TABLE, seed=1)[np.random.default_rng(2).permutation(N_TABLE)[:N_EXPLAINED]]
    true = np.abs(true_over_rows(model, table, rows)).mean(axis=0)
    has_effect = true > 1e-9 * true.max()
    held, found = [], []
    for seed in range(seeds):
        shuffled = np.random.default_rng(seed).permutation(table)
        background = dshap.choose_background(shuffled, n_background, method=method, seed=seed)
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder, "cube.zarr")
            dshap.explain(
                dshap.values.Marginal(model, background), rows, design="exact", store=store
            )
            ranking = feature_ranking(store).isel(output=0)
        mean = ranking["mean_magnitude"].values[has_effect]
        error = ranking["mean_magnitude_std_error"].values[has_effect]
        held.append(np.abs(mean - true[has_effect]) <= t.ppf(0.975, 19) * error + 1e-9)
        found.append(mean / true[has_effect])
    return float(np.mean(held)), float(np.mean(found))


def print_magnitudes(given: argparse.Namespace) -> None:
    print(f"{'model':<13}{'background':<12}{'rows':>5}{'covered':>9}{'mean':>8}")
    for kind in given.models:
        for method in ("random", "thinning"):
            for n_background in BACKGROUNDS:
                share, mean = magnitudes(Model(kind, BLOCK), method, n_background, given.seeds)
                print(
                    f"{kind:<13}{method:<12}{n_background:>5}{share:>9.1%}{mean:>8.3f}", flush=True
                )


def cases(
    given: argparse.Namespace,
) -> Iterator[tuple[str, Callable[[Model, FloatArray, int], object], Truth, Model, str]]:
    """Every value, model, number of players and design that is asked for."""
    for d in given.players:
        for kind in given.models:
            model = Model(kind, d)
            named = [design for design in given.designs if design != "exact" or d <= EXACT_PLAYERS]
            for design in named if d > BLOCK else ["exact"]:
                for name in given.values:
                    if name in VALUES:
                        yield (
                            name,
                            partial(drawn_value, name),
                            partial(true_over_draws, name),
                            model,
                            design,
                        )
                    else:
                        yield name, partial(background_value, name), true_over_rows, model, design


def main(given: argparse.Namespace) -> None:
    if given.tiny:
        given.seeds, given.players, given.models = 2, [5], ["quadratic"]
    warnings.simplefilter("error")
    if given.magnitudes or given.tiny:
        print_magnitudes(given)
    if given.magnitudes:
        return
    print(
        f"{'value':<12}{'model':<13}{'design':<12}{'d':>4}{'covered':>9}{'se/rms':>8}{'rms err':>9}"
    )
    found = []
    for case in cases(given):
        found.append(covered(*case, given.seeds))
        print(found[-1], flush=True)
    if given.json:
        Path(given.json).write_text(json.dumps([asdict(each) for each in found], indent=1))


def options(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--players", type=int, nargs="+", default=[5, 14, 24])
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--values", nargs="+", default=[*VALUES, "random", "thinning"])
    parser.add_argument("--designs", nargs="+", default=["exact", "kernelshap", "kriging"])
    parser.add_argument("--json")
    parser.add_argument("--magnitudes", action="store_true", help="the intervals of mean |φ|")
    parser.add_argument("--tiny", action="store_true", help="seconds instead of an hour")
    return parser.parse_args(given)


if __name__ == "__main__":
    main(options())
