"""MSE_v, the quality of conditional values where there is no truth: it chooses options and compares
value functions.

MSE_v is the mean over held-out rows and all proper coalitions of (f(x) − v_S(x))², least for E[f(X)
| X_S = x_S]; rows that are held out (by a seed) enter no sum.  One kernel ridge model a table: 500
landmarks, length-scales and penalty by validation.

Choice: MSE_v of ConditionalRegression over penalties and over factors on the median length-scales,
from a part of the first table; beside it the penalty that penalty="validate" finds, for each
coalition, without any held-out row.

Comparison: every value function learns from all other rows.  One rule for every table: embeddings
of 256 landmarks with median length-scales, validated penalties.  Beside them ConditionalRegression
of twice as many landmarks, learnt from a part of the rows.

Usage: python -m tests.benchmarks.quality [--tiny] [--data powerlifting.parquet] [--beijing
beijing_air_quality.parquet]
       [--rows N] [--workers 2] [--json OUT] [--png OUT]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import dshap
from dshap.core.records import FloatArray
from dshap.core.types import ValueFunction
from dshap.engine import local_client, shut_down
from dshap.kernels import RBF, Nystrom, ProductKernel
from dshap.models import KernelRidge
from dshap.report.picture_files import COLOURS
from dshap.run.prepared_states import Prepared
from dshap.run.quality import Quality
from dshap.values import ConditionalRegression, Gaussian, KernelInterventional, KernelObservational
from tests.benchmarks.growth import new_axes

POWERLIFTING = ("deadlift_kg", ("sex_male", "equipment", "bodyweight_kg", "year", "month", "meet_entrants", "squat_kg",
                "bench_kg"))  # fmt: skip
BEIJING = ("PM2_5", ("PM10", "SO2", "NO2", "CO", "O3", "TEMP", "DEWP", "WSPM"))
SYNTHETIC = ("y", ("x0", "x1", "x2", "x3", "x4"))
"""Target and features of each table."""
WIDE = "twice the landmarks"
OBSERVATIONAL = ("KernelObservational", "ConditionalRegression")


@dataclass(frozen=True)
class Sizes:
    """What is large in a full run and small in a tiny one."""

    model_landmarks: int = 500
    landmarks: int = 256
    held_out: int = 2_000
    gaussian_rows: int = 300
    """Held-out rows that the Gaussian conditional is measured on."""
    draws: int = 1_000
    wide_rows: int = 200_000
    """That the regression of twice as many landmarks learns from, at most."""
    choice_rows: int = 3_000
    choice_landmarks: int = 256
    factors: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
    penalties: tuple[float, ...] = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


TINY = Sizes(60, 40, 400, 40, 100, 1_000, 2_000, 40, (0.5, 1.0, 2.0), (1e-6, 1e-4, 1e-2))


class Split(NamedTuple):
    """A table in two Parquet files."""

    name: str
    target: str
    features: tuple[str, ...]
    learning: Path
    held_out: Path
    n_rows: int
    """Of the rows that are learnt from."""

    def held(self, n: int | None = None) -> pd.DataFrame:
        return pd.read_parquet(self.held_out)[list(self.features)][:n]


def synthetic(n: int) -> pd.DataFrame:
    """Columns that depend on each other along curves, and interactions."""
    z = np.random.default_rng(0).standard_normal((n, 5))
    x0 = z[:, 0]
    x1, x2 = x0**2 + 0.5 * z[:, 1], np.sin(2.0 * x0) + 0.3 * z[:, 2]
    x3, x4 = 0.7 * x2 + 0.5 * z[:, 3], z[:, 4]
    y = x0 * x2 + x1 + np.sin(x3) + x4
    return pd.DataFrame({"x0": x0, "x1": x1, "x2": x2, "x3": x3, "x4": x4, "y": y})


def split(
    name: str,
    frame: pd.DataFrame,
    columns: tuple[str, tuple[str, ...]],
    folder: Path,
    n_held: int,
    n_rows: int | None,
    seed: int = 0,
) -> Split:
    """Complete rows, shuffled; the first `n_held` are held out, at most `n_rows` of the others are
    learnt from."""
    target, features = columns
    complete = frame[[target, *features]].dropna().astype(np.float64)
    order = np.random.default_rng(seed).permutation(len(complete))
    chosen = {"held": order[:n_held], "learn": order[n_held:][:n_rows]}
    paths = {part: folder / f"{name}-{part}.parquet" for part in chosen}
    for part, rows in chosen.items():
        complete.iloc[rows].to_parquet(paths[part], index=False, row_group_size=131_072)
    return Split(name, target, features, paths["learn"], paths["held"], len(chosen["learn"]))


def fitted(table: Split, rows: Any, sizes: Sizes, client: Any) -> KernelRidge:
    model = KernelRidge(RBF("validate"), Nystrom(sizes.model_landmarks), penalty="validate")
    return dshap.fit(model, rows, table.target, features=list(table.features), client=client)


def held_out_r2(model: KernelRidge, table: Split) -> float:
    return model.score(table.held(), pd.read_parquet(table.held_out)[table.target])


# Choice


def choice(table: Split, sizes: Sizes) -> dict[str, Any]:
    """MSE_v at every length-scale factor and penalty, the least of all, and what validation finds
    at each factor."""
    frame = pd.read_parquet(table.learning)[: sizes.choice_rows]
    rows, held = frame[list(table.features)].to_numpy(), table.held().to_numpy()
    model = fitted(table, frame, sizes, None)
    median = RBF("median").bind(rows.shape[1], rows)

    def mse(factor: float, penalty: float | str) -> float:
        kernel = ProductKernel(median.families, median.parameters * factor)
        value = ConditionalRegression(
            model.predict, rows, kernel, Nystrom(sizes.choice_landmarks), penalty
        )
        return float(dshap.mse_v(value, held, progress=False).mse[0])

    found = {
        "penalties": sizes.penalties,
        "factors": sizes.factors,
        "mse": [[mse(factor, penalty) for penalty in sizes.penalties] for factor in sizes.factors],
        "validated": [mse(factor, "validate") for factor in sizes.factors],
        "variance": float(model.predict(held).var()),
    }
    return {**found, **_least(found)}


def _least(found: dict[str, Any]) -> dict[str, Any]:
    mse = np.array(found["mse"])  # (factors, penalties)
    row, column = np.unravel_index(mse.argmin(), mse.shape)
    return {
        "factor": found["factors"][row],
        "penalty": found["penalties"][column],
        "least": float(mse.min()),
    }


def print_choice(table: Split, sizes: Sizes, found: dict[str, Any]) -> None:
    n = min(sizes.choice_rows, table.n_rows)
    print(f"\n{table.name}: ConditionalRegression on {n:,} rows, {sizes.choice_landmarks} landmarks; MSE_v on "
          f"{sizes.held_out:,} held-out rows (variance {found['variance']:.4g})")  # fmt: skip
    print(
        f"{'length-scales':22s}"
        + "".join(f"{f'λ = {p:g}':>12s}" for p in found["penalties"])
        + f"{'validated':>12s}"
    )
    for factor, own, validated in zip(
        found["factors"], found["mse"], found["validated"], strict=True
    ):
        cells = "".join(f"{mse:12.5g}" for mse in [*own, validated])
        print(f"{f'{factor:g} × median':22s}{cells}")
    at = found["validated"][found["factors"].index(found["factor"])]
    print(f'chosen: {found["factor"]:g} × median, λ = {found["penalty"]:g}, MSE_v {found["least"]:.5g}; '
          f'penalty="validate" there {at:.5g} ({at / found["least"] - 1.0:+.2%})')  # fmt: skip


def picture(table: Split, found: dict[str, Any], path: Path) -> None:
    """A line for each factor on the length-scales; the chosen point; the validated penalties as a
    dashed line."""
    figure, (axes,) = new_axes(
        1, f"{table.name}: MSE_v chooses length-scale and penalty", width=8.0
    )
    for index, (factor, own) in enumerate(zip(found["factors"], found["mse"], strict=True)):
        axes.semilogx(
            found["penalties"], own, "o-", color=COLOURS[index], ms=4, label=f"{factor:g} × median"
        )
    axes.plot(
        found["penalty"],
        found["least"],
        "o",
        ms=12,
        mfc="none",
        mec="black",
        mew=1.5,
        label="least MSE_v",
    )
    validated = found["validated"][found["factors"].index(found["factor"])]
    axes.axhline(validated, color="#444444", ls="--", lw=1.0,
                 label=f'{found["factor"]:g} × median, penalty="validate"')  # fmt: skip
    # too large a penalty goes through the roof
    axes.set_ylim(0.97 * found["least"], 1.5 * found["least"])
    axes.set_xlabel("penalty λ")
    axes.set_ylabel(f"MSE_v on held-out rows (variance of the model: {found['variance']:,.4g})")
    axes.legend(loc="best", frameon=False, fontsize=8, title="length-scales", title_fontsize=9)
    figure.savefig(path, dpi=150)


# Comparison


class Measured(NamedTuple):
    """One value function on one table."""

    learning: float
    """Seconds."""
    quality: Quality | None
    """On all held-out rows; None where that takes too long."""
    on_few: Quality
    """On those that the Gaussian conditional is measured on."""
    seconds_few: float
    """Of the latter."""


class Bench:
    """One table with its model: prepares value functions and measures them."""

    def __init__(self, table: Split, sizes: Sizes, folder: Path, client: Any) -> None:
        self.table, self.sizes, self.folder, self.client = table, sizes, folder, client
        self.model = fitted(table, str(table.learning), sizes, client)

    def prepared(self, value: ValueFunction, name: str = "") -> tuple[Prepared, float]:
        start = time.perf_counter()
        store = self.folder / f"{self.table.name}-{name or type(value).__name__}"
        prepared = dshap.prepare(value, store=store, client=self.client, progress=False)
        return prepared, time.perf_counter() - start

    def mse(self, prepared: Prepared, n: int | None = None) -> Quality:
        """On the first n held-out rows, cut into tiles so that every worker has some."""
        tile = max(1, (n or self.sizes.held_out) // 8)
        return dshap.mse_v(
            prepared, self.table.held(n), client=self.client, progress=False, instance_tile=tile
        )

    def measured(self, prepared: Prepared, learning: float, *, is_fast: bool = True) -> Measured:
        everywhere = self.mse(prepared) if is_fast else None
        start = time.perf_counter()
        on_few = self.mse(prepared, self.sizes.gaussian_rows)
        return Measured(learning, everywhere, on_few, time.perf_counter() - start)

    def run(self) -> dict[str, Measured]:
        """name -> what was measured, in the order of the table."""
        model, data, landmarks = self.model, str(self.table.learning), Nystrom(self.sizes.landmarks)
        regression, seconds = self.prepared(
            ConditionalRegression(model.predict, data, RBF("median"), landmarks)
        )
        others = {
            "KernelInterventional": KernelInterventional(model, data),
            "KernelObservational": KernelObservational(
                model, data, landmarks, kernel=RBF("median")
            ),
        }
        found = {name: self.measured(*self.prepared(value)) for name, value in others.items()}
        found["ConditionalRegression"] = self.measured(regression, seconds)
        part = pd.read_parquet(self.table.learning)[: self.sizes.wide_rows][
            list(self.table.features)
        ].to_numpy()
        wide = ConditionalRegression(
            model.predict, part, RBF("median"), Nystrom(2 * self.sizes.landmarks), "validate"
        )
        found[WIDE] = self.measured(*self.prepared(wide, "wide"))
        gaussian = Gaussian(model.predict, data, n_samples=self.sizes.draws)
        return {**found, "Gaussian": self.measured(*self.prepared(gaussian), is_fast=False)}


def print_comparison(bench: Bench, found: dict[str, Measured]) -> None:
    table, few = bench.table, bench.sizes.gaussian_rows
    print(f"\n{table.name}: {table.target} from {len(table.features)} columns, learnt from {table.n_rows:,} rows; R² "
          f"of the model on held-out rows {held_out_r2(bench.model, table):.3f}")  # fmt: skip
    print(f"{'':24s}{'learning':>10s}{f'MSE_v, {bench.sizes.held_out:,} rows':>30s}{f'MSE_v, {few:,} rows':>30s}"
          f"{'in':>10s}")  # fmt: skip
    for name, own in found.items():
        cells = "".join(f"{_mse_cell(quality):>30s}" for quality in (own.quality, own.on_few))
        print(f"{name:24s}{own.learning:8.1f} s{cells}{own.seconds_few:8.1f} s")
    for name in OBSERVATIONAL:
        on_few = found[name].on_few
        verdicts = [
            _against(on_few, found[other].on_few, other)
            for other in ("KernelInterventional", "Gaussian")
        ]
        print(f"{name} {', '.join(verdicts)}")
    own, wide = found["ConditionalRegression"].quality, found[WIDE].quality
    assert own is not None
    assert wide is not None
    print(f"ConditionalRegression: {own.mse[0] / wide.mse[0] - 1.0:+.2%} of {2 * bench.sizes.landmarks} landmarks on "
          f"{min(bench.sizes.wide_rows, table.n_rows):,} rows")  # fmt: skip


def _mse_cell(quality: Quality | None) -> str:
    if quality is None:
        return "–"
    return f"{quality.mse[0]:.5g} ({quality.mse[0] / quality.variance[0]:.2%} of variance)"


def _against(own: Quality, other: Quality, name: str) -> str:
    """Ratio and the number of coalitions won, on the same rows."""
    wins = int((own.mse_of_coalitions < other.mse_of_coalitions).sum())
    word = "beats" if own.mse[0] < other.mse[0] else "LOSES TO"
    return f"{word} {name} ({own.mse[0] / other.mse[0] - 1.0:+.1%}, in {wins} of {len(own.masks)} coalitions)"


def as_json(bench: Bench, found: dict[str, Measured]) -> dict[str, Any]:
    """Numbers of a comparison."""

    def numbers(quality: Quality | None) -> dict[str, Any]:
        if quality is None:
            return {}
        by_size: FloatArray = quality.by_size[:, 0]
        shares = {
            "mse": float(quality.mse[0]),
            "variance": float(quality.variance[0]),
            "rows": quality.n_rows,
        }
        return {**shares, "mse_by_coalition_size": by_size.tolist()}

    measured = {
        name: {
            "learning_seconds": own.learning,
            "all": numbers(own.quality),
            "few": {**numbers(own.on_few), "seconds": own.seconds_few},
        }
        for name, own in found.items()
    }
    return {
        "rows": bench.table.n_rows,
        "r2": held_out_r2(bench.model, bench.table),
        "value_functions": measured,
    }


# Run


def tables(given: argparse.Namespace, sizes: Sizes, folder: Path) -> Iterator[Split]:
    """The tables that were asked for; the synthetic one where none was."""
    if given.data:
        yield split(
            "powerlifting",
            pd.read_parquet(given.data),
            POWERLIFTING,
            folder,
            sizes.held_out,
            given.rows,
        )
    if given.beijing:
        yield split(
            "beijing", pd.read_parquet(given.beijing), BEIJING, folder, sizes.held_out, given.rows
        )
    if not (given.data or given.beijing):
        frame = synthetic((given.rows or 20_000 - 17_000 * given.tiny) + sizes.held_out)
        yield split("synthetic", frame, SYNTHETIC, folder, sizes.held_out, given.rows)


@contextmanager
def workers(n: int) -> Iterator[Any]:
    """A client of n local worker processes; None for 0."""
    client = local_client(n, memory_limit="4GiB", set_as_default=False) if n else None
    try:
        yield client
    finally:
        if client is not None:
            shut_down(client)


def run(given: argparse.Namespace, sizes: Sizes, parts: Sequence[str]) -> dict[str, Any]:
    """Both parts, printed and as numbers."""
    out: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(prefix="dshap-quality-") as name,
        workers(given.workers) as client,
    ):
        folder = Path(name)
        for index, table in enumerate(tables(given, sizes, folder)):
            if index == 0 and "choice" in parts:
                found = out["choice"] = choice(table, sizes)
                print_choice(table, sizes, found)
                if given.png:
                    picture(table, found, given.png)
            if "comparison" in parts:
                bench = Bench(table, sizes, folder, client)
                measured = bench.run()
                print_comparison(bench, measured)
                out[table.name] = as_json(bench, measured)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="small sizes, in this process: seconds")
    parser.add_argument("--data", type=Path, metavar="powerlifting.parquet")
    parser.add_argument("--beijing", type=Path, metavar="beijing_air_quality.parquet")
    parser.add_argument("--rows", type=int, help="learn from at most so many rows of each table")
    parser.add_argument("--workers", type=int, help="processes; 0: this one (2, or 0 with --tiny)")
    parser.add_argument("--part", choices=("choice", "comparison"), help="this part alone")
    parser.add_argument("--json", type=Path, metavar="OUT", help="all numbers")
    parser.add_argument(
        "--png", type=Path, metavar="OUT", help="picture of the choice (needs matplotlib)"
    )
    given = parser.parse_args()
    if given.workers is None:
        given.workers = 0 if given.tiny else 2
    out = run(
        given,
        TINY if given.tiny else Sizes(),
        (given.part,) if given.part else ("choice", "comparison"),
    )
    if given.json:
        given.json.write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
