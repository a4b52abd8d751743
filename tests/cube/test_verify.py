"""Every thing that is damaged is named, and made again to the same bytes; stores of others are
refused in one line."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import zarr

import dshap
from dshap import designs
from dshap.core.errors import DamagedError, DshapError, InputError, UncheckableError
from dshap.core.records import State
from dshap.cube import (
    create_store,
    cube_status,
    feature_ranking,
    find_row,
    open_cube,
    repair,
    store_parts,
    verify_cube,
)
from dshap.storage.sealed_files import ReceiptFolder, StateFolder
from tests.benchmarks import alterations
from tests.cube.cubes import bytes_of, make_cube

READERS = {
    "open_cube": open_cube,
    "cube_status": cube_status,
    "feature_ranking": feature_ranking,
    "find_row": lambda path: find_row(path, ["5"]),
}


def flip(file, position: int = -1) -> None:
    content = bytearray(file.read_bytes())
    content[position] ^= 4
    file.write_bytes(content)


def named(path) -> list[str]:
    return [str(own) for own in verify_cube(path)]


@pytest.mark.parametrize("position", [0, 200, -40, -17, -1])
def test_a_state_with_a_flipped_bit_is_not_loaded(tmp_path, position):
    """In its arrays, in its directory, in the seal's length, in the seal."""
    states = StateFolder(tmp_path)
    states.put("moments-1", State({"weights": np.arange(60.0)}))
    flip(tmp_path / "moments-1.npz", position)
    with pytest.raises(
        DamagedError, match=r"moments-1.npz is damaged \(its content is not what was written"
    ):
        states.get("moments-1", State)
    assert states.mend() == ["moments-1"]
    assert not states.has("moments-1")


def test_a_state_under_another_name_is_not_loaded(tmp_path):
    states = StateFolder(tmp_path)
    for name in ("moments-1", "moments-2"):
        states.put(name, State({"weights": np.arange(6.0)}))
    shutil.copy(tmp_path / "moments-1.npz", tmp_path / "moments-2.npz")
    with pytest.raises(DamagedError, match=r"moments-2.npz is damaged"):
        states.get("moments-2", State)
    assert states.mend(["moments-1"]) == []
    assert states.mend() == ["moments-2"]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"7", b"\xff", b'{"block": 0}'])
def test_a_receipt_without_its_seal_is_none(tmp_path, content):
    folder = ReceiptFolder(tmp_path)
    folder.put("block-1", {"block": 1})
    assert folder.get("block-1") == {"block": 1}
    assert dict(folder.whole()) == {"block-1": {"block": 1}}
    (tmp_path / "block-1.json").write_bytes(content)
    with pytest.raises(DamagedError, match=r"block-1.json is damaged"):
        folder.get("block-1")
    assert list(folder.whole()) == []


DAMAGES = {
    "feature/c/0": "feature/c/0: it is not what was created",
    "output/zarr.json": "output/zarr.json: it is not what was created",
    "zarr.json": "zarr.json: it is not what was created",
    "rows/a/zarr.json": "rows/a/zarr.json: it is not what was created",
    "state/created/*.npz": "state/created/files-",
    "state/finished.json": "the list of the files of the run: it is not a record",
    "state/receipts/block-00000001.json": "receipt block-00000001: it is not a record",
    "state/notes/pilot.json": "note pilot: it is not a record",
    "attribution/c.1.0.0": "block 1 (rows 8 to 15): stored values changed (attribution)",
    "id/c.2": "block 2 (rows 16 to 20): stored values changed (id)",
    "rows/a/c.0": "block 0 (rows 0 to 7): stored values changed (rows/a)",
    "blocks/residual/c.2.0": "block 2 (rows 16 to 20): stored values changed (blocks/residual)",
    "base_value/c/0": "base_value: stored values changed (against 3 receipts)",
}


@pytest.mark.slow
@pytest.mark.parametrize("file", DAMAGES)
def test_what_is_damaged_is_named_alone(tmp_path, file):
    _, writer = make_cube(tmp_path / "cube.zarr", tiles=[0, 1, 2], columns={"a": "float64"})
    writer.write_note("pilot", {"decay": 0.5})
    dshap.cube.mark_finished(writer.path)
    assert verify_cube(writer.path) == []
    (damaged,) = writer.path.glob(file)
    flip(damaged, 0)
    found = named(writer.path)
    assert found[0].startswith(DAMAGES[file])
    assert len(found) == (2 if "created" in f"{file} {found[0]}" else 1)
    damaged.unlink()
    assert named(writer.path)


@pytest.mark.parametrize("file", ["attribution/c.1.0.0", "feature/c/0"])
def test_plain_readers_of_zarr_see_a_flipped_bit(tmp_path, file):
    """crc32c: an error, where the values used to be read as if nothing were."""
    _, writer = make_cube(tmp_path / "cube.zarr")
    flip(writer.path / file, 9)
    with pytest.raises(ValueError, match="checksum"):
        zarr.open_group(writer.path, mode="r")[file.split("/")[0]][...]


def test_a_vanished_receipt_of_a_finished_cube_is_missed(tmp_path):
    """Of one that is not finished it is a block that is left."""
    _, writer = make_cube(tmp_path / "cube.zarr")
    (writer.path / "state" / "receipts" / "block-00000001.json").unlink()
    assert named(writer.path) == ["block 1: its receipt is missing"]
    make_cube(tmp_path / "half.zarr", tiles=[0, 2])
    assert named(tmp_path / "half.zarr") == []


def test_repair_touches_nothing_that_is_whole(tmp_path):
    _, writer = make_cube(tmp_path / "cube.zarr")
    before = bytes_of(writer.path)
    assert repair(writer.path) == []
    assert bytes_of(writer.path) == before
    flip(writer.path / "feature" / "c" / "0")
    assert [str(own) for own in repair(writer.path)] == ["feature/c/0: it is not what was created"]
    after = bytes_of(writer.path)
    assert {name: own[0] for name, own in after.items()} == {
        name: own[0] for name, own in before.items()
    }
    assert [name for name in before if before[name] != after[name]] == ["feature/c/0"]
    assert not named(writer.path)


def test_a_writer_throws_away_a_shard_that_cannot_be_read(tmp_path):
    """A shard that a crash or a bit left unreadable does not stop the block."""
    from tests.cube.cubes import block_of

    layout, writer = make_cube(tmp_path / "cube.zarr")
    before = bytes_of(writer.path)
    for tile in (1, 2):
        shard = writer.path / "attribution" / f"c.{tile}.0.0"
        shard.write_bytes(shard.read_bytes()[:30])
        writer.write(tile, *block_of(layout, tile))
    assert {name: own[0] for name, own in bytes_of(writer.path).items()} == {
        n: own[0] for n, own in before.items()
    }


def test_damaged_names_are_not_opened(tmp_path):
    _, writer = make_cube(tmp_path / "cube.zarr")
    metadata = writer.path / "attribution" / "zarr.json"
    metadata.write_text(metadata.read_text().replace('"kW"', '"MW"'))
    with pytest.raises(
        DamagedError,
        match=r"is damaged: attribution/zarr.json is not what was written; dshap verify",
    ):
        open_cube(writer.path)
    repair(writer.path)
    assert open_cube(writer.path).attribution.attrs["units"] == "kW"


def unknown_codec(path):
    file = path / "attribution" / "zarr.json"
    file.write_text(file.read_text().replace('"zstd"', '"zzzz"'))


def missing_array(path):
    shutil.rmtree(path / "prediction")


def wrong_type(path):
    zarr.create_array(
        path / "status", shape=(21,), dtype="float64", dimension_names=("instance",), overwrite=True
    )


def wrong_shape(path):
    zarr.create_array(
        path / "status", shape=(20,), dtype="int8", dimension_names=("instance",), overwrite=True
    )


def no_dimensions(path):
    zarr.create_array(path / "attribution", shape=(21, 3, 2), dtype="float64", overwrite=True)


def group_for_array(path):
    shutil.rmtree(path / "base_value")
    zarr.open_group(path / "base_value", mode="w", zarr_format=3)


def no_blocks(path):
    shutil.rmtree(path / "blocks")


FOREIGN = (
    unknown_codec,
    missing_array,
    wrong_type,
    wrong_shape,
    no_dimensions,
    group_for_array,
    no_blocks,
)


@pytest.mark.parametrize(
    ("alter", "reader"),
    [
        (alter, reader)
        for alter in FOREIGN
        for reader in READERS
        # neither of these reads the attributions
        if alter is not unknown_codec or reader not in ("cube_status", "feature_ranking")
    ],
)
def test_a_store_of_another_hand_is_refused_in_one_line(tmp_path, alter, reader):
    """With the run's attribute of a cube, and no copy of what it was created with."""
    make_cube(tmp_path / "cube.zarr")
    shutil.rmtree(tmp_path / "cube.zarr" / "state" / "created")
    alter(tmp_path / "cube.zarr")
    with pytest.raises(
        InputError, match=r"cube.zarr is not an attribution cube of dshap: "
    ) as refused:
        READERS[reader](tmp_path / "cube.zarr")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("run", ["5", "[]", "null", '"text"', "{", "{}"])
def test_attributes_of_another_hand(tmp_path, run):
    """`dshap_run` that is no record, or names no run: readers give the cube or one line, verify
    names it."""
    make_cube(tmp_path / "cube.zarr")
    root = tmp_path / "cube.zarr" / "zarr.json"
    content = json.loads(root.read_text())
    content["attributes"]["dshap_run"] = run
    root.write_text(json.dumps(content))
    assert "zarr.json: it is not what was created" in named(tmp_path / "cube.zarr")
    shutil.rmtree(tmp_path / "cube.zarr" / "state" / "created")
    assert any("created/files.npz: is missing" in own for own in named(tmp_path / "cube.zarr"))
    if run == "{}":
        assert open_cube(tmp_path / "cube.zarr").sizes["instance"] == 21
    else:
        with pytest.raises(InputError, match="no attribution cube"):
            open_cube(tmp_path / "cube.zarr")


def table() -> np.ndarray:
    return np.random.default_rng(8).normal(size=(60, 4))


def explained(store, progress=None):
    x = table()
    value = dshap.values.Gaussian(lambda rows: rows[:, 0] * rows[:, 1] + rows[:, 2], x)
    return dshap.explain(
        value,
        x,
        design=designs.exact(4),
        store=store,
        instance_tile=20,
        coalition_tile=4,
        progress=progress,
    )


def test_a_resumed_run_computes_a_damaged_state_again_and_says_so(tmp_path, capsys):
    """Cut off, and with the content of another tile: the same cube, to the bit."""
    store = tmp_path / "cube.zarr"
    explained(store)
    whole = {name: own[0] for name, own in bytes_of(store).items()}
    first, second, *_ = sorted((store / "state").glob("moments-*.npz"))
    for damage in (
        lambda: first.write_bytes(first.read_bytes()[:100]),
        lambda: shutil.copy(second, first),
    ):
        damage()
        (store / "state" / "finished.json").unlink()  # as a kill leaves it
        shutil.rmtree(store / "state" / "receipts")
        explained(store, progress=True)
        assert f"state {first.stem} is damaged: it is computed again" in capsys.readouterr().err
        assert {name: own[0] for name, own in bytes_of(store).items()} == whole


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    "file", ["attribution/c.1.0.0", "blocks/count/c.1", "status/c.1", "base_value/c/0"]
)
def test_a_finished_run_misses_a_file_that_a_power_cut_took(tmp_path, capsys, file):
    """The run said that all is done, and `attribution` read NaN with status ok."""
    store = tmp_path / "cube.zarr"
    explained(store)
    whole = bytes_of(store)
    for lose in ((store / file).unlink, lambda: (store / file).write_bytes(b"")):
        lose()
        explained(store, progress=True)
        said = "" if "base" in file else f"block 1 lost {file}: it is computed again"
        assert said in capsys.readouterr().err
        assert {name: own[0] for name, own in bytes_of(store).items()} == {
            name: own[0] for name, own in whole.items()
        }
    others = [name for name in whole if "/c.0" in name and "base" not in name]
    # and nothing else
    assert others
    assert all(bytes_of(store)[name] == whole[name] for name in others)


def test_a_run_on_damaged_metadata_says_what_to_do(tmp_path):
    store = tmp_path / "cube.zarr"
    explained(store)
    whole = {name: own[0] for name, own in bytes_of(store).items()}
    (store / "state" / "plan.json").write_text("{")
    with pytest.raises(
        DamagedError, match=r"state/plan.json is not what was written; dshap verify .*--repair"
    ):
        explained(store)
    repair(store)
    shutil.rmtree(store / "state" / "created")  # the run knows them too
    explained(store)
    assert {name: own[0] for name, own in bytes_of(store).items()} == whole


def test_damaged_prepared_states_are_prepared_again(tmp_path):
    x = table()
    value = dshap.values.Gaussian(lambda rows: rows[:, 0] * rows[:, 1] + rows[:, 2], x)
    store = tmp_path / "prepared"
    prepared = dshap.prepare(value, design=designs.exact(4), store=store, coalition_tile=4)
    whole = {name: own[0] for name, own in bytes_of(store).items()}
    state = min((store / "state").glob("moments-*.npz"))
    flip(state)
    with pytest.raises(DshapError, match=r"moments-.*npz is damaged .*dshap.prepare"):
        dshap.explain(prepared, x)
    assert named(store) == [
        f"state {state.stem}: its content is not what was written under this name"
    ]
    dshap.prepare(value, design=designs.exact(4), store=store, coalition_tile=4)
    assert {name: own[0] for name, own in bytes_of(store).items()} == whole
    flip(store / "prepared.json", 0)
    with pytest.raises(DamagedError, match=r"prepared.json is damaged"):
        dshap.open_prepared(store, value)
    dshap.prepare(value, design=designs.exact(4), store=store, coalition_tile=4)
    assert {name: own[0] for name, own in bytes_of(store).items()} == whole


@pytest.mark.slow
def test_random_alterations_are_all_named_and_mended(tmp_path):
    """20 of the alterations of `tests/benchmarks/alterations.py`: none in silence, none to a
    traceback."""
    said: list[str] = []
    counts = alterations.sweep(20, 10, tmp_path, said.append)
    assert said == []
    assert counts["mended"] == 20
    assert set(counts) <= {"named", "harmless", "mended"}
    assert counts["named"] >= 13  # of half-finished stores some lose what the run makes anyway


def test_a_finished_job_that_lost_its_list_is_named(tmp_path):
    """Of a job whose explanations are not all finished it is what the run still makes."""
    store = tmp_path / "job.zarr"
    create_store(store, {"name": "job"})
    for name in ("one", "two"):
        dshap.cube.mark_finished(make_cube(store / name)[1].path)
    dshap.cube.mark_finished(store, ["one", "two"])
    assert named(store) == []
    (store / "state" / "finished.json").unlink()
    (found,) = named(store)
    assert found.startswith("the list of the files of the run: ")
    assert "the list was lost" in found
    (store / "two" / "state" / "finished.json").unlink()
    assert named(store) == []


def test_store_parts_are_those_with_a_state(tmp_path):
    make_cube(tmp_path / "cube.zarr")
    assert store_parts(tmp_path / "cube.zarr") == {"cube.zarr": tmp_path / "cube.zarr"}
    assert store_parts(tmp_path / "nothing") == {}


def test_what_belongs_to_another_cube_is_not_taken(tmp_path):
    """The copy of its files, its notes: sealed and whole, but of the cube beside it."""
    for name, digest in (("one", "d1"), ("two", "d2")):
        _, writer = make_cube(
            tmp_path / name, run={"digest": digest, "fingerprint": {}}, units=name
        )
        writer.write_note("pilot", {"decay": len(digest) / 3, "of": name})
        dshap.cube.mark_finished(writer.path)
    one, two = tmp_path / "one", tmp_path / "two"
    shutil.copy(one / "state" / "notes" / "pilot.json", two / "state" / "notes" / "pilot.json")
    assert named(two) == ["note pilot: it is not the note that the run wrote"]
    (mine,), (other,) = ((path / "state" / "created").glob("*.npz") for path in (two, one))
    shutil.copy(other, mine)
    assert "its content is not what was written under this name" in named(two)[0]
    repair(two)
    assert open_cube(two).attribution.attrs["units"] == "two"


def test_a_store_of_an_earlier_version_is_read_and_left_alone(tmp_path):
    """No copy, no seal: neither verify nor repair takes anything from it."""
    _, writer = make_cube(tmp_path / "old.zarr")
    writer.write_note("pilot", {"decay": 0.5})
    shutil.rmtree(writer.path / "state" / "created")
    (writer.path / "state" / "finished.json").unlink()
    for file in (writer.path / "state").rglob("*/*.json"):
        content = json.loads(file.read_text())
        del content["seal"]
        file.write_text(json.dumps(content))
    before = bytes_of(writer.path)
    assert json.loads(open_cube(writer.path).attrs["pilot"]) == {"decay": 0.5}
    assert cube_status(writer.path).blocks_done == 3
    assert feature_ranking(writer.path).attrs["rows"] == 21
    for touch in (verify_cube, repair):
        with pytest.raises(InputError, match="was written by an earlier dshap"):
            touch(writer.path)
    assert bytes_of(writer.path) == before


@pytest.mark.slow
def test_pairs_of_alterations_are_mended_by_one_repair_and_one_run(tmp_path):
    """6 of the pairs of `tests/benchmarks/alterations.py`."""
    said: list[str] = []
    counts = alterations.altered_pairs(6, 3, tmp_path, said.append)
    assert said == []
    assert counts == {"mended": 6}


PAIRS = {
    "copy and status": ("state/created/*.npz", "status/c.1"),
    "copy and metadata": ("state/created/*.npz", "zarr.json"),
    "copy and plan": ("state/created/*.npz", "state/plan.json"),
    "copy and metadata of an array": ("state/created/*.npz", "attribution/zarr.json"),
    "copy and base": ("state/created/*.npz", "base_value/c/0"),
    "list and state": ("state/finished.json", "state/moments-*.npz"),
}
HOW = {
    "removed": lambda file: file.unlink(),
    "altered": lambda file: flip(file, file.stat().st_size // 2),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished cube, and its files."""
    store = tmp_path_factory.mktemp("finished") / "cube.zarr"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dshap.run.session.current_client", lambda: None)
        explained(store)
    return store, {name: own[0] for name, own in bytes_of(store).items()}


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("pair", PAIRS)
def test_two_damages_at_once_are_mended_by_one_repair_and_one_run(tmp_path, finished, pair, how):
    store, whole = tmp_path / "cube.zarr", finished[1]
    shutil.copytree(finished[0], store)
    for pattern in PAIRS[pair]:
        HOW[how](min(store.glob(pattern)))
    repair(store)
    explained(store)
    assert named(store) == []
    assert {name: own[0] for name, own in bytes_of(store).items()} == whole


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("how", HOW)
def test_a_prepared_store_with_two_damages_is_prepared_again(tmp_path, how):
    """The description was left as it was where the list that names it was damaged too."""
    value = dshap.values.Gaussian(lambda rows: rows[:, 0] * rows[:, 1] + rows[:, 2], table())
    store = tmp_path / "prepared"
    dshap.prepare(value, design=designs.exact(4), store=store)
    whole = {name: own[0] for name, own in bytes_of(store).items()}
    for file in ("prepared.json", "state/finished.json"):
        HOW[how](store / file)
    repair(store)
    dshap.prepare(value, design=designs.exact(4), store=store)
    assert named(store) == []
    assert {name: own[0] for name, own in bytes_of(store).items()} == whole


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("kind", ["a folder", "a link to nothing"])
@pytest.mark.parametrize(
    "file",
    ["state/moments-*.npz", "state/receipts/block-00000001.json", "state/finished.json", "state/notes/additivity.json",
     "state/created/*.npz", "state/plan.json", "zarr.json", "feature/c/0", "status/c.1", "blocks/count/c.1",
     "base_value/c/0"],
)  # fmt: skip
def test_what_stands_in_the_place_of_a_file_is_named_and_mended(tmp_path, finished, file, kind):
    """No traceback: IsADirectoryError, FileNotFoundError."""
    store, whole = tmp_path / "cube.zarr", finished[1]
    shutil.copytree(finished[0], store)
    place = min(store.glob(file))
    place.unlink()
    if kind == "a folder":
        (place / "inside").mkdir(parents=True)
    else:
        place.symlink_to("nowhere")
    assert named(store)
    repair(store)
    explained(store)
    assert named(store) == []
    assert {name: own[0] for name, own in bytes_of(store).items()} == whole


def test_a_store_without_its_state_cannot_be_checked(tmp_path):
    """It was verified in silence, with exit status 0."""
    _, writer = make_cube(tmp_path / "cube.zarr")
    shutil.rmtree(writer.path / "state")
    with pytest.raises(
        UncheckableError, match=r"has no folder state: there is nothing to check it against"
    ) as raised:
        verify_cube(writer.path)
    assert raised.value.exit_status == 11
    assert list(store_parts(writer.path)) == ["cube.zarr"]
    (damage,) = repair(writer.path)
    assert str(damage).startswith("state: is missing")


@pytest.mark.usefixtures("in_this_process")
def test_a_store_that_lost_its_state_is_computed_anew(tmp_path, finished):
    store = tmp_path / "cube.zarr"
    shutil.copytree(finished[0], store)
    shutil.rmtree(store / "state")
    explained(store)
    assert named(store) == []
    assert {name: own[0] for name, own in bytes_of(store).items()} == finished[1]


def test_nothing_is_restored_outside_of_a_store(tmp_path):
    """A copy that names other places, sealed as any: from a store of somebody else."""
    _, writer = make_cube(tmp_path / "cube.zarr")
    copies = StateFolder(writer.path / "state" / "created")
    (name,) = copies.names()
    copies.remove(name)
    copies.put(name, State({"../precious": np.zeros(3, np.uint8)}))
    (tmp_path / "precious").write_text("years of work")
    with pytest.raises(DamagedError, match=r"names '../precious', which is outside of the store"):
        repair(writer.path)
    assert (tmp_path / "precious").read_text() == "years of work"


def test_files_of_others_are_not_taken_for_damaged_states(tmp_path):
    """`prepare` into a folder that holds a folder `state` with somebody's arrays removed them."""
    (tmp_path / "mine" / "state").mkdir(parents=True)
    np.savez(tmp_path / "mine" / "state" / "weights.npz", w=np.zeros(3))
    value = dshap.values.Gaussian(lambda rows: rows[:, 0] + rows[:, 1], table())
    with pytest.raises(InputError, match="by another program: nothing in it can be checked"):
        dshap.prepare(value, design=designs.exact(4), store=tmp_path / "mine")
    assert [each.name for each in (tmp_path / "mine" / "state").iterdir()] == ["weights.npz"]
