"""Paths of a job file are relative to its folder, those of --set to where the command runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dshap.core.errors import InputError
from dshap.engine import SilentProgress
from dshap.jobs import Command, load_job, parse_job, plan_job, run_job, run_recorded
from tests.jobs.job_files import JOB, changed, small_table, write_job

ALL = (
    ("cluster", {"kind": "python", "file": "own.py"}),
    ("report", {"picture": "a/b.png"}),
)
SSH = {"kind": "ssh", "hosts": ["one", "two"], "certificates": "certificates"}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The folder of a job file, in which the command does not run."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "here").mkdir()
    (tmp_path / "jobs").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "jobs"


def test_paths_are_relative_to_the_job_file(folder):
    job = load_job(write_job(folder, changed(*ALL)))
    assert (job.job.store, job.source.path) == (f"{folder}/out.zarr", f"{folder}/table.parquet")
    assert (job.cluster.file, job.report.picture) == (f"{folder}/own.py", f"{folder}/a/b.png")
    relative = Path("..", "jobs", "job.toml")
    assert load_job(relative) == job
    assert sys.path[0] == str(folder)


def test_scratch_is_relative_to_the_job_file(folder):
    """That of a worker is a folder of its machine, and stays as it is written."""
    scratch = (("run", {"scratch": "made"}), ("worker", {"scratch": "there"}), ("cluster", SSH))
    file = write_job(folder, changed(*scratch))
    job = load_job(file)
    assert job.options().scratch == f"{folder}/made"
    assert job.worker.scratch == "there"
    assert load_job(file, ["run.scratch=x"]).options().scratch == f"{folder.parent}/here/x"


def test_settings_are_relative_to_where_the_command_runs(folder):
    settings = ["job.store=b.zarr", "source.path=../t.parquet", "report.picture=c.png"]
    job = load_job(write_job(folder, changed(*ALL)), settings)
    here = folder.parent / "here"
    assert (job.job.store, job.source.path) == (f"{here}/b.zarr", f"{here.parent}/t.parquet")
    assert (job.cluster.file, job.report.picture) == (f"{folder}/own.py", f"{here}/c.png")


def test_a_mapping_is_relative_to_where_python_runs(folder):
    assert parse_job(JOB).job.store == f"{folder.parent}/here/out.zarr"


def test_a_vocabulary_is_a_path_or_a_number(folder):
    texts = {
        "job": {"name": "a", "store": "out.zarr"},
        "source": {"kind": "texts", "path": "t.parquet", "column": "c"},
        "model": {"kind": "import", "function": "json:loads"},
        "explain": [{"name": "w", "value": "tokens", "vocabulary": "words.txt"}],
    }
    assert load_job(write_job(folder, texts)).explain[0].vocabulary == f"{folder}/words.txt"
    texts["explain"][0]["vocabulary"] = 50
    assert load_job(write_job(folder, texts)).explain[0].vocabulary == 50


def test_a_store_at_the_place_of_before_is_named(folder):
    """Paths were relative to the working directory: the same command would start anew without a
    word."""
    small_table().to_parquet("table.parquet")
    small_table().to_parquet(folder / "table.parquet")
    path = write_job(folder, JOB)
    run_job(parse_job(JOB), SilentProgress())
    said = (
        r'\[job\] store = "out.zarr": paths in a job file are relative to its folder, and a store of a '
        r"job of this name, which Python or dshap before version 0.2 made, is at .*here/out.zarr, "
        r'not at .*jobs/out.zarr: to continue with it, write store = "../here/out.zarr", or move it '
        r"there; to begin a new store, give this job a different \[job\] name or store"
    )
    with pytest.raises(InputError, match=said):
        load_job(path)
    assert load_job(path, ["job.store=other.zarr"]).job.store.endswith("here/other.zarr")
    other = load_job(write_job(folder, changed(("job.name", "another"))))
    assert other.job.store == f"{folder}/out.zarr"  # that store is another job's
    Path("out.zarr").rename(folder / "out.zarr")
    assert run_job(load_job(write_job(folder, JOB)), SilentProgress()).was_complete


def test_a_copy_of_a_job_in_another_folder_is_a_job_of_its_own(folder):
    """The store of the first, where the command runs, has a record of its run."""
    for place in (Path.cwd(), folder):
        small_table().to_parquet(place / "table.parquet")
    first = load_job(write_job(Path.cwd(), JOB))
    run_recorded(first, SilentProgress(), Command("job.toml"))
    copy = load_job(write_job(folder, JOB))
    assert copy.job.store == f"{folder}/out.zarr"
    assert plan_job(copy).explanations


def test_tables_and_files_at_the_place_of_before_are_named(folder):
    small_table().to_parquet("table.parquet")
    with pytest.raises(
        InputError,
        match=r'path = "table.parquet": .* and a table is at .*here/table.parquet, not',
    ):
        load_job(write_job(folder, JOB))
    with pytest.raises(InputError, match=r"write path = \"\.\./here/\*\.parquet\""):
        load_job(write_job(folder, changed(("source.path", "*.parquet"))))
    small_table().to_parquet(folder / "table.parquet")
    assert plan_job(load_job(write_job(folder, JOB))).explanations
    Path("own.py").write_text("")
    with pytest.raises(InputError, match=r'\[cluster\] file = "own.py": .* and a file is at'):
        load_job(write_job(folder, changed(*ALL)))


def test_what_lies_too_deep_is_refused(folder):
    deep = folder / "deep.toml"
    for depth in (400, 3_000):
        deep.write_text("[job]\nname = " + "[" * depth + "]" * depth)
        with pytest.raises(InputError) as caught:
            load_job(deep)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500
    assert "nested too deeply" in str(caught.value)
    with pytest.raises(InputError, match="nested too deeply"):
        load_job(write_job(folder, JOB), ["job.name=" + "[" * 3_000 + "]" * 3_000])
