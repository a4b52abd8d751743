"""One explanation in a store: plan, learn, explain, finish.

`planning.py` checks and plans, and `learning.py` has the single steps; `preparation.py` learns for
later rows, and `measuring.py` measures on rows from which nothing was learned.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dshap.attributors.method import Facts
from dshap.core.errors import (
    FailedBlocksError,
    InputError,
    InterruptedRunError,
    NotLearnedError,
)
from dshap.core.fixed_words import DesignName
from dshap.core.places import Place
from dshap.core.records import Record
from dshap.core.rows import runs_of_neighbours
from dshap.core.types import Attributor, Design, Explained
from dshap.cube import (
    CubeLayout,
    create_cube,
    drop_lost_blocks,
    has_copy,
    holds_run,
    is_finished,
    is_learned,
    is_packed,
    largest_residual,
    mark_finished,
    mark_learned,
    open_cube,
    pack_cube,
    read_notes,
    read_run,
    renew_cube,
    states_of,
    unmark_learned,
    unpack_cube,
)
from dshap.cube.creation import clear_orphans, creation_at
from dshap.cube.described import NOT_DESCRIBED, Description, describe_cube
from dshap.engine import Failure, Plan
from dshap.engine.block_time import Deadline
from dshap.engine.explain import BlockWriter, evaluate, failures_in, remove_parts
from dshap.run.carrying import Carried
from dshap.run.difference import unfinished_elsewhere
from dshap.run.homes import StoreHome
from dshap.run.learned_method import LearnedMethod
from dshap.run.learning import (
    Run,
    begin_states,
    facts_of,
    learn_part,
    learned,
    opened_attributor,
)
from dshap.run.planning import plan_explanation
from dshap.run.probes import Probes
from dshap.run.session import Session
from dshap.run.versions import Writer
from dshap.tables import Census

if TYPE_CHECKING:
    import xarray as xr

SHOWN_RUNS = 6
"""The most runs of neighbouring blocks that a message names."""
UNFINISHED_S = 600.0
"""Seconds after which an unfinished file has no writer any more, while shards may be running."""


@dataclass
class Explanation:
    """One explanation, checked and planned: `create` its store, or `run` it."""

    path: Place
    layout: CubeLayout
    work: Run
    prepared: LearnedMethod | None = None
    """The learned method whose states the rows are explained by; None if they are in the cube."""
    carried: Carried | None = None
    """Rows that are copied from an earlier cube, and not explained."""
    probes: Probes | None = None
    """The predictions that the store needs to recognize the model; None if it has them."""
    failures: tuple[Failure, ...] = ()
    description: Description = NOT_DESCRIBED
    """The description of the columns and the model, which is stored beside the cube."""

    @property
    def plan(self) -> Plan:
        return self.work.plan

    @classmethod
    def of(
        cls,
        value: Explained,
        rows: Any,
        path: Place,
        session: Session,
        *,
        design: Design | Callable[[int], Design] | DesignName = "auto",
        key: Any = None,
        seed: int = 0,
        census: Census | None = None,
        prepared: LearnedMethod | None = None,
        carried: Carried | None = None,
        checks_rows: bool = True,
    ) -> Explanation:
        """Check and plan an explanation; nothing is written outside the workspace.

        Every error that can be found before a run is raised here.

        - `census`: that of `rows`, if it exists already.
        - `seed`: of a sampled design that "auto" chooses.
        - `prepared`: the states of this value function.
        - `carried`: rows that are copied from an earlier cube.
        - `checks_rows`: whether to check that the model accepts the rows; a process that only
          explains a shard need not, because the process that learned has done so.
        """
        planned = plan_explanation(
            StoreHome(path),
            value,
            rows,
            session,
            design=design,
            key=key,
            seed=seed,
            census=census,
            prepared=prepared,
            carried=carried,
            checks_rows=checks_rows,
        )
        work = planned.work
        explanation = cls(path, planned.layout, work, prepared, carried, planned.probes)
        # a finished explanation needs no workers and no memory of theirs
        if not explanation.is_complete:
            explanation.refuse_other_numerics()
            session.check(work.plan)
        elif writer := explanation.finished_by:
            session.progress.say(f"{path} was finished by {writer}: it stays as it is")
        return explanation

    def create(self) -> bool:
        """Create the store with its plan, every row pending.

        Return False, changing nothing, if the store exists.
        """
        plan = self.plan.to_json()
        if read_run(self.path) is not None or holds_run(self.path, self.layout.run["digest"]):
            if not has_copy(self.path):
                renew_cube(self.path, self.layout, plan)
            # here too: a description may change when all rows are explained
            self.describe()
            return False
        create_cube(self.path, self.layout, plan)
        self.describe()
        return True

    @property
    def finished_by(self) -> Writer | None:
        """The dshap that finished the cube, if its numerics are not those of this process."""
        stored = read_run(self.path)
        if stored is None:
            return None
        writer = Writer.of(stored, self.layout.run["fingerprint"])
        if writer.is_other:
            return writer
        return None

    def refuse_other_numerics(self) -> None:
        """Raise an error if a different version of dshap finished the store, but for some blocks.

        Its numerics differ, so that this version cannot add the blocks.  They are unfinished
        because a row of them failed, or a file was lost.
        """
        writer = self.finished_by
        if writer is not None:
            raise unfinished_elsewhere(self.path, writer)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to do: a run ended here, and every block has its receipt."""
        if read_run(self.path) is None or not is_finished(self.path):
            return False
        return len(self.work.cube.done()) == self.plan.n_instance_tiles

    def run(self, session: Session) -> Explanation:
        """Do the remaining work; return this explanation with the blocks that failed."""
        if self.is_complete:
            self.describe()
            return self
        with self._begun(session):
            attributor, facts = learned(session, self.work)
            evaluation = self.work.evaluation(attributor)
            failures = evaluate(session.executor, evaluation, session.progress)
        return self._ended(facts, failures)

    def learn(self, session: Session) -> None:
        """Learn all that the rows need, and mark that shards may explain them."""
        if self.is_complete:
            return
        with self._begun(session):
            if not self._has_states(session):
                learned(session, self.work)
        mark_learned(self.path, self.layout.run["digest"])

    def begin(self, session: Session) -> None:
        """Do the steps before the learning that several processes may share."""
        if self.is_complete or self.is_learned:
            return
        with self._begun(session):
            begin_states(session, self.work)

    def learn_share(self, session: Session, share: Callable[[int], range]) -> None:
        """Learn a share of the missing states, beside other processes that learn others.

        Raises
        ------
        NotLearnedError
            The run has not begun.
        """
        if self.is_complete or self.is_learned:
            return
        if read_run(self.path) is None:
            raise NotLearnedError(f"{self.path} is not there yet")
        learn_part(session, self.work, share)

    def explain(
        self, session: Session, tiles: Sequence[int], deadline: Deadline | None = None
    ) -> Explanation:
        """Explain the rows of these tiles, while other processes may explain other tiles.

        Return this explanation with those of the blocks that failed.

        Raises
        ------
        NotLearnedError
            A state that the rows need is not learned yet, or the cube has to be unpacked first.
        WalltimeError
            The first of these blocks would not end before the deadline, or has not ended at it.
        """
        if self.is_complete:
            return self
        # only who has the store alone may unpack a cube, and shards are many
        if is_packed(self.path):
            raise NotLearnedError(f"{self.path} is packed, and blocks of it are left")
        attributor = self._attributor(session)
        evaluation = self.work.evaluation(attributor)
        in_time: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if deadline is not None and session.is_local:
            in_time = deadline.kept(evaluation, tiles, self.plan.micro_rows)
        with in_time:
            failures = evaluate(session.executor, evaluation, session.progress, tiles)
        if self.is_complete:  # another process explained the same blocks and finished meanwhile
            remove_parts(evaluation.store, evaluation.run_digest)
        return replace(self, failures=tuple(failures))

    def finish(self, session: Session) -> Explanation:
        """Do the final steps after all blocks are explained or have failed; nothing is explained.

        Raises
        ------
        NotLearnedError
            A state that the rows need is not learned.
        InterruptedRunError
            Blocks are missing; the message names them.
        """
        if self.is_complete and self.has_current_notes:
            return self
        attributor = self._attributor(session)
        clear_orphans(self.path, UNFINISHED_S)
        if not self.is_complete:
            unpack_cube(self.path)
        # before the endings are read: a block whose files are gone has not ended
        for line in drop_lost_blocks(self.path):
            session.progress.say(line)
        endings = self.work.cube.endings()
        self._refuse_missing(endings.keys())
        facts = facts_of(session, self.work, attributor)
        remove_parts(self.work.states.store, self.work.states.run_digest)
        return self._ended(facts, failures_in(endings.values()))

    @property
    def has_current_notes(self) -> bool:
        """Whether the notes describe the present blocks: shards may have added blocks since."""
        notes = read_notes(self.path)
        noted = notes.get("closed_form", {})
        stated = self.work.cube.stated()
        is_stated = all(np.all(np.less_equal(stated[name], noted.get(name))) for name in stated)
        residual = notes.get("additivity", {}).get("residual")
        is_additive = np.array_equal(
            np.asarray(residual, np.float64), largest_residual(self.path), equal_nan=True
        )
        is_counted = notes.get("counted", {}) == self.work.cube.counted()
        return is_stated and is_additive and is_counted

    @property
    def is_learned(self) -> bool:
        """Whether shards may explain the rows: all is learned that they need."""
        return read_run(self.path) is not None and is_learned(self.path, self.layout.run["digest"])

    def _has_states(self, session: Session) -> bool:
        """Whether the mark of finished learning is there, and no state is missing."""
        try:
            self._attributor(session)
        except NotLearnedError:
            return False
        return True

    def _attributor(self, session: Session) -> Attributor:
        """The attributor of the states that were learned before.

        A damaged state is refused here, not by each block.
        """
        if not self.is_learned:
            raise NotLearnedError(
                f"{self.path} does not have all learned states yet that are needed to explain its rows"
            )
        store = states_of(self.path)
        for name in store.names():
            if store.damage(name) and store.has(name):  # a finish removes sums of parts
                store.refuse_damaged(name)
        return opened_attributor(session, self.work, self.path)

    @contextlib.contextmanager
    def _begun(self, session: Session) -> Iterator[None]:
        """Create the store, or mend an existing one; learn in this block."""
        is_new = self.create()
        unpack_cube(self.path)
        for name in self.work.states.store.mend():
            session.progress.say(f"state {name} is damaged: it is computed again")
        if self.probes is not None:
            states = self.work.states
            states.store.put(states.probe_name, self.probes.record)
        for name in clear_orphans(self.path):
            session.progress.say(f"{name} was left unfinished by a killed run: it is removed")
        for line in drop_lost_blocks(self.path):
            session.progress.say(line)
        try:
            yield
        # a bad option that only the run could detect: leave no store behind
        except InputError:
            if is_new and not self.work.cube.done():
                creation_at(self.path).remove()
            raise

    def _ended(self, facts: Facts, failures: Sequence[Failure]) -> Explanation:
        """Write the notes of an explanation whose blocks have all ended, and that it is finished."""
        cube = self.work.cube
        note_ending(cube, facts, self._stated(facts.notes.get("closed_form", {})))
        if self.carried is not None:
            cube.write_note("carried", self.carried.note(self.layout))
        # of all blocks, or not at all: the largest residual of some is none of the run
        if not any(failure.is_whole for failure in failures):
            cube.write_note("additivity", {"residual": largest_residual(self.path).tolist()})
            # in this order: a run that is killed between the two counts as finished, not as one
            # that has yet to learn
            mark_finished(self.path)
            unmark_learned(self.path)
        return replace(self, failures=tuple(failures))

    def _refuse_missing(self, ended: Set[int]) -> None:
        """Raise an `InterruptedRunError` that names the blocks that have not ended."""
        spans = self.plan.instance_spans
        missing = [tile for tile in range(len(spans)) if tile not in ended]
        if missing:
            raise InterruptedRunError(
                f"{len(missing)} of {len(spans)} blocks of {self.path} are not explained yet: "
                f"{_in_runs(missing, spans)}; run their shards again, or --shard 1/1 for all that "
                "is left, then --only finish"
            )

    def _stated(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """The largest value of each number that a closed form stated, of carried rows too.

        `known` is the part of the note that no row changes.
        """
        stated: dict[str, Any] = self.work.cube.stated()
        if self.carried is None:
            return stated
        notes = read_notes(self.carried.path).get("closed_form", {})
        both = [stated, {name: notes[name] for name in notes.keys() - known.keys()}]
        names = {name for each in both for name in each}
        return {
            name: np.max([each[name] for each in both if name in each], axis=0).tolist()
            for name in sorted(names)
        }

    def keep_note(self, name: str, content: dict[str, Any]) -> None:
        """Store a small record beside the cube of an explanation that has ended."""
        self.work.cube.write_note(name, content)
        # the mark lists the digests of all notes, so it is written again with this one
        mark_finished(self.path)

    def attributor(self, session: Session) -> Attributor:
        """The attributor of an explanation that has ended; nothing is learned."""
        return opened_attributor(session, self.work, self.path)

    def keep_state(self, name: str, record: Record) -> None:
        """Store a record beside the states of an explanation that has ended, over an old one."""
        states = states_of(self.path)
        if states.has(name):
            if states.is_whole(name) and states.get(name, Record).digest() == record.digest():
                return
            states.remove(name)
        states.put(name, record)
        # the mark lists the states: without this one it could be lost unnoticed
        mark_finished(self.path)

    def describe(self) -> None:
        """Store the description beside the cube: it may change when all rows are explained."""
        describe_cube(self.path, self.description)

    def raise_on_failed(self, kept: str = "", again: str = "the same command again") -> None:
        """Raise a `FailedBlocksError` if rows failed, naming the first of them.

        `kept` is the sentence about the other rows, `again` the words for the command to try these
        again.
        """
        where = f"The others are in {self.path}; run {again} to retry"
        refuse_failed(self.failures, self.plan, kept or where, again)

    def dataset(self, beside: Mapping[str, xr.Variable]) -> xr.Dataset:
        """Pack the cube if it is finished, and open it lazily, with further variables `beside`."""
        pack_cube(self.path)
        return open_cube(self.path).assign(beside)


def note_ending(cube: BlockWriter, facts: Facts, stated: Mapping[str, Any]) -> None:
    """Write the notes about all blocks: numbers stated by closed forms, and counts."""
    if known := facts.notes.get("closed_form"):
        cube.write_note("closed_form", {**known, **stated})
    if counted := cube.counted():
        cube.write_note("counted", counted)


def refuse_failed(
    failures: Sequence[Failure], plan: Plan, kept: str, again: str = "the same command again"
) -> None:
    """Raise a `FailedBlocksError` if rows failed; `kept` is the sentence about the others."""
    if not failures:
        return
    first = min(failures, key=lambda failure: failure.start)
    n_rows = sum(failure.n_rows for failure in failures)
    if n_rows < plan.n_rows:
        remedy = f". {kept}"
    else:
        remedy = f": correct that, then run {again}"
    raise FailedBlocksError(
        f"{n_rows:,} of {plan.n_rows:,} rows {'has' if n_rows == 1 else 'have'} no "
        f"attribution (status failed), in {len(failures)} of {plan.n_instance_tiles} blocks; "
        f"{first.where}: {first.reason}{remedy}"
    )


def _in_runs(tiles: Sequence[int], spans: Sequence[tuple[int, int]]) -> str:
    """Name tiles in runs of neighbours, with their rows; after `SHOWN_RUNS` the number of the others."""
    runs = runs_of_neighbours(tiles)
    said = []
    for first, last in runs[:SHOWN_RUNS]:
        blocks = f"block {first}" if first == last else f"blocks {first} to {last}"
        said.append(f"{blocks} (rows {spans[first][0]:,} to {spans[last][1] - 1:,})")
    n_others = sum(last - first + 1 for first, last in runs[SHOWN_RUNS:])
    if n_others:
        said.append(f"and {n_others} more blocks")
    return ", ".join(said)
