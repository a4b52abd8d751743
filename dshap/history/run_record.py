"""The record of a run: its work and results, in the form of dbt's run_results.json.

A run leaves `runs/RUN_ID/run_results.json` in the store of its job, as its last file: a run without
one is not over.  The file follows schema version 6 of dbt, which forbids other keys, so that every
reader of dbt's artifacts reads it: one result an explanation, sink and check.  Further facts
of dshap are in `adapter_response` of the results, and in `args` under "dshap".
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

import numpy as np

from dshap import __version__
from dshap.core.addresses import masked, without_secrets
from dshap.core.errors import (
    CheckFailedError,
    DamagedError,
    DshapError,
    FailedBlocksError,
    InputError,
    SinkError,
)
from dshap.core.places import Place
from dshap.core.run_ids import run_id_at, started_at
from dshap.cube.arrays import RUN_TIME, RUNS
from dshap.history.stages import StageUse
from dshap.storage.folder import Folder
from dshap.storage.seals import SEAL, seal_of

SCHEMA = "https://schemas.getdbt.com/dbt/run-results/v6.json"
"""The schema that a record follows."""
RECORD = "run_results.json"
ID = RUN_TIME
"""The pattern of a run id."""
WORST_FIRST = (DamagedError, SinkError, FailedBlocksError, CheckFailedError)
"""Errors that can end one run together; the first of them decides the exit status."""

ResultStatus = Literal["success", "partial success", "no-op", "error", "skipped"]
"""How an explanation or a load of a sink ended, in dbt's words; "no-op": nothing was to be done."""
CheckStatus = Literal["pass", "warn", "error", "skipped"]
"""How a check ended; "skipped": there was nothing that it could be judged by."""


@dataclass(frozen=True)
class KeyCounts:
    """Numbers of keys of tonight's table against those of the run before; None: not compared."""

    new: int | None = None
    changed: int | None = None
    unchanged: int | None = None
    deleted: int | None = None
    failed: int | None = None
    """The keys whose rows have no attributions."""
    damaged: int | None = None
    """The unchanged keys whose rows are explained again, as their earlier blocks are damaged."""

    @property
    def is_unchanged(self) -> bool:
        """Whether the table is the same as before, up to the order of its rows."""
        return self.new == 0 and self.changed == 0 and self.deleted == 0


@dataclass(frozen=True)
class PartFacts:
    """The outcome of one part of a run: an explanation, or the load of a sink."""

    name: str
    status: ResultStatus
    rows: int = 0
    """The number of rows of the cube, or of lines that were written into the sink."""
    seconds: float = 0.0
    message: str = ""
    failure: DshapError | None = None
    """The error that it ended with; None if it ended well, or was not tried."""


@dataclass(frozen=True)
class ExplanationFacts(PartFacts):
    """The outcome of one [[explain]] of a job."""

    failed: int = 0
    """The number of rows without attributions because the model, or a sum, failed for them."""
    stages: tuple[StageUse, ...] = ()
    """The stages of the run that belong to it, those that explanations share first."""
    cube: Place | None = None
    """The cube that is read from now on; None if there is none."""
    source: Mapping[str, Any] = field(default_factory=dict)
    """The table: kind, snapshot, rows, freshness, schema_digest."""
    keys: KeyCounts = KeyCounts()
    model: Mapping[str, Any] = field(default_factory=dict)
    """The model: kind, sha256, library, version, rounds (a note on early stopping)."""
    value: str = ""
    """The value function, as the job names it."""
    design: Mapping[str, Any] = field(default_factory=dict)
    """The design, or closed form, with its options and the number of coalitions."""
    prepared: Mapping[str, Any] = field(default_factory=dict)
    """The states that were learned: method, reused, age (seconds), reason."""
    accuracy: Mapping[str, Any] = field(default_factory=dict)
    """The measured accuracy: residual, and mse_v and pilot if they are."""
    cost: Mapping[str, Any] = field(default_factory=dict)
    """Planned and used: operations, tasks, bytes of a task; seconds, peaks of memory."""
    cluster: Mapping[str, Any] = field(default_factory=dict)
    """The executor of the run: kind, workers, threads, memory_limit."""
    ranking: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Output -> feature -> mean |attribution| over the rows of the cube."""

    @property
    def is_unchanged(self) -> bool:
        """Whether its cube is that of an earlier night, as no row has changed since."""
        return self.status == "no-op" and self.keys.new is not None


@dataclass(frozen=True)
class SinkFacts(PartFacts):
    """The outcome of one [[sink]] of a job; its name is its table, with the schema if it has one."""

    explain: str = ""
    """The explanation that it loads."""
    deleted: int = 0
    """The number of keys that were removed, or marked as deleted."""
    target: str = ""
    """The masked address and table that it was loaded into."""
    details: Mapping[str, Any] = field(default_factory=dict)
    started: datetime | None = None
    ended: datetime | None = None


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one [[check]]."""

    name: str
    status: CheckStatus
    value: float | None
    """The number that was judged; None if there was none."""
    bound: float | None
    """The bound that the status follows from; the one to stay within if the check passed."""
    message: str
    kind: str = ""
    explain: str = ""
    """The explanation whose cube was judged."""
    metric: str = ""
    baseline: str = ""
    """The run that the number compares with; empty if it compares with none."""
    accepted: str = ""
    """The run with which a number beyond the bound was accepted; empty for none."""


@dataclass(frozen=True)
class RunFacts:
    """All facts that a run records when it is over."""

    run_id: str
    job: str
    """The name of the job."""
    started: datetime
    ended: datetime
    previous: str | None = None
    """The id of the run before; None for the first."""
    as_of: date | None = None
    command: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of the command."""
    explanations: tuple[ExplanationFacts, ...] = ()
    sinks: tuple[SinkFacts, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    failure: DshapError | None = None
    """The error that ended the whole run, such as a stale source; None if it went on."""
    is_backfill: bool = False
    """Whether it is for an earlier date than the last run, beside the cubes that are read."""

    @property
    def baseline(self) -> str | None:
        """The id of the run that checks compared with, of several the newest; None for none."""
        return max((each.baseline for each in self.checks), default="") or None

    @property
    def seconds(self) -> float:
        return (self.ended - self.started).total_seconds()

    @property
    def has_work(self) -> bool:
        """Whether anything was explained or loaded."""
        done = [each.status for each in self.explanations]
        done += [each.status for each in self.sinks]
        return not set(done) <= {"no-op", "skipped"}


def error_of(facts: RunFacts) -> DshapError | None:
    """The error that a run ends with, which carries the exit status; None if all is well.

    Of several the first of `WORST_FIRST` decides, and the message names all.  A check of kind
    "failed_rows" decides in the place of the failed rows of its explanation.
    """
    if facts.failure is not None:
        return facts.failure
    judged = {each.explain for each in facts.checks if each.kind == "failed_rows"}
    errors = [
        _named(each.name, each.failure)
        for each in facts.explanations
        if each.failure is not None and not _is_judged(each, judged)
    ]
    errors += [
        _named(f"sink {each.name}", each.failure)
        for each in facts.sinks
        if each.failure is not None
    ]
    errors += [
        CheckFailedError(f"check {each.name}: {each.message}")
        for each in facts.checks
        if each.status == "error"
    ]
    if not errors:
        return None
    errors.sort(key=_place_of)
    if len(errors) == 1:
        return errors[0]
    return type(errors[0])("; ".join(map(str, errors)))


def _named(name: str, error: DshapError) -> DshapError:
    """The error of a part of the run, with the name of the part before its message."""
    return type(error)(f"{name}: {error}")


def _is_judged(explanation: ExplanationFacts, judged: set[str]) -> bool:
    """Whether a check decides about the failed rows of an explanation."""
    return explanation.name in judged and isinstance(explanation.failure, FailedBlocksError)


def _place_of(error: DshapError) -> int:
    """The place of an error among those that decide, worst first; any other comes before them."""
    places = (place for place, kind in enumerate(WORST_FIRST) if isinstance(error, kind))
    return next(places, -1)


def exit_status(facts: RunFacts) -> int:
    """The exit status of the command that carried out this run."""
    error = error_of(facts)
    if error is None:
        return 0
    return error.exit_status


def new_run_id(store: Place, now: datetime) -> str:
    """The time in UTC as an id, or the second after the store's newest run if that is later."""
    at = now.astimezone(UTC)
    # The order of ids is that of the runs, also if two begin in one second or a clock was set
    # back.
    ids = [name for name in Folder(store / RUNS).list() if ID.fullmatch(name)]
    if ids:
        at = max(at, started_at(ids[-1]) + timedelta(seconds=1))
    return run_id_at(at)


def write_record(store: Place, facts: RunFacts) -> Place:
    """Write the record of a run, in one step, as its last file; returns its path.

    Raises
    ------
    InputError
        The run has its record already.
    """
    name = f"{RUNS}/{facts.run_id}/{RECORD}"
    if not Folder(store).put_new(name, record_bytes(facts)):
        raise InputError(f"run {facts.run_id} of {store} is over: it has its {RECORD}")
    return store / name


def record_bytes(facts: RunFacts) -> bytes:
    """The content of the record of a run, with its seal."""
    document = as_record(facts).content or {}
    sealed = _with_args(document, {SEAL: seal_of(RECORD, document)})
    return json.dumps(sealed, indent=2, ensure_ascii=False, allow_nan=False).encode()


def _with_args(document: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a document with more facts about the run, which dbt has no keys for."""
    args = document["args"]
    return {**document, "args": {**args, "dshap": {**args["dshap"], **more}}}


def as_record(facts: RunFacts) -> RunRecord:
    """The record of a run, as it is read later."""
    return RunRecord(facts.run_id, _plain(_document(facts)))


def _document(facts: RunFacts) -> dict[str, Any]:
    """The content of a run_results.json."""
    results = [
        *(_explanation(facts, each) for each in facts.explanations),
        *(_sink(facts, each) for each in facts.sinks),
        *(_check(facts, each) for each in facts.checks),
    ]
    return {
        "metadata": {
            "dbt_schema_version": SCHEMA,
            "dbt_version": f"dshap {__version__}",
            "generated_at": _time(facts.ended),
            "invocation_id": facts.run_id,
            "env": {},
        },
        "results": [vars(each) for each in results],
        "elapsed_time": facts.seconds,
        "args": {**facts.command, "dshap": _of_the_run(facts)},
    }


def _of_the_run(facts: RunFacts) -> dict[str, Any]:
    return {
        "job": facts.job,
        "run_id": facts.run_id,
        "previous_run": facts.previous,
        "started_at": _time(facts.started),
        "as_of": facts.as_of,
        "backfill": facts.is_backfill,
        "baseline": facts.baseline,
        "has_work": facts.has_work,
        "exit_status": exit_status(facts),
        "message": _said(error_of(facts)) or None,
    }


@dataclass(frozen=True)
class _Result:
    """A result, with every key that dbt writes."""

    status: str
    unique_id: str
    adapter_response: Mapping[str, Any]
    message: str | None
    failures: int | None
    timing: tuple[Mapping[str, str], ...] = ()
    thread_id: str = "main"
    execution_time: float = 0.0
    relation_name: str | None = None
    compiled: None = None
    compiled_code: None = None
    batch_results: None = None


def _explanation(facts: RunFacts, each: ExplanationFacts) -> _Result:
    response = {
        "rows_affected": each.rows,
        "failed": each.failed,
        "source": each.source,
        "keys": asdict(each.keys),
        "model": each.model,
        "value": each.value,
        "design": each.design,
        "prepared": each.prepared,
        "accuracy": each.accuracy,
        "cost": each.cost,
        "cluster": each.cluster,
        "previous_run": facts.previous,
        "ranking": each.ranking,
    }
    return _Result(
        each.status,
        f"explanation.{facts.job}.{each.name}",
        response,
        each.message or _said(each.failure) or None,
        each.failed,
        _timing((stage.name, stage.started, stage.ended) for stage in each.stages),
        execution_time=each.seconds,
        relation_name=str(each.cube or "") or None,
    )


def _sink(facts: RunFacts, each: SinkFacts) -> _Result:
    response = {
        "rows_affected": each.rows,
        "deleted": each.deleted,
        "explain": each.explain,
        **each.details,
    }
    return _Result(
        each.status,
        f"sink.{facts.job}.{each.name}",
        response,
        each.message or _said(each.failure) or None,
        None,
        _timing([("load", each.started, each.ended)]),
        execution_time=each.seconds,
        relation_name=each.target or None,
    )


def _check(facts: RunFacts, each: CheckResult) -> _Result:
    # dbt's "error" is a test that could not run
    status = {"error": "fail"}.get(each.status, each.status)
    response = {
        "kind": each.kind,
        "metric": each.metric,
        "explain": each.explain,
        "value": each.value,
        "bound": each.bound,
        "baseline": each.baseline or None,
        "accepted": each.accepted or None,
    }
    n_failures = int(each.status in ("warn", "error"))
    return _Result(
        status, f"check.{facts.job}.{each.name}", response, each.message or None, n_failures
    )


def _timing(
    stages: Iterable[tuple[str, datetime | None, datetime | None]],
) -> tuple[Mapping[str, str], ...]:
    """The times of the stages of a result; without those that an earlier run had done."""
    return tuple(
        {"name": name, "started_at": _time(started), "completed_at": _time(ended)}
        for name, started, ended in stages
        if started is not None and ended is not None
    )


def _said(error: DshapError | None) -> str:
    """The message of an error; empty if there is none."""
    if error is None:
        return ""
    return str(error)


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(value: Any) -> Any:
    """A value as JSON has it: null for NaN and infinity, addresses without their secrets."""
    match value:
        case None | bool() | int():
            return value
        case float() if not math.isfinite(value):
            return None
        case float():
            return value
        case str():
            return without_secrets(value)
        case Mapping():
            return {without_secrets(str(name)): _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case np.generic() | np.ndarray():
            return _plain(value.tolist())
        case datetime():
            return _time(value)
        case date():
            return value.isoformat()
        case os.PathLike():
            return masked(os.fspath(value))
    return without_secrets(str(value))


@dataclass(frozen=True)
class RunRecord:
    """A run of a store, from its record; without one the run is not over."""

    run_id: str
    content: Mapping[str, Any] | None = None
    """The content of its run_results.json; None if the run is not over."""

    @property
    def is_over(self) -> bool:
        return self.content is not None

    @property
    def results(self) -> Sequence[Mapping[str, Any]]:
        return (self.content or {}).get("results", [])

    @property
    def about(self) -> Mapping[str, Any]:
        """The facts of the whole run: job, previous_run, started_at, as_of, exit_status."""
        return (self.content or {}).get("args", {}).get("dshap", {})

    def named(self, what: str) -> Iterator[Mapping[str, Any]]:
        """The results about explanations, sinks or checks: `what` is the word for one."""
        return (each for each in self.results if each["unique_id"].startswith(f"{what}."))

    @property
    def explained(self) -> tuple[str, ...]:
        """The names of the explanations with a result; none of a run that explained nothing."""
        prefix = f"explanation.{self.about.get('job')}."
        found = self.named("explanation")
        return tuple(str(each["unique_id"]).removeprefix(prefix) for each in found)

    def explanation(self, name: str) -> Mapping[str, Any] | None:
        """The result of one explanation."""
        wanted = f"explanation.{self.about.get('job')}.{name}"
        return next((each for each in self.results if each["unique_id"] == wanted), None)

    def check(self, name: str) -> Mapping[str, Any] | None:
        """The result of one check."""
        wanted = f"check.{self.about.get('job')}.{name}"
        return next((each for each in self.results if each["unique_id"] == wanted), None)

    def rows(self, name: str) -> int:
        """The number of rows of one explanation; 0 if it has no cube."""
        found = self.explanation(name)
        if found is None:
            return 0
        return int(found["adapter_response"]["rows_affected"])

    def cube_name(self, name: str) -> str:
        """The name of the cube of one explanation in its folder; empty if there is none."""
        found = self.explanation(name) or {}
        return str(found.get("relation_name") or "").rpartition("/")[2]

    @property
    def as_of(self) -> date | None:
        """The date of the run; None if its record has none."""
        written = self.about.get("as_of")
        if written is None:
            return None
        return date.fromisoformat(written)

    @property
    def is_backfill(self) -> bool:
        """Whether it was for an earlier date than the run before."""
        return bool(self.about.get("backfill"))

    def ranking(self, name: str) -> Mapping[str, Mapping[str, float]]:
        """Output -> feature -> mean |attribution| of one explanation; empty if there is none."""
        found = self.explanation(name)
        if found is None:
            return {}
        return found["adapter_response"].get("ranking") or {}


@dataclass(frozen=True)
class EarlierRuns:
    """The runs of a store before one, newest first, each read when it is asked for."""

    store: Place
    before: str = ""
    """The id of the run that they are before; empty for all runs."""

    def __iter__(self) -> Iterator[RunRecord]:
        runs = Folder(self.store / RUNS)
        for run_id in reversed(runs.list()):
            is_earlier = not self.before or run_id < self.before
            if is_earlier and runs.has_room(run_id):
                yield from _record_in(runs, run_id)


def _record_in(runs: Folder, run_id: str) -> Iterator[RunRecord]:
    """The record of one run; none, with a warning, where its file cannot be read."""
    name = f"{run_id}/{RECORD}"
    content = runs.get(name)
    if content is None:
        yield RunRecord(run_id)
        return
    document = document_in(content)
    if document is None:
        warnings.warn(
            f"{runs.place(name)} is damaged and left out: it is not the record of a run, or was altered",
            stacklevel=4,
        )
        return
    yield RunRecord(run_id, document)


def read_records(store: Place) -> tuple[RunRecord, ...]:
    """The runs of a store, oldest first, those that are not over too.

    A record that cannot be read is left out, with a warning that names it.
    """
    return tuple(reversed(list(EarlierRuns(store))))


def read_record(store: Place, run_id: str) -> RunRecord | None:
    """The record of one run; None, with a warning, where it cannot be read."""
    return next(_record_in(Folder(store / RUNS), run_id), None)


def last_run(store: Place) -> str | None:
    """The id of the newest run of a store that is over; None if there is none."""
    return next((each.run_id for each in EarlierRuns(store) if each.is_over), None)


def source_types_before(store: Place) -> Mapping[str, str] | None:
    """Column -> type of the source in the newest run whose record has it; None if none has.

    Backfills are left out: they read tables of earlier days.
    """
    for run in EarlierRuns(store):
        if run.is_backfill:
            continue
        for each in run.named("explanation"):
            snapshot = each["adapter_response"].get("source", {}).get("snapshot") or {}
            if "schema" in snapshot:
                found: Mapping[str, str] = snapshot["schema"]
                return found
    return None


def document_in(content: bytes) -> Mapping[str, Any] | None:
    """The document in a file, without its seal; None if it is not one that a run wrote.

    A document of an earlier version has no seal: it is accepted as it is.
    """
    try:
        document = json.loads(content)
    except ValueError:
        return None
    match document:
        case {"results": [*_], "args": {"dshap": {"job": str()} as about}}:
            seal = about.pop(SEAL, None)
            if seal is None or seal == seal_of(RECORD, document):
                return document
    return None
