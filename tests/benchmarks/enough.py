"""How many rows are enough: the rows that the rule reads, and its stated error beside the true one.

Six tables, and two that are made up: one with heavy tails, and one with short length-scales, where
the rule must go on to all rows.  A kernel ridge of each table is explained by a regression and by
embeddings.

Rule: rows read with the default `enough`, and MSE_v of 64 coalitions on 2,000 held-out rows, beside
that with `enough="all"`.  Error: the same attributions are learned from up to 16 disjoint samples,
sections of the spread order.  "true" is their deviation, "stated" the root mean square of the
errors that the samples state, both in % of a standard deviation of the predictions; "covered" is the
share of attributions that lie within 1.96 stated errors of the mean of the samples, with the deviation
scaled by √(K / (K − 1)).  A table of fewer than 65,536 rows is cut into six samples.

Usage: python -m tests.benchmarks.enough --data FOLDER [--tables lifts air …] [--values regression …]
       [--rows 400000] [--json OUT] [--tiny]
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dshap
from dshap import designs
from dshap.attributors.enough import FIRST_ROWS, Judgement, jackknife, judged_design, part_ends
from dshap.core.records import FloatArray
from dshap.core.spread import SpreadOrder
from dshap.kernels import RBF, Nystrom, ProductKernel
from dshap.models import KernelRidge
from dshap.tables import ArraySource
from dshap.values import ConditionalRegression, KernelObservational
from tests.benchmarks.peers import write_json

FITTED_ROWS = 15_000
SAMPLE_ROWS = 20_000
"""Rows that landmarks and length-scales are chosen from."""
SAMPLES = 16
SHORT_TABLE = 65_536
FEW_SAMPLES = 6
"""Samples of a table of fewer than `SHORT_TABLE` rows."""
EXPLAINED_ROWS = 128
TOGETHER = 32
"""Coalitions of a tile."""


@dataclass(frozen=True)
class Sizes:
    """What is large in a full run and small in a tiny one."""

    model_landmarks: int = 150
    landmarks: int = 100
    held_out: int = 2_000
    made_rows: int = 300_000


TINY = Sizes(20, 16, 200, 40_000)


@dataclass(frozen=True)
class Table:
    """A file, what is predicted of it, and by what."""

    file: str
    target: str
    features: tuple[str, ...]

    def read(self, folder: Path) -> tuple[FloatArray, FloatArray]:
        """Complete rows (n, d) in their order, text as codes, and targets (n,)."""
        frame = pd.read_parquet(folder / self.file, columns=[*self.features, self.target])
        for name in self.features:
            if frame[name].dtype.kind not in "iufb":
                frame[name] = frame[name].astype("category").cat.codes
        frame = frame.dropna().astype(float)
        return frame[list(self.features)].to_numpy(), frame[self.target].to_numpy()


def numbered(n: int) -> tuple[str, ...]:
    return tuple(f"x{j}" for j in range(n))


ADULT = ("age", "education_num", "capital_gain", "capital_loss", "hours_per_week", "marital_status",
         "native_country", "workclass")  # fmt: skip
AIR = ("PM10", "SO2", "NO2", "CO", "O3", "TEMP", "DEWP", "RAIN", "WSPM")
LIFTS = ("bodyweight_kg", "squat_kg", "bench_kg", "sex_male", "equipment", "year", "month",
         "meet_entrants")  # fmt: skip
TABLES = {
    "adult": Table("adult.parquet", "income_gt_50k", ADULT),
    "air": Table("beijing_air_quality.parquet", "PM2_5", AIR),
    "kegg": Table("uci_keggdirected.parquet", "y", numbered(9)),
    "kin40k": Table("uci_kin40k.parquet", "y", numbered(8)),
    "lifts": Table("powerlifting.parquet", "deadlift_kg", LIFTS),
    "protein": Table("uci_protein.parquet", "y", numbered(9)),
}
"""Rare categories and heavy tails: adult; ordered in time: air; ordered by meet: lifts."""


def heavy_tails(n: int) -> tuple[FloatArray, FloatArray]:
    x = np.random.default_rng(0).standard_t(3, size=(n, 6))
    return x, x[:, 0] * x[:, 1] + np.exp(np.clip(x[:, 2], -3.0, 3.0))


def to_the_end(n: int) -> tuple[FloatArray, FloatArray]:
    x = np.random.default_rng(1).normal(size=(n, 6))
    return x, np.sin(3.0 * x).sum(axis=1) + x[:, 0] * x[:, 1] * x[:, 2]


MADE_UP: Mapping[str, Callable[[int], tuple[FloatArray, FloatArray]]] = {
    "heavy tails": heavy_tails,
    "to the end": to_the_end,
}
NARROW: Mapping[str, tuple[float, float]] = {"to the end": (0.3, 1e-8)}
"""Table -> factor on the median length-scales, and the penalty of the values; else 1 and validated."""


@dataclass(frozen=True)
class Result:
    """One table and value function."""

    table: str
    value: str
    of: int
    """Number of rows of the table."""
    rows: int
    """The number that the rule reads."""
    mse_gap: float
    """MSE_v with these rows over that with all, less 1."""
    sample_rows: int
    samples: int
    stated: float
    true: float
    """In standard deviations of the predictions."""
    coverage: float

    @property
    def ratio(self) -> float:
        return self.stated / self.true

    def __str__(self) -> str:
        return (
            f"{self.table:12} {self.value:11} {self.of:10,} {self.rows:9,} {self.mse_gap:+8.3%} "
            f"{self.samples:4} x {self.sample_rows:6,} {self.stated:8.3%} {self.true:8.3%} "
            f"{self.ratio:6.2f} {self.coverage:8.3f}"
        )


HEADER = (
    f"{'table':12} {'value':11} {'rows':>10} {'read':>9} {'MSE_v':>8} {'samples':>13} {'stated':>8} "
    f"{'true':>8} {'ratio':>6} {'covered':>8}"
)


@dataclass(frozen=True)
class Explained:
    """The model of a table, and what its values are learned with."""

    model: KernelRidge
    kernel: ProductKernel
    landmarks: FloatArray
    penalty: float | str

    def value(self, kind: str, data: Any, **options: Any) -> Any:
        """A value function; `kind` is of `VALUES`."""
        return VALUES[kind](self, data, **options)

    def regression(self, data: Any, **options: Any) -> ConditionalRegression:
        landmarks = Nystrom(landmarks=self.landmarks)
        return ConditionalRegression(
            self.model.predict, data, self.kernel, landmarks, self.penalty, **options
        )

    def embeddings(self, data: Any, **options: Any) -> KernelObservational:
        landmarks = Nystrom(landmarks=self.model.expansion_.landmarks)
        return KernelObservational(self.model, data, landmarks, self.penalty, **options)


VALUES: Mapping[str, Callable[..., Any]] = {
    "regression": Explained.regression,
    "embeddings": Explained.embeddings,
}


def explained(name: str, x: FloatArray, y: FloatArray, sizes: Sizes) -> Explained:
    """Fit the model of a table, and choose what its values are learned with."""
    factor, penalty = NARROW.get(name, (1.0, "validate"))
    rng = np.random.default_rng(1)
    fitted = rng.choice(len(x), min(len(x), FITTED_ROWS), replace=False)
    sample = x[np.sort(rng.choice(len(x), min(len(x), SAMPLE_ROWS), replace=False))]
    median = RBF("median").bind(x.shape[1], sample)
    kernel = ProductKernel(median.families, median.parameters * factor)
    model = KernelRidge(kernel, Nystrom(sizes.model_landmarks), penalty="validate", holdout=0.1)
    model.fit(x[fitted], y[fitted])
    landmarks = Nystrom(sizes.landmarks).anchors(sample, kernel)
    return Explained(model, kernel, landmarks, penalty)


def table_of(
    name: str, folder: Path | None, most: int | None, sizes: Sizes
) -> tuple[FloatArray, FloatArray]:
    """The first rows (n, d) of a table in units of a deviation, and its targets (n,)."""
    if name in MADE_UP:
        x, y = MADE_UP[name](sizes.made_rows)
    else:
        assert folder is not None
        x, y = TABLES[name].read(folder)
    x, y = x[:most], y[:most]
    deviation = x.std(axis=0)
    return x / np.where(deviation > 0.0, deviation, 1.0), y


def rule(one: Explained, kind: str, x: FloatArray, held: FloatArray) -> tuple[int, float]:
    """Rows that the rule reads, and MSE_v with these over that with all rows, less 1."""
    design = designs.kernelshap(x.shape[1], 64)
    mse = []
    n_rows = len(x)
    with tempfile.TemporaryDirectory() as folder:
        for number, options in enumerate(({}, {"enough": "all"})):
            prepared = dshap.prepare(
                one.value(kind, x, **options), None, design, f"{folder}/{number}", progress=False
            )
            mse.append(float(dshap.mse_v(prepared, held, progress=False).mse[0]))
            if not number:
                cube = dshap.explain(prepared, held[:2], progress=False)
                n_rows = json.loads(cube.attrs["learning_error"])["rows"]
    return n_rows, mse[0] / mse[1] - 1.0


def sample_errors(
    one: Explained, kind: str, x: FloatArray, rows: FloatArray
) -> tuple[FloatArray, FloatArray, int]:
    """Attributions (K, n, d) and stated errors (K, d) of K disjoint samples, and rows of each."""
    n_rows = FIRST_ROWS
    if len(x) < SHORT_TABLE:
        n_rows = len(x) // FEW_SAMPLES
    value = one.value(kind, x)
    value = value.chosen(value.choose(x[:: max(1, len(x) // SAMPLE_ROWS)])).judged()
    judgement = Judgement(value, judged_design(x.shape[1]), rows)
    order = SpreadOrder(len(x))
    phi, errors = [], []
    for number in range(min(SAMPLES, len(x) // n_rows)):
        sample = x[order.positions(number * n_rows, (number + 1) * n_rows)]
        found = attributions(judgement, sample)
        phi.append(found[0, :, :, 0])
        errors.append(jackknife(found)[:, 0])
    return np.array(phi), np.array(errors), n_rows


def attributions(judgement: Judgement, sample: FloatArray) -> FloatArray:
    """Attributions (1 + parts, n, d, k) from a sample, and from it without each of its parts."""
    ends = part_ends(len(sample))
    source = ArraySource(sample)
    blocks = [source.read(*span) for span in itertools.pairwise([0, *ends])]
    predictions = [judgement.value.model(block.x) for block in blocks]
    blocks = [replace(block, predictions=f) for block, f in zip(blocks, predictions, strict=True)]
    found = []
    for tile in judgement.tiles(TOGETHER, ends):
        sums = [tile.partial(block) for block in blocks]
        found.append(tile.finish(sum(sums[1:], sums[0])))
    return judgement.attributions(found, predictions)


def result(name: str, kind: str, x: FloatArray, y: FloatArray, sizes: Sizes) -> Result:
    """Measure one table and value function."""
    one = explained(name, x, y, sizes)
    is_held = np.zeros(len(x), dtype=bool)
    is_held[np.random.default_rng(2).choice(len(x), sizes.held_out, replace=False)] = True
    held, rest = x[is_held], x[~is_held]
    n_read, gap = rule(one, kind, rest, held)
    phi, errors, n_rows = sample_errors(one, kind, rest, held[:EXPLAINED_ROWS])
    n_samples = len(phi)
    deviation = float(one.model.predict(held).std())
    from_mean = (phi - phi.mean(axis=0)) * np.sqrt(n_samples / (n_samples - 1))
    return Result(
        name,
        kind,
        len(rest),
        n_read,
        gap,
        n_rows,
        n_samples,
        float(np.sqrt(np.square(errors).mean())) / deviation,
        float(np.sqrt(phi.var(axis=0, ddof=1).mean())) / deviation,
        float((np.abs(from_mean) < 1.96 * errors[:, None]).mean()),
    )


def main(given: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    tables = given.tables
    sizes = Sizes()
    if given.tiny:
        tables, sizes = list(MADE_UP), TINY
    elif given.data is None and set(tables) - MADE_UP.keys():
        raise SystemExit("give --data FOLDER, where the tables are, or --tiny")
    results: list[Result] = []
    print(HEADER)
    for name in tables:
        x, y = table_of(name, given.data, given.rows, sizes)
        for kind in given.values:
            results.append(result(name, kind, x, y, sizes))
            print(results[-1], flush=True)
            write_json(given.json, {"results": [asdict(each) for each in results]})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*TABLES, *MADE_UP]
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tables", nargs="+", default=names, choices=names)
    parser.add_argument("--values", nargs="+", default=list(VALUES), choices=list(VALUES))
    parser.add_argument("--rows", type=int, help="at most so many rows of a table")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tiny", action="store_true", help="seconds instead of half an hour")
    main(parser.parse_args())
