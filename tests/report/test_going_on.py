"""What `dshap status` says of a run while it goes on, from whatever machine."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dshap.core.places import place_of
from dshap.report import progress_summary
from dshap.report.going_on import blocks_in_words, holder_line, view_of_run
from dshap.storage.folder import Folder
from dshap.storage.lease import Holder
from dshap.storage.running import beside_others, holders_on, lease_folder
from tests.buckets import BUCKET
from tests.cube.cubes import block_of, make_cube

SEEN = "2026-11-28T10:00:00Z"


def holder_of(what: str, since: str = SEEN, **progress: Any) -> Holder:
    """A process of another machine that began then, and says this of its work."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return Holder("t", what, "node7", 9, "1", "another", 3, now, since, progress)


@contextmanager
def shards_on(store: Any, told: dict[str, dict[str, Any]]) -> Iterator[None]:
    """Processes with these names that say this of their work."""
    with ExitStack() as stack:
        for what, progress in told.items():
            rooms = stack.enter_context(beside_others(store, what))
            rooms.tell(progress, True)
        end = time.monotonic() + 30
        while not all(holder.progress for holder in holders_on(store)):
            assert time.monotonic() < end
            time.sleep(0.01)
        yield


@pytest.mark.parametrize("is_in_bucket", [False, True])
def test_shards_and_what_nobody_has(tmp_path, s3, is_in_bucket):
    """Five blocks of shards 1 and 2 of 4, one of them done; the others are of no process."""
    store = place_of(f"s3://{BUCKET}/going/on" if is_in_bucket else tmp_path / "on")
    make_cube(store / "c", n_rows=80, tiles=[0, 9])
    explains = {"explains": True, "explanation": "c", "stage": "evaluation", "unit": "rows"}
    at_work = {**explains, "stage_started": time.time() - 100, "done": 8, "total": 16}
    told = {
        "shard 1 of 4": {**at_work, "blocks": {"c": [0, 2]}, "workers": 3, "workers_lost": 1},
        "shard 2 of 4": {**at_work, "done": 0, "blocks": {"c": [2, 5]}},
    }
    with shards_on(store, told):
        holders = holders_on(store)
        found = progress_summary({"c": store / "c"}, True, holders)
    lines = found.lines
    assert lines[1] == "c: missing: blocks 1-8"
    assert lines[2].startswith("c: 0.16 rows/s over the last 10")
    assert lines[2].endswith(" s (blocks: 2), 0.16 since the start; time left unknown")
    assert lines[3].startswith("c: shard 1 of 4: 1 of 2 blocks ended, missing: block 1; 0.0")
    assert lines[3].endswith(" left, an estimate")
    assert " about 10" in lines[3]
    assert lines[4] == (
        "c: shard 2 of 4: 0 of 3 blocks ended, missing: blocks 2-4; no block has ended since the "
        "start; time left unknown"
    )
    assert lines[5] == "c: no running process works on blocks 5-8"
    assert "Z: evaluation of c, 8 of 16 rows; workers: 3, lost since the start: 1" in lines[6]
    content = json.loads(json.dumps(found.content))
    cube = content["cubes"]["c"]
    assert cube["missing_blocks"] == [[1, 8]]
    assert cube["blocks_of_no_process"] == [[5, 8]]
    assert cube["seconds_left"] is None
    assert cube["rows_per_second"] == pytest.approx(0.16, rel=0.1)
    assert cube["shards"]["shard 1 of 4"]["seconds_left"] == pytest.approx(100, rel=0.1)
    assert cube["shards"]["shard 2 of 4"]["missing_blocks"] == [[2, 4]]
    assert [each["workers_lost"] for each in content["running"]] == [1, None]
    assert [each["done"] for each in content["running"]] == [8, 0]


def test_shards_are_waited_for_until_the_last(tmp_path):
    make_cube(tmp_path / "c", n_rows=48, tiles=[0, 3])
    at = time.time() - 100
    both = [
        holder_of(
            "shard 1 of 2", explains=True, explanation="c", stage_started=at, blocks={"c": [0, 3]}
        ),
        holder_of(
            "shard 2 of 2", explains=True, explanation="c", stage_started=at, blocks={"c": [3, 6]}
        ),
    ]
    # the last blocks take two times as long as the first one
    view = view_of_run("c", tmp_path / "c", both)
    assert view.left_alone == ()
    assert view.seconds_left == pytest.approx(200, rel=0.1)
    half = view_of_run("c", tmp_path / "c", [both[0], holder_of("shard 2 of 2")])
    assert half.left_alone == ()  # the other has not said yet what it has


def test_a_run_without_shares(tmp_path):
    """The rate counts from the start of this explanation, not of the process."""
    make_cube(tmp_path / "c", n_rows=48, tiles=[0, 1, 2])
    told = {"explains": True, "explanation": "c", "stage_started": time.time() - 60}
    run = holder_of("a run", **told, stage="evaluation", done=24, total=48, unit="rows")
    view = view_of_run("c", tmp_path / "c", [run])
    assert view.pace.rows_per_second == pytest.approx(24 / 60, rel=0.1)
    assert view.seconds_left == pytest.approx(60, rel=0.1)
    other = view_of_run("other", tmp_path / "c", [run])
    assert other.pace.rows_per_second < 24 / 600  # it began long before
    assert [*view.lines(is_running=False)] == ["missing: blocks 3-5"]


def test_nobody_runs(tmp_path):
    make_cube(tmp_path / "c", tiles=[1])
    path = tmp_path / "c" / "state" / "receipts" / "block-00000001.json"
    os.utime(path, (0, 0))
    found = progress_summary({"c": tmp_path / "c"}, False)
    assert found.lines[1:] == ["c: missing: blocks 0, 2", "no run is going on"]
    cube = found.content["cubes"]["c"]
    assert cube["last_block_ended"] == "1970-01-01T00:00:00Z"
    assert cube["rows_per_second"] is None
    assert cube["seconds_left"] is None
    assert cube["blocks_of_no_process"] == cube["missing_blocks"] == [[0, 0], [2, 2]]


def test_a_run_that_only_tries_failed_blocks_again(tmp_path):
    """Every block has ended; two failed before the start, of which one is explained by now."""
    layout, writer = make_cube(tmp_path / "c", tiles=[])
    for block in range(3):
        writer.mark_failed(block, 8 * block, min(8 * block + 8, 21), "the model is broken")
        os.utime(tmp_path / "c" / "state" / "failures" / f"block-{block:08d}.json", (0, 0))
    writer.write(1, *block_of(layout, 1))
    told = {"explains": True, "explanation": "c", "stage_started": time.time() - 100}
    view = view_of_run("c", tmp_path / "c", [holder_of("a run", **told)])
    assert view.pace.n_missing == 0
    assert view.to_dict()["failed_blocks_left"] == 2
    again, rates = view.lines(is_running=True)
    assert again == "2 failed blocks are tried again"
    assert rates.startswith("0.08 rows/s over the last ")
    assert "left, an estimate" in rates
    shard = holder_of("shard 2 of 2", **told, blocks={"c": [1, 3]})
    view = view_of_run("c", tmp_path / "c", [shard])
    assert view.seconds_left == pytest.approx(100 * 5 / 8, rel=0.1)
    again, _, share = view.lines(is_running=True)
    assert again == "1 failed block is tried again"
    assert share.startswith("shard 2 of 2: 2 of 2 blocks ended, 1 failed block is tried again; ")


def test_a_run_whose_workers_are_all_lost(tmp_path):
    """No time left is estimated, and a line says what the run waits for."""
    make_cube(tmp_path / "c", tiles=[0])
    told = {"explains": True, "explanation": "c", "stage_started": time.time() - 100}
    working = view_of_run("c", tmp_path / "c", [holder_of("a run", **told, workers=1)])
    assert working.seconds_left is not None
    assert not working.is_unmanned
    waiting = view_of_run("c", tmp_path / "c", [holder_of("a run", **told, workers=0)])
    assert waiting.seconds_left is None
    assert waiting.to_dict()["seconds_left"] is None
    _, first, second = waiting.lines(is_running=True)
    assert first == "the cluster has no workers now: the run waits for one"
    assert second.endswith("time left unknown")
    assert not view_of_run("c", tmp_path / "c", []).is_unmanned


def test_a_process_in_words():
    """It is told with what it said last, and the dead only with their last sign of life."""
    run = holder_of("a run", stage="fit", done=3, total=7, unit="passes")
    assert holder_line(run).startswith(
        f"a run (process 9 on node7) has been running since {SEEN}, last "
    )
    assert holder_line(run).endswith(f"; at {run.seen[11:]}: fit, 3 of 7 passes")
    earlier = Holder.read(
        json.dumps(
            {"token": "t", "what": "a run", "host": "h", "pid": 1, "started": "", "machine": ""}
        ).encode()
    )
    assert (
        holder_line(earlier) == "a run (process 1 on h) has been running since , last sign of life "
    )


def test_blocks_in_words():
    assert blocks_in_words([(4, 4)]) == "block 4"
    assert blocks_in_words([(17, 31), (40, 40)]) == "blocks 17-31, 40"
    many = [(10 * run, 10 * run + 1) for run in range(10)]
    assert blocks_in_words(many).endswith("70-71 and 4 more")


def test_what_is_told_is_small(tmp_path):
    """A sign of life is a few hundred bytes."""
    store = Path(tmp_path / "on")
    share = {f"explanation_{number}": [0, 100_000] for number in range(5)}
    told = {"blocks": share, "stage": "evaluation", "done": 1, "total": 2, "unit": "rows"}
    with shards_on(store, {"shard 1 of 2": told}):
        folder: Folder = lease_folder(store)
        (name,) = folder.list()
        assert folder.size(name) < 1_000
