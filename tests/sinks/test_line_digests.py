"""The digest of lines follows from the lines alone, not from how they are cut into batches."""

from __future__ import annotations

import datetime
import itertools

import pyarrow as pa

from dshap.sinks.line_digests import digest_of_lines
from dshap.sinks.table_columns import TIME

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("phi", pa.float64()), ("at", TIME)])
AT = datetime.datetime(2026, 2, 27, 3, 0, 0, 5)
LINES = {
    "id": [1, 2, None, 2**62],
    "text": ["Köln", "", None, "🏰 'x'"],
    "phi": [0.5, None, -0.0, float("nan")],
    "at": [AT, None, AT, AT],
}


def digest(lines, *cuts):
    table = pa.table(lines, schema=SCHEMA)
    bounds = [0, *cuts, table.num_rows]
    batches = [
        batch
        for start, stop in itertools.pairwise(bounds)
        for batch in table.slice(start, stop - start).to_batches()
    ]
    return digest_of_lines(SCHEMA, batches)


def test_any_cutting():
    whole, n_lines = digest(LINES)
    assert n_lines == 4
    for cuts in ((1,), (2,), (1, 2, 3), (1, 1, 3)):
        assert digest(LINES, *cuts) == (whole, 4)


def test_any_change_is_seen():
    found = {digest(LINES)[0]}
    changes = [
        ("id", 0, 3), ("id", 2, 0), ("text", 1, None), ("text", 2, ""), ("text", 0, "Koln"),
        ("phi", 1, 0.0), ("phi", 2, 0.0), ("phi", 0, 0.5 + 2**-53), ("at", 1, AT),
    ]  # fmt: skip
    for column, line, value in changes:
        other = {name: list(values) for name, values in LINES.items()}
        other[column][line] = value
        found.add(digest(other)[0])
    moved = {**LINES, "text": ["Köl", "n", None, "🏰 'x'"]}
    found.add(digest(moved)[0])
    found.add(digest({name: values[::-1] for name, values in LINES.items()})[0])
    found.add(digest({name: values[:3] for name, values in LINES.items()})[0])
    assert len(found) == len(changes) + 4


def test_no_lines():
    assert digest({name: [] for name in LINES})[1] == 0
