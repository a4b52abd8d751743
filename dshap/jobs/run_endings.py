"""Notifications at the end of a command that runs a job: each is sent by a listener.

A listener is a function of a `RunEnding`.  If a listener fails, the failure is printed, and the exit
status of the command stays the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dshap.core.errors import DshapError
from dshap.core.exit_statuses import INTERRUPTED
from dshap.history.run_record import RunFacts, error_of
from dshap.jobfile.schema import Job
from dshap.jobs.runs_in_words import run_content
from dshap.jobs.store_runs import RecordedRun

BUG = 1
"""The exit status of an error that dshap does not raise on purpose."""


@dataclass(frozen=True)
class RunEnding:
    """The end of one command: a finished run, a part of a run without a record, or an error."""

    job: Job
    started: datetime
    ended: datetime
    exit_status: int
    message: str = ""
    """The message of the error that ended the command; empty without an error."""
    run: RecordedRun | None = None
    """The run, finished or not; None if it was refused or interrupted."""

    @property
    def facts(self) -> RunFacts | None:
        """The facts of the run; None if it was refused or interrupted."""
        return None if self.run is None else self.run.facts

    @property
    def is_part(self) -> bool:
        """Whether the command was a part of a run (such as a shard) that other commands continue."""
        return self.run is not None and self.run.record is None

    def to_dict(self) -> dict[str, Any]:
        """The facts as values for JSON."""
        about: dict[str, Any] = {}
        if self.run is not None:
            about = run_content(self.run.facts, self.run.record)
        return {
            **about,
            "job": self.job.job.name,
            "store": str(self.job.job.store),
            "exit_status": self.exit_status,
            "message": self.message,
            "started_at": self.started.isoformat(timespec="milliseconds"),
            "ended_at": self.ended.isoformat(timespec="milliseconds"),
        }


Listener = Callable[[RunEnding], None]
"""A function that is called with the end of a command."""


@dataclass
class EndedRun:
    """The run of a command; the command sets it when the run has ended."""

    run: RecordedRun | None = None


@contextlib.contextmanager
def telling_end(
    job: Job, listeners: Sequence[Listener], say: Callable[..., None]
) -> Iterator[EndedRun]:
    """Call listeners when the `with` block ends, also if it ends by an error.

    Parameters
    ----------
    job : Job
    listeners : sequence of Listener
        All are called, even if some of them fail.
    say : function
        Receives a line about the failure of a listener.
    """
    started = datetime.now(UTC)
    ended = EndedRun()
    status = 0
    message = ""
    try:
        yield ended
        if ended.run is not None and (fault := error_of(ended.run.facts)):
            status, message = _ending_of(fault)
    except BaseException as error:
        status, message = _ending_of(error)
        raise
    finally:
        told = RunEnding(job, started, datetime.now(UTC), status, message, ended.run)
        for listener in listeners:
            try:
                listener(told)
            except (DshapError, OSError) as error:
                say(str(error))


def _ending_of(error: BaseException) -> tuple[int, str]:
    """The exit status and the message of a command that ends by this error."""
    match error:
        case DshapError():
            return error.exit_status, str(error)
        case KeyboardInterrupt():
            return INTERRUPTED, "interrupted"
    return BUG, f"{type(error).__name__}: {error}"
