"""Events of OpenLineage about a run: which tables it read, which it wrote, and how it ended.

They are appended to a file, one JSON object a line, as the file transport of OpenLineage does; see
https://openlineage.io/docs/spec/object-model.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dshap import __version__
from dshap.core.addresses import masked, without_secrets
from dshap.core.errors import InputError
from dshap.history.run_record import ExplanationFacts, RunFacts, SinkFacts
from dshap.jobs.run_endings import RunEnding

PRODUCER = "urn:dshap:dshap"
SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
FACETS = "https://openlineage.io/spec/facets"
NAMESPACE = uuid.UUID("6f1a1c52-7c1e-5b0d-9f0e-6f5f7c1d5a3b")
"""The name space of the ids of runs: the same run has the same id in every file."""
JOBS = "dshap"
"""The name space of jobs."""


@dataclass(frozen=True)
class LineageFile:
    """Appends the events of a command to a file."""

    path: Path

    def __call__(self, ending: RunEnding) -> None:
        if ending.is_part:
            return
        lines = [json.dumps(each, ensure_ascii=False) for each in events_of(ending)]
        try:
            with self.path.open("a", encoding="utf-8") as opened:
                opened.write("".join(f"{line}\n" for line in lines))
        except OSError as error:
            raise InputError(f"--lineage {self.path}: {error.strerror}") from error


def lineage_path(path: Path) -> Path:
    """The file of --lineage; an InputError if its folder is not there."""
    if not path.parent.is_dir():
        raise InputError(f"--lineage {path}: there is no folder {path.parent}")
    return path


def events_of(ending: RunEnding) -> list[dict[str, Any]]:
    """The two events of a command: its start, and its end with its inputs and outputs.

    Returns
    -------
    list of dict
        A START event, and one of COMPLETE, FAIL and ABORT (of an interrupted run).
    """
    begun = _event("START", ending.started, ending)
    over = _event(_kind_of(ending), ending.ended, ending)
    facts = ending.facts
    if facts is not None:
        over["inputs"] = _inputs(facts)
        over["outputs"] = _outputs(facts)
    return [begun, over]


def _kind_of(ending: RunEnding) -> str:
    """The type of the last event: COMPLETE with exit status 0, ABORT if interrupted, else FAIL."""
    if not ending.exit_status:
        return "COMPLETE"
    if ending.run is None and ending.message == "interrupted":
        return "ABORT"
    return "FAIL"


def _event(kind: str, at: datetime, ending: RunEnding) -> dict[str, Any]:
    job = ending.job.job
    facts = ending.facts
    run_id = ending.started.isoformat() if facts is None else facts.run_id
    run: dict[str, Any] = {
        "runId": str(uuid.uuid5(NAMESPACE, f"{job.store} {run_id}")),
        "facets": _run_facets(ending, is_over=kind != "START"),
    }
    of_job = _facet(
        "2-0-4/JobTypeJobFacet", processingType="BATCH", integration="DSHAP", jobType="JOB"
    )
    return {
        "eventType": kind,
        "eventTime": _time(at),
        "run": run,
        "job": {"namespace": JOBS, "name": job.name, "facets": {"jobType": of_job}},
        "inputs": [],
        "outputs": [],
        "producer": PRODUCER,
        "schemaURL": SCHEMA,
    }


def _run_facets(ending: RunEnding, *, is_over: bool) -> dict[str, Any]:
    facts = ending.facts
    found: dict[str, Any] = {
        "processing_engine": _facet(
            "1-1-1/ProcessingEngineRunFacet", version=__version__, name="dshap"
        )
    }
    if facts is not None and facts.as_of is not None:
        day = datetime(facts.as_of.year, facts.as_of.month, facts.as_of.day, tzinfo=UTC)
        found["nominalTime"] = _facet("1-0-1/NominalTimeRunFacet", nominalStartTime=_time(day))
    if is_over and ending.message:
        found["errorMessage"] = _facet(
            "1-0-1/ErrorMessageRunFacet",
            message=without_secrets(ending.message),
            programmingLanguage="Python",
        )
    return found


def _inputs(facts: RunFacts) -> list[dict[str, Any]]:
    """The tables that were explained, each once, with the checks of their explanations."""
    found: dict[str, dict[str, Any]] = {}
    for each in facts.explanations:
        namespace, name = _place_of_source(each)
        snapshot = each.source.get("snapshot") or {}
        facets: dict[str, Any] = {}
        if types := snapshot.get("schema"):
            fields = [{"name": str(column), "type": str(kind)} for column, kind in types.items()]
            facets["schema"] = _facet("1-2-0/SchemaDatasetFacet", fields=fields)
        dataset = {"namespace": namespace, "name": name, "facets": facets}
        if each.source.get("rows") is not None:
            dataset["inputFacets"] = {
                "dataQualityMetrics": _facet(
                    "1-0-2/DataQualityMetricsInputDatasetFacet",
                    rowCount=int(each.source["rows"]),
                    columnMetrics={},
                )
            }
        found[f"{namespace} {name}"] = dataset
    return list(found.values())


def _place_of_source(facts: ExplanationFacts) -> tuple[str, str]:
    """(name space, name) of the table of an explanation."""
    place = masked(str(facts.source.get("place") or ""))
    return _parted(place, str(facts.source.get("kind") or "source"))


def _outputs(facts: RunFacts) -> list[dict[str, Any]]:
    """The cubes and tables that the run has written."""
    cubes = [
        _output("file", str(each.cube), each.rows)
        for each in facts.explanations
        if each.cube is not None
    ]
    return [*cubes, *(_of_sink(each) for each in facts.sinks if each.status == "success")]


def _of_sink(sink: SinkFacts) -> dict[str, Any]:
    namespace, name = _parted(sink.target, "sink")
    return _output(namespace, name, sink.rows)


def _output(namespace: str, name: str, n_rows: int) -> dict[str, Any]:
    statistics = _facet("1-0-2/OutputStatisticsOutputDatasetFacet", rowCount=n_rows)
    facets = {"outputStatistics": statistics}
    return {"namespace": namespace, "name": name, "facets": {}, "outputFacets": facets}


def _parted(place: str, kind: str) -> tuple[str, str]:
    """(name space, name) of a place: both parts of "address, table"; of a path, "file" and it."""
    address, comma, table = place.partition(", ")
    if comma:
        return address, table
    scheme, slashes, rest = place.partition("://")
    if slashes:
        host, _, name = rest.partition("/")
        return f"{scheme}://{host}", name or kind
    if place.startswith("/"):
        return "file", place
    return kind, place or kind


def _facet(schema: str, **content: Any) -> Mapping[str, Any]:
    """A facet with the two entries that all of them have."""
    version, name = schema.split("/")
    url = f"{FACETS}/{version}/{name}.json#/$defs/{name}"
    return {"_producer": PRODUCER, "_schemaURL": url, **content}


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
