"""Synthetic tables of any size, computed where they are read: nothing is stored or sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError, unknown_name
from dshap.core.late import pa
from dshap.core.records import JSON, FloatArray
from dshap.core.rows import SPAN_ROWS
from dshap.tables.columns import Names, as_names, layout_of
from dshap.tables.reader import BatchReader

Columns = Mapping[str, NDArray[Any]]

SPAN_COLUMNS = 52
"""Largest number of float64 columns in memory while a span is made, the last span included.

46 were measured.
"""


MAX_ROWS = 10**11
"""Largest number of rows; more than a run explains in a year.

Every sample and every plan still takes a pass over the row numbers.
"""


class SyntheticTable(BatchReader):
    """A made-up table of any length, for benchmarks and trials.

    Every span of 65,536 rows depends only on the seed and the number of the span.  Every read
    therefore returns the same rows, on any worker, and a longer table begins with the rows of a
    shorter one.

    Parameters
    ----------
    name : str
        One of `SYNTHETIC_TABLES`, such as "powerlifting".
    n_rows : int
        1 to 100,000,000,000.
    seed : int
        At least 0; another seed gives other rows of the same distribution.
    features, target, key : names, as in `ParquetSource`
        By default `lift_id` is the key, `deadlift_kg` is the target, and all other columns are
        features; `target=None` and `key=()` leave out target and key.

    Raises
    ------
    InputError
        The table or a column is unknown, or there are no rows.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.sources import SYNTHETIC_TABLES, SyntheticTable
    >>> table = SyntheticTable(sorted(SYNTHETIC_TABLES)[0], 1000)
    >>> table.n_rows, table.target_names, table.key_names
    (1000, ('deadlift_kg',), ('lift_id',))
    >>> longer = SyntheticTable(sorted(SYNTHETIC_TABLES)[0], 5000)
    >>> np.array_equal(table.read(0, 9).x, longer.read(0, 9).x, equal_nan=True)
    True
    """

    def __init__(
        self,
        name: str,
        n_rows: int,
        seed: int = 0,
        *,
        features: Names = None,
        target: Names = "deadlift_kg",
        key: Names = ("lift_id",),
    ) -> None:
        if name not in SYNTHETIC_TABLES:
            raise InputError(unknown_name("synthetic table", name, SYNTHETIC_TABLES))
        if not 1 <= n_rows <= MAX_ROWS or seed < 0:
            raise InputError(
                f"{n_rows} rows of seed {seed}: give 1 to {MAX_ROWS:,} rows and a seed of at least "
                "0"
            )
        self.name = name
        self.n_rows = int(n_rows)
        self.seed = int(seed)
        self._kept: tuple[int, Columns] | None = None
        fields = [
            (column, pa.from_numpy_dtype(dtype))
            for column, dtype in SYNTHETIC_TABLES[name][1].items()
        ]
        if features is None:
            taken = {"lift_id", "deadlift_kg", *as_names(target), *as_names(key)}
            features = [column for column, _ in fields if column not in taken]
        self._layout = layout_of(pa.schema(fields), features=features, target=target, key=key)
        dtypes = SYNTHETIC_TABLES[name][1]
        self.column_dtypes = {column: np.dtype(dtypes[column]) for column in self.feature_names}
        self.null_counts = dict.fromkeys(self._layout.names(), 0)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}

    @property
    def stamp(self) -> Mapping[str, JSON]:
        """The stamp of the table: the same stamp means the same rows."""
        made = {"name": self.name, "rows": self.n_rows, "seed": self.seed}
        return {"synthetic": made, "roles": self._layout.to_dict()}

    def _batches(self, start: int, stop: int, names: list[str]) -> Iterator[pa.RecordBatch]:
        for span in range(start // SPAN_ROWS, -(-stop // SPAN_ROWS)):
            first = span * SPAN_ROWS
            made = self._span(span)
            inside = slice(max(start - first, 0), stop - first)
            yield pa.record_batch({name: made[name][inside] for name in names})

    def read_bytes(self, n_rows: int) -> int:
        """Peak bytes of reading n_rows rows beyond the block.

        A span is made as a whole, and the last one stays in memory.
        """
        return super().read_bytes(n_rows) + 8 * SPAN_ROWS * SPAN_COLUMNS

    def describe(self) -> str:
        """One line for plans and logs."""
        return self._described(f"synthetic {self.name} (seed {self.seed})")

    def _span(self, span: int) -> Columns:
        """All columns of a whole span; the last one stays in memory."""
        kept = self._kept
        if kept is None or kept[0] != span:
            make, dtypes = SYNTHETIC_TABLES[self.name]
            made = make(np.random.default_rng([self.seed, span]), span * SPAN_ROWS)
            kept = self._kept = (
                span,
                {name: made[name].astype(dtype) for name, dtype in dtypes.items()},
            )
        return kept[1]


YEARS = np.array([1980, 2001, 2011, 2014, 2017, 2020, 2023, 2025])
"""Bounds of seven bands of years; the next two arrays have an entry or a row for each band."""
YEAR_SHARE = np.array([0.032, 0.090, 0.091, 0.185, 0.250, 0.202, 0.150])
EQUIPMENT_SHARE = np.array(
    [
        [0.003, 0.024, 0.956, 0.017, 0.000],
        [0.063, 0.019, 0.836, 0.082, 0.000],
        [0.197, 0.075, 0.687, 0.041, 0.000],
        [0.357, 0.124, 0.507, 0.012, 0.000],
        [0.492, 0.128, 0.372, 0.008, 0.000],
        [0.511, 0.101, 0.333, 0.006, 0.049],
        [0.656, 0.073, 0.029, 0.004, 0.238],
    ]
)
"""Share of raw, wraps, single-ply, multi-ply and unlimited equipment, for each band of years."""
MALE_SHARE = np.array([0.67, 0.74, 0.72, 0.85, 0.42])
"""Share of men, for each equipment."""
OPEN = [0.048, 0.080, 0.107, 0.109, 0.084, 0.091, 0.064, 0.058, 0.072, 0.091, 0.103, 0.093]
SCHOOL = [0.291, 0.311, 0.107, 0.055, 0.046, 0.024, 0.020, 0.016, 0.023, 0.034, 0.040, 0.033]
WINTER = [0.444, 0.445, 0.105, 0.001, 0.001, 0.001, 0.001, 0.000, 0.000, 0.001, 0.001, 0.000]
MONTH_SHARE = np.array([OPEN, OPEN, SCHOOL, OPEN, WINTER])
"""Share of the months, for each equipment.

Single-ply and unlimited meets follow the school season.
"""
EQUIPMENT_EFFECT = {
    "squat": np.array([0.0, 0.06, 0.19, 0.30, 0.18]),
    "bench": np.array([0.0, 0.03, 0.16, 0.26, 0.21]),
    "deadlift": np.array([0.0, 0.01, 0.03, 0.05, 0.02]),
}
"""Effects of the equipment on the logarithm of each lift.

A suit adds to the squat, and little to the deadlift.
"""
LIFTS = {
    "squat": (4.796, 0.421, -0.526, 0.388, 0.396, -0.005, 0.045, -0.18),
    "bench": (4.234, 0.414, -0.590, 0.555, 0.461, -0.022, 0.038, -0.27),
    "deadlift": (4.984, 0.279, -0.568, 0.381, 0.347, -0.029, 0.029, -0.18),
}
"""Effects on the logarithm of each lift.

They belong to: a constant, body weight, its square, sex, body weight of men, ten years, entrants,
school meets.
"""
SQUAT_SPREAD = 0.25
BENCH_SPREAD = 0.16
DEADLIFT_SPREAD = 0.095
SQUAT_TO_BENCH = 0.78
SQUAT_TO_DEADLIFT = 0.66
BENCH_TO_DEADLIFT = 0.18
"""Standard deviations of the residuals, and effects of one residual on another lift.

A lifter who squats more than expected also benches and pulls more.
"""
SUITED_SQUAT = np.array([0.0, 0.0, -0.05, -0.2, -0.05])
"""The change of `SQUAT_TO_DEADLIFT`, for each equipment."""


def _powerlifting(rng: np.random.Generator, start: int) -> Columns:
    """One span of results of powerlifting meets; a row has the three lifts of a lifter.

    Margins and dependence follow the public results of OpenPowerlifting: shares by year, equipment,
    sex and month, and log-linear regressions of each lift on what is known before it.
    """
    n = SPAN_ROWS
    band = _drawn(rng, YEAR_SHARE[None], np.zeros(n, dtype=int))
    year = YEARS[band] + np.floor(rng.random(n) * np.diff(YEARS)[band]).astype(int)
    equipment = _drawn(rng, EQUIPMENT_SHARE, band)
    is_male = rng.random(n) < MALE_SHARE[equipment]
    month = 1 + _drawn(rng, MONTH_SHARE, equipment)
    entrants = np.clip(np.exp(rng.normal(4.5, 0.85, n)), 1.0, 1_500.0).astype(int)
    weight = np.clip(
        np.round(np.exp(rng.normal(np.where(is_male, 4.455, 4.20), 0.243)), 1), 35.0, 200.0
    )
    z = np.log(weight) - 4.4
    ones = np.ones(n)
    decade = (year - 2016) / 10
    crowd = np.log(entrants) - 4.5
    is_school = np.isin(equipment, (2, 4)) & (month <= 3)
    # (n, effects)
    known = np.column_stack([ones, z, z**2, is_male, z * is_male, decade, crowd, is_school])
    expected = {
        lift: known @ np.array(effects) + EQUIPMENT_EFFECT[lift][equipment]
        for lift, effects in LIFTS.items()
    }
    more_squat = SQUAT_SPREAD * rng.standard_normal(n)
    more_bench = BENCH_SPREAD * rng.standard_normal(n)
    squat = expected["squat"] + more_squat
    bench = expected["bench"] + SQUAT_TO_BENCH * more_squat + more_bench
    told = (
        SQUAT_TO_DEADLIFT + SUITED_SQUAT[equipment]
    ) * more_squat + BENCH_TO_DEADLIFT * more_bench
    pull = expected["deadlift"] + told + DEADLIFT_SPREAD * rng.standard_normal(n)
    return {
        "lift_id": start + np.arange(n),
        "bodyweight_kg": weight,
        "squat_kg": _kilograms(squat),
        "bench_kg": _kilograms(bench),
        "sex_male": is_male,
        "equipment": equipment,
        "year": year,
        "month": month,
        "meet_entrants": entrants,
        "deadlift_kg": _kilograms(pull),
    }


def _drawn(
    rng: np.random.Generator, share: FloatArray, row: NDArray[np.integer]
) -> NDArray[np.intp]:
    """Draw (n,) columns of `share` (rows, columns) with the probabilities in the given rows."""
    limits = np.cumsum(share, axis=1)
    chance = rng.random(len(row)) * limits[row, -1]
    return np.asarray((chance[:, None] >= limits[row, :-1]).sum(axis=1))


def _kilograms(logarithm: FloatArray) -> FloatArray:
    """Weights in steps of 2.5 kg, as plates come, from their logarithms."""
    return np.asarray(np.clip(2.5 * np.round(np.exp(logarithm) / 2.5), 20.0, 500.0))


POWERLIFTING = {
    "lift_id": "int64",
    "bodyweight_kg": "float64",
    "squat_kg": "float64",
    "bench_kg": "float64",
    "sex_male": "int8",
    "equipment": "int8",
    "year": "int16",
    "month": "int8",
    "meet_entrants": "int16",
    "deadlift_kg": "float64",
}
SYNTHETIC_TABLES: Mapping[
    str, tuple[Callable[[np.random.Generator, int], Columns], Mapping[str, str]]
] = {"powerlifting": (_powerlifting, POWERLIFTING)}
"""name -> (function of a generator and a first row that makes a span, column -> dtype)."""
