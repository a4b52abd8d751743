"""Columns of times and dates: numbers inside, times again for every call of the model; the oracle
mixes frames."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr

import dshap
from dshap.analysis.single_rows import breakdown
from dshap.core.errors import InputError, StoreMismatchError
from dshap.core.rows import sample_positions
from dshap.cube import verify_cube
from dshap.designs import exact
from dshap.engine import SilentProgress
from dshap.jobs import parse_job, plan_job, run_job
from dshap.kernels import RBF, Nystrom, Product
from dshap.models import KernelRidge
from dshap.predictors.frames import Frame
from dshap.predictors.times import DATE, from_microseconds, microseconds, time_kind
from dshap.sources import ParquetSource
from dshap.values import ConditionalRegression, Copula, Gaussian, KernelInterventional, Marginal
from tests.values.oracles import shapley

pytestmark = pytest.mark.usefixtures("in_this_process")

BERLIN = "Europe/Berlin"
LARGEST = 2**53
"""Microseconds: beyond, float64 rounds them."""


def make_rows(n: int = 24, seed: int = 0) -> pd.DataFrame:
    """Whole seconds of two years, of a zone with summer time; days; numbers."""
    rng = np.random.default_rng(seed)
    when = pd.to_datetime("2023-01-01") + pd.to_timedelta(rng.integers(0, 2 * 365 * 86_400, n), "s")
    return pd.DataFrame(
        {
            "when": pd.Series(when).dt.as_unit("us").dt.tz_localize("UTC").dt.tz_convert(BERLIN),
            "day": pd.Series(
                (pd.to_datetime("1999-12-20") + pd.to_timedelta(rng.integers(0, 40, n), "D")).date
            ),
            "temp": rng.normal(size=n),
        }
    )


def predict(frame):
    """An interaction of all columns; refuses what is not a frame of the table's own dtypes."""
    assert str(frame["when"].dtype) == f"datetime64[us, {BERLIN}]"
    assert frame["day"].map(type).eq(datetime.date).all()
    month = np.array([day.month for day in frame["day"]])
    return (1 + frame["when"].dt.hour) * month * (2 + frame["temp"]) + frame["when"].dt.day_of_week


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return make_rows()


@pytest.fixture(scope="module")
def background() -> pd.DataFrame:
    return make_rows(9, 1)


def brute_force(function, background: pd.DataFrame, row: pd.DataFrame) -> np.ndarray:
    """Shapley values (d,) of a row, a frame of one, by frames that pandas mixes."""

    def value(coalition):
        mixed = background.copy()
        for j in coalition:
            mixed[mixed.columns[j]] = pd.concat([row.iloc[:, j]] * len(mixed), ignore_index=True)
        return float(np.mean(function(mixed)))

    return shapley(value, background.shape[1])


def test_frames_of_every_kind_come_back_as_they_were():
    base = pd.Series(pd.to_datetime(["2024-03-31 00:30:00", "2024-10-27 01:15:07", None]))
    days = pd.Series([datetime.date(2024, 1, 2), None, datetime.date(1700, 2, 1)], dtype=object)
    columns = {f"plain {unit}": base.dt.as_unit(unit) for unit in ("s", "ms", "us", "ns")}
    columns |= {f"zone {unit}": base.dt.as_unit(unit).dt.tz_localize("UTC").dt.tz_convert(BERLIN)
                for unit in ("s", "ms", "us", "ns")}  # fmt: skip
    columns["offset"] = base.dt.tz_localize(
        datetime.timezone(datetime.timedelta(hours=-3, minutes=-30))
    )
    columns["arrow"] = base.astype(pd.ArrowDtype(pa.timestamp("ms")))
    columns["arrow zone"] = columns["zone us"].astype(pd.ArrowDtype(pa.timestamp("s", BERLIN)))
    columns |= {
        "day": days,
        "arrow day": days.astype(pd.ArrowDtype(pa.date32())),
        "x": pd.Series([0.5, 1.5, np.nan]),
    }
    table = pd.DataFrame(columns)
    frame = Frame.of(table)
    assert set(frame.times) == set(columns) - {"x"}
    pd.testing.assert_frame_equal(frame.rebuilt(frame.codes(table)), table)


def test_a_unit_that_is_too_coarse_gives_way_to_microseconds():
    """The background has whole seconds, and a row has more: it is not cut."""
    second = pd.Series(pd.to_datetime(["2024-01-01 12:00:01"])).dt.as_unit("s")
    table = pd.DataFrame({"plain": second, "zone": second.dt.tz_localize(BERLIN)})
    frame = Frame.of(table)
    back = frame.rebuilt(frame.codes(table) + 250_001.0)
    assert back.dtypes.astype(str).tolist() == ["datetime64[us]", f"datetime64[us, {BERLIN}]"]
    assert (back - table == pd.Timedelta(250_001, "us")).all(axis=None)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_microseconds_to_the_ends_of_their_range(unit):
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    ends = np.array([-(LARGEST // 10**6), 0, LARGEST // 10**6]) * per_second
    times = ends.view(f"datetime64[{unit}]")
    found = microseconds(times, "when")
    assert found.tolist() == [-(LARGEST // 10**6) * 1e6, 0.0, (LARGEST // 10**6) * 1e6]
    np.testing.assert_array_equal(from_microseconds(found, f"datetime64[{unit}]"), times)
    for beyond in (ends[:1] - per_second, ends[2:] + per_second):
        with pytest.raises(
            InputError,
            match=r"column 'when' contains the time (1684|2255)-.*times from 1684-07-28 to",
        ):
            microseconds(beyond.view(f"datetime64[{unit}]"), "when")


def test_every_microsecond_is_held():
    whole = np.array([LARGEST, LARGEST - 1, -LARGEST, 1, -1])
    times = whole.view("datetime64[us]")
    np.testing.assert_array_equal(
        from_microseconds(microseconds(times, "when"), "datetime64[us]"), times
    )
    with pytest.raises(InputError, match="2255-06-05"):
        microseconds((whole[:1] + 1).view("datetime64[us]"), "when")


def test_nanoseconds_that_are_no_whole_microsecond_are_refused():
    times = np.array(
        ["2024-01-01T00:00:00.000001", "NaT", "2024-01-01T00:00:00.000001001"], "M8[ns]"
    )
    assert np.isnan(microseconds(times[:2], "when")[1])
    with pytest.raises(
        InputError,
        match=r"column 'when' contains the time 2024.*001001, and only whole microseconds.*round",
    ):
        microseconds(times, "when")
    frame = pd.DataFrame({"when": times, "x": 1.0})
    value = Marginal(lambda f: f["when"].dt.hour + f["x"], frame[:1])
    with pytest.raises(InputError, match=r"001001, and only whole microseconds"):
        dshap.explain(value, frame)


def test_kinds_are_one_text_in_every_library():
    assert time_kind(pa.timestamp("us", BERLIN)) == time_kind(pd.DatetimeTZDtype("us", BERLIN)) == (
        f"datetime64[us, {BERLIN}]"
    )  # fmt: skip
    assert time_kind(pa.date32()) == time_kind(pd.ArrowDtype(pa.date32())) == DATE
    assert time_kind(np.dtype("M8[s]")) == time_kind(pa.timestamp("s")) == "datetime64[s]"
    assert not time_kind(pa.time32("s"))
    assert not time_kind(pa.float64())
    assert not time_kind(np.dtype("m8[s]"))


def test_against_brute_force(rows, background):
    cube = dshap.explain(Marginal(predict, background), rows, design=exact(3))
    for i in (0, 11, 23):
        wanted = brute_force(predict, background, rows.iloc[[i]])
        np.testing.assert_allclose(cube.attribution[i, :, 0], wanted, rtol=0, atol=1e-11)
    assert cube.feature.values.tolist() == ["when", "day", "temp"]


@pytest.mark.slow
def test_a_pipeline_that_takes_month_and_hour_from_a_time(rows, background):
    """A ColumnTransformer of FunctionTransformers, and text and whole numbers beside the times."""
    compose = pytest.importorskip("sklearn.compose", reason="scikit-learn is not installed")
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

    def parts_of(frame):
        when = frame["when"]
        return np.column_stack([when.dt.month, when.dt.hour])

    kinds = rows.assign(kind=np.where(rows["temp"] > 0, "warm", "cold"), n=np.arange(len(rows)))
    others = background.assign(kind="cold", n=3)
    used = ["when", "kind", "n", "temp"]
    encoded = compose.ColumnTransformer(
        [("time", FunctionTransformer(parts_of), ["when"]), ("kind", OneHotEncoder(), ["kind"])],
        remainder="passthrough",
    )
    model = make_pipeline(encoded, RandomForestRegressor(10, random_state=0))
    model.fit(kinds[used], kinds["when"].dt.hour * kinds["temp"] + kinds["when"].dt.month)
    cube = dshap.explain(Marginal(model.predict, others[used]), kinds)
    for i in (0, 5):
        wanted = brute_force(model.predict, others[used], kinds[used].iloc[[i]])
        np.testing.assert_allclose(cube.attribution[i, :, 0], wanted, rtol=0, atol=1e-11)


@pytest.mark.slow
def test_every_table_gives_the_same(rows, background, tmp_path):
    """Parquet of every unit, of another zone, in another order; Arrow; Dask; dates as Arrow has
    them."""
    value = Marginal(predict, background)
    wanted = dshap.explain(value, rows).attribution
    table = pa.Table.from_pandas(rows, preserve_index=False)
    assert table.schema.field("day").type == pa.date32()
    given = [
        table,
        rows[["temp", "day", "when"]].assign(other="x"),
        rows.convert_dtypes(dtype_backend="pyarrow"),
    ]
    for unit in ("s", "ms", "us", "ns"):
        column = table["when"].cast(pa.timestamp(unit, "UTC"))
        pq.write_table(
            table.set_column(0, "when", column), tmp_path / f"{unit}.parquet", row_group_size=7
        )
        given.append(tmp_path / f"{unit}.parquet")
    given.append(ParquetSource(given[-1], features=list(rows), times=["when", "day"]))
    for each in given:
        np.testing.assert_array_equal(dshap.explain(value, each).attribution, wanted)


def test_rows_and_background_of_dask(rows, background):
    dd = pytest.importorskip("dask.dataframe")

    def hours(frame):
        assert str(frame["when"].dtype) == f"datetime64[us, {BERLIN}]"
        return frame["when"].dt.hour * frame["temp"]

    used = ["when", "temp"]
    value = Marginal(hours, dd.from_pandas(background[used], npartitions=2))
    wanted = dshap.explain(Marginal(hours, background[used]), rows).attribution
    found = dshap.explain(value, dd.from_pandas(rows[used], npartitions=3)).attribution
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_on_a_cluster(rows, background, client):
    """Rows of this process's memory are spooled, with their zones and days."""

    def month(frame):
        return frame["when"].dt.hour * np.array([day.month for day in frame["day"]]) * frame["temp"]

    value = Marginal(month, background)
    here = dshap.explain(value, rows)
    there = dshap.explain(value, rows, client=client)
    np.testing.assert_array_equal(here.attribution, there.attribution)


def test_a_background_of_a_source(rows, background, tmp_path):
    """Read by spans: the source knows the kinds of its columns, and predict is tried on the start
    of 1970."""
    background.to_parquet(tmp_path / "b.parquet")
    source = ParquetSource(tmp_path / "b.parquet", features=list(background), times=["when", "day"])
    assert dict(source.times) == {"when": f"datetime64[us, {BERLIN}]", "day": DATE}
    assert "times when, day" in source.describe()
    wanted = dshap.explain(Marginal(predict, background), rows).attribution
    np.testing.assert_allclose(
        dshap.explain(Marginal(predict, source), rows).attribution, wanted, atol=1e-11
    )


def test_a_path_tells_no_types(background, tmp_path):
    """A pipeline of times is tried on numbers, and the message says how to tell the times."""
    background.to_parquet(tmp_path / "b.parquet")

    class Fitted:
        feature_names_in_ = np.array(["when", "temp"])

        def predict(self, frame):
            return frame["when"].dt.hour * frame["temp"]

    with pytest.raises(
        InputError, match=r"dt accessor.*because the data have no types: .*times=\[\.\.\.\]\)$"
    ):
        Marginal(Fitted().predict, tmp_path / "b.parquet")
    source = ParquetSource(tmp_path / "b.parquet", features=["when", "temp"], times=["when"])
    assert np.isfinite(
        dshap.explain(Marginal(Fitted().predict, source), background).attribution
    ).all()


@pytest.mark.slow
def test_a_chosen_background(rows, background):
    names = list(rows)
    chosen = dshap.choose_background(rows, 6, features=names)
    table = chosen.table(names)
    assert table.dtypes.astype(str).tolist() == [f"datetime64[us, {BERLIN}]", "object", "float64"]
    merged = table.merge(rows, how="left", indicator=True)
    assert (merged["_merge"] == "both").all()
    wanted = dshap.explain(Marginal(predict, table, weights=chosen.weights), rows).attribution
    np.testing.assert_array_equal(
        dshap.explain(Marginal(predict, chosen), rows).attribution, wanted
    )
    with pytest.warns(
        RuntimeWarning,
        match=r"leaves out when \(timestamp.*for columns of times, name them in features",
    ):
        assert dshap.choose_background(rows, 2).feature_names == ("temp",)


JOB = {
    "job": {"name": "times", "store": "out.zarr", "seed": 3},
    "source": {
        "kind": "parquet",
        "path": "rows.parquet",
        "features": ["when", "day", "temp"],
        "key": ["id"],
    },
    "model": {"kind": "import", "function": "a_model_of_times:predict"},
    "explain": [{"name": "a", "value": "marginal", "background": 9, "selection": "random"}],
    "run": {"keep_rows": True},
}
MODEL = """
import numpy as np


def predict(frame):
    month = np.array([day.month for day in frame["day"]])
    return (1 + frame["when"].dt.hour) * month * (2 + frame["temp"]) + frame["when"].dt.day_of_week
"""


@pytest.mark.slow
def test_a_job_gives_the_bits_of_a_frame(rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "a_model_of_times.py").write_text(MODEL)
    rows.assign(id=range(len(rows))).to_parquet("rows.parquet", row_group_size=5)
    more = [{"name": "b", "value": "marginal", "background": "all"},
            {"name": "c", "value": "marginal", "background": 5, "selection": "thinning"}]  # fmt: skip
    job = parse_job({**JOB, "explain": JOB["explain"] + more})
    assert "times when, day" in str(plan_job(job))
    paths = run_job(job, SilentProgress()).paths
    chosen = rows.iloc[sample_positions(len(rows), 9, 3)].reset_index(drop=True)
    wanted = dshap.explain(Marginal(predict, chosen), rows).attribution
    np.testing.assert_array_equal(dshap.open_cube(paths["a"]).attribution, wanted)
    of_all = dshap.explain(Marginal(predict, rows), rows).attribution
    np.testing.assert_allclose(dshap.open_cube(paths["b"]).attribution, of_all, atol=1e-11)
    assert np.isfinite(dshap.open_cube(paths["c"]).attribution).all()
    row = breakdown({"a": paths["a"]}, ["4"])
    assert row.values["when"] == rows["when"].dt.tz_convert("UTC")[4].strftime("%Y-%m-%dT%H:%M:%S")
    assert row.values["day"] == str(rows["day"][4])
    assert run_job(job, SilentProgress()).was_complete


def test_a_job_that_fits_a_model_refuses_times(rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows.assign(id=range(len(rows)), y=1.0).to_parquet("rows.parquet")
    job = {**JOB, "source": {**JOB["source"], "target": "y"}, "model": {"kind": "kernel_ridge", "landmarks": 5},
           "explain": [{"name": "a", "value": "kernel_interventional"}]}  # fmt: skip
    with pytest.raises(
        InputError,
        match=r"column 'when' of parquet .* contains times \(timestamp.*give it as a number",
    ):
        plan_job(parse_job(job))


def test_missing_times_follow_the_policy(rows, background):
    holes = rows.assign(when=rows["when"].where(np.arange(len(rows)) != 4))
    seen = []

    def watch(frame):
        seen.append(frame["when"].isna().any())
        return frame["when"].dt.hour.fillna(-7.0) * frame["temp"]

    value = Marginal(watch, background)
    with pytest.raises(InputError, match="1 row contains NaN or infinity: when 1; set missing"):
        dshap.explain(value, holes)
    skipped = dshap.explain(value, holes, missing="skip")
    assert skipped.status.values[4] == 2
    assert np.isnan(skipped.attribution[4]).all()
    assert not any(seen)
    passed = dshap.explain(value, holes, missing="pass")
    assert any(seen)
    assert float(passed.prediction[4, 0]) == -7.0 * rows["temp"][4]
    others = np.arange(len(rows)) != 4
    np.testing.assert_array_equal(passed.attribution[others], skipped.attribution[others])


def test_a_column_that_is_called_times(background):
    named = background[["when", "temp"]].rename(columns={"when": "times", "temp": "dtypes"})
    cube = dshap.explain(Marginal(lambda f: f["times"].dt.hour * f["dtypes"], named), named)
    np.testing.assert_allclose(
        cube.prediction[:, 0], background["when"].dt.hour * background["temp"]
    )
    chosen = dshap.choose_background(named, 3, features=["times", "dtypes"])
    assert dict(chosen.times) == {"times": f"datetime64[us, {BERLIN}]"}


def test_a_column_of_nothing_but_missing_times(rows, background):
    def watch(frame):
        return frame["when"].dt.hour.fillna(1.0) * frame["temp"]

    used = background[["when", "temp"]]
    cube = dshap.explain(Marginal(watch, used), rows.assign(when=None), missing="pass")
    np.testing.assert_allclose(cube.prediction[:, 0], rows["temp"])


def test_rows_are_kept_as_times(rows, background, tmp_path):
    """As any reader of CF knows them, in UTC; a key of times beside them; a changed row is told by
    its key."""
    store = tmp_path / "cube.zarr"
    value, keyed = Marginal(predict, background), rows.assign(at=rows["when"].dt.tz_convert("UTC"))
    dshap.explain(value, keyed, key="at", store=store, keep_rows=True)
    kept = xr.open_zarr(store, group="rows", consolidated=False)
    np.testing.assert_array_equal(kept["when"].values, rows["when"].dt.tz_convert(None).to_numpy())
    np.testing.assert_array_equal(kept["day"].values, pd.to_datetime(rows["day"]).to_numpy())
    np.testing.assert_array_equal(
        dshap.open_cube(store)["at"].values, rows["when"].dt.tz_convert(None).to_numpy()
    )
    assert verify_cube(store) == []
    changed = keyed.assign(
        when=keyed["when"] + pd.to_timedelta((np.arange(len(rows)) == 6).astype(int), "s")
    )
    with pytest.raises(
        StoreMismatchError,
        match=rf"1 key changed \({rows['when'].dt.tz_convert('UTC')[6]:%Y-%m-%dT}",
    ):
        dshap.explain(value, changed, key="at", store=store, keep_rows=True)


def test_a_time_and_its_number_are_two_runs(rows, background, tmp_path):
    """The same numbers inside, the same predictions: the role of the column is in the
    fingerprint."""
    store, used = tmp_path / "cube.zarr", ["when", "temp"]

    def of_temp(frame):
        return frame["temp"] * 2.0

    dshap.explain(Marginal(of_temp, background[used]), rows[used], store=store)
    as_number = [
        each[used].assign(when=each["when"].astype("int64")) for each in (background, rows)
    ]
    with pytest.raises(StoreMismatchError, match="contains a different run"):
        dshap.explain(Marginal(of_temp, as_number[0]), as_number[1], store=store)


def test_a_regression_on_times_is_one_on_their_microseconds(rows, background):
    """Shapley values of E[f(X) | X_S]: those of a table of microseconds, and of one of days with
    kernels to match."""
    used, day = ["when", "temp"], 86_400e6
    table = make_rows(200, 4)[used]

    def trend(frame):
        days = (frame["when"] - pd.Timestamp("2023-01-01", tz="UTC")) / pd.Timedelta(days=1)
        return np.sin(days / 90.0) * (1.0 + frame["temp"])

    def regression(function, data, unit):
        return ConditionalRegression(
            function, data, Product([RBF(60.0 * unit), RBF(1.0)]), Nystrom(40), penalty=1e-4
        )

    cube = dshap.explain(regression(trend, table, day), rows[used])
    start = pd.Timestamp("2023-01-01", tz="UTC")

    def in_days(frame):
        return frame.assign(when=(frame["when"] - start) / pd.Timedelta(days=1))

    def trend_of_days(frame):
        return np.sin(frame["when"] / 90.0) * (1.0 + frame["temp"])

    days = dshap.explain(regression(trend_of_days, in_days(table), 1.0), in_days(rows[used]))
    np.testing.assert_allclose(cube.attribution, days.attribution, rtol=0, atol=1e-8)


def test_draws_of_a_copula_are_times_of_the_data(background):
    table, used = make_rows(150, 5), ["when", "temp"]
    known = set(table["when"])
    seen = set()

    def hours(frame):
        seen.update(frame["when"])
        return frame["when"].dt.hour * frame["temp"]

    cube = dshap.explain(Copula(hours, table[used], n_samples=50), table[used].iloc[:5])
    assert seen <= known
    assert np.isfinite(cube.attribution).all()


def test_a_prepared_value_of_times(rows, tmp_path):
    table, used = make_rows(80, 6), ["when", "temp"]

    def hours(frame):
        return frame["when"].dt.hour * frame["temp"]

    value = ConditionalRegression(hours, table[used], RBF("median"), Nystrom(15), penalty=1e-3)
    wanted = dshap.explain(value, rows[used])
    prepared = dshap.prepare(value, store=tmp_path / "prepared")
    np.testing.assert_allclose(
        dshap.explain(prepared, rows[used]).attribution, wanted.attribution, atol=1e-9
    )
    opened = dshap.open_prepared(tmp_path / "prepared", value)
    np.testing.assert_allclose(
        dshap.explain(opened, rows[used]).attribution, wanted.attribution, atol=1e-9
    )
    dshap.mse_v(value, make_rows(30, 7)[used])


def hours(frame):
    return frame["when"].dt.hour * frame["temp"]


def plain(rows):
    return rows.assign(when=rows["when"].dt.tz_convert("UTC").dt.tz_localize(None))


@pytest.mark.parametrize(
    ("explain", "message"),
    [
        (lambda b, r: dshap.explain(Marginal(hours, b), plain(r)), r"contains times without a zone .*tz_localize"),
        (lambda b, r: dshap.explain(Marginal(hours, plain(b)), r), r"contains times of a zone .*tz_localize\(None"),
        (lambda b, r: dshap.explain(Marginal(hours, b), r.assign(when=1.0)), r"contains double here, and datetime"),
        (lambda b, r: dshap.explain(Marginal(hours, b), r.assign(when="2024-01-01")), r"contains \w*string.* here"),
        (lambda b, r: dshap.explain(Marginal(hours, b), r.assign(day=plain(r)["when"])), "'day' contains times of th"),
        (lambda b, r: dshap.explain(Marginal(hours, b), np.zeros((4, 3))), r"takes times \(when, day\), and an array"),
        (
            lambda b, r: Marginal(lambda a: a[:, 0], b),
            "failed: .*; predict was given a data frame, because column 'when' contains times: "
            "with numbers, such as days",
        ),
        (lambda b, r: Marginal(hours, b, arrays=True), "arrays=True, and column 'when' contains times"),
        (
            lambda b, r: dshap.explain(Marginal(lambda f: f["temp"], b[["temp"]]), r.rename(columns={"when": "temp"})),
            "the table contains 2 columns named 'temp'",
        ),
        (lambda b, r: Gaussian(hours, b), "'when' contains times, which Gaussian cannot draw: use Marginal or Condi"),
        (lambda b, r: KernelRidge(RBF(1.0), Nystrom(3), 0.1).fit(plain(r)[["when"]], r["temp"]), "contains times"),
        (
            lambda b, r: dshap.fit(KernelRidge(RBF(1.0), Nystrom(3), 0.1), r, "temp", features=["when"]),
            r"'when' contains times \(timestamp.*give them as a number, such as days since a date",
        ),
        (lambda b, r: Marginal(hours, b.assign(when=b["when"].astype(object))), r"contains Timestamp.*to_datetime"),
        (
            lambda b, r: dshap.explain(Marginal(hours, b), r.assign(day=datetime.date(9999, 12, 31))),
            "'day' contains the time 9999-12-31, and only times from 1684-07-28 to 2255-06-05 are "
            "accepted: put a missing",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(explain, message, rows, background):
    with pytest.raises(InputError, match=message):
        explain(background, rows)


def test_sources_that_were_opened_for_others(rows, background, tmp_path):
    rows.to_parquet(tmp_path / "t.parquet")
    path, numbers = (
        tmp_path / "t.parquet",
        Marginal(lambda a: a[:, 0], background[["temp"]].to_numpy()),
    )
    rows[["temp"]].assign(when=1).to_parquet(tmp_path / "n.parquet")
    with pytest.raises(
        InputError,
        match=r"takes the times of column 'when', and the source was opened without them",
    ):
        dshap.explain(
            Marginal(hours, background[["temp", "when"]]), ParquetSource(tmp_path / "n.parquet")
        )
    with pytest.raises(InputError, match="column 'when' contains times"):
        ParquetSource(path, features=["when", "temp"])
    of_times = ParquetSource(path, features=["when"], times=["when"])
    with pytest.raises(
        InputError, match="column 'when' of the source contains times, and numbers are taken here"
    ):
        dshap.explain(numbers, of_times)
    model = KernelRidge(RBF(1.0), Nystrom(3), 0.1).fit(np.arange(9.0)[:, None], np.arange(9.0))
    with pytest.raises(
        InputError, match="column 'when' of the source contains times, and numbers are taken here"
    ):
        dshap.explain(KernelInterventional(model, np.zeros((2, 1))), of_times)


def test_the_plan_says_how_predict_gets_its_rows(rows, background, tmp_path):
    cube = dshap.explain(Marginal(hours, background), rows, store=tmp_path / "cube.zarr")
    run = json.loads(cube.attrs["dshap_run"])["fingerprint"]
    assert run["value"]["columns"] == {
        "when": f"datetime64[us, {BERLIN}]",
        "day": "object",
        "temp": "float64",
    }
