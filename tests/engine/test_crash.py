"""Kills for real: whatever dies, and when, the same command finishes the rest and the arrays are
the same bits."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import dask
import numpy as np
import pytest

import dshap
from dshap.cube import open_cube, verify_cube
from dshap.engine import local_client, shut_down
from tests.engine import crash_job
from tests.engine.test_executors import assert_same_bits
from tests.lanes import left_to_systems
from tests.processes import forked, kill_group

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
N_BLOCKS = -(-crash_job.N_ROWS // crash_job.OPTIONS["instance_tile"])
N_TILES = -(-(2**crash_job.D - 2) // crash_job.OPTIONS["coalition_tile"])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, Path]:
    """Each job in this process, without a cluster and without a pause."""
    out = {}
    for kind in ("observational", "marginal"):
        value, rows, options = crash_job.job(kind, is_slow=False)
        out[kind] = tmp_path_factory.mktemp("undisturbed") / f"{kind}.zarr"
        dshap.explain(value, rows, store=out[kind], **options)
    return out


def wait_for(condition: Callable[[], bool], process: BaseProcess | None = None) -> None:
    end = time.monotonic() + 300
    while not condition():
        if process is not None and process.exitcode is not None:
            pytest.fail(f"the job ended too soon, with exit status {process.exitcode}")
        if time.monotonic() > end:
            pytest.fail("the job never came that far")
        time.sleep(0.002)


def names(store: Path, pattern: str) -> set[str]:
    return {path.name for path in (store / "state").glob(pattern)}


def marks(store: Path) -> dict[str, tuple[int, int]]:
    """inode and time of every finished piece: a piece that is computed again would have others."""
    found = [*(store / "state").glob("*.npz"), *(store / "state" / "receipts").glob("*.json")]
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


@pytest.fixture
def finish(client, capfd) -> Callable[[Path, str], str]:
    """The same call again in this process, to its end; what it said."""

    def call(store: Path, kind: str) -> str:
        value, rows, options = crash_job.job(kind, is_slow=False)
        capfd.readouterr()
        dshap.explain(value, rows, store=store, client=client, progress=True, **options)
        return capfd.readouterr().err

    return call


MOMENTS = {
    "no tile": lambda store: bool(names(store, "landmarks-*")) and not names(store, "moments-*"),
    "during the moments": lambda store: len(names(store, "moments-*")) >= 3,
    "some blocks": lambda store: len(names(store, "receipts/*.json")) >= 4,
    "all but one block": lambda store: len(names(store, "receipts/*.json")) >= N_BLOCKS - 1,
}


@pytest.mark.parametrize(
    ("moment", "victim"),
    [
        ("no tile", "the only process"),
        ("during the moments", "client and all"),
        ("some blocks", "client alone"),
        ("all but one block", "the only process"),
        left_to_systems("during the moments", "client alone"),
        left_to_systems("some blocks", "client and all"),
    ],
)
def test_a_killed_job_is_finished_by_the_same_call(tmp_path, undisturbed, finish, moment, victim):
    """SIGKILL; then nothing that was finished is computed again, and no block is wrong."""
    store = tmp_path / "cube.zarr"
    where = "here" if victim == "the only process" else "cluster"
    with forked(crash_job.main, str(store), "observational", where) as process:
        wait_for(lambda: MOMENTS[moment](store), process)
        if victim == "client alone":
            # workers may live on for seconds, and write: the same bytes, the second mark refused
            process.kill()
            process.join()
        else:
            kill_group(process)
        before = marks(store)
        output = finish(store, "observational")
    after = marks(store)
    assert before
    assert {name: after[name] for name in before} == before
    assert len(names(store, "moments-*")) == N_TILES
    assert len(names(store, "receipts/*.json")) == N_BLOCKS
    if moment == "some blocks":
        assert "moments:" not in output
        assert "kept from before" in output
    assert_same_bits(open_cube(undisturbed["observational"]), open_cube(store))
    assert verify_cube(store) == []


@pytest.mark.systems
@pytest.mark.parametrize("seed", range(100))
def test_a_job_killed_at_any_moment_again_and_again(tmp_path, undisturbed, finish, seed):
    """SIGKILL of all its processes within some seconds, ten times; each time the next run goes on."""
    draws = np.random.default_rng(seed)
    store = tmp_path / "cube.zarr"
    before: dict[str, tuple[int, int]] = {}
    for where in draws.choice(["here", "cluster"], 10):
        with forked(crash_job.main, str(store), "observational", where) as process:
            process.join(float(draws.uniform(0.5, 10.0)))
        after = marks(store)
        assert {name: after[name] for name in before} == before
        before = after
    finish(store, "observational")
    assert_same_bits(open_cube(undisturbed["observational"]), open_cube(store))
    assert verify_cube(store) == []


def test_a_killed_job_of_few_rows_loses_one_group_of_coalitions(tmp_path, undisturbed, finish):
    """40 rows, one block: partial sums of coalition groups are kept."""
    store = tmp_path / "cube.zarr"
    with forked(crash_job.main, str(store), "marginal", "here") as process:
        wait_for(lambda: len(names(store, "partial-*")) >= 4, process)
    before = marks(store)
    finish(store, "marginal")
    after = marks(store)
    kept = [name for name in before if name in after]
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert_same_bits(open_cube(undisturbed["marginal"]), open_cube(store))


def test_a_second_run_of_a_finished_job_changes_nothing(tmp_path, finish):
    store = tmp_path / "cube.zarr"
    finish(store, "observational")
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    finish(store, "observational")
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before


@pytest.fixture(scope="module")
def mortal() -> Iterator[object]:
    """Two workers that tests kill; others come in their place."""
    client = local_client(2, memory_limit="1GiB", set_as_default=False)
    yield client
    shut_down(client)


def test_a_run_survives_the_death_of_a_worker(tmp_path, undisturbed, mortal, capsys):
    """SIGKILL of a worker during the moments and again during the evaluation: the same arrays, and
    a line for each."""
    store = tmp_path / "cube.zarr"
    mortal.wait_for_workers(2)

    def kill_one_when(condition: Callable[[], bool]) -> None:
        wait_for(condition)
        pids = mortal.run(os.getpid)
        os.kill(next(iter(pids.values())), signal.SIGKILL)

    def kill_twice() -> None:
        kill_one_when(lambda: len(names(store, "moments-*")) >= 2)
        kill_one_when(lambda: len(names(store, "receipts/*.json")) >= 2)

    killer = threading.Thread(target=kill_twice)
    killer.start()
    value, rows, options = crash_job.job("observational", is_slow=True)
    dshap.explain(value, rows, store=store, client=mortal, **options)
    killer.join(timeout=300)
    assert not killer.is_alive()
    assert_same_bits(open_cube(undisturbed["observational"]), open_cube(store))
    lost = [line for line in capsys.readouterr().err.splitlines() if "lost" in line]
    told = r"\S+ worker tls://127\.0\.0\.1:\d+ is lost \(workers lost: (\d), left: [12]\): others do its tasks"
    assert [re.fullmatch(told, line)[1] for line in lost] == ["1", "2"]


def deadly_predict(x):
    """Kills the worker at the row that is marked; other rows take so long that they wait beside
    it."""
    if len(x) > 30 and (x[:, 0] > 100).any():
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.2 if len(x) > 30 else 0.0)
    return x.sum(axis=1)


def test_a_block_that_kills_its_worker_is_set_aside_and_those_beside_it_are_kept(tmp_path):
    """Dask holds each task on a worker that dies to have killed it; alone, one of the three
    does."""
    rows = np.random.default_rng(0).normal(size=(256, 3))
    rows[130, 0] = 1000.0
    value = dshap.values.Marginal(deadly_predict, rows[100:104])
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        client = local_client(1, memory_limit="1GiB", threads=2, set_as_default=False)
    try:
        with pytest.raises(
            dshap.DshapError,
            match=r"64 of 256 rows have no attribution .*, in 1 of 4 blocks; rows 128 to 191: its",
        ):
            dshap.explain(
                value,
                rows,
                store=tmp_path / "c.zarr",
                client=client,
                instance_tile=64,
                coalition_groups=1,
            )
    finally:
        shut_down(client)
    cube = open_cube(tmp_path / "c.zarr")
    assert (cube.status.values == np.repeat([1, 1, 3, 1], 64)).all()
    gap = cube.attribution.values[..., 0].sum(axis=1) - (rows - rows[100:104].mean(axis=0)).sum(
        axis=1
    )
    assert np.abs(np.delete(gap, slice(128, 192))).max() < 1e-9
