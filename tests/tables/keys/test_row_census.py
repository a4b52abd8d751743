"""The census of rows that are digested: the counts of a pass over them, whatever the batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dshap.core.errors import InputError
from dshap.tables.census import CensusPass
from dshap.tables.keys import digests
from dshap.tables.keys.digests import digest_rows
from dshap.tables.keys.row_census import RowCensus, census_in
from dshap.tables.parquet import ParquetSource

N_ROWS = 60
NAN = float("nan")


def columns_of(seed=0):
    rng = np.random.default_rng(seed)
    number = rng.normal(size=N_ROWS)
    number[[3, 50]] = [NAN, np.inf]
    return {
        "id": pa.array(np.arange(N_ROWS)),
        "name": pa.array([f"ä{i}" for i in range(N_ROWS)]),
        "number": pa.array(number),
        "whole": pa.array([None if i == 7 else i for i in range(N_ROWS)], pa.int32()),
        "same": pa.array([2.5] * N_ROWS),
        "day": pa.array([None if i == 9 else i for i in range(N_ROWS)], pa.date32()),
        "city": pa.array([None if i == 11 else "xyz"[i % 3] for i in range(N_ROWS)]),
        "plan": pa.array(["basic"] * N_ROWS),
        "y": pa.array([NAN if i == 2 else float(i) for i in range(N_ROWS)]),
    }


FEATURES = ["number", "whole", "same", "day", "city", "plan"]


@pytest.fixture
def source(tmp_path):
    """Write a table and open it, with roles of its columns."""

    def made(columns, key=("id", "name"), name="part-000000.parquet", **roles):
        pq.write_table(pa.table(columns), tmp_path / name, row_group_size=17)
        categories = {"city": ("x", "y", "z"), "plan": ("basic",)}
        options = {"categories": categories, "times": ["day"], "missing": "pass", **roles}
        return tmp_path / name, ParquetSource(
            tmp_path / name, features=FEATURES, target="y", key=key, **options
        )

    return made


def taken(part, reader):
    counting = RowCensus(reader)
    for _ in digest_rows(
        [part], reader.key_names, reader.feature_names, more=counting.names, follow=counting.add
    ):
        pass
    return counting


def test_the_counts_are_those_of_a_pass(source):
    part, reader = source(columns_of())
    found = taken(part, reader).census()
    block = reader.read(0, N_ROWS, keys=True, target=True)
    one = CensusPass(reader.feature_names)
    wanted = one.finish(one.partial(block))
    for name in ("n_rows", "n_bad", "n_bad_targets", "bad"):
        assert getattr(found, name) == getattr(wanted, name), name
    assert (found.n_bad, found.n_bad_targets) == (5, 1)
    assert found.constant_columns(reader) == wanted.constant_columns(reader) == ("same", "plan")
    numbers = [FEATURES.index(name) for name in ("number", "whole", "same", "day")]
    assert [found.low[j] for j in numbers] == [wanted.low[j] for j in numbers]
    assert [found.high[j] for j in numbers] == [wanted.high[j] for j in numbers]


@pytest.mark.parametrize("together", [1, 7, 59])
def test_batches_do_not_count(source, monkeypatch, together):
    part, reader = source(columns_of())
    found = taken(part, reader).to_dict()
    monkeypatch.setattr(digests, "BATCH_ROWS", together)
    assert taken(part, reader).to_dict() == found


@pytest.mark.parametrize("name", list(columns_of()))
def test_each_column_and_the_order_count_in_the_fingerprint(source, name):
    part, reader = source(columns_of())
    found = taken(part, reader).census().fingerprint
    other = columns_of()
    place = 20
    values = other[name].to_pylist()
    values[place] = {"plan": "other", "city": "x", "name": "ö", "same": 2.0}.get(
        name, values[place + 2]
    )
    other[name] = pa.array(values, other[name].type)
    part, reader = source(other, name="other.parquet")
    assert taken(part, reader).census().fingerprint != found
    turned = {name: column[::-1] for name, column in columns_of().items()}
    part, reader = source(turned, name="turned.parquet")
    assert taken(part, reader).census().fingerprint != found


def test_bad_rows_are_refused_by_the_policy_of_the_reader(source):
    part, reader = source(columns_of(), missing="refuse")
    census = taken(part, reader).census()
    with pytest.raises(InputError, match="5 rows contain NaN or infinity: number 2, whole 1"):
        census.raise_on_bad(reader)
    part, reader = source(columns_of(), missing="pass")
    census.raise_on_bad(reader)


def test_whole_numbers_that_float64_rounds_are_refused(source):
    columns = columns_of()
    columns["whole"] = pa.array([2**53 + 1] * N_ROWS)
    part, reader = source(columns)
    with pytest.raises(InputError, match="whole"):
        taken(part, reader)


def test_a_census_is_of_its_columns(source):
    part, reader = source(columns_of())
    counting = taken(part, reader)
    assert census_in(counting.to_dict(), reader) == counting.census()
    assert census_in({}, reader) is None
    _, other = source(columns_of(), key="id")
    assert census_in(counting.to_dict(), other) is None
