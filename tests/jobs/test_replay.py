"""A replay has the bits of the run: trees, kernels, a black box, nights; what differs is named."""

from __future__ import annotations

import shutil
import sys

import numpy as np
import pandas as pd
import pytest

from dshap.core.errors import (
    CheckFailedError,
    DamagedError,
    InputError,
    NotLearnedError,
    StoreMismatchError,
)
from dshap.cube.current import runs_of
from dshap.jobs.replay import MOST_BLOCKS, replay_run, sampled_rows
from dshap.jobs.replay_outcome import WantedRows
from tests.jobs.sealed_jobs import (
    numbers,
    of_kernel,
    of_people,
    of_reasons,
    of_sql,
    of_trees,
    people,
    reasons_of_trees,
    with_reasons,
)

JOBS = {
    "trees": of_trees,
    "kernel": of_kernel,
    "black box": of_people,
    "reasons": of_reasons,
    "reasons of trees": reasons_of_trees,
}
NIGHTS = {"incremental": {"strategy": "digest"}}


@pytest.mark.parametrize("kind", JOBS)
def test_every_row_has_the_same_bits(tmp_path, kind):
    job = JOBS[kind](tmp_path / "job")
    job.run()
    found = replay_run(job.store, WantedRows(10_000))
    assert found.is_same, found.lines
    assert all(each.n_compared == each.n_rows == len(job.table) for each in found.cubes)
    assert all("all" in each.lines[0] for each in found.cubes)


@pytest.mark.parametrize("kind", JOBS)
def test_nights_whose_rows_were_carried(tmp_path, kind):
    """Rows carried over two nights, changed ones, new ones, gone ones: each has the bits of its night."""
    job = JOBS[kind](tmp_path / "job", **NIGHTS)
    first = job.run()
    table = job.table.copy()
    column = "age" if "age" in table else "a"
    table.loc[3:9, column] = [20.0 + i for i in range(7)]
    new = people(9, 5, 900) if column == "age" else numbers(9, 5, 900)
    job.put(pd.concat([new, table.drop(index=[0, 17, 40])]).reset_index(drop=True))
    job.run()
    table = job.table.copy()
    table.loc[20:22, column] = 33.0
    job.put(table)
    last = job.run()
    assert last.facts.explanations[0].keys.changed == 3
    found = replay_run(job.store, WantedRows(10_000))
    assert found.is_same, found.lines
    assert all(each.n_carried == len(table) - 3 for each in found.cubes)
    assert not any(each.rounded for each in found.cubes)
    earlier = replay_run(job.store, WantedRows(30), run_id=first.facts.run_id)
    assert earlier.is_same
    assert not any(each.n_carried for each in earlier.cubes)


def test_reasons_without_their_sinks(tmp_path, monkeypatch):
    """On another machine: no code book, no database, another code book; the record of the cube counts."""
    job = reasons_of_trees(tmp_path / "job", **NIGHTS)
    sink = job.tables["sink"][0]
    sink["uri"] = "{{ env_var('PLACE_OF_NOTICES') }}"
    monkeypatch.setenv("PLACE_OF_NOTICES", f"duckdb:///{job.folder}/notices.duckdb")
    job.run("sink.notices.k=3")
    monkeypatch.delenv("PLACE_OF_NOTICES")
    (job.folder / "codes.csv").unlink()
    assert replay_run(job.store, WantedRows(10_000)).is_same
    (job.folder / "codes.csv").write_text("code,players,text\nX,a;b;c;d,everything\n")
    assert replay_run(job.store, WantedRows(10_000)).is_same
    monkeypatch.setenv("PLACE_OF_NOTICES", "duckdb:///elsewhere.duckdb")
    assert replay_run(job.store, WantedRows(10_000), job_file=str(job.file)).is_same


@pytest.mark.parametrize("made", [of_sql, lambda folder: with_reasons(of_sql(folder))])
def test_a_table_of_a_database_that_runs_read_once(tmp_path, made):
    """The rows of the newest run stay in the store, and are read from there."""
    job = made(tmp_path / "job")
    first = job.run()
    (job.folder / "people.sqlite").rename(job.folder / "away.sqlite")
    found = replay_run(job.store, WantedRows(10_000))
    assert found.is_same, found.lines
    assert found.cubes[0].n_compared == len(job.table)
    (job.folder / "away.sqlite").rename(job.folder / "people.sqlite")
    job.run()
    assert replay_run(job.store, WantedRows(20), run_id=first.facts.run_id).is_same


def test_a_table_of_a_database_whose_rows_are_gone(tmp_path):
    job = of_sql(tmp_path / "job")
    run_id = job.run().facts.run_id
    shutil.rmtree(job.store / "parts")
    with pytest.raises(NotLearnedError) as raised:
        replay_run(job.store, WantedRows(20))
    assert str(raised.value) == (
        f"the rows of run {run_id} are not in {job.store} any more: dshap run JOB.toml reads the "
        "source again; if the source has the same rows as then, they can be replayed"
    )
    job.run()
    assert replay_run(job.store, WantedRows(10_000), run_id=run_id).is_same


def test_rows_of_a_database_that_were_altered(tmp_path):
    job = of_sql(tmp_path / "job")
    job.run()
    part = next((job.store / "parts").glob("*/*.parquet"))
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(bytes(content))
    with pytest.raises(DamagedError, match="not replayed once they are damaged"):
        replay_run(job.store, WantedRows(20))


def test_a_night_that_is_gone(tmp_path):
    """Rows whose night the store keeps no more are the same but for rounding, and that is said."""
    job = of_kernel(tmp_path / "job", **NIGHTS)
    job.tables["job"]["keep_runs"] = 1
    first = job.run()
    job.put(job.table.drop(index=[0, 1, 2, 50]).reset_index(drop=True).assign(d=lambda t: t.d))
    changed = job.table.copy()
    changed.loc[5, "a"] = 9.0
    job.put(changed)
    job.run()
    assert runs_of(job.store / "observational") != [first.facts.run_id]
    found = replay_run(job.store, WantedRows(10_000))
    assert found.is_same
    gone = [each for each in found.cubes if each.rounded]
    assert all("only by rounding" in each.lines[0] for each in gone)
    with pytest.raises(NotLearnedError, match=r"not in .* any more"):
        replay_run(job.store, WantedRows(10), run_id=first.facts.run_id)


def test_a_copy_elsewhere(tmp_path):
    """Store, model and table on another machine, named by settings; the first ones are gone."""
    job = of_trees(tmp_path / "job")
    job.run()
    there = tmp_path / "elsewhere"
    shutil.copytree(job.folder, there)
    shutil.rmtree(job.folder)
    moved = (f"source.path={there / 'table.parquet'}", f"model.path={there / 'model.json'}")
    found = replay_run(there / "store", WantedRows(20), settings=moved)
    assert found.is_same
    assert found.cubes[0].n_compared == 20


def test_single_rows(tmp_path):
    job = of_people(tmp_path / "job")
    job.run()
    found = replay_run(job.store, WantedRows(keys=("kü-7", "kü-49")))
    assert found.is_same
    assert found.cubes[0].n_compared == 2
    with pytest.raises(InputError, match="no row has the key kü-99"):
        replay_run(job.store, WantedRows(keys=("kü-99",)))
    with pytest.raises(InputError, match="unknown explanation 'klasses'; did you mean 'classes'"):
        replay_run(job.store, WantedRows(explain="klasses"))


def test_a_source_that_has_changed(tmp_path):
    job = of_trees(tmp_path / "job")
    job.run()
    table = job.table.copy()
    table.loc[50, "a"] += 1e-9
    job.put(table)
    with pytest.raises(StoreMismatchError, match=r"the source has changed: .*table\.parquet"):
        replay_run(job.store, WantedRows(5))


def test_a_model_that_has_changed(tmp_path):
    job = of_trees(tmp_path / "job")
    job.run()
    of_trees(tmp_path / "other")
    content = (tmp_path / "other" / "model.json").read_text()
    (job.folder / "model.json").write_text(content + " ")
    with pytest.raises(StoreMismatchError, match=r"the model has changed: .*model\.json"):
        replay_run(job.store, WantedRows(5))


def test_code_that_has_changed(tmp_path):
    """A black box has no digest of its own: its predictions are compared."""
    job = of_people(tmp_path / "job")
    job.run()
    module = sys.modules[job.tables["model"]["function"].partition(":")[0]]
    before = module.classes
    module.classes = lambda frame: before(frame) ** 2
    with pytest.raises(StoreMismatchError, match="predict"):
        replay_run(job.store, WantedRows(5))


def test_the_first_block_that_differs(tmp_path, monkeypatch):
    """The states and the source are those of the run, and the stored values are not."""
    job = of_trees(tmp_path / "job")
    job.run()
    _disturb(job.store / "reasons", row=70)
    found = replay_run(job.store, WantedRows(10_000))
    assert not found.is_same
    assert found.cubes[0].n_differing == 1
    said = r"first block that differs: 2 \(rows 64 to 95\), row 70, in attribution"
    with pytest.raises(CheckFailedError, match=said) as raised:
        found.refuse_differences()
    assert raised.value.exit_status == 8


def test_another_processor(tmp_path, monkeypatch):
    """Small differences are said to be rounding where the processor is another one, else not."""
    job = of_trees(tmp_path / "job")
    job.run()
    _disturb(job.store / "reasons", row=70, by=1e-13)
    with pytest.raises(CheckFailedError):
        replay_run(job.store, WantedRows(10_000)).refuse_differences()
    monkeypatch.setattr("dshap.jobs.replay.processor", lambda: "Another Processor, x86_64")
    found = replay_run(job.store, WantedRows(10_000))
    found.refuse_differences()
    assert "rounding on another processor" in found.lines[-1]
    assert "Another Processor" in found.lines[-1]


def test_a_store_without_a_statement(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no attestation"):
        replay_run(tmp_path / "empty", WantedRows())


@pytest.mark.parametrize(("n_rows", "size"), [(1, 1), (1, 5), (100, 7), (10_000, 1_000), (33, 32)])
def test_samples(n_rows, size):
    rows = sampled_rows(n_rows, 16, size, seed=0)
    assert len(rows) == min(size, n_rows)
    assert np.array_equal(rows, np.unique(rows))
    assert rows[-1] < n_rows
    assert len(np.unique(rows // 16)) <= max(MOST_BLOCKS, -(-size // 16))


def _disturb(cube, row, by=1e-3):
    """Write another value of an attribution over a stored one, with whole checksums."""
    from dshap.cube.shards import shards_of

    shards = shards_of(cube / "attribution")
    tile = row // shards.shard_rows
    start = tile * shards.shard_rows
    stop = min(start + shards.shard_rows, shards.shape[0])
    values = shards.read(start, stop).copy()
    values[row - start, 0, 0] += by
    shards.folder.replace(shards.name(tile), shards.encoded(values))
