"""The table of kinds: a line of it is a kind for `explain`, for `dshap.sources` and for job files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.core.types import RowReader
from dshap.jobfile.arguments import SOURCE_PARTS
from dshap.jobfile.kinds import Kinds, KindTable
from dshap.tables import open_source, sources
from dshap.tables.columns import layout_of
from dshap.tables.reader import BatchReader
from dshap.tables.sources import KINDS, READERS, Kind, reader_class


class Squares(BatchReader):
    """Rows n, n² up to the number in a file."""

    __module__ = "dshap.tables.squares"  # the keys of a job file follow from classes of dshap

    def __init__(
        self,
        path: str,
        power: int = 2,
        *,
        features=None,
        target=None,
        key=(),
        missing="refuse",
        categories=None,
        times=None,
    ) -> None:
        self.n_rows, self.power = int(Path(path).read_text()), power
        schema = pa.schema([("n", pa.int64()), ("square", pa.int64())])
        self._layout = layout_of(schema, features=features, target=target, key=key, missing=missing)
        self.column_dtypes = dict.fromkeys(self.feature_names, np.dtype(np.int64))

    def _batches(self, start, stop, names):
        n = np.arange(start, stop)
        yield pa.record_batch({"n": n, "square": n**self.power}).select(names)


PLACE = f"{__name__}:Squares"


@pytest.fixture
def path(tmp_path):
    (tmp_path / "ten.squares").write_text("10")
    return str(tmp_path / "ten.squares")


def test_every_reader_says_all_that_is_asked_and_has_a_public_name():
    asked = {name for name in vars(RowReader) if not name.startswith("_")}
    for place in READERS.values():
        reader = reader_class(place)
        own = asked - {"n_rows", "column_dtypes"}  # these are set where it is opened
        assert all(hasattr(reader, name) for name in own)
        assert getattr(dshap.sources, reader.__name__) is reader
        assert reader.__name__ in dshap.sources.__all__
    with pytest.raises(AttributeError, match="has no attribute 'Squares'"):
        dshap.tables.Squares  # noqa: B018


def test_a_line_is_a_kind_for_explain(path, monkeypatch):
    with pytest.raises(InputError, match="is not a Parquet file"):
        open_source(path)
    line = Kind(types=(str, Path), suffixes=(".squares",), reader=PLACE)
    monkeypatch.setattr(sources, "KINDS", {"squares": line, **KINDS})
    reader = open_source(path, key="n", features="square")
    assert isinstance(reader, RowReader)
    assert isinstance(reader, Squares)
    np.testing.assert_array_equal(reader.read(2, 5, keys=True).x[:, 0], [4, 9, 16])
    # what a reader of files does not say for itself
    assert reader.stamp is None
    assert dict(reader.null_counts) == {"square": None, "n": None}
    assert reader.describe() == "Squares: 10 rows, 1 features, key n"


def test_a_line_is_a_kind_of_a_job_file(path):
    kinds = Kinds("kind", {**READERS, "squares": PLACE}, KindTable, SOURCE_PARTS)
    record = kinds.record({"kind": "squares"})
    assert set(record.model_fields) == {"kind", "path", "power", "features", "target", "key", "missing"}  # fmt: skip
    table = kinds({"kind": "squares", "path": path, "power": 3, "key": "n"})
    reader = table.made({"times": ["n"]})
    assert reader.key_names == ("n",)
    assert reader.power == 3
    assert reader.n_rows == 10
