"""`dshap check`: checks one by one what a run needs, before the first run.

They are the model, the source, its contract, the dictionary of columns, the store and each sink.
Every one is asked, also after another has failed, and nothing is left behind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import partial
from typing import Any

from dshap.core.errors import DshapError, InputError
from dshap.core.places import Place, place_of
from dshap.core.printing import counted
from dshap.core.types import Design
from dshap.core.user_code import raised_by_import
from dshap.cube import refuse_altered
from dshap.history.backfills import check_day
from dshap.history.job_store import refuse_store
from dshap.history.run_record import source_types_before
from dshap.jobfile.described_tables import PLACE
from dshap.jobfile.schema import ExplainTable, Job
from dshap.jobfile.sink_tables import SinkTable, look_at_sink
from dshap.jobinput.job_columns import in_words_of, place_of_table
from dshap.jobinput.job_model import model_of_job
from dshap.jobinput.job_source import look_before_reading, rules_of
from dshap.run.description import refuse_misnamed
from dshap.sinks import CubeFacts, Target
from dshap.sinks.checks import check_sink
from dshap.steps.cubes_of_job import cubes_of_job
from dshap.steps.judging import refuse_unknown_runs
from dshap.steps.row_sources import row_source
from dshap.steps.seen_places import probed_places
from dshap.steps.sink_targets import sink_in
from dshap.storage.folder import Folder
from dshap.tables.columns import as_names
from dshap.warehouse.column_types import is_number_type
from dshap.warehouse.looks import SourceLook

NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class Finding:
    """The result of one check of `dshap check`, such as the check of the model or of a sink."""

    thing: str
    """"model", "source", "contract", "columns", "store" or "sink"."""
    place: str
    """Its path or masked address; empty for the contract."""
    message: str = ""
    """A remark, or the message of the error."""
    failure: DshapError | None = None
    """The error that a run would raise; None if the check has passed."""

    @property
    def status(self) -> str:
        """The word "ok", "failed", or "not checked": another thing would have to be in order first."""
        if self.failure is not None:
            return "failed"
        if self.message.startswith(NOT_CHECKED):
            return NOT_CHECKED
        return "ok"

    def __str__(self) -> str:
        said = self.message
        address = self.place.partition(",")[0]
        if self.failure is None or address not in self.message:
            said = ": ".join(filter(None, [self.place, self.message]))
        if self.status == NOT_CHECKED:
            return f"{self.thing:<10}{said}"
        return f"{self.thing:<10}{self.status:<8}{said}"

    def to_dict(self) -> dict[str, Any]:
        exit_status = 0
        if self.failure is not None:
            exit_status = self.failure.exit_status
        return {
            "thing": self.thing,
            "place": self.place,
            "status": self.status,
            "message": self.message,
            "exit_status": exit_status,
        }


@dataclass(frozen=True)
class JobCheck:
    """The results of all checks, in the order in which a run needs the things."""

    job: str
    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings))

    def to_dict(self) -> dict[str, Any]:
        found = [each.to_dict() for each in self.findings]
        is_ready = all(each.failure is None for each in self.findings)
        return {"job": self.job, "is_ready": is_ready, "checks": found}

    def refuse_faults(self) -> None:
        """Raise an error that lists all failures, with the exit status of the first."""
        failures = [(each.thing, each.failure) for each in self.findings if each.failure]
        if not failures:
            return
        things = ", ".join(thing for thing, _ in failures)
        error = InputError(
            f"job {self.job!r} is not ready: {len(failures)} of {len(self.findings)} checks failed: "
            f"{things}"
        )
        error.exit_status = failures[0][1].exit_status
        raise error


@dataclass
class _Checking:
    """The check of a job, thing by thing; a later thing uses the results of earlier ones."""

    job: Job
    as_of: date
    say: Callable[[str], None]
    features: Sequence[str] | None = None
    """The columns that are explained, by the model or the job; None if neither names any."""
    look: SourceLook | None = None
    """The columns of the source; None if they are not known."""
    findings: list[Finding] = field(default_factory=list)

    def ask(self, thing: str, place: str, ask: Callable[[], str]) -> None:
        """Add the result of a check: the remark that `ask` returns, or the error that it raises."""
        try:
            with in_words_of(self.job):
                found = Finding(thing, place, ask())
        except DshapError as error:
            found = Finding(thing, place, str(error), error)
        except OSError as error:
            refused = InputError(f"{error.filename or 'file'}: {error.strerror or error}")
            found = Finding(thing, place, str(refused), refused)
        except Exception as error:
            if not (said := raised_by_import(error)):
                raise
            found = Finding(thing, place, said, InputError(said))
        self.findings.append(found)

    def model(self) -> str:
        """Load the model that the job is given."""
        model = model_of_job(self.job)
        said = model.describe()
        self.features = model.columns()
        return said

    def source(self) -> str:
        """Open the source, and look for its columns."""
        rules = rules_of(self.job, None, self.features)
        self.look = look_before_reading(self.job, self.as_of, rules, self.say)
        if self.look is None:
            return "it opens"
        return f"it opens, {len(self.look.types)} columns"

    def contract(self) -> str:
        """Compare the columns of the source with the columns of the previous run."""
        if self.look is None:
            return f"{NOT_CHECKED}, because the columns of the source are unknown"
        before = source_types_before(place_of(self.job.job.store))
        if before is None:
            return "no earlier run has columns to compare with"
        rules_of(self.job, before, self.features).changes_in(self.look.types, self.say)
        return f"the {len(before)} columns of the previous run"

    def store(self) -> str:
        """Check that the store is one of this job, or can be made, and that a file can be written."""
        store = place_of(self.job.job.store)
        refuse_unknown_runs(self.job.check, store)
        cubes_of_job(self.job, store, row_source(self.job)).refuse_other_layout()
        refuse_altered(store)
        refuse_store(self.job, store)
        check_day(self.job, store, self.as_of, is_backfill=False)
        with probed_places(self.job):
            return f"it can be written{_free_in_words(store)}"

    def sink(self, table: SinkTable) -> str:
        """Look at the target of a sink, and compare its columns with those that are known."""
        sink = sink_in(self.job, table)
        target = look_at_sink(sink, self.job.source, self.as_of, self.job.job.name)
        if faults := [*target.faults, *filter(None, [target.unreachable])]:
            raise InputError("; ".join(faults))
        facts = self._facts(target)
        if facts is not None:
            check_sink(sink, facts)
            target.refuse_other_shape(facts)
        return target.note or "it can be loaded"

    def _facts(self, target: Target) -> CubeFacts | None:
        """The facts about the cube of a sink, as far as source and model determine them.

        Only a plan shows whether attributions have standard errors: they are assumed to be as in
        the existing table, and so are the outputs if the model names none.  None if the columns are
        unknown, or if players are groups of columns.
        """
        explain = next(each for each in self.job.explain if each.name == target.sink.explain)
        if self.look is None or explain.players:
            return None
        features = self._explained_columns(self.look)
        outputs = self._outputs(explain)
        if outputs is None:
            outputs = ("",) * (1 + ("output" in target.columns))
        has_errors = any(name.startswith("std_error_") for name in target.columns)
        codes = {} if target.sink.codes is None else target.sink.codes.players
        return CubeFacts(
            self.look.key_kinds,
            tuple(features),
            outputs,
            has_errors,
            codes=codes,
            undone=codes,
            why_no_order=self._why_no_order(len(features)),
        )

    def _explained_columns(self, look: SourceLook) -> Sequence[str]:
        """The columns that are explained; every column of numbers if nothing names them."""
        if self.features is not None:
            return self.features
        freshness = dict(self.job.source).get("freshness")
        others = {*look.key_kinds, *as_names(self.job.target)}
        others |= {freshness.column} if freshness else set()
        types = look.types.items()
        return [name for name, kind in types if is_number_type(kind) and name not in others]

    def _outputs(self, explain: ExplainTable) -> tuple[str, ...] | None:
        """The outputs that the model names; None too if it cannot be read, which has its own line."""
        if any(each.thing == "model" and each.failure for each in self.findings):
            return None
        return model_of_job(self.job).outputs(explain)

    def columns(self) -> str:
        """Compare the dictionary of columns with the names of the source and the model.

        If rows alone name the outputs, a name that is near a column of the source is refused.
        """
        described = self.job.description
        if self.look is None:
            return f"{NOT_CHECKED}, because the columns of the source are unknown"
        known = [*self._explained_columns(self.look), *self.look.key_kinds]
        known += as_names(self.job.target)
        is_complete = True
        for explain in self.job.explain:
            known += explain.players or ()
            outputs = self._outputs(explain)
            known += outputs or ()
            is_complete &= outputs is not None
        described = replace(described, is_shared=described.is_shared or not is_complete)
        refuse_misnamed(described, list(dict.fromkeys(known)), place=PLACE)
        return f"{counted(len(described.columns or ()), 'column')} described"

    def _why_no_order(self, n_players: int) -> str:
        """As `CubeFacts`, as far as the design is known without the value function."""
        with contextlib.suppress(InputError):  # a plan reports it
            match self.job.design_of(n_players):
                case Design() as design:
                    return design.info.why_no_order
        return ""


def _free_in_words(store: Place) -> str:
    """The end of a sentence about the disk of a store; empty if there is no bound."""
    free = Folder(store).free_bytes()
    if free is None:
        return ""
    return f", {free:,} bytes are free"


def check_job(
    job: Job, as_of: date | None = None, say: Callable[[str], None] = lambda _: None
) -> JobCheck:
    """Check the model, source, contract, store and sinks of a job before its first run.

    No row is explained, and no file is left behind.  Rows of a database are not read, except for
    one batch of SQLite, which declares no types, and for the newest time that `freshness` needs.

    Parameters
    ----------
    job : Job
    as_of : date, optional
        The date of the run; today, in UTC, if None.
    say : function, optional
        Receives a line for people, such as a warning.

    Returns
    -------
    JobCheck
        `str` has a line for each thing; `refuse_faults` raises if one failed.

    Raises
    ------
    InputError
        A variable of the environment that an address names is not set.
    """
    checking = _Checking(job, as_of or datetime.now(UTC).date(), say)
    checking.ask("model", _place_of_model(job), checking.model)
    checking.ask("source", place_of_table(job), checking.source)
    checking.ask("contract", "", checking.contract)
    if job.description.columns:
        checking.ask("columns", PLACE, checking.columns)
    checking.ask("store", str(place_of(job.job.store)), checking.store)
    for table in job.sink:
        place = sink_in(job, table).describe()
        checking.ask("sink", place, partial(checking.sink, table))
    return JobCheck(job.job.name, tuple(checking.findings))


def _place_of_model(job: Job) -> str:
    """The file or the function of the model; its kind if the run fits it."""
    given = dict(job.model)
    return str(given.get("path") or given.get("function") or job.model.kind)
