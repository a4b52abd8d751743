"""Made-up tables: the same rows however they are read, of the dtypes and the dependence that they
state."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dshap.core.errors import InputError
from dshap.core.types import RowReader
from dshap.engine import LoopExecutor, learn_from
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.tables import SPAN_ROWS, CensusPass, SyntheticTable

FEATURES = (
    "bodyweight_kg",
    "squat_kg",
    "bench_kg",
    "sex_male",
    "equipment",
    "year",
    "month",
    "meet_entrants",
)
N = 20_000


@pytest.fixture(scope="module")
def rows():
    return SyntheticTable("powerlifting", N).read(0, N, keys=True, target=True, columns=True)


def test_roles_and_dtypes(rows):
    table = SyntheticTable("powerlifting", N)
    assert isinstance(table, RowReader)
    assert (table.feature_names, table.key_names, table.target_names) == (
        FEATURES,
        ("lift_id",),
        ("deadlift_kg",),
    )
    assert table.key_dtypes == {"lift_id": "int64"}
    assert table.has_target
    assert table.missing == "refuse"
    assert table.describe() == (
        "synthetic powerlifting (seed 0): 20,000 rows, 8 features, key lift_id, target deadlift_kg"
    )
    assert rows.x.shape == (N, 8)
    assert rows.x.dtype == np.float64
    assert rows.is_ok.all()
    assert rows.target.shape == (N,)
    assert rows.target.dtype == np.float64
    assert_array_equal(rows.keys["lift_id"], np.arange(N))
    for name, dtype in table.column_dtypes.items():
        assert rows.columns[name].dtype == dtype, name
        assert_array_equal(rows.columns[name], rows.x[:, FEATURES.index(name)])
    assert table.column_dtypes["sex_male"] == np.int8
    assert table.column_dtypes["squat_kg"] == np.float64


def test_any_read_gives_the_same_rows():
    """Over the border of a span, in any order, from any reader; the longer table begins with the
    shorter."""
    n = SPAN_ROWS + 500
    table = SyntheticTable("powerlifting", n)
    whole = table.read(0, n, keys=True, target=True)
    cuts = [(0, 1), (SPAN_ROWS - 3, SPAN_ROWS + 7), (SPAN_ROWS, n), (17, 900), (n, n), (n - 1, n)]
    for start, stop in cuts:
        for reader in (
            table,
            pickle.loads(pickle.dumps(table)),
            SyntheticTable("powerlifting", 3 * n),
        ):
            part = reader.read(start, stop, keys=True, target=True)
            assert part.start == start
            assert_array_equal(part.x, whole.x[start:stop])
            assert_array_equal(part.target, whole.target[start:stop])
            assert_array_equal(part.keys["lift_id"], whole.keys["lift_id"][start:stop])
    assert not np.array_equal(whole.x[:500], whole.x[SPAN_ROWS:])  # spans differ


def test_columns_by_name_and_seed(rows):
    few = SyntheticTable(
        "powerlifting", N, features=["year", "bench_kg"], target=["squat_kg", "deadlift_kg"], key=()
    )
    block = few.read(5, 50, keys=True, target=True)
    assert_array_equal(block.x, rows.x[5:50][:, [5, 2]])
    assert_array_equal(block.target, np.column_stack([rows.x[5:50, 1], rows.target[5:50]]))
    assert block.keys == {}
    assert few.read(5, 50).target is None
    other = SyntheticTable("powerlifting", N, target="month", key="year")
    assert other.feature_names == tuple(name for name in FEATURES if name not in ("month", "year"))
    none = SyntheticTable("powerlifting", N, target=None)
    assert none.feature_names == FEATURES
    assert not none.has_target
    assert none.read(0, 5, target=True).target is None
    assert not np.array_equal(SyntheticTable("powerlifting", N, seed=1).read(0, 50).x, rows.x[:50])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"name": "weightlifting"},
            "unknown synthetic table 'weightlifting'; did you mean 'powerlifting'?",
        ),
        ({"n_rows": 0}, "0 rows of seed 0: give 1 to 100,000,000,000 rows"),
        ({"n_rows": 2**62}, "give 1 to 100,000,000,000 rows"),
        ({"seed": -1}, "a seed of at least 0"),
        ({"features": ["squat"]}, "unknown column 'squat'"),
        ({"features": ["deadlift_kg"]}, "target 'deadlift_kg' is also in features"),
    ],
)
def test_refused(options, said):
    with pytest.raises(InputError, match=said):
        SyntheticTable(**{"name": "powerlifting", "n_rows": 10, **options})


def test_a_span_outside_the_table():
    with pytest.raises(InputError, match=r"rows 5\.\.11 asked of a table of 10 rows"):
        SyntheticTable("powerlifting", 10).read(5, 11)


def test_pickles_are_small():
    table = SyntheticTable("powerlifting", 10**9)
    table.read(0, 10)
    assert len(pickle.dumps(table)) < 2_000  # the span that it keeps stays at home


def test_reading_takes_what_it_says():
    table = SyntheticTable("powerlifting", 2 * SPAN_ROWS)
    table.read(0, 1)  # pyarrow and numpy load their parts once
    table = SyntheticTable("powerlifting", 2 * SPAN_ROWS)
    tracemalloc.start()
    block = table.read(10, SPAN_ROWS + 10, keys=True, target=True, columns=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    arrays = [block.x, block.target, *block.keys.values(), *block.columns.values()]
    needed = peak - sum(array.nbytes for array in arrays)
    assert needed <= table.read_bytes(SPAN_ROWS) <= 3 * needed


def test_the_census_is_that_of_any_table():
    table = SyntheticTable("powerlifting", SPAN_ROWS + 10)
    census = learn_from(LoopExecutor(), CensusPass(table.feature_names), table)
    assert census.n_rows == SPAN_ROWS + 10
    assert census.n_bad == census.n_bad_targets == 0
    assert census.constant_columns(table) == ()


def test_the_margins_of_lifters(rows):
    """Those of the public table, to what a sample of 20,000 and round shares leave: 5 % of each
    number."""
    x = dict(zip(FEATURES, rows.x.T, strict=True))
    assert x["sex_male"].mean() == pytest.approx(0.69, abs=0.02)
    found = np.bincount(x["equipment"].astype(int)) / N
    assert found == pytest.approx([0.413, 0.097, 0.427, 0.018, 0.046], abs=0.02)
    assert set(x["month"]) == set(range(1, 13))
    assert x["year"].min() >= 1980
    assert x["year"].max() == 2024
    for name, mean, deviation in (
        ("bodyweight_kg", 82.5, 22.6), ("squat_kg", 170.6, 65.4), ("bench_kg", 107.0, 47.5), ("year", 2016.6, 6.6),
    ):  # fmt: skip
        assert x[name].mean() == pytest.approx(mean, rel=0.05), name
        assert x[name].std() == pytest.approx(deviation, rel=0.1), name
    assert rows.target.mean() == pytest.approx(184.7, rel=0.05)
    assert np.median(x["meet_entrants"]) == pytest.approx(91, rel=0.05)
    assert np.corrcoef(x["squat_kg"], x["bench_kg"])[0, 1] == pytest.approx(0.91, abs=0.03)
    assert np.corrcoef(x["sex_male"], x["bodyweight_kg"])[0, 1] == pytest.approx(0.41, abs=0.03)
    assert (x["squat_kg"] % 2.5 == 0).all()
    assert (rows.target % 2.5 == 0).all()


@pytest.mark.slow
def test_a_kernel_model_tells_a_little_more_than_a_linear_one(rows):
    """R² of about 0.89 and 0.90, on rows that neither saw."""
    train, test = slice(0, 16_000), slice(16_000, N)
    line = np.column_stack([np.ones(N), rows.x])
    weights = np.linalg.lstsq(line[train], rows.target[train])[0]
    model = KernelRidge(RBF("validate"), Nystrom(100), penalty="validate", sample_size=4_000)
    model.fit(rows.x[train], rows.target[train])
    spread = rows.target[test].var()
    linear = 1.0 - np.square(rows.target[test] - line[test] @ weights).mean() / spread
    kernel = model.score(rows.x[test], rows.target[test])
    assert 0.88 < linear < 0.90, (linear, kernel)
    assert linear + 0.006 < kernel < 0.915, (linear, kernel)
