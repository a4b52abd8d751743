"""Jobs on lakehouse tables: one version for all of a run, its parts and its repeats; and nights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dshap
from dshap.core.errors import InputError, StaleSourceError
from dshap.engine import SilentProgress
from dshap.history.run_record import read_records
from dshap.jobfile.json_schema import json_schema
from dshap.jobs import Command, parse_job, run_recorded
from dshap.jobs.planning import plan_from_source
from dshap.steps.scope import WHOLE, LearnScope, Scope, ShardScope
from dshap.steps.shards import Shard
from tests.jobs.job_files import JOB, changed, small_table
from tests.lakes import iceberg, metadata_file
from tests.said import Said


class Lake:
    """A table in a folder, and the job that explains it."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        self.kind = kind
        self.table: Any = None
        self.write(small_table().assign(hr=0.0))
        self.write(small_table())  # over the first rows

    def write(self, frame: pd.DataFrame, mode: str = "overwrite") -> None:
        rows = pa.Table.from_pandas(frame, preserve_index=False)
        if self.kind == "delta":
            deltalake.write_deltalake(self.folder / "lake", rows, mode=mode, schema_mode="merge")
            return
        if self.table is None:
            self.table = iceberg(self.folder, rows.schema)
        getattr(self.table, mode)(rows)

    @property
    def source(self) -> dict[str, Any]:
        path = self.folder / "lake" if self.kind == "delta" else metadata_file(self.table)
        return {**JOB["source"], "kind": self.kind, "path": str(path)}

    def job(self, *changes: tuple[str, Any]) -> Any:
        store = str(self.folder / "store")
        return parse_job(
            changed(
                ("source", self.source),
                ("job.store", store),
                ("explain", JOB["explain"][:1]),
                *changes,
            )
        )

    def run(self, *changes: tuple[str, Any], scope: Scope = WHOLE) -> tuple[Any, list[str]]:
        said = Said()
        command = Command("job.toml", scope=scope)
        return run_recorded(self.job(*changes), said, command), said

    @property
    def cube(self) -> Any:
        return dshap.open_cube(self.folder / "store" / "interventional")

    def snapshot(self) -> dict[str, Any]:
        """What the newest record tells of the table."""
        record = read_records(self.folder / "store")[-1]
        return dict(record.explanation("interventional")["adapter_response"]["source"])


@pytest.fixture(params=["delta", "iceberg"])
def lake(request, tmp_path):
    return Lake(tmp_path, request.param)


@pytest.fixture
def delta(tmp_path):
    return Lake(tmp_path, "delta")


def test_a_job_explains_the_rows_of_the_version(lake, tmp_path):
    lake.run()
    small_table().to_parquet(tmp_path / "plain.parquet")
    plain = changed(
        ("source.path", str(tmp_path / "plain.parquet")),
        ("job.store", str(tmp_path / "plain")),
        ("explain", JOB["explain"][:1]),
    )
    run_recorded(parse_job(plain), SilentProgress(), Command("job.toml"))
    wanted = dshap.open_cube(tmp_path / "plain" / "interventional")
    assert lake.cube.sizes["instance"] == 300
    np.testing.assert_array_equal(lake.cube["id"], wanted["id"])
    np.testing.assert_array_equal(lake.cube["attribution"], wanted["attribution"])
    source = lake.snapshot()
    key = "version" if lake.kind == "delta" else "snapshot"
    number = 1 if lake.kind == "delta" else lake.table.current_snapshot().snapshot_id
    assert source["kind"] == lake.kind
    assert source["snapshot"][key] == number
    assert source["place"].endswith(f"{key} {number}")
    assert f"{key} {number}: 300 rows" in plan_from_source(lake.job()).source


def test_the_same_command_reads_the_version_of_its_store(delta):
    delta.run()
    before = delta.cube["attribution"].values
    delta.write(small_table()[:40].assign(id=range(40)), mode="append")
    ended, lines = delta.run()
    assert [line for line in lines if "is at version 2" in line] == [
        f"{delta.folder}/lake is at version 2: {delta.folder}/store was begun with version 1 and "
        "reads that one; for the newer rows give another store"
    ]
    assert all(each.was_complete for each in ended.result.explanations)
    np.testing.assert_array_equal(delta.cube["attribution"].values, before)
    delta.run(("job.store", str(delta.folder / "other")))
    other = dshap.open_cube(delta.folder / "other" / "interventional")
    assert other.sizes["instance"] == 340


def test_parts_of_a_run_read_the_version_that_was_learned(lake):
    lake.run(scope=LearnScope())
    lake.write(small_table()[:7].assign(id=range(7)), mode="append")
    lake.run(scope=ShardScope(share=Shard(1, 1)))
    assert lake.cube.sizes["instance"] == 300


def test_a_version_in_the_job_file(delta):
    delta.run(("source.version", 0))
    assert set(delta.cube["row_hr"].values.tolist()) == {0.0}
    with pytest.raises(InputError, match=r"\[source\] version = -1: "):
        delta.job(("source.version", -1))
    with pytest.raises(InputError, match="no version 8 to read"):
        plan_from_source(delta.job(("source.version", 8)))


def test_nights_carry_unchanged_rows_of_a_newer_version(lake):
    digest = ("incremental", {"strategy": "digest"})
    lake.run(digest)
    tonight = small_table()
    tonight.loc[:4, "hum"] += 1.0
    tonight = pd.concat([tonight[:290], small_table()[:6].assign(id=range(6))])
    lake.write(tonight)
    second, _ = lake.run(digest)
    keys = second.facts.explanations[0].keys
    assert (keys.new, keys.changed, keys.deleted, keys.unchanged) == (6, 5, 10, 285)
    cube = lake.cube
    assert sorted(cube["id"].values.tolist()) == sorted(tonight["id"])
    number = 2 if lake.kind == "delta" else lake.table.current_snapshot().snapshot_id
    key = "version" if lake.kind == "delta" else "snapshot"
    assert lake.snapshot()["snapshot"][key] == number
    third, _ = lake.run(digest)
    assert third.result.is_idle
    np.testing.assert_allclose(
        cube["attribution"].sum("feature") + cube["base_value"], cube["prediction"], atol=1e-8
    )


def test_text_columns_of_a_table(delta, tmp_path, monkeypatch):
    """The columns of text are known before the columns have roles."""
    table = small_table()
    table["note"] = np.array(["Köln", "Zürich"])[table.index % 2]
    delta.write(table)
    (tmp_path / "lake_model.py").write_text(
        "def predict(frame):\n    return frame['hum'] * (frame['note'] == 'Köln')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    delta.run(
        ("source.features", ["hum", "note"]),
        ("source.target", None),
        ("model", {"kind": "import", "function": "lake_model:predict"}),
        ("explain", [{"name": "interventional", "value": "marginal", "background": 9}]),
    )
    found = delta.cube["prediction"].values[:, 0]
    np.testing.assert_allclose(found, table["hum"] * (table["note"] == "Köln"), atol=1e-12)


def test_a_column_of_times_where_numbers_are_taken(delta):
    delta.write(small_table().assign(at=pd.Timestamp("2020-01-01", tz="UTC")))
    with pytest.raises(InputError, match=r"'at' of delta .* contains times .*, in a column of the"):
        plan_from_source(delta.job(("source.features", ["hum", "at"])))


def test_freshness_and_contract_of_a_table(delta):
    delta.write(small_table().assign(at=pd.Timestamp("2020-01-01", tz="UTC")))
    late = {"column": "at", "error_after": "1d"}
    ended, _ = delta.run(("source.freshness", late))
    assert isinstance(ended.facts.failure, StaleSourceError)


def test_the_schema_has_both_kinds():
    text = json.dumps(json_schema())
    for word in ('"delta"', '"iceberg"', '"version"', '"snapshot"'):
        assert word in text
