"""A cube for each run, and the pointer that names the one that is read: all readers follow it."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import zarr
from click.testing import CliRunner

import dshap
from dshap.blocks import finished_blocks
from dshap.cli import cli
from dshap.core.errors import DamagedError, InputError, LockedError
from dshap.cube import (
    cube_at,
    current_of,
    mark_finished,
    named_cubes,
    remove_run,
    repair_store,
    runs_of,
    set_current,
    store_parts,
    verify_store,
)
from dshap.cube.arrays import create_store
from dshap.cube.creation import clear_orphans
from dshap.storage.folder import Folder
from tests.cube.cubes import bytes_of, make_cube

RUNS = ("20260226T031500Z", "20260227T031500Z", "20260228T031500Z")


@pytest.fixture
def store(tmp_path):
    """A job's store with three nights of one explanation, and one explanation without nights."""
    path = tmp_path / "churn"
    create_store(path, {"name": "churn", "units": "kW"})
    for i, run in enumerate(RUNS):
        make_cube(path / "reasons" / run, n_rows=21 + i)
    make_cube(path / "plain", n_rows=9)
    for room in ("parts", "runs", "prepared"):
        (path / room / RUNS[0]).mkdir(parents=True)
        (path / room / RUNS[0] / "notes.json").write_text("{}")
    (path / "keys").mkdir()
    (path / "keys" / f"{RUNS[0]}.parquet").write_bytes(b"PAR1")
    set_current(path / "reasons", RUNS[1])
    mark_finished(path, ["plain"])
    return path


def output_of(*given):
    found = CliRunner().invoke(cli, [*map(str, given)])
    return found.exit_code, found.output


def test_readers_follow_the_pointer(store):
    reasons = store / "reasons"
    assert current_of(reasons) == RUNS[1]
    assert runs_of(reasons) == list(RUNS)
    assert dshap.open_cube(reasons).sizes["instance"] == 22
    assert dshap.open_cube(reasons / RUNS[2]).sizes["instance"] == 23
    assert sum(block.stop - block.start for block in finished_blocks(reasons)) == 22
    assert named_cubes(store) == {"reasons": reasons / RUNS[1], "plain": store / "plain"}
    assert named_cubes(reasons) == {"reasons": reasons / RUNS[1]}
    assert named_cubes(store, RUNS[0]) == {"reasons": reasons / RUNS[0]}
    set_current(reasons, RUNS[2])
    assert dshap.open_cube(reasons).sizes["instance"] == 23
    with pytest.raises(InputError, match=f"open one of: {store}/plain, {reasons}$"):
        dshap.open_cube(store)


def test_commands_follow_it_too(store):
    code, output = output_of("status", store)
    assert code == 0
    assert "reasons: 22 rows" in output
    assert "plain: 9 rows" in output
    for command in ("status", "show"):
        assert "reasons: 21 rows" in output_of(command, store, "--run", RUNS[0])[1]
        assert "22 rows" in output_of(command, store / "reasons")[1]
        code, output = output_of(command, store, "--run", "yesterday")
        assert code == 2
        assert f"give one of {', '.join(RUNS)}" in output
    code, output = output_of("verify", store, "--json")
    assert code == 0
    parts = {"churn", "plain", *(f"reasons/{run}" for run in RUNS)}
    assert json.loads(output).keys() == parts == store_parts(store).keys()


def test_a_first_run_that_is_not_over_has_no_pointer(tmp_path):
    """Its growing cube is shown, and not opened as the one that is read."""
    create_store(tmp_path / "s", {})
    make_cube(tmp_path / "s/e" / RUNS[0], tiles=[0])
    assert current_of(tmp_path / "s/e") is None
    assert named_cubes(tmp_path / "s") == {"e": tmp_path / "s/e" / RUNS[0]}
    assert "1 of 3 blocks done" in output_of("status", tmp_path / "s")[1]


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"20990101T000000Z\n", b"", b"../../elsewhere", b"\xff\xfe"])
def test_a_pointer_that_leads_nowhere_is_damage(store, content):
    reasons = store / "reasons"
    (reasons / "current").write_bytes(content)
    for read in (dshap.open_cube, named_cubes, cube_at, current_of):
        with pytest.raises(DamagedError, match=r"current names .*--repair"):
            read(reasons)
    assert cube_at(reasons, RUNS[0]) == reasons / RUNS[0]
    for place in (store, reasons):
        damages = verify_store(place)
        assert str(damages["reasons"][0]).startswith("current: names ")
        assert not any(found for name, found in damages.items() if name != "reasons")
    code, output = output_of("verify", store)
    assert code == 7
    assert "reasons: current: names" in output
    assert output_of("verify", store, "--repair")[0] == 0
    assert current_of(reasons) == RUNS[2]
    assert not any(verify_store(store).values())


def test_a_pointer_to_nothing_that_is_finished_is_removed(tmp_path):
    create_store(tmp_path / "s", {})
    make_cube(tmp_path / "s/e" / RUNS[0], tiles=[0])
    (tmp_path / "s/e/current").write_text(RUNS[1])
    assert repair_store(tmp_path / "s")["e"][0].what.endswith("is not there")
    assert current_of(tmp_path / "s/e") is None


def test_damage_is_found_in_every_night(store):
    zarr.open_array(store / "reasons" / RUNS[0] / "prediction", mode="r+")[3] = 7.0
    found = {name: damages for name, damages in verify_store(store).items() if damages}
    assert list(found) == [f"reasons/{RUNS[0]}"]
    assert "prediction" in found[f"reasons/{RUNS[0]}"][0].what
    assert output_of("verify", store)[0] == 7


def test_the_pointer_is_put_in_one_step(store, monkeypatch):
    """Killed before the last step, the old pointer stands; what is left goes with the orphans."""
    reasons = store / "reasons"
    seen = []

    def dying(private, path):
        seen.append((reasons / "current").read_text())
        os.link(private, reasons / ".current.0123456789ab")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", dying)
        with pytest.raises(KeyboardInterrupt):
            set_current(reasons, RUNS[2])
    assert seen == [f"{RUNS[1]}\n"]
    assert current_of(reasons) == RUNS[1]
    assert clear_orphans(store) == ("reasons/.current.0123456789ab",)


@pytest.mark.parametrize("run", ["20990101T000000Z", "", "../plain"])
def test_only_a_cube_that_is_there_becomes_the_current_one(store, run):
    with pytest.raises(InputError, match=f"no cube of the run {run!r}: give one of {RUNS[0]}"):
        set_current(store / "reasons", run)
    assert current_of(store / "reasons") == RUNS[1]


def test_old_runs_are_removed_whole(store, monkeypatch):
    reasons = store / "reasons"
    others = {run: bytes_of(reasons / run) for run in RUNS[1:]}
    with pytest.raises(InputError, match="is the current cube"):
        remove_run(reasons, RUNS[1])
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        remove_run(reasons, RUNS[0])
    monkeypatch.undo()
    assert runs_of(reasons) == [*RUNS[1:]]
    assert len(os.listdir(reasons)) == 4
    assert not any(verify_store(store).values())
    remove_run(reasons, RUNS[0])
    assert sorted(os.listdir(reasons)) == sorted([*RUNS[1:], "current"])
    assert {run: bytes_of(reasons / run) for run in RUNS[1:]} == others


def test_folders_without_nights_are_read_as_before(tmp_path):
    make_cube(tmp_path / "build/a")
    make_cube(tmp_path / "build/b")
    assert cube_at(tmp_path / "build") == tmp_path / "build"
    assert named_cubes(tmp_path / "build").keys() == {"a", "b"}
    with pytest.raises(InputError, match="has no cube for each run: leave --run out"):
        cube_at(tmp_path / "build/a", RUNS[0])
    np.testing.assert_array_equal(dshap.open_cube(tmp_path / "build/a").sizes["instance"], 21)


def test_the_pointer_never_goes_back_to_an_earlier_run(store):
    """A holder that slept finishes its night after a later one was finished by another machine."""
    reasons = store / "reasons"
    set_current(reasons, RUNS[2])
    for _ in range(2):
        with pytest.raises(LockedError, match=f"names the later run {RUNS[2]}, which another"):
            set_current(reasons, RUNS[0])
    set_current(reasons, RUNS[2])
    assert (reasons / "current").read_text() == f"{RUNS[2]}\n"


def test_a_pointer_that_another_process_writes_meanwhile_stays(store, monkeypatch):
    """It is put only over the content that was seen."""
    reasons = store / "reasons"
    set_by_another = f"{RUNS[2]}\n"
    exchange = Folder.exchange

    def late(folder, name, before, content):
        (reasons / "current").write_text(set_by_another)
        return exchange(folder, name, before, content)

    (reasons / "current").write_text(f"{RUNS[0]}\n")
    monkeypatch.setattr(Folder, "exchange", late)
    with pytest.raises(LockedError, match="was written by another process"):
        set_current(reasons, RUNS[1])
    assert (reasons / "current").read_text() == set_by_another


def test_a_pointer_over_what_is_no_file(store):
    reasons = store / "reasons"
    (reasons / "current").unlink()
    (reasons / "current").mkdir()
    set_current(reasons, RUNS[0])
    assert current_of(reasons) == RUNS[0]
