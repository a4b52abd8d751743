"""Repairing the store of a job: copied files are restored, the job computes the rest again."""

from __future__ import annotations

from dshap.core.errors import DamagedError, InputError
from dshap.core.places import Place, place_of
from dshap.core.printing import counted
from dshap.cube import is_left
from dshap.engine import Progress
from dshap.history.run_record import error_of
from dshap.jobfile.reading import read_job_file
from dshap.jobs.store_runs import run_recorded
from dshap.jobs.verification import Damages, repair_job_store, verify_job_store
from dshap.steps.under_way import Command


def repair_with_job(store: Place, job_file: str, progress: Progress) -> Damages:
    """Repair a store and carry out its job, until nothing is damaged or the damage stays the same.

    Returns the damage that was found.
    """
    mended = repair_job_store(store)
    found: Damages = {}
    while True:
        _finish(job_file, store, progress)
        before = found
        found = verify_job_store(store)
        if not any(found.values()) or found == before:
            return mended
        for name, damages in repair_job_store(store).items():
            mended[name] = [*mended.get(name, []), *damages]


def _finish(job_file: str, store: Place, progress: Progress) -> None:
    """Carry out the job of this store."""
    job = read_job_file(job_file)
    if not _is_same(place_of(job.job.store), store):
        raise InputError(
            f"{job_file} has the store {job.job.store}, not {store}: give the job that made this "
            "store"
        )
    if error := error_of(run_recorded(job, progress, Command(job_file)).facts):
        raise error


def _is_same(one: Place, other: Place) -> bool:
    """Whether two places are one, after following links."""
    return one.resolve() == other.resolve()


def refuse_damage(store: Place, found: Damages, mended: Damages | None, *, has_job: bool) -> None:
    """Raise a `DamagedError` that names the remaining steps.

    `mended` is None if no repair was asked for.
    """
    count = sum(map(len, found.values()))
    if not mended and count:
        raise DamagedError(
            f"{store}: {counted(count, 'damaged part')}, as listed above; dshap verify --repair "
            "repairs what it can"
        )
    if count and has_job:
        raise DamagedError(
            f"{store}: {counted(count, 'damaged part')} after the repair and the job, as listed above, "
            "and doing both again changes nothing: remove what is listed, or run the job into "
            "another store"
        )
    if count or (not has_job and any(map(is_left, (mended or {}).values()))):
        raise DamagedError(
            f"{store}: the damaged parts are removed: run the same command again to compute them"
        )
