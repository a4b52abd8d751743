"""A disk that is full in the first night: what it leaves is accepted, and the message says where."""

from __future__ import annotations

import shutil

import pytest
from click.testing import CliRunner

import dshap
from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.cube.creation import is_free
from dshap.jobs.verification import verify_job_store
from tests.chaos.faults import small_disk
from tests.jobs.job_files import to_toml
from tests.steps.test_nightly_cubes import rows_of

DISK_BYTES = 1 << 20
PAGE = 4096


@pytest.fixture
def place(tmp_path):
    """A folder with a small file system of its own."""
    folder = tmp_path / "small"
    folder.mkdir()
    try:
        disk = small_disk(folder, DISK_BYTES)
        disk.__enter__()
    except OSError:
        pytest.skip("no tmpfs can be mounted here, which only root may")
    yield folder
    disk.__exit__(None, None, None)


def job_with(folder, place, incremental):
    rows = rows_of(100, seed=0).fillna(0)
    rows["y"] = rows["a"] * rows["b"]
    rows.to_parquet(folder / "table.parquet")
    tables = {
        "job": {"name": "j", "store": str(place / "store")},
        "source": {
            "kind": "parquet",
            "path": str(folder / "table.parquet"),
            "key": ["id"],
            "features": ["a", "b", "c", "d"],
            "target": "y",
        },
        "model": {"kind": "kernel_ridge", "landmarks": 20, "lengthscale": "median"},
        "explain": [{"name": "r", "value": "kernel_interventional"}],
        "incremental": {"strategy": incremental},
        "run": {"instance_tile": 64},
    }
    (folder / "job.toml").write_text(to_toml(tables))
    return str(folder / "job.toml")


FREE_PAGES = {"digest": (1, 2, 10, 11, 20), "none": (1, 5, 7, 16, 32)}


@pytest.mark.parametrize("incremental", FREE_PAGES)
def test_the_same_command_goes_on_once_there_is_room(tmp_path, place, incremental):
    """10 and 11 free pages left a container with its document alone: exit status 4, for ever."""
    job = job_with(tmp_path, place, incremental)
    for n_pages in FREE_PAGES[incremental]:
        filler = place / "filler"
        filler.write_bytes(bytes(DISK_BYTES - n_pages * PAGE))
        ended = CliRunner().invoke(cli, ["run", job, "-q"])
        assert ended.exit_code == 2, (n_pages, ended.output)
        assert f"no space is left on the disk of {place}" in ended.output
        assert "bytes are free" in ended.output
        filler.unlink()
        again = CliRunner().invoke(cli, ["run", job, "-q"])
        assert again.exit_code == 0, (n_pages, again.output)
        assert not any(verify_job_store(place / "store").values())
        shutil.rmtree(place / "store")


@pytest.mark.parametrize("n_pages", [1, 5, 7, 16])
def test_a_call_names_the_path_and_the_free_bytes(place, n_pages):
    """It ended with a bare OSError of the system."""
    rows = rows_of(2_000, seed=0).fillna(0)[["a", "b", "c", "d"]]
    value = dshap.values.Marginal(lambda x: x[:, 0] * x[:, 1], rows[:5].to_numpy())
    filler = place / "filler"
    filler.write_bytes(bytes(DISK_BYTES - n_pages * PAGE))
    options = {"store": place / "cube.zarr", "instance_tile": 100}
    with pytest.raises(InputError) as told:
        dshap.explain(value, rows.to_numpy(), **options)
    assert f"no space is left on the disk of {place}" in str(told.value)
    assert "bytes are free): make room there, or choose another store" in str(told.value)
    filler.unlink()
    assert (dshap.explain(value, rows.to_numpy(), **options).status == 1).all()


def test_a_folder_with_an_empty_container_is_free(tmp_path):
    store = tmp_path / "store"
    (store / "state" / "created").mkdir(parents=True)
    assert is_free(store)
    (store / "state" / "zarr.json").write_text("{}")
    (store / "state" / "created" / ".files-1.npz.0123456789ab").write_text("")
    assert is_free(store)
    (store / "state" / "notes").mkdir()
    (store / "state" / "notes" / "mine.json").write_text("{}")
    assert not is_free(store)


@pytest.mark.parametrize("name", ["state", "notes", "zarr.json"])
def test_a_folder_with_a_file_is_not_free(tmp_path, name):
    (tmp_path / name).write_text("")
    assert not is_free(tmp_path)


def test_a_link_to_an_empty_container_is_not_free(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    store = tmp_path / "store"
    store.mkdir()
    (store / "state").symlink_to(tmp_path / "elsewhere")
    assert not is_free(store)
