"""Seconds and peak memory against the number of rows: 200 thousand, 1.8 million, 10 million lifts
on two workers.

Every size is the same table: its first rows, all of them, or all of them repeated with noise,
generated on the fly.  The model is fitted once, on the table; each value function then learns from
all rows of a size and explains them into a cube.  Peaks are resident bytes of a whole process
(VmHWM), an idle worker's included.  Usage: python -m tests.benchmarks.scaling --data
powerlifting.parquet [--rows 200000 1810580 10000000]
       [--values interventional regression observational] [--step 0.5] [--new-rows 90000] [--json
       OUT] [--tiny]
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import dshap
from dshap.core.blocks import RowBlock
from dshap.core.types import RowReader
from dshap.engine import DaskExecutor, local_client, shut_down
from dshap.engine.peaks import PeakMeter
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.tables import ParquetSource, SyntheticTable
from dshap.values import ConditionalRegression, KernelInterventional, KernelObservational

FEATURES = [
    "bodyweight_kg",
    "squat_kg",
    "bench_kg",
    "sex_male",
    "equipment",
    "year",
    "month",
    "meet_entrants",
]
TARGET = "deadlift_kg"
NOISY = 3
"""The first columns are weights, to which a repeated row gets noise of half a kilogram (standard
deviation)."""


@dataclass(frozen=True)
class Repeated:
    """The rows of a table again and again until there are n_rows; every copy but the first with
    noise, by its seed.

    The noise is a multiple of `step` kilograms, as scales and plates are; 0 leaves it continuous,
    and then no two rows of a copy share a weight.
    """

    table: RowReader
    n_rows: int
    step: float = 0.5
    key_names: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()
    has_target: bool = False
    missing: str = "refuse"
    stamp: Mapping[str, Any] | None = None

    @property
    def null_counts(self) -> Mapping[str, int | None]:
        return dict.fromkeys(self.feature_names, 0)

    def describe(self) -> str:
        return f"{self.n_rows:,} rows of {self.table.describe()}"

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.table.feature_names

    @property
    def key_dtypes(self) -> Mapping[str, str]:
        return {}

    @property
    def column_dtypes(self) -> Mapping[str, Any]:
        return {name: np.dtype(float) for name in self.feature_names}

    def read(
        self,
        start: int,
        stop: int,
        *,
        keys: bool = False,
        target: bool = False,
        columns: bool = False,
    ) -> RowBlock:
        parts, at = [], start
        while at < stop:
            copy, first = divmod(at, self.table.n_rows)
            last = min(self.table.n_rows, first + stop - at)
            x = self.table.read(first, last).x
            if copy:
                noise = np.random.default_rng([copy, first, last]).normal(
                    scale=0.5, size=(len(x), NOISY)
                )
                noise = self.step * np.round(noise / self.step) if self.step else noise
                x = np.hstack([x[:, :NOISY] + noise, x[:, NOISY:]])
            parts.append(x)
            at += last - first
        x = np.concatenate(parts)
        return RowBlock(start, x, np.ones(len(x), dtype=bool))

    def read_bytes(self, n_rows: int) -> int:
        return self.table.read_bytes(n_rows) + 3 * 8 * n_rows * len(self.feature_names)


@dataclass(frozen=True)
class Use:
    """What one step took."""

    value: str
    step: str
    rows: int
    seconds: float
    worker_mib: float
    client_mib: float

    def __str__(self) -> str:
        rate = self.rows / self.seconds
        return (
            f"{self.value:<16}{self.step:<12}{self.rows:>12,}{self.seconds:>10.1f} s{rate:>12,.0f} "
            "rows/s"
            f"{self.worker_mib:>10,.0f} MiB{self.client_mib:>10,.0f} MiB"
        )


class Bench:
    """A cluster, a meter and the list of what was measured."""

    def __init__(self, workers: int) -> None:
        self.client = local_client(workers, "2GiB", set_as_default=False)
        self.executor, self.meter, self.uses = DaskExecutor(self.client), PeakMeter(), []

    def measured(self, value: str, step: str, rows: int, function: Any) -> Any:
        self.meter.reset(self.executor)
        started = time.perf_counter()
        result = function()
        seconds = time.perf_counter() - started
        peaks = (self.meter.worker(self.executor) or math.nan, self.meter.client() or math.nan)
        self.uses.append(Use(value, step, rows, seconds, *(peak / 2**20 for peak in peaks)))
        print(self.uses[-1], flush=True)
        return result


def table_of(path: str | None, source: RowReader, n_rows: int, step: float) -> RowReader:
    """The rows of the source, without its target, as many as are wanted."""
    if path is None:
        table: RowReader = SyntheticTable(
            "powerlifting", source.n_rows, features=FEATURES, target=None, key=()
        )
    else:
        table = ParquetSource(path, features=FEATURES)
    return Repeated(table, n_rows, step)


def value_of(
    name: str, model: KernelRidge, small: KernelRidge, data: RowReader, landmarks: int
) -> Any:
    """The value function of this name; KernelObservational explains the smaller model, with its own
    landmarks."""
    if name == "interventional":
        return KernelInterventional(model, data)
    if name == "regression":
        expansion = model.expansion_
        return ConditionalRegression(
            expansion.predict,
            data,
            expansion.kernel,
            Nystrom(landmarks),
            "validate",
            feature_names=FEATURES,
        )
    return KernelObservational(small, data, Nystrom(landmarks=small.expansion_.landmarks), 1e-4)


def fitted(bench: Bench, source: RowReader, landmarks: int) -> KernelRidge:
    ridge = KernelRidge(RBF("validate"), Nystrom(landmarks), penalty="validate", holdout=0.1)
    name = f"fit {landmarks}"
    model = bench.measured(
        name, "fit", source.n_rows, lambda: dshap.fit(ridge, source, None, client=bench.client)
    )
    print(f"{'':<16}held-out R² {model.r2_[0]:.4f}")
    return model


def main(given: argparse.Namespace) -> None:
    landmarks, small = (60, 40) if given.tiny else (500, 256)
    sizes = [2_000, 5_000] if given.tiny else given.rows
    options = {"features": FEATURES, "target": TARGET}
    source = (
        ParquetSource(given.data, **options)
        if given.data
        else SyntheticTable("powerlifting", 3_000, **options)
    )
    bench, folder = Bench(2), Path(tempfile.mkdtemp())
    print(f"{'':<16}{'':<12}{'rows':>12}{'':>12}{'':>19}{'worker peak':>14}{'client peak':>14}")
    try:
        model = fitted(bench, source, landmarks)
        other = fitted(bench, source, small) if "observational" in given.values else model
        for name in given.values:
            for n_rows in sizes:
                data = table_of(given.data, source, n_rows, given.step)
                value, store = (
                    value_of(name, model, other, data, small),
                    str(folder / f"{name}-{n_rows}"),
                )
                learn = partial(
                    dshap.prepare, value, store=f"{store}.prepared", client=bench.client
                )
                prepared = bench.measured(name, "learn", n_rows, learn)
                explain = partial(dshap.explain, prepared, client=bench.client)
                bench.measured(
                    name, "explain", n_rows, partial(explain, data, store=f"{store}.zarr")
                )
                shutil.rmtree(f"{store}.zarr")
                if given.new_rows and n_rows == sizes[-1]:
                    new_rows = table_of(given.data, source, given.new_rows, given.step)
                    new = partial(explain, new_rows, store=f"{store}.new.zarr")
                    bench.measured(name, "new rows", given.new_rows, new)
    finally:
        shut_down(bench.client)
        shutil.rmtree(folder)
    if given.json:
        Path(given.json).write_text(json.dumps([vars(use) for use in bench.uses], indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="Parquet file of lifts; synthetic ones without")
    parser.add_argument("--rows", type=int, nargs="+", default=[200_000, 1_810_580, 10_000_000])
    parser.add_argument(
        "--values", nargs="+", default=["interventional", "regression", "observational"]
    )
    parser.add_argument(
        "--step", type=float, default=0.5, help="noise of repeated rows in multiples of so many kg"
    )
    parser.add_argument(
        "--new-rows", type=int, default=0, help="explain as many more from the kept states"
    )
    parser.add_argument("--json")
    parser.add_argument("--tiny", action="store_true", help="seconds instead of an hour")
    main(parser.parse_args())
