"""Texts with a NUL character: the same lines in every database and in Parquet."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dshap.core.errors import DatabaseError, InputError
from dshap.sinks import Sink, load_sink
from dshap.sinks.nul import NulTexts, without_nul
from dshap.sinks.parquet_folder import FolderSink
from tests.sinks.nights import Night, Row, write_cube
from tests.sinks.test_loading import JOB, empty_database, lines_in

KINDS = ("duckdb", "sqlite", "parquet", "postgresql")


@pytest.fixture(params=[*KINDS[:-1], pytest.param("postgresql", marks=pytest.mark.slow)])
def sink(request, tmp_path) -> Sink:
    if request.param == "parquet":
        return Sink("reasons", path=tmp_path / "out", shape="long", rows="all", write="replace")
    return Sink(
        "reasons", empty_database(request.param, request, tmp_path), table="t", shape="long"
    )


def rows_of(run_id):
    """Nine rows, two of which hold a NUL character: one in its key, one in a value."""
    row = Row((3.0, "basic", 0.25), ((1.0,), (2.0,), (0.5,)), "ok", run_id)
    rows = {(i, "ü雪"): row for i in range(7)}
    rows[(7, "a\0b")] = row
    rows[(8, "plain")] = replace(row, values=(3.0, "x\0\0y", 0.25))
    return rows


def night_of(folder, number, rows, *before):
    night = Night(f"2026111{number}T031502Z", "m1", rows, folder / str(number), ("y",), [*before])
    write_cube(night)
    return night


@pytest.fixture
def nights(tmp_path):
    """The second lacks the key with a NUL character, and has another row of the other."""
    rows = rows_of("20261110T031502Z")
    first = night_of(tmp_path, 0, rows)
    rows = {key: row for key, row in rows.items() if key[0] != 7}
    rows[(8, "plain")] = replace(rows[(8, "plain")], run_id="20261111T031502Z")
    return first, night_of(tmp_path, 1, rows, first)


def texts_in(sink) -> set[str]:
    """All texts of the table."""
    match sink:
        case FolderSink():
            table = pq.read_table(sink.path / "current")
            lines = [tuple(line.values()) for line in table.to_pylist()]
        case _:
            lines = lines_in(sink)
    return {each for line in lines for each in line if isinstance(each, str)}


def test_they_are_escaped_and_their_keys_are_named(sink, nights):
    first, second = nights
    said: list[str] = []
    result = load_sink(sink, first.path, first, JOB, said.append)
    words = r"4 lines contain texts with a NUL character (keys: (id = 7, shop = 'a\x00b'), (id = 8, shop = 'plain'))"
    assert words in result.escaped
    assert any(words in line and "warning" in line for line in said)
    assert result.n_rows == 9
    texts = texts_in(sink)
    assert {r"a\x00b", r"x\x00\x00y", "plain", "ü雪"} < texts
    assert not any("\0" in text for text in texts)
    assert load_sink(sink, first.path, first, JOB).already
    result = load_sink(sink, second.path, second, JOB)
    assert "1 lines contain" in result.escaped
    assert "id = 8" in result.escaped
    assert r"a\x00b" not in texts_in(sink)  # its key is gone
    assert load_sink(sink, second.path, second, JOB).already


def test_they_are_refused_before_anything_is_loaded(sink, nights):
    first, _ = nights
    refusing = replace(sink, nul="refuse")
    for _ in range(2):
        with pytest.raises(
            InputError, match=r"4 lines contain texts.*id = 7.*id = 8.*correct the source"
        ):
            load_sink(refusing, first.path, first, JOB)
        match sink:
            case FolderSink():
                assert not (sink.path / "current").exists()
            case _:
                with pytest.raises((DatabaseError, Exception)):
                    lines_in(sink)
    assert load_sink(sink, first.path, first, JOB).escaped


def test_only_texts_are_looked_at():
    numbers = pa.array([0, 1])
    assert without_nul(numbers) is numbers
    plain = pa.record_batch({"id": numbers, "t": pa.array(["", None])})
    found = NulTexts(Sink("r", path="out", rows="all", write="replace"), ["id"])
    assert list(found.cleaned(iter([plain]))) == [plain]
    assert not found.escaped


def test_a_piece_of_a_longer_column_is_cleaned():
    texts = pa.array(["a\0", "b", None, "c\0d"]).slice(1)
    batch = pa.record_batch({"id": pa.array([1, 2, 3]), "t": texts})
    found = NulTexts(Sink("r", path="out", rows="all", write="replace"), ["id"])
    (cleaned,) = found.cleaned(iter([batch]))
    assert cleaned["t"].to_pylist() == ["b", None, r"c\x00d"]
    assert found.n_lines == 1
