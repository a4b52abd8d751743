"""The outlook on the next run of a nightly job, from the records in its store; no table is read.

It shows the last run, the method of each explanation and the rows from which it was learned, what
would be explained, and where each sink loads.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dshap.core.places import Place, place_of
from dshap.core.printing import label
from dshap.core.run_ids import started_at
from dshap.cube import current_of
from dshap.history.run_record import EarlierRuns, RunRecord
from dshap.jobfile.model_tables import ModelFileTable, sha256_of_given
from dshap.jobfile.schema import Job
from dshap.jobfile.sink_tables import SinkTable
from dshap.steps.sink_targets import sink_in
from dshap.storage.folder import Folder
from dshap.storage.seals import sealed_record, whole_record

ROOM = "prepared"
"""The room of a store for learned methods."""


@dataclass(frozen=True)
class LearnedAbout:
    """The method of an explanation, and the run from whose rows it was learned."""

    method: str
    """The digest of the method, and the name of its folder; empty if it was withdrawn."""
    run_id: str
    """The run from whose rows it was learned."""

    def age_at(self, run_id: str) -> datetime.timedelta:
        """The age when a run started, so that a resumed run decides as it did before."""
        return started_at(run_id) - started_at(self.run_id)


def read_learned(room: Place, explain: str) -> LearnedAbout | None:
    """The learned method of an explanation; None if there is none.

    None also if its file is damaged, or if the method was withdrawn because a row from which it was
    learned was erased.
    """
    about = _about(room, explain)
    if about is None or not about.method:
        return None
    return about


def withdrawn_run(room: Place, explain: str) -> str | None:
    """The run from whose rows a withdrawn method was learned; None if none was withdrawn."""
    about = _about(room, explain)
    if about is None or about.method:
        return None
    return about.run_id


def _about(room: Place, explain: str) -> LearnedAbout | None:
    name = f"{explain}.json"
    content = Folder(room).get(name)
    with contextlib.suppress(ValueError, TypeError):
        return LearnedAbout(**whole_record(name, content or b""))
    return None


def withdraw_learned(room: Place, explain: str, about: LearnedAbout) -> None:
    """Withdraw the method of an explanation: it is learned again from the same rows."""
    keep_learned(room, explain, LearnedAbout("", about.run_id))


def keep_learned(room: Place, explain: str, about: LearnedAbout) -> None:
    """Store which method an explanation has, with a seal."""
    name = f"{explain}.json"
    Folder(room).replace(name, sealed_record(name, asdict(about)))


def nights_of(job: Job) -> dict[str, Any] | None:
    """The facts about the last run of a nightly job and the next; None without [incremental].

    They are last_run, exit_status, unfinished (runs that are finished first), deletes,
    is_other_model, and explanations: name -> current, method, learned_in, learned_anew and
    learned_anew_by, the key of the job because of which the method is learned again.
    """
    if not job.is_incremental:
        return None
    store = place_of(job.job.store)
    runs = list(EarlierRuns(store))
    facts: dict[str, Any] = {
        "last_run": None,
        "exit_status": None,
        "unfinished": [run.run_id for run in reversed(runs) if not run.is_over],
        "deletes": job.incremental.deletes,
        "is_other_model": False,
        "explanations": {each.name: _explanation_of(job, each.name) for each in job.explain},
    }
    for last in (run for run in runs if run.is_over):
        known = {"last_run": last.run_id, "exit_status": last.about["exit_status"]}
        return {**facts, **known, "is_other_model": _is_other_model(job, last)}
    return facts


def _explanation_of(job: Job, name: str) -> dict[str, Any]:
    """The current cube, the method, and when that is learned again, of one explanation."""
    store = place_of(job.job.store)
    facts = {"current": current_of(store / name), "method": None, "learned_in": None}
    about = read_learned(store / ROOM, name)
    if about is None:
        withdrawn = withdrawn_run(store / ROOM, name)
        return facts if withdrawn is None else {**facts, "withdrawn": withdrawn}
    facts |= {"method": about.method, "learned_in": about.run_id}
    given = {"[prepare] every": job.prepare.every, "[retention] days": job.retention.span}
    bounds = {name: most for name, most in given.items() if most is not None}
    if not bounds:
        return facts
    first = min(bounds, key=bounds.__getitem__)
    anew = started_at(about.run_id) + bounds[first]
    return {**facts, "learned_anew": anew.isoformat(), "learned_anew_by": first}


def _is_other_model(job: Job, last: RunRecord) -> bool:
    """Whether the file of the model has another content than in the last run."""
    match job.model:
        case ModelFileTable() as table:
            now = sha256_of_given(table)
        case _:
            return False
    models = [each["adapter_response"]["model"] for each in last.named("explanation")]
    return any(each.get("sha256") not in (None, now) for each in models)


def night_lines(nights: Mapping[str, Any] | None) -> list[str]:
    """The lines of a plan about the nights of a job."""
    if nights is None:
        return []
    lines = ["", f'nights: [incremental] strategy = "digest", deletes = "{nights["deletes"]}"']
    for run_id in nights["unfinished"]:
        lines.append(
            f"run {run_id} is not finished: it is finished first, if its rows are not damaged"
        )
    if nights["last_run"] is None:
        return [
            *lines,
            "no run has finished yet: the first run explains every row, and stores what it learns",
        ]
    lines.append(f"last run: {nights['last_run']}, exit status {nights['exit_status']}")
    lines += [_method_line(name, each) for name, each in nights["explanations"].items()]
    if nights["is_other_model"]:
        return [
            *lines,
            "[model] path contains another model than in the last run: every row is explained",
        ]
    return [*lines, "rows that are as in the current cube are copied from it, all others explained"]


def _method_line(name: str, facts: Mapping[str, Any]) -> str:
    """The cube and the method of one explanation."""
    if "withdrawn" in facts:
        return (
            f"{label(name)}: the method was withdrawn, because a row that it was learned from was "
            "erased: the next night learns a new method, and explains every row"
        )
    if facts["current"] is None or facts["method"] is None:
        return f"{label(name)}: no cube yet, so that every row is explained"
    line = (
        f"{label(name)}: current cube {facts['current']}, method {facts['method'][:12]}, learned in "
        f"run {facts['learned_in']}"
    )
    if "learned_anew" not in facts:
        return line
    by = facts["learned_anew_by"]
    return f"{line}; {by}: a new method is learned, for every row, from {facts['learned_anew']} on"


def sinks_of(job: Job) -> tuple[dict[str, Any], ...]:
    """The options of each [[sink]], with those that the job leaves out."""
    return tuple(_sink_of(job, table) for table in job.sink)


def _sink_of(job: Job, table: SinkTable) -> dict[str, Any]:
    sink = sink_in(job, table)
    return {
        "name": table.name or sink.label,
        "explain": sink.explain,
        "target": sink.describe(),
        "shape": sink.shape,
        "k": sink.k,
        "rows": sink.rows,
        "write": sink.write,
        "deletes": sink.deletes,
        "nul": sink.nul,
        "is_whole": sink.rows == "all" or not job.is_incremental,
    }


def sink_lines(sinks: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines of a plan about the sinks of a job."""
    if not sinks:
        return []
    return ["", *map(_sink_line, sinks)]


def _sink_line(facts: Mapping[str, Any]) -> str:
    shape = f'shape = "{facts["shape"]}"'
    if facts["shape"] == "top_k":
        shape += f", k = {facts['k']}"
    options = [f'{key} = "{facts[key]}"' for key in ("rows", "write", "deletes", "nul")]
    line = (
        f"sink {label(facts['name'])}: {label(facts['explain'])} into {facts['target']}: "
        f"{', '.join([shape, *options])}"
    )
    if facts["is_whole"] and facts["rows"] == "changed":
        return f"{line}; without [incremental] every row counts as changed"
    return line
