"""Replaying a run: rows of its cubes are computed again, and compared bit by bit.

The rows of a block are computed together as in the run, since the last bits of matrix products follow
from their sizes; only if a row by itself has the same bits already is that left out.  A row that
was carried from an earlier night is computed among the rows of the night that explained it, as
long as the store has these.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import (
    DshapError,
    InputError,
    NotLearnedError,
    StoreMismatchError,
    unknown_name,
)
from dshap.core.places import Place
from dshap.core.processors import processor
from dshap.core.records import BoolArray
from dshap.cube import find_row, read_run
from dshap.cube.carrying import COPIED, EXPLAINED, rows_at
from dshap.cube.comparing_writer import BlockDifference, difference_of
from dshap.cube.current import has_nights
from dshap.cube.stored_rows import StoredRows
from dshap.engine import LoopExecutor, SilentProgress
from dshap.engine.late_cluster import ThisProcess
from dshap.erasure.journal import refuse_erased
from dshap.history.job_store import fingerprint_of_job
from dshap.history.key_joins import KeyJoins
from dshap.history.row_history import NightHistory
from dshap.history.run_folders import RunFolders, runs_with_rows
from dshap.history.stages import StageRecorder
from dshap.jobfile.model_tables import ModelFileTable, sha256_of_given
from dshap.jobfile.reading import read_job_file
from dshap.jobfile.schema import ExplainTable, Job
from dshap.jobs.attesting import refuse_target_alone
from dshap.jobs.replay_outcome import ROUNDING, Replay, ReplayedCube, WantedRows
from dshap.jobs.store_runs import StoreRuns
from dshap.run.replaying import Replayed, replayable, session_of_cube
from dshap.run.session import Session
from dshap.seals.attest_check import refuse_unsealed
from dshap.seals.attestations import read_envelope, sealed_runs
from dshap.seals.materials import OF_ROWS, digest_of_package, installed_packages
from dshap.seals.statement import Resource
from dshap.seals.stored_job import OF_ITS_MACHINE, StoredJob
from dshap.seals.subjects import PACKAGES
from dshap.steps.learned_methods import LearnedMethods
from dshap.steps.plans import value_of
from dshap.steps.scope import FinishScope
from dshap.steps.shared_cubes import SharedCubes
from dshap.steps.under_way import Command, RunUnderWay
from dshap.storage.array_files import rows_of_array
from dshap.storage.folder import Folder
from dshap.storage.workspace import Rooms
from dshap.warehouse.snapshot import has_snapshot

MOST_BLOCKS = 16
"""The most blocks that a sample is drawn from: each may have to be computed whole."""


def replay_run(
    store: Place,
    wanted: WantedRows,
    run_id: str = "",
    job_file: str | None = None,
    settings: Sequence[str] = (),
    say: Callable[[str], None] = lambda line: None,
    target: str = "",
) -> Replay:
    """Compute rows of a sealed run again, and compare them with its cubes, bit by bit.

    Parameters
    ----------
    store : Place
        The store, or a copy of it on another machine; nothing in it is changed.
    wanted : WantedRows
    run_id : str
        The run; empty for the newest run with a statement.
    job_file : str, optional
        A job file to use in place of the stored job, for example because paths differ on this
        machine.
    settings : sequence of str
        Texts of --set, such as "source.path=/other/place.parquet".
    say : function
        Receives a line for people.
    target : str
        The target of the job file.

    Raises
    ------
    InputError
        The run, a row or an explanation does not exist.
    StoreMismatchError
        The source, the model or an option differs from that of the run; the message names it.
    NotLearnedError
        The store no longer has the data that the run is computed from.
    """
    sealed = sealed_runs(store)
    refuse_unsealed(store, sealed, run_id)
    run_id = run_id or sealed[-1]
    try:
        envelope = read_envelope(store, run_id)
    except ValueError as error:
        raise InputError(f"the statement of run {run_id} is damaged: {error}") from error
    assert envelope is not None, "it is listed"
    job = _job_of_run(store, run_id, job_file, settings, target)
    given = envelope.statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    materials = [Resource.read(each) for each in given]
    _refuse_other_model(job, materials)
    chosen = [each for each in job.explain if wanted.explain in ("", each.name)]
    if not chosen:
        names = [each.name for each in job.explain]
        raise InputError(unknown_name("explanation", wanted.explain, names))
    # outside of the store, in which a replay changes nothing
    folder = Path(tempfile.mkdtemp(prefix="dshap-replay-"))
    try:
        runs = _Runs(job, store, folder, _shared_run(store, run_id), materials)
        for each in chosen:
            refuse_erased(store, run_id, runs.place(each, run_id))
        cubes = [_ReplayOfOne(runs, each, run_id, wanted, say).done() for each in chosen]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    then = envelope.statement["predicate"]["buildDefinition"]["internalParameters"]["processor"]
    of_cube = {str((read_run(runs.place(each, run_id)) or {}).get("processor")) for each in chosen}
    then = next(iter(of_cube - {"None"}), then)
    return Replay(run_id, cubes, then, processor(), _other_packages(store, run_id, materials))


def _job_of_run(
    store: Place, run_id: str, job_file: str | None, settings: Sequence[str], target: str
) -> Job:
    """The job of a run, from the given file or from the store, without its sinks.

    The options that follow from sinks are in the record of each cube, so that files and secrets of
    sinks are not needed here.
    """
    if job_file is None:
        refuse_target_alone(target)
        return StoredJob.read(store, run_id).job(store, settings, (*OF_ITS_MACHINE, "sink"))
    job = read_job_file(job_file, settings, target=target)
    return job.model_copy(update={"sink": []})


def _refuse_other_model(job: Job, materials: Sequence[Resource]) -> None:
    """Raise an error if the file of the job's model differs from the file in the run."""
    match job.model:
        case ModelFileTable(path=path) as table:
            now = sha256_of_given(table)
            then = next((each.sha256 for each in materials if each.name == "model"), now)
            if now != then:
                raise StoreMismatchError(
                    f"the model has changed: {path} has the SHA-256 {now[:12]}…, and the run used "
                    f"{then[:12]}…: give the file of that run with --set model.path=FILE"
                )


def _other_packages(store: Place, run_id: str, materials: Sequence[Resource]) -> list[str]:
    """Packages whose versions differ from those of the run, in words; also dshap's source files."""
    content = Folder(store).get(f"runs/{run_id}/{PACKAGES}") or b""
    then = dict(line.split("==", 1) for line in content.decode().splitlines() if "==" in line)
    now = dict(line.split("==", 1) for line in installed_packages().splitlines())
    other = [
        f"{name} {then[name]} (now {now.get(name, 'not installed')})"
        for name in sorted(then)
        if now.get(name) != then[name]
    ]
    of_dshap = next((each.sha256 for each in materials if each.name == "dshap"), "")
    if of_dshap and of_dshap != digest_of_package():
        other.insert(0, "dshap (its source files)")
    return other


def _shared_run(store: Place, run_id: str) -> str:
    """The run whose rows the store has: this one, or the newest one whose rows are stored."""
    if has_snapshot(RunFolders(store, run_id).parts):
        return run_id
    return next((each.run_id for each in reversed(runs_with_rows(store))), run_id)


@dataclass
class _Runs:
    """The runs of a store whose cubes are opened to be computed again."""

    job: Job
    store: Place
    folder: Path
    run_with_rows: str
    materials: Sequence[Resource]
    opened: dict[tuple[str, str], Replayed] = field(default_factory=dict)

    @cached_property
    def recorder(self) -> StageRecorder:
        return StageRecorder(SilentProgress())

    @cached_property
    def session(self) -> Session:
        return Session(ThisProcess(), Rooms(self.folder), self.job.options(), self.recorder)

    @cached_property
    def joins(self) -> KeyJoins:
        return KeyJoins(partial(self.session.folder, "keys"))

    @cached_property
    def runs(self) -> StoreRuns:
        command = Command("JOB.toml", reread=True, scope=FinishScope())
        return StoreRuns(self.job, self.store, self.session, self.recorder, command)

    def place(self, explain: ExplainTable, run_id: str) -> Place:
        """The cube of an explanation that a run left; one of an earlier night if nothing changed."""
        folder = self.store / explain.name
        if not has_nights(folder):
            return folder
        nights = [name for name in Folder(folder).list() if name <= run_id]
        cubes = [name for name in nights if read_run(folder / name) is not None]
        if not cubes:
            raise NotLearnedError(f"the cube of run {run_id} is not in {folder} any more")
        return folder / cubes[-1]

    def cube(self, explain: ExplainTable, run_id: str) -> Replayed:
        """The cube of a run, opened once."""
        known = (explain.name, run_id)
        if known not in self.opened:
            if has_nights(self.store / explain.name):
                self.opened[known] = self._of_night(explain, run_id)
            else:
                self.opened[known] = self._shared(explain)
        return self.opened[known]

    def history(self, explain: ExplainTable, run_id: str) -> NightHistory:
        return NightHistory(RunFolders(self.store, run_id), explain.name, self.joins)

    def _with_rows(self, run_id: str, cube: Place) -> RunUnderWay:
        """A run with the options of one of its cubes, whose rows can be opened.

        Raises
        ------
        NotLearnedError
            The store does not have these rows any more.
        """
        run = self.runs.under_way(RunFolders(self.store, run_id))
        run.session = session_of_cube(self.session, cube)
        try:
            self.runs.source.find_rows(run)
        except NotLearnedError as error:
            raise NotLearnedError(f"{error}: {self.runs.cubes.rows_again}") from None
        return run

    def _shared(self, explain: ExplainTable) -> Replayed:
        place = self.store / explain.name
        run = self._with_rows(self.run_with_rows, place)
        opened = self.runs.source.opened(run)
        census = opened.census()
        self._refuse_other_rows(census.fingerprint)
        cubes = self.runs.cubes
        assert isinstance(cubes, SharedCubes), "all runs share the cubes"
        now = fingerprint_of_job(run.rows, opened.reader, census)
        fingerprint = cubes.as_stored_here(opened, now)
        model = opened.model(lambda: fingerprint)
        value = value_of(explain, opened.table.context(model, LoopExecutor()))
        return replayable(
            value,
            opened.table.reader_of(value),
            place,
            run.session,
            design=self.job.design_of(len(value.players)),
            seed=self.job.design_seed,
            census=census,
        )

    def _refuse_other_rows(self, digest: str) -> None:
        """Raise an error if the source has other rows than the run."""
        source = next((each for each in self.materials if each.name == "source"), Resource(""))
        then = str(source.digest.get(OF_ROWS, digest))
        if then != digest:
            raise StoreMismatchError(
                f"the source has changed: the digest of the rows of {source.uri or 'it'} is "
                f"{digest[:12]}…, and the run explained {then[:12]}…: give the table of that run "
                "with --set source.path=PLACE"
            )

    def _of_night(self, explain: ExplainTable, run_id: str) -> Replayed:
        place = self.store / explain.name / run_id
        run = self._with_rows(run_id, place)
        opened = self.runs.source.opened(run)
        methods = LearnedMethods(run)
        known = str((read_run(place) or {}).get("method"))
        about = methods.about(explain)
        if about is None or about.method != known:
            raise NotLearnedError(
                f"the method {known} of run {run_id} is not in the store any more: a new method "
                "was learned since"
            )
        try:
            method = methods.settled(explain, opened.reader.n_rows)
        except StoreMismatchError as error:
            raise StoreMismatchError(
                f"{error}: give the job of that run with --job JOB.toml"
            ) from error
        history = self.history(explain, run_id)
        value = method.learned.value
        return replayable(
            value,
            opened.table.reader_of(value),
            place,
            run.session,
            census=opened.census(),
            prepared=method.learned,
            positions=history.positions if history.n_carried else None,
        )


@dataclass
class _ReplayOfOne:
    """The replay of one explanation of a run."""

    runs: _Runs
    explain: ExplainTable
    run_id: str
    wanted: WantedRows
    say: Callable[[str], None]

    def done(self) -> ReplayedCube:
        place = self.runs.place(self.explain, self.run_id)
        is_night = has_nights(self.runs.store / self.explain.name)
        cube_run = place.name if is_night else self.run_id
        cube = self.runs.cube(self.explain, cube_run)
        rows = self._rows(cube)
        found = ReplayedCube(
            self.explain.name,
            self.run_id,
            cube.n_rows,
            len(rows),
            block_rows=cube.layout.tile,
            is_whole=len(rows) == cube.n_rows and not self.wanted.keys,
        )
        if found.is_whole and self.wanted.n_rows > cube.n_rows:
            self.say(
                f"--rows {self.wanted.n_rows:,}: {self.explain.name} has {cube.n_rows:,} rows, and "
                "all are replayed"
            )
        for tile in np.unique(rows // cube.layout.tile).tolist():
            start, stop = cube.span_of(tile)
            chosen = np.zeros(stop - start, bool)
            chosen[rows[(rows >= start) & (rows < stop)] - start] = True
            self._block(found, cube, cube_run, tile, chosen)
        return found

    def _rows(self, cube: Replayed) -> NDArray[np.int64]:
        """The rows of the cube to compute again, in ascending order."""
        if self.wanted.keys:
            names = cube.layout.keys
            return np.unique([_row_of(cube.path, len(names), key) for key in self.wanted.keys])
        return sampled_rows(cube.n_rows, cube.layout.tile, self.wanted.n_rows, self.wanted.seed)

    def _block(
        self, found: ReplayedCube, cube: Replayed, run_id: str, tile: int, chosen: BoolArray
    ) -> None:
        """Compute the chosen rows of a block again: first alone, then grouped as in the run."""
        session = self.runs.session
        carried = cube.is_carried(tile)
        found.n_carried += int((chosen & carried).sum())
        alone, _ = cube.compute(session, tile, chosen, chosen)
        if alone is not None and not len(alone.positions):
            return
        left = np.zeros(len(chosen), bool)
        if alone is None:
            left |= chosen
        else:
            left[alone.positions - tile * cube.layout.tile] = True
        explained = left & ~carried
        if explained.any():
            as_run, writer = cube.compute(session, tile, ~carried, explained)
            self._note(found, tile, as_run, writer.failures)
        if (left & carried).any():
            self._carried(found, cube, run_id, tile, left & carried)

    @staticmethod
    def _note(
        found: ReplayedCube,
        tile: int,
        difference: BlockDifference | None,
        failures: Mapping[int, str],
    ) -> None:
        if difference is None:
            reason = failures.get(tile, "it could not be computed")
            found.not_computed.append(f"block {tile} could not be computed again: {reason}")
        elif len(difference.positions):
            found.differences.append(difference)

    def _carried(
        self, found: ReplayedCube, cube: Replayed, run_id: str, tile: int, chosen: BoolArray
    ) -> None:
        """Compute carried rows again among the rows of the nights that explained them."""
        start, _ = cube.span_of(tile)
        groups: dict[tuple[str, int], list[tuple[int, int]]] = {}
        lost = np.zeros(len(chosen), bool)
        for row in np.flatnonzero(chosen).tolist():
            origin = self._origin(run_id, start + row)
            opened = None if origin is None else self._opened(origin[0])
            if origin is None or opened is None:
                lost[row] = True
            else:
                place = (origin[0], opened.tile_of(origin[1]))
                groups.setdefault(place, []).append((start + row, origin[1]))
        for (origin_run, origin_tile), pairs in groups.items():
            there = self._opened(origin_run)
            assert there is not None, "it was opened"
            difference = self._among(cube, there, origin_tile, pairs, tile)
            self._note(found, tile, difference, {})
        if lost.any():
            self._without_night(found, cube, tile, lost)

    def _origin(self, run_id: str, row: int) -> tuple[str, int] | None:
        """(run, row of its cube) that computed a row; None if that is not known any more."""
        while True:
            history = self.runs.history(self.explain, run_id)
            if not history.is_written or history.damage:
                return None
            if not history.n_carried:
                return run_id, row
            before = int(rows_of_array(history.positions, row, row + 1)[0])
            if before == EXPLAINED:
                return run_id, row
            run_id = history.previous
            row = before

    def _opened(self, run_id: str) -> Replayed | None:
        """The cube of an earlier night; None if it cannot be computed again."""
        with contextlib.suppress(DshapError):
            if read_run(self.runs.store / self.explain.name / run_id) is not None:
                return self.runs.cube(self.explain, run_id)
        return None

    def _among(
        self,
        cube: Replayed,
        there: Replayed,
        tile: int,
        pairs: Sequence[tuple[int, int]],
        own_tile: int,
    ) -> BlockDifference | None:
        """Compare rows (row here, row there) with rows of a block of an earlier night."""
        start, stop = there.span_of(tile)
        compared = np.zeros(stop - start, bool)
        compared[[row - start for _, row in pairs]] = True
        _, writer = there.compute(self.runs.session, tile, ~there.is_carried(tile), compared)
        if tile not in writer.values:
            return None
        ordered = sorted(pairs, key=lambda pair: pair[1])
        positions = np.array([row for row, _ in ordered], np.int64)
        computed = {name: each for name, each in writer.values[tile].items() if name in COPIED}
        stored = {
            name: rows_at(StoredRows.opened(cube.path / name), positions) for name in computed
        }
        found = difference_of(own_tile, positions, stored, computed)
        return replace(found, positions=np.sort(found.positions))

    def _without_night(
        self, found: ReplayedCube, cube: Replayed, tile: int, chosen: BoolArray
    ) -> None:
        """Compute rows again whose night is gone, among all rows of their block of tonight."""
        everything = np.ones(len(chosen), bool)
        difference, writer = cube.compute(self.runs.session, tile, everything, chosen)
        if difference is not None and 0.0 < difference.gap <= ROUNDING:
            found.rounded += len(difference.positions)
            found.rounded_gap = max(found.rounded_gap, difference.gap)
            return
        self._note(found, tile, difference, writer.failures)


def _row_of(cube: Place, n_columns: int, key: str) -> int:
    """The row of a key in words; of a cube without keys its position."""
    if n_columns == 0 and key.isdecimal():
        return find_row(cube, [int(key)])
    if n_columns == 1:
        return find_row(cube, [key])
    return find_row(cube, key.split(","))


def sampled_rows(n_rows: int, block_rows: int, size: int, seed: int) -> NDArray[np.int64]:
    """A seeded sample of rows, from at most `MOST_BLOCKS` blocks that are spread over the table.

    Parameters
    ----------
    n_rows : the rows of the table
    block_rows : the number of rows in a block
    size : how many rows are wanted; all if the table has no more
    seed : of the sample
    """
    if size >= n_rows:
        return np.arange(n_rows)
    n_blocks = -(-n_rows // block_rows)
    rng = np.random.default_rng(seed)
    wanted = max(MOST_BLOCKS, -(-size // block_rows))
    blocks = np.sort(rng.choice(n_blocks, min(wanted, n_blocks), replace=False))
    inside = np.concatenate(
        [np.arange(b * block_rows, min((b + 1) * block_rows, n_rows)) for b in blocks.tolist()]
    )
    return np.sort(rng.choice(inside, min(size, len(inside)), replace=False))
