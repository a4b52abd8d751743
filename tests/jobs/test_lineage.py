"""Events of OpenLineage: what its schema asks for.

`make daily-attestations` reads them with OpenLineage's own classes too.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import replace
from datetime import date, datetime

import pytest

from dshap.jobs.lineage import LineageFile, events_of
from dshap.jobs.run_endings import RunEnding
from tests.jobs.test_metrics import AT, ending, facts

TABLE = {
    "kind": "sql",
    "place": "postgresql://user:secret@host:5432/shop, mart.customers",
    "rows": 100,
    "snapshot": {"schema": {"id": "int64", "Größe": "double"}},
}


@pytest.fixture
def told():
    """The end of a run on a table of a database, with a sink."""
    found = ending()
    known = facts()
    explained = replace(known.explanations[0], source=TABLE, cube="/store/reasons/20261127T030000Z")
    sink = replace(known.sinks[0], target="duckdb:///data/shop.duckdb, reasons")
    known = replace(known, explanations=(explained,), sinks=(sink,), as_of=date(2026, 11, 27))
    return replace(found, run=replace(found.run, facts=known))


def check(event):
    """The rules of RunEvent and BaseFacet in the schema of OpenLineage 2-0-2."""
    assert {"run", "job", "eventTime", "producer", "schemaURL"} <= event.keys()
    assert event["eventType"] in ("START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER")
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    assert str(uuid.UUID(event["run"]["runId"])) == event["run"]["runId"]
    assert event["job"]["namespace"]
    assert event["job"]["name"]
    holders = [event["run"]["facets"], event["job"]["facets"]]
    for dataset in [*event["inputs"], *event["outputs"]]:
        assert dataset["namespace"]
        assert dataset["name"]
        holders += [dataset.get(name, {}) for name in ("facets", "inputFacets", "outputFacets")]
    for facet in (facet for facets in holders for facet in facets.values()):
        assert re.fullmatch(r"[a-z]+:\S+", facet["_producer"])
        assert re.fullmatch(r"https://\S+\.json#/\$defs/\w+", facet["_schemaURL"])


def test_a_run(told):
    begun, over = events_of(told)
    check(begun)
    check(over)
    assert (begun["eventType"], over["eventType"]) == ("START", "COMPLETE")
    assert begun["run"]["runId"] == over["run"]["runId"]
    other = replace(told, run=replace(told.run, facts=replace(told.run.facts, run_id="another")))
    assert events_of(other)[0]["run"]["runId"] != begun["run"]["runId"]
    (table,) = over["inputs"]
    assert (table["namespace"], table["name"]) == (
        "postgresql://user:***@host:5432/shop",
        "mart.customers",
    )
    assert table["facets"]["schema"]["fields"][1] == {"name": "Größe", "type": "double"}
    cube, sink = over["outputs"]
    assert (cube["namespace"], cube["name"]) == ("file", "/store/reasons/20261127T030000Z")
    assert (sink["namespace"], sink["name"]) == ("duckdb:///data/shop.duckdb", "reasons")
    assert sink["outputFacets"]["outputStatistics"]["rowCount"] == 300
    assert over["run"]["facets"]["nominalTime"]["nominalStartTime"] == "2026-11-27T00:00:00.000Z"
    assert "secret" not in json.dumps(over)


def test_other_ends(told):
    _, failed = events_of(replace(told, exit_status=8, message="check drift: password=x1y2"))
    check(failed)
    assert failed["eventType"] == "FAIL"
    assert "x1y2" not in failed["run"]["facets"]["errorMessage"]["message"]
    stopped = RunEnding(told.job, AT, AT, 130, "interrupted")
    assert [each["eventType"] for each in events_of(stopped)] == ["START", "ABORT"]
    check(events_of(stopped)[1])


def test_events_are_appended(told, tmp_path):
    file = tmp_path / "lineage.ndjson"
    LineageFile(file)(told)
    LineageFile(file)(told)
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert [each["eventType"] for each in events] == ["START", "COMPLETE"] * 2
    part = replace(told, run=replace(told.run, record=None))
    LineageFile(file)(part)
    assert len(file.read_text().splitlines()) == 4
