"""Copies of a store between places: the same bytes, whole or no store, and what is refused."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dshap.cli import cli
from dshap.core.errors import InputError, LockedError, StoreMismatchError
from dshap.core.places import place_of
from dshap.cube import copy_store, read_run
from dshap.storage.folder import Folder
from dshap.storage.running import alone
from tests.buckets import BUCKET
from tests.cube.cubes import make_cube


def copied(*places) -> tuple[int, int]:
    """(files, those that were copied now) of a copy."""
    found = copy_store(*map(place_of, places), lambda line: None)
    return found.n_files, found.n_copied


def content_of(place) -> dict[str, bytes | None]:
    folder = Folder(place)
    return {name: folder.get(name) for name in folder.tree()}


@pytest.fixture
def cube(tmp_path):
    """The path of a finished cube."""
    make_cube(tmp_path / "cube.zarr")
    return tmp_path / "cube.zarr"


def test_a_copy_there_and_back_has_the_same_bytes(s3, cube, tmp_path):
    there = f"s3://{BUCKET}/copies/there.zarr"
    n_files = len(content_of(cube))
    assert copied(cube, there) == (n_files, n_files)
    assert copied(there, tmp_path / "back.zarr") == (n_files, n_files)
    assert content_of(there) == content_of(tmp_path / "back.zarr") == content_of(cube)


def test_a_copy_that_was_stopped_is_no_store_and_is_gone_on_with(cube, tmp_path, monkeypatch):
    def stopped(self, name, content, put=Folder.replace):
        if name.startswith("status/"):
            raise KeyboardInterrupt
        put(self, name, content)

    monkeypatch.setattr(Folder, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        copied(cube, tmp_path / "half.zarr")
    monkeypatch.undo()
    assert read_run(tmp_path / "half.zarr") is None
    assert Folder(tmp_path / "half.zarr").has_room("attribution")
    Folder(tmp_path / "half.zarr").replace("attribution/c.9.0.0", b"not of the cube")
    n_files, n_copied = copied(cube, tmp_path / "half.zarr")
    assert 0 < n_copied < n_files
    assert content_of(tmp_path / "half.zarr") == content_of(cube)


def test_the_command_verifies_what_it_copied(s3, cube):
    there = f"s3://{BUCKET}/command.zarr"
    done = CliRunner().invoke(cli, ["copy", str(cube), there, "--json"])
    assert done.exit_code == 0
    assert json.loads(done.output)["to"] == there
    Folder(cube).replace("attribution/c.1.0.0", b"nonsense")
    damaged = CliRunner().invoke(cli, ["copy", str(cube), f"s3://{BUCKET}/damaged.zarr"])
    assert damaged.exit_code == 7
    assert "dshap: " in damaged.output


@pytest.mark.parametrize(
    ("places", "error", "said"),
    [
        (("none.zarr", "copy.zarr"), InputError, "is not a store: give the store of a run"),
        (
            ("cube.zarr", "full"),
            StoreMismatchError,
            "full exists, and is not an unfinished copy of",
        ),
        (("cube.zarr", "cube.zarr/inside"), InputError, "are inside each other"),
        (("cube.zarr", "cube.zarr"), InputError, "are inside each other"),
    ],
)
def test_copies_that_are_refused(cube, tmp_path, places, error, said):
    Folder(tmp_path / "full").replace("mine.txt", b"precious")
    with pytest.raises(error, match=said):
        copied(*(tmp_path / name for name in places))
    assert content_of(tmp_path / "full") == {"mine.txt": b"precious"}


def test_nothing_is_copied_while_a_run_is_going_on(cube, tmp_path):
    with alone(cube, "a run"), pytest.raises(LockedError, match="is locked by a run "):
        copied(cube, tmp_path / "copy.zarr")
