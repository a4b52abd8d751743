"""The part of a run that one command does: all of it, or one part, as in the tasks of an array job.

    learn  →  shard 1 of N, …, shard N of N, in any order, at the same time  →  finish

A scope selects the steps of a run by their phase, and the blocks that are explained.
"""

from __future__ import annotations

import enum
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.engine.block_time import Deadline
from dshap.run.explanation import Explanation
from dshap.run.learning import NothingLearned
from dshap.run.session import Session
from dshap.steps.shards import BlocksOfShard, Shard
from dshap.storage.running import alone, beside_others, refuse_finishing
from dshap.storage.sealed_files import StateFolder
from dshap.storage.workspace import Rooms


class Phase(enum.Enum):
    """When a step is done: before the first row, with the rows, or after the last row."""

    BEGIN = enum.auto()
    """Before the first row, by a command that may change existing files; other commands skip it."""
    LEARN = enum.auto()
    """Once, before the first row is explained; other commands need its results, and raise an error
    without them."""
    EXPLAIN = enum.auto()
    """By every command, each for its own blocks."""
    FINISH = enum.auto()
    """Once, after the last row; other commands skip it."""


class OneExplanation(NamedTuple):
    """One explanation, with the share of it that a command does."""

    explanation: Explanation
    session: Session
    share: BlocksOfShard | None
    """The blocks of a shard; None if the command does not explain a shard."""
    deadline: Callable[[], Deadline | None]
    """Returns the time at which a queue ends the process; None for none."""


@dataclass(frozen=True)
class Scope(ABC):
    """The part of a run that one command does.

    Parameters
    ----------
    job_file : str
        The file of the job, in messages.
    """

    job_file: str = "JOB.toml"

    name: ClassVar[str]
    goes_on: ClassVar[str] = (
        "the shards explain the rows that it has read; the source is read again after --only finish"
    )
    """How an unfinished run is continued, in words."""
    phases: ClassVar[frozenset[Phase]]
    """The phases whose steps it does."""
    checks_rows: ClassVar[bool] = True
    """Whether it compares all rows with their digests: a shard reads only its share of them."""

    @property
    def shard(self) -> Shard | None:
        """The shard whose blocks it explains; None if it is not a shard."""
        return None

    def does(self, phase: Phase) -> bool:
        return phase in self.phases

    def hold(
        self, store: Place, say: Callable[[str], None], scratch: str
    ) -> AbstractContextManager[Rooms]:
        """Lock the store, alone or together with others; yield room for temporary files."""
        return alone(store, str(self), say, scratch)

    @abstractmethod
    def carry_out(self, work: OneExplanation) -> Explanation:
        """Do this part of an explanation; return it with the blocks that failed."""

    def session_to_learn(self, session: Session, room: Place) -> Session:
        """The session in which methods are learned in a room, or only opened there."""
        return session

    def facts_of_rows(self, folder: Place) -> StateFolder | None:
        """The folder of facts about the rows that a command stores for the next; None for none."""
        return StateFolder(folder)

    def was_complete(self, explanation: Explanation) -> bool:
        """Whether an explanation was finished before, with all that this scope would write."""
        return explanation.is_complete

    def begin_rows(self, store: Place, say: Callable[[str], None]) -> None:
        """Raise an error if another process prevents the explanation of rows now."""
        return None

    @property
    def again(self) -> str:
        """The command to try failed rows again, in words."""
        return "the same command again"

    @property
    def learn_command(self) -> str:
        """The command that learns the states for this share."""
        return f"dshap run {shlex.quote(self.job_file)} --only learn"

    @property
    def next_command(self) -> str:
        """The command that comes after it."""
        return f"dshap run {shlex.quote(self.job_file)} --shard I/N"

    @property
    def share_in_words(self) -> str | None:
        """The share in words, such as "3/8"; None if it is the whole."""
        return None

    @property
    def arguments(self) -> dict[str, str | None]:
        """The options of the command line that select it, for the record of the run."""
        return {"only": self.name, "shard": None}

    def __str__(self) -> str:
        return f"dshap run --only {self.name}"


class WholeRun(Scope):
    """All of a run."""

    name = "run"
    goes_on = "it is finished from its rows"
    phases = frozenset(Phase)

    def carry_out(self, work: OneExplanation) -> Explanation:
        return work.explanation.run(work.session)

    def facts_of_rows(self, folder: Place) -> StateFolder | None:
        return None

    @property
    def arguments(self) -> dict[str, str | None]:
        return {"only": None, "shard": None}

    def __str__(self) -> str:
        return "a run"


class LearnScope(Scope):
    """The work before the first row."""

    name = "learn"
    phases = frozenset({Phase.BEGIN, Phase.LEARN, Phase.EXPLAIN})

    def carry_out(self, work: OneExplanation) -> Explanation:
        work.explanation.learn(work.session)
        return work.explanation

    @property
    def again(self) -> str:
        return _whole_command(self.job_file)


class BeginScope(LearnScope):
    """The work before the learning that shards may share."""

    name = "begin"

    def carry_out(self, work: OneExplanation) -> Explanation:
        work.explanation.begin(work.session)
        return work.explanation

    @property
    def next_command(self) -> str:
        return f"{super().learn_command} --shard I/N"


class BesideOthers(Scope):
    """A share that is done while other processes do others: nothing is learned."""

    def hold(
        self, store: Place, say: Callable[[str], None], scratch: str
    ) -> AbstractContextManager[Rooms]:
        finishes = self.does(Phase.FINISH)
        return beside_others(store, str(self), say, scratch, finishes=finishes)

    def session_to_learn(self, session: Session, room: Place) -> Session:
        return replace(session, executor=NothingLearned(session.executor, room))


@dataclass(frozen=True)
class ShareScope(BesideOthers):
    """One of several shares, each of which a separate process computes."""

    share: Shard = field(kw_only=True)

    phases = frozenset({Phase.EXPLAIN})
    checks_rows = False

    def begin_rows(self, store: Place, say: Callable[[str], None]) -> None:
        refuse_finishing(store, say)

    @property
    def share_in_words(self) -> str:
        return str(self.share)


@dataclass(frozen=True)
class ShardScope(ShareScope):
    """The rows of one shard, with the states learned before."""

    name = "shard"

    @property
    def shard(self) -> Shard | None:
        return self.share

    def carry_out(self, work: OneExplanation) -> Explanation:
        assert work.share is not None, "a shard has a share of each explanation"
        return work.explanation.explain(work.session, work.share.blocks, work.deadline())

    @property
    def of_finish(self) -> FinishScope:
        """The scope that finishes the same run."""
        return FinishScope(self.job_file)

    @property
    def arguments(self) -> dict[str, str | None]:
        return {"only": None, "shard": f"{self.share.number}/{self.share.count}"}

    def __str__(self) -> str:
        return str(self.share)


@dataclass(frozen=True)
class LearnShareScope(ShareScope):
    """A share of the learning, of a run that has begun; `LearnScope` adds the results of all."""

    name = "learn"

    def carry_out(self, work: OneExplanation) -> Explanation:
        work.explanation.learn_share(work.session, self.share.tiles)
        return work.explanation

    @property
    def learn_command(self) -> str:
        return f"dshap run {shlex.quote(self.job_file)} --only begin"

    @property
    def next_command(self) -> str:
        return super().learn_command

    @property
    def arguments(self) -> dict[str, str | None]:
        return {"only": self.name, "shard": f"{self.share.number}/{self.share.count}"}

    def __str__(self) -> str:
        return f"the learning of {self.share}"


class FinishScope(BesideOthers):
    """The work after the last row: notes, sinks, checks, the record."""

    name = "finish"
    phases = frozenset({Phase.EXPLAIN, Phase.FINISH})

    def carry_out(self, work: OneExplanation) -> Explanation:
        return work.explanation.finish(work.session)

    def was_complete(self, explanation: Explanation) -> bool:
        return explanation.is_complete and explanation.has_current_notes

    @property
    def again(self) -> str:
        return _whole_command(self.job_file)


def scope_of(
    only: str | None, shard: str | None, job_file: str, environment: Mapping[str, str]
) -> Scope:
    """The scope that `--only` and `--shard` select; the whole run if neither is given.

    Raises
    ------
    InputError
        Both are given, and --only is not "learn", or `shard` is no shard (`Shard.of`).
    """
    if shard is not None:
        if only == LearnScope.name:
            return LearnShareScope(job_file, share=Shard.of(shard, environment))
        if only is not None:
            raise InputError(
                f"--only {only} --shard {shard}: shards learn (--only learn) or explain, and neither "
                "begin nor finish a run: leave one of them out"
            )
        return ShardScope(job_file, share=Shard.of(shard, environment))
    return ONLY.get(only, WholeRun)(job_file)


WHOLE = WholeRun()
"""All of a run, as one command carries it out."""
ONLY: dict[str | None, type[Scope]] = {
    each.name: each for each in (BeginScope, LearnScope, FinishScope)
}
"""The value of `--only` -> the scope."""


def _whole_command(job_file: str) -> str:
    return f"`dshap run {shlex.quote(job_file)}`"
