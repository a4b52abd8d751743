"""One plan, many ways to carry it out: the arrays are the same bits."""

from __future__ import annotations

import os
from pathlib import Path

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr

import dshap
from dshap import designs
from dshap.core.records import CHAIN, FAN_IN, Moments
from dshap.cube import open_cube, read_run
from dshap.engine import DaskExecutor
from dshap.engine.cluster import add_parts
from dshap.engine.graph import Call, LoopExecutor, Reduction
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelExpansion, KernelRidge
from dshap.values import KernelInterventional, KernelObservational, Marginal
from tests.lanes import left_to_systems

NAMES = ["a", "b", "c", "d", "e"]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2_000, 5))
    frame = pd.DataFrame(x, columns=NAMES)
    frame["id"] = [f"row {i}" for i in range(len(x))]
    frame["y"] = np.sin(x[:, 0]) * x[:, 1] + x[:, 2]
    return frame


@pytest.fixture(scope="module")
def model(frame):
    x = frame[NAMES].to_numpy()
    kernel = RBF(1.5).bind(5)
    weights = np.random.default_rng(1).normal(size=(40, 1))
    return KernelExpansion(kernel, x[:40], weights, np.zeros(1), feature_names=tuple(NAMES))


def value_of(kind, model, data):
    if kind == "interventional":
        return KernelInterventional(model, data)
    if kind == "marginal":
        return Marginal(model.predict, data.to_numpy()[:30] if hasattr(data, "to_numpy") else data[:30],
                        feature_names=NAMES)  # fmt: skip
    return KernelObservational(model, data, Nystrom(30), penalty=1e-3)


def arrays(cube):
    return {
        name: cube[name].values for name in ("attribution", "prediction", "base_value", "status")
    }


def assert_same_bits(one, other):
    for name, values in arrays(one).items():
        assert values.tobytes() == arrays(other)[name].tobytes(), name


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize(
    ("kind", "groups"),
    [
        ("interventional", None),
        ("observational", 4),
        ("marginal", 4),
        left_to_systems("interventional", 4),
        left_to_systems("observational", None),
        left_to_systems("marginal", None),
    ],
)
def test_loop_and_dask_give_the_same_bits(client, frame, model, kind, groups):
    """Also with the coalitions of a tile in groups, whose partial sums are stored, and spans that
    make a tree."""
    x = frame[NAMES]
    value = value_of(kind, model, x)
    design = designs.kernelshap(5, 20, seed=1)
    options = {"row_span": 300, "coalition_groups": groups, "coalition_tile": 4}
    loop = dshap.explain(value, x, design=design, client=None, **options)
    spread = dshap.explain(value, x, design=design, client=client, **options)
    assert_same_bits(loop, spread)


@pytest.mark.slow
@pytest.mark.cluster
def test_the_number_of_workers_changes_nothing(frame, model, tmp_path, client, open_client):
    """None, one, two."""
    value = value_of("observational", model, frame[NAMES])
    assert [len(each.nthreads()) for each in (open_client, client)] == [1, 2]
    stores = [tmp_path / f"{workers}.zarr" for workers in range(3)]
    for store, each in zip(stores, (None, open_client, client), strict=True):
        dshap.explain(value, frame, key="id", store=store, client=each, row_span=256)
    for store in stores[1:]:
        assert (store / "state" / "plan.json").read_bytes() == (
            stores[0] / "state" / "plan.json"
        ).read_bytes()
        assert read_run(store) == read_run(stores[0])
        assert_same_bits(open_cube(stores[0]), open_cube(store))


def inputs(frame, folder: Path):
    """The same rows in every form and in many chunkings."""
    x = frame[NAMES]
    folder.mkdir()
    many = folder / "many"
    many.mkdir()
    for i, cut in enumerate(np.split(np.arange(len(x)), [17, 900, 901, 1500])):
        columns = NAMES[::-1] if i % 2 else NAMES  # the order of columns in a file does not matter
        pq.write_table(
            pa.Table.from_pandas(x.iloc[cut][columns]), many / f"{i}.parquet", row_group_size=77
        )
    pq.write_table(pa.Table.from_pandas(x), folder / "one.parquet")
    array = x.to_numpy()
    return {
        "numpy": array,
        "pandas": x,
        "parquet file": folder / "one.parquet",
        "parquet folder": many,
        "parquet glob": str(many / "*.parquet"),
        "dask array": da.from_array(array, chunks=(333, 2)),
        "dask dataframe": dd.from_pandas(x, npartitions=7),
        "xarray dataset": xr.Dataset({name: ("row", x[name].to_numpy()) for name in NAMES}),
        "xarray array": xr.DataArray(array, dims=("row", "feature"), coords={"feature": NAMES}),
        "xarray lazy": xr.DataArray(
            array, dims=("row", "feature"), coords={"feature": NAMES}
        ).chunk({"row": 150}),
    }


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("where", ["loop", "dask"])
def test_any_chunking_of_the_input_gives_the_same_bits(frame, model, tmp_path, client, where):
    """Rows to explain and rows to learn from, in every form."""
    plans, cubes = [], []
    for name, rows in inputs(frame, tmp_path / "in").items():
        store = tmp_path / f"{name.replace(' ', '-')}.zarr"
        value = KernelObservational(model, rows, Nystrom(25), penalty=1e-3)
        design = designs.kernelshap(5, 16)
        executor = client if where == "dask" else None
        dshap.explain(value, rows, design=design, store=store, client=executor, row_span=500)
        plans.append((store / "state" / "plan.json").read_bytes())
        cubes.append(open_cube(store))
        assert read_run(store)["fingerprint"] == read_run(tmp_path / "numpy.zarr")["fingerprint"], (
            name
        )
    assert all(plan == plans[0] for plan in plans)
    for cube in cubes[1:]:
        assert_same_bits(cubes[0], cube)


@pytest.mark.slow
def test_other_tiles_agree_to_rounding(frame, model):
    """1e-10 of the target's standard deviation for a given model."""
    value = value_of("observational", model, frame[NAMES])
    design = designs.exact(5)
    one = dshap.explain(value, frame, key="id", design=design)
    tiles = {
        "instance_tile": 128,
        "coalition_tile": 6,
        "coalition_groups": 3,
        "micro_rows": 64,
        "row_span": 700,
    }
    other = dshap.explain(value, frame, key="id", design=design, **tiles)
    assert float(abs(one.attribution - other.attribution).max()) <= 1e-10 * float(
        one.prediction.std()
    )


@pytest.mark.cluster
def test_fit_on_a_cluster_gives_the_bits_of_fit(frame, client):
    ridge = KernelRidge(
        RBF("validate"), Nystrom(60), penalty="validate", holdout=0.1, sample_size=500
    )
    one = ridge.unfitted().fit(frame[NAMES], frame["y"].to_numpy())
    two = dshap.fit(ridge, frame, "y", features=NAMES, client=client)
    assert one.expansion_.digest() == two.expansion_.digest()
    assert one.penalty_ == two.penalty_
    assert one.r2_.tobytes() == two.r2_.tobytes()


def test_with_the_fit_inside_other_chunks_agree(frame):
    """1e-6 with the fit inside: here to the bit, since spans are fixed."""
    ridge = KernelRidge(RBF(1.5), Nystrom(60), penalty=1e-6)
    x, y = frame[NAMES], frame["y"].to_numpy()
    whole = ridge.unfitted().fit(x, y)
    parts = ridge.unfitted().fit([(x[:700], y[:700]), (x[700:], y[700:])])
    assert whole.expansion_.digest() == parts.expansion_.digest()


class SlowPredict:
    """A model that takes its time, and leaves the number of its process for each call."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, x):
        import time

        time.sleep(0.01)
        with open(self.folder / str(os.getpid()), "a") as file:
            file.write(".")
        return x.sum(axis=1) + x[:, 0] * x[:, 1]


@pytest.mark.slow
@pytest.mark.cluster
def test_few_rows_and_many_slow_coalitions_keep_both_workers_busy(client, tmp_path):
    """2 rows, 1,024 coalitions: coalition groups are tasks, and neither worker makes fewer than a
    quarter of calls."""
    rng = np.random.default_rng(0)
    background, rows = rng.normal(size=(20, 10)), rng.normal(size=(2, 10))
    calls = tmp_path / "calls"
    calls.mkdir()
    value = Marginal(SlowPredict(calls), background, buffer_rows=400)
    for file in calls.iterdir():
        file.unlink()  # the tries of the constructor
    cube = dshap.explain(value, rows, design=designs.exact(10), client=client)
    made = [file.stat().st_size for file in calls.iterdir() if file.name != str(os.getpid())]
    assert len(made) == 2, made
    assert min(made) >= sum(made) / 4, made
    assert cube.status.values.tolist() == [1, 1]


def test_building_the_work_computes_nothing(frame, model, tmp_path):
    """compute=False leaves a store with its plan and every row pending; the same call then finishes
    it."""
    value = value_of("interventional", model, frame[NAMES])
    cube = dshap.explain(value, frame, key="id", store=tmp_path / "c.zarr", compute=False)
    assert (cube.status == 0).all()
    assert np.isnan(cube.attribution).all()
    done = dshap.explain(value, frame, key="id", store=tmp_path / "c.zarr")
    assert (done.status == 1).all()
    assert not np.isnan(done.attribution).any()


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize(
    ("n", "n_additions"), [(1, 0), (5, 1), (6, 2), (28, 7), (33, 8), (34, 9), (66, 17), (130, 35)]
)
def test_sums_of_many_leaves_are_the_same_bits(client, monkeypatch, n, n_additions):
    """More of them than one task adds, and than one chain has: one addition for four leaves, else
    additions, each of which waits for the leaf that its worker is at, fall behind the leaves."""
    added, submit = [], client.submit

    def watched(function, *args, **options):
        if function is add_parts:
            added.append(len(args))
        return submit(function, *args, **options)

    def leaf(context, i):
        return Moments({"x": np.random.default_rng(i).normal(size=50) * 10.0 ** (i % 13)})

    monkeypatch.setattr(client, "submit", watched)
    work, totals = [Reduction("sum", tuple(Call(leaf, (i,)) for i in range(n)), Call(total_of))], []
    for executor in (LoopExecutor(), DaskExecutor(client)):
        executor.run(None, work, lambda _, total: totals.append(total))
    assert totals[0]["x"].tobytes() == totals[1]["x"].tobytes()
    assert len(added) == n_additions
    assert max(added, default=2) <= FAN_IN


def test_the_loop_executor_stops_at_the_first_error_or_tells_of_it():
    def fail(context, total):
        raise ValueError("no")

    work = [
        Reduction("bad", (), Call(fail)),
        Reduction("sum", (Call(lambda c: 1), Call(lambda c: 2)), Call(total_of)),
    ]
    with pytest.raises(ValueError, match="no"):
        LoopExecutor().run(None, work, lambda *_: None)
    done, failed = [], []
    LoopExecutor().run(
        None, work, lambda r, x: done.append((r.name, x)), lambda r, e: failed.append(r.name)
    )
    assert done == [("sum", 3)]
    assert failed == ["bad"]


def total_of(context, total):
    return total


@pytest.mark.cluster
@pytest.mark.parametrize("told", [True, False])
def test_single_tasks_are_submitted_together_and_end_as_in_the_loop(client, told):
    """Among reductions with leaves, and with some that fail; more of them than are ever waited for."""

    def single(context, total, i):
        assert total is None
        if i % 17 == 5:
            raise ValueError(f"no {i}")
        return 10 * i + context

    work = [
        Reduction(f"{i}", tuple(Call(lambda c: c) for _ in range(3)), Call(total_of))
        if i % 11 == 3
        else Reduction(f"{i}", (), Call(single, (i,)))
        for i in range(120)
    ]
    for executor in (LoopExecutor(), DaskExecutor(client)):
        done, failed = {}, {}
        if not told:
            with pytest.raises(ValueError, match="no 5"):
                executor.run(7, iter(work), into(done))
            continue
        executor.run(7, iter(work), into(done), into(failed))
        assert {name: str(error) for name, error in failed.items()} == {
            f"{i}": f"no {i}" for i in range(5, 120, 17) if i % 11 != 3
        }
        assert done == {
            f"{i}": 21 if i % 11 == 3 else 10 * i + 7
            for i in range(120)
            if i % 17 != 5 or i % 11 == 3
        }


def into(found):
    """A callback that keeps what each reduction gives."""
    return lambda reduction, given: found.update({reduction.name: given})


@pytest.mark.slow
@pytest.mark.cluster
def test_a_reduction_of_many_leaves_is_submitted_chain_by_chain(client, monkeypatch):
    """Client and scheduler hold as many tasks of a table of 10^9 rows as of one of 10^7; leaves that
    are reductions have the bits of their own leaves."""
    n = 40 * CHAIN + 7
    ahead, largest, submit = set(), [0], client.submit

    def watched(function, call=None, *args, **options):
        future = submit(function, call, *args, **options)
        ahead.add(future.key)
        future.add_done_callback(lambda done: ahead.discard(done.key))
        largest[0] = max(largest[0], len(ahead))
        return future

    monkeypatch.setattr(client, "submit", watched)
    calls = tuple(Call(number, (i,)) for i in range(n))
    inner = tuple(
        Reduction("part", calls[i : i + 4 * CHAIN], Call(total_of)) for i in range(0, n, 4 * CHAIN)
    )
    totals = []
    for executor in (LoopExecutor(), DaskExecutor(client)):
        for reduction in (
            Reduction("sum", calls, Call(total_of)),
            Reduction("sum", inner, Call(total_of), chain=1),
        ):
            executor.run(None, [reduction], lambda _, total: totals.append(total))
    assert len({total["x"].tobytes() for total in totals}) == 1
    assert len(totals) == 4
    assert largest[0] < 8 * CHAIN


@pytest.mark.slow
@pytest.mark.cluster
def test_an_error_ends_a_long_reduction_early(client, tmp_path):
    def leaf(context, i):
        (tmp_path / str(i)).touch()
        if i == 20:
            raise ValueError("no")
        return (i,)

    work = Reduction("sum", tuple(Call(leaf, (i,)) for i in range(40 * CHAIN)), Call(total_of))
    with pytest.raises(ValueError, match="no"):
        DaskExecutor(client).run(None, [work], lambda *_: None)
    assert len(list(tmp_path.iterdir())) < 10 * CHAIN


def number(context, i):
    return Moments({"x": np.random.default_rng(i).normal(size=5) * 10.0 ** (i % 13)})
