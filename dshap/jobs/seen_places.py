"""The places of a job that every worker of its cluster must see, for a run and for a check."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from dshap.core.errors import InputError
from dshap.core.places import Place, is_bucket, place_of
from dshap.jobs.schema import Job
from dshap.jobs.spooling import reads_once
from dshap.storage.objects import refuse_unusable


def places_of_workers(job: Job, store: Place, here: Path) -> dict[str, Place]:
    """Noun -> place of what every worker must see.

    `here` is a file or folder of this machine that stands for what a run puts beside the store
    before that is made; of a store in a bucket it lies in the folder for temporary files.  Of rows
    that lie in the bucket too, only MSE_v needs that.
    """
    places: dict[str, Place] = {}
    if is_bucket(store):
        places["store"] = store
        if not reads_once(job) or any(each.n_quality_rows is not None for each in job.explain):
            places["folder of [run] scratch"] = here
    elif here.parent in store.resolve().parents:
        places["folder of the store"] = here
    table = place_of(str(dict(job.source).get("path", "")))
    is_there = is_bucket(table) or (table.is_absolute() and table.exists())
    if is_there and not reads_once(job):
        places["table"] = table
    return places


def folder_above(path: Path) -> Path:
    """The nearest folder that is there: the path itself, or one above it."""
    return next(above for above in (path, *path.parents) if above.is_dir())


@contextlib.contextmanager
def probed_places(job: Job) -> Iterator[Mapping[str, Place]]:
    """The places of a job that does not run: a file is put where the run would put one.

    Raises
    ------
    InputError
        Nothing can be written there.
    """
    store = place_of(job.job.store)
    if is_bucket(store):
        refuse_unusable(store)
        folder = Path(job.options().scratch or tempfile.gettempdir())
    else:
        folder = folder_above(store.resolve().parent)
    try:
        with tempfile.NamedTemporaryFile(prefix=".dshap-", dir=folder) as file:
            yield places_of_workers(job, store, Path(file.name))
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror}") from None
