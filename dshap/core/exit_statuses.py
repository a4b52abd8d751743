"""The exit statuses of `dshap run`, and what a scheduler does about each: one table.

Manifests get their final statuses from here; the files for other schedulers, and the table of
docs/schedules.md, are tested against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Action = Literal["nothing", "page", "skip", "retry"]
"""The step that a scheduler takes: "page" calls a person, as the same command would end like this again."""


@dataclass(frozen=True)
class ExitStatus:
    """An exit status, its meaning, and what to do about it."""

    number: int
    meaning: str
    action: Action
    advice: str = ""
    """The words of the documentation that follow the action."""

    @property
    def line(self) -> str:
        """Its line in the table of docs/schedules.md."""
        return f"| {self.number} | {self.meaning} | {self.action}{self.advice} |"


EXIT_STATUSES = (
    ExitStatus(0, "done, or nothing to do", "nothing"),
    ExitStatus(1, "a bug of dshap", "page", ": the same command would end in this way again"),
    ExitStatus(
        2,
        "a mistake in the job or the input, or a database or cluster that does not answer",
        "retry",
        " a few times, then page: nothing was written",
    ),
    ExitStatus(
        3,
        "the plan does not fit the memory, or a block does not fit the time limit of the queue",
        "page",
        ": the message names the option to change",
    ),
    ExitStatus(
        4,
        "the store contains a different run",
        "page",
        ": choose a different `[job] store`, or remove the old store",
    ),
    ExitStatus(
        5,
        "finished with failed rows",
        "page",
        ": `dshap status` lists the rows, and the same command tries them again, but the model would "
        "fail again until it is repaired",
    ),
    ExitStatus(6, "the previous run is still running", "skip"),
    ExitStatus(
        7,
        "the store is damaged",
        "page",
        ": run `dshap verify STORE --repair`, then the same command",
    ),
    ExitStatus(
        8,
        "everything is done, but a `[[check]]` failed",
        "page",
        ": a person must look at the numbers",
    ),
    ExitStatus(
        9,
        "the table is older than `freshness` allows",
        "retry",
        " later, and page if this remains: nothing was done",
    ),
    ExitStatus(
        10, "the cubes are done, but a sink is not loaded", "retry", ": only the sink is left"
    ),
    ExitStatus(99, "nothing to do, with `--skip-code 99`", "skip"),
    ExitStatus(
        130,
        "interrupted by SIGTERM or Ctrl-C, or because a bucket or a cluster no longer answers; after "
        "`--only finish`: blocks are missing, and the message names them",
        "retry",
        ": the run continues where it stopped; run the missing shards first",
    ),
    ExitStatus(137, "killed", "retry", ": the run continues where it stopped"),
)
"""The statuses of `dshap run`.  `dshap verify` alone ends with 11 too."""


INTERRUPTED = 130
"""The status of a command that a signal has ended."""


def statuses_of(action: Action) -> tuple[int, ...]:
    """The exit statuses after which a scheduler does this, in ascending order."""
    return tuple(each.number for each in EXIT_STATUSES if each.action == action)


FINAL = statuses_of("page")
"""Statuses that the same command would end with again: a scheduler does not try it again."""
SKIPPED = statuses_of("skip")
"""Statuses of a command that had nothing to do, or found the run before still going on."""
