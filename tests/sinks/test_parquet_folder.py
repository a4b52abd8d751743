"""A Parquet sink: a new folder each run, and the link that names the last one."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from dshap.core.errors import InputError, SinkError
from dshap.sinks import Sink, load_sink
from dshap.sinks import parquet_folder as steps
from tests.sinks.nights import Line, lines_of, ordered, random_nights


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    return random_nights(tmp_path_factory.mktemp("nights"), 3, 4, ("y",))


@pytest.fixture
def sink(tmp_path) -> Sink:
    return Sink("reasons", path=tmp_path / "out", shape="long", rows="all", write="replace")


def lines_in(sink: Sink) -> list[Line]:
    table = pq.read_table(sink.path / "current")
    return [tuple(line.values()) for line in table.to_pylist()]


def test_the_folder_is_the_cube_after_every_night(sink, nights):
    """A second call does nothing; those who read the load before still find its files."""
    for night in nights:
        result = load_sink(sink, night.path, night, "shop")
        assert result.n_rows == len(night.rows)
        assert result.n_lines == 3 * result.n_rows
        assert ordered(lines_in(sink)) == ordered(lines_of(sink, night))
        assert load_sink(sink, night.path, night, "shop").already
    names = sorted(each.name for each in sink.path.iterdir())
    assert names == [nights[-2].run_id, nights[-1].run_id, "current"]
    with pytest.raises(InputError, match="or a clock was wrong"):
        load_sink(sink, nights[0].path, nights[0], "shop")


@pytest.mark.parametrize("of_type", [str, lambda path: SimpleNamespace(path=path)])
def test_a_path_of_any_type(sink, nights, of_type, monkeypatch):
    """Text, relative too, is a path; anything else is refused in one line, not at the load."""
    monkeypatch.chdir(sink.path.parent)
    given = of_type("out")
    if not isinstance(given, str):
        with pytest.raises(InputError, match=r"^path is .*: give a path$"):
            replace(sink, path=given)
        return
    named = Sink("reasons", path=given, shape="long", rows="all", write="replace")
    assert named == sink
    load_sink(named, str(nights[0].path), nights[0], "shop")
    assert ordered(lines_in(sink)) == ordered(lines_of(sink, nights[0]))
    with pytest.raises(InputError, match=r"^cube_path is 5: give a path$"):
        load_sink(named, 5, nights[0], "shop")


def test_another_form_of_the_same_run_takes_the_place_of_the_first(sink, nights):
    night = nights[0]
    load_sink(sink, night.path, night, "shop")
    narrow = replace(sink, shape="top_k", k=1)
    assert not load_sink(narrow, night.path, night, "shop").already
    assert ordered(lines_in(narrow)) == ordered(lines_of(narrow, night))
    assert load_sink(narrow, night.path, night, "shop").already


def test_many_lines_are_several_files(sink, nights, monkeypatch):
    monkeypatch.setattr(steps, "FILE_LINES", 10)
    monkeypatch.setattr("dshap.sinks.shapes.BATCH_LINES", 6)
    load_sink(sink, nights[0].path, nights[0], "shop")
    assert len(list((sink.path / "current").glob("*.parquet"))) > 3
    assert ordered(lines_in(sink)) == ordered(lines_of(sink, nights[0]))


@pytest.mark.parametrize("step", ["rename", "symlink", "replace"])
def test_a_load_that_fails_leaves_the_one_before(sink, nights, monkeypatch, step):
    load_sink(sink, nights[0].path, nights[0], "shop")
    with monkeypatch.context() as patch:
        patch.setattr(os, step, _failing)
        with pytest.raises(SinkError, match="out: the file system refuses: stopped"):
            load_sink(sink, nights[1].path, nights[1], "shop")
    assert ordered(lines_in(sink)) == ordered(lines_of(sink, nights[0]))
    load_sink(sink, nights[1].path, nights[1], "shop")
    assert ordered(lines_in(sink)) == ordered(lines_of(sink, nights[1]))
    assert len(list(sink.path.iterdir())) == 3


def test_a_file_where_the_folder_should_be(sink, nights):
    sink.path.parent.joinpath("file").write_text("")
    below = Sink("reasons", path=sink.path.parent / "file" / "out", rows="all", write="replace")
    with pytest.raises(SinkError, match=r"file/out.*refuses: .*Not a directory"):
        load_sink(below, nights[0].path, nights[0], "shop")


def _failing(*given):
    raise OSError("stopped")


def test_folders_of_others_are_refused(sink, nights):
    load_sink(sink, nights[0].path, nights[0], "shop")
    with pytest.raises(InputError, match="job 'shop' loads explanation 'reasons' into this folder"):
        load_sink(sink, nights[1].path, nights[1], "other")
    beside = Sink("reasons", path=sink.path.parent, rows="all", write="replace")
    with pytest.raises(InputError, match="contains other files"):
        load_sink(beside, nights[1].path, nights[1], "shop")
    assert not (beside.path / "current").exists()


def test_the_record_of_a_load_states_the_scale(sink, nights):
    """The record of a load by an earlier version, which has none, is read too."""
    first, second, *_ = nights
    load_sink(sink, first.path, first, "shop")
    record = sink.path / "current" / steps.LINE
    found = json.loads(record.read_text())
    assert found.pop("scale") == "unit of the target"
    record.write_text(json.dumps(found))
    assert load_sink(sink, first.path, first, "shop").already
    assert not load_sink(sink, second.path, second, "shop").already


@pytest.mark.parametrize("how", ["lost", "empty", "fewer"])
def test_a_folder_that_somebody_altered_is_loaded_again(sink, nights, monkeypatch, how):
    monkeypatch.setattr(steps, "FILE_LINES", 10)
    monkeypatch.setattr("dshap.sinks.shapes.BATCH_LINES", 6)
    night = nights[0]
    load_sink(sink, night.path, night, "shop")
    file = sorted((sink.path / "current").glob("*.parquet"))[1]
    if how == "lost":
        file.unlink()
    elif how == "empty":
        file.write_bytes(b"")
    else:
        pq.write_table(pq.read_table(file).slice(1), file)
    said: list[str] = []
    result = load_sink(sink, night.path, night, "shop", said.append)
    n_lines = len(lines_of(sink, night))
    assert f"run {night.run_id} left {n_lines:,} lines" in result.reason
    assert result.reason in said[0]
    assert ordered(lines_in(sink)) == ordered(lines_of(sink, night))
    assert load_sink(sink, night.path, night, "shop").already
    assert len(list(sink.path.iterdir())) <= 3
