"""`dshap forget`: the rows of some keys leave a store, its sinks and its page.

    find the keys → record what is begun → erase, place by place → seals → record the end

Every step may be done again, so that the same command finishes an erasure that was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dshap.core.errors import DshapError, InputError, SinkError
from dshap.core.places import Place, place_of
from dshap.core.printing import counted
from dshap.cube import current_of, is_finished, read_job, read_run, remove_run
from dshap.cube.arrays import is_job_store
from dshap.cube.blocks import CubeArrays
from dshap.cube.creation import clear_orphans
from dshap.cube.current import has_nights
from dshap.erasure.given_keys import read_keys
from dshap.erasure.journal import Erasure, Journal, new_erasure_id
from dshap.erasure.kinds_of_places import PLACES
from dshap.erasure.reached_jobs import jobs_of_store
from dshap.erasure.renewed_seals import keys_of_seals, renew_seals
from dshap.erasure.stored_cubes import all_cubes_in
from dshap.erasure.work import ErasureWork
from dshap.history.leftovers import clear_leftovers
from dshap.history.run_folders import ROWS, RunFolders, runs_in_store, unfinished_runs
from dshap.storage.folder import Folder
from dshap.storage.running import alone
from dshap.tables.keys.digests import RowDigests
from dshap.tables.keys.wanted import WantedKeys

REASON = "rows of persons were erased"
"""The reason in the statements that replace those of sealed runs."""
SHOWN = 3
"""The most places that a line names."""


@dataclass(frozen=True)
class Forgotten:
    """The outcome of an erasure."""

    erasure: Erasure
    counts: Mapping[str, int]
    """Kind of places -> the number of rows, lines or files that were erased there."""
    n_keys: int
    dropped: tuple[str, ...] = ()
    """The runs that were not finished, and were dropped with their rows."""
    resealed: tuple[str, ...] = ()
    """The sealed runs that have a new statement."""
    warnings: tuple[str, ...] = ()
    """Lines about signatures that differ from those before."""

    @property
    def failure(self) -> DshapError | None:
        """The error about the places that could not be reached; None if there are none."""
        left = self.erasure.left
        if not left:
            return None
        return SinkError(
            f"the store has none of these rows any more, but {counted(len(left), 'other place')} may still "
            f"have them: {'; '.join(left)}. Make these places reachable and run the same command "
            "again, with --job JOB.toml and --target if another job names them; or remove the "
            "rows there yourself"
        )

    def __str__(self) -> str:
        """The outcome in a few lines."""
        keys = "1 key" if self.n_keys == 1 else f"{self.n_keys:,} keys"
        lines = [f"forgotten: {keys}, recorded as erasure {self.erasure.erasure_id}"]
        lines += [f"  {noun}: {n:,}" for noun, n in self.counts.items()]
        for explain in self.erasure.withdrawn:
            lines.append(
                f"  {explain}: the method was learned from an erased row: the next night learns a "
                "new method, and explains every row"
            )
        lines += [f"  run {run_id} was not finished: it is discarded" for run_id in self.dropped]
        if self.resealed:
            lines.append(f"  sealed again: {', '.join(self.resealed)}")
        lines += self.warnings
        lines.append("the next run reads the source again: remove these keys there too")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        return {
            "erasure": self.erasure.erasure_id,
            "keys": self.n_keys,
            "erased": dict(self.counts),
            "withdrawn": list(self.erasure.withdrawn),
            "dropped_runs": list(self.dropped),
            "sealed_again": list(self.resealed),
            "warnings": list(self.warnings),
            "sinks": dict(self.erasure.sinks),
            "left": list(self.erasure.left),
        }


def forget_keys(
    store: str | Place,
    keys: Sequence[str] = (),
    file: str | None = None,
    *,
    job_file: str | None = None,
    target: str = "",
    known_only: bool = False,
    unsigned: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Forgotten:
    """Erase the rows of some keys from a store, from the sinks of its job, and from its page.

    In finished cubes each erased row keeps its position, without values, and all other values keep
    their bits; sums of blocks with such a row are computed again.  The erasure is recorded, with a
    keyed digest of each key in place of the key.

    Parameters
    ----------
    store : str or Place
        The store of a job, or of one cube.
    keys : sequence of str
        Keys as texts, such as "4711"; values of several key columns are separated by commas.
    file : str, optional
        A file of keys: one a line, or a CSV or Parquet file with the key columns.
    job_file : str, optional
        A job of the store; its sinks and page are searched in addition to those that runs have
        recorded.  None: the job file of the last run, if it still exists.
    target : str
        The target of the job file.
    known_only : bool
        Whether to ignore keys that the store does not have, in place of an error.
    unsigned : bool
        Whether signed runs are sealed again without a signature if their key is not available.
    say : function, optional
        Receives a line for people.

    Raises
    ------
    InputError
        The store does not have a key, or has no keys; a key has a different type; or the key of a
        signed run is not available.  Nothing is erased.
    LockedError
        A job runs on the store.
    DamagedError
        A cube has changed since it was written.
    """
    place = place_of(store)
    if read_job(place) is None and read_run(place) is None and not is_job_store(place):
        raise InputError(
            f"{place} is not a store of dshap: give the store of a job, or that of a cube"
        )
    kinds = _key_kinds(place)
    wanted = read_keys(keys, file, kinds)
    jobs = jobs_of_store(place, job_file, target)
    with alone(place, "an erasure", say):
        work = ErasureWork(place, wanted, jobs, say)
        return _Forgetting(work).carry_out(known_only=known_only, unsigned=unsigned)


def _key_kinds(store: Place) -> Mapping[str, str]:
    """The key columns of a store, in their order, with the types of their values."""
    for path in reversed(list(all_cubes_in(store).values())):
        kinds = CubeArrays(path).key_kinds
        if kinds:
            return kinds
    for run in reversed(runs_in_store(store)):
        if Folder(run.keys).has_file(ROWS):
            names = {"i": "int64", "T": "string", "M": "datetime64[ns]"}
            return {name: names[kind] for name, kind in RowDigests(run.keys / ROWS).key_kinds}
    raise InputError(
        f"{store} has no keys, so that no row of a person can be found in it: remove the store, and "
        "give [source] key (or key= of explain) next time"
    )


class _Forgetting:
    """An erasure under way, while the store is locked."""

    def __init__(self, work: ErasureWork) -> None:
        self.journal = Journal(work.store)
        self.work = work
        self.store = work.store
        self.say = work.say

    def carry_out(self, *, known_only: bool, unsigned: bool) -> Forgotten:
        work = self.work
        # before anything is erased: a missing key of a signature must not be noticed half way
        runs = [run.run_id for run in runs_in_store(self.store)]
        seals, warnings = keys_of_seals(self.store, runs, work.jobs.keys(), unsigned=unsigned)
        self._clear()
        begun = self.journal.unfinished
        chosen, digests = self._known(known_only=known_only)
        if begun is not None and not set(begun.keys) <= set(digests):
            raise InputError(
                f"an erasure of {len(begun.keys):,} keys was not finished: give all of its keys "
                "again, alone or with other keys (it is recorded in "
                f"{self.store}/state/erasures/{begun.erasure_id}.json)"
            )
        for each in self.journal:
            if set(each.keys) & set(digests):
                self._take_up(each)
        self._refuse_unfinished_cubes()
        same = begun or next(
            (each for each in self.journal if set(each.keys) == set(digests)), None
        )
        erasure = Erasure(new_erasure_id(), tuple(digests), chosen.names)
        if same is not None:
            erasure = replace(same, keys=tuple(digests), ended_at="")
        # the positions and digests first: a killed erasure is known by this record, and finished by
        # the same keys although some of their rows are gone
        self.journal.write(self._as_is(erasure))
        dropped = self._drop_unfinished_runs()
        for place in PLACES:
            place.erase(work)
        resealed = tuple(renew_seals(self.store, seals, work.jobs, REASON))
        ended = self._as_is(erasure).ended()
        self.journal.write(ended)
        return Forgotten(ended, dict(work.counts), len(chosen), dropped, resealed, tuple(warnings))

    def _clear(self) -> None:
        """Remove the remains of killed runs, which may contain rows too."""
        names = clear_leftovers(self.store) if is_job_store(self.store) else []
        for path in all_cubes_in(self.store).values():
            names += clear_orphans(path)
        for name in names:
            self.say(f"{name} was left unfinished by a killed run: it is removed")

    def _known(self, *, known_only: bool) -> tuple[WantedKeys, list[str]]:
        """The keys that the store has, or had until they were erased, and their digests.

        Raises
        ------
        InputError
            The store has not all of them, and `known_only` is not given.
        """
        work = self.work
        found = {number for place in PLACES for number in place.find(work)}
        is_known = np.zeros(len(work.keys), bool)
        is_known[sorted(found)] = True
        before = self.journal.digests if self.journal.has_records else frozenset()
        # no secret is made in a store that has none of the keys
        digests = work.keys.digests(self.journal.secret()) if before or is_known.any() else []
        if before:
            is_known |= np.array([each in before for each in digests])
        n_unknown = int(np.count_nonzero(~is_known))
        if n_unknown and not (known_only and is_known.any()):
            found_words = f"{len(is_known) - n_unknown:,} of {len(is_known):,} keys were found"
            remedy = "correct the keys"
            if is_known.any():
                remedy += ", or give --known-only to forget those that were found"
            raise InputError(
                f"{self.store} does not have {n_unknown:,} of the keys ({found_words}): nothing is "
                f"erased; {remedy}"
            )
        if n_unknown:
            self.say(f"warning: {n_unknown:,} keys are not in the store, and are skipped")
        work.keys = work.keys.only(is_known)
        return work.keys, [each for each, known in zip(digests, is_known, strict=True) if known]

    def _take_up(self, before: Erasure) -> None:
        """Continue an earlier erasure of these keys: add its rows and texts."""
        work = self.work
        if not before.is_over:
            for name, rows in before.rows.items():
                known = work.positions.get(name, np.zeros(0, np.int64))
                work.positions[name] = np.union1d(known, np.array(rows, np.int64))
            work.withdrawn |= set(before.withdrawn)

    def _as_is(self, erasure: Erasure) -> Erasure:
        """An erasure with its findings and results so far."""
        work = self.work
        found = {name: rows.tolist() for name, rows in work.positions.items()}
        return replace(
            erasure,
            rows={
                name: sorted({*erasure.rows.get(name, ()), *found.get(name, ())})
                for name in sorted({*erasure.rows, *found})
            },
            withdrawn=tuple(sorted({*erasure.withdrawn, *work.withdrawn})),
            sinks={**erasure.sinks, **{name: n for name, n in work.sinks.items() if n}},
            left=tuple(dict.fromkeys(work.left)),
        )

    def _refuse_unfinished_cubes(self) -> None:
        """Raise an error if a cube that all runs share is not finished.

        A later run would write its remaining blocks, with the rows that are to be erased.
        """
        for name in self.work.positions:
            path = all_cubes_in(self.store)[name]
            if "/" not in name and not is_finished(path):
                raise InputError(
                    f"{path} is not finished, and contains rows of these keys: run the same job, "
                    "or the same explain, to its end first, or remove the store; nothing is erased"
                )

    def _drop_unfinished_runs(self) -> tuple[str, ...]:
        """Drop killed runs that contain such a row: the same job reads the source again."""
        dropped = []
        for run in unfinished_runs(self.store) if is_job_store(self.store) else ():
            if not (run.has_rows or run.has_keys) or not self._is_of_nights():
                continue
            self._drop(run)
            dropped.append(run.run_id)
        return tuple(dropped)

    def _is_of_nights(self) -> bool:
        return any(has_nights(self.store / name) for name in Folder(self.store).list())

    def _drop(self, run: RunFolders) -> None:
        for name in Folder(self.store).list():
            place = self.store / name
            if has_nights(place) and current_of(place) != run.run_id:
                remove_run(place, run.run_id)
                self.work.positions.pop(f"{name}/{run.run_id}", None)
        run.drop()
