"""The files and folders of a job that every worker of its cluster must be able to open."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from dshap.core.errors import InputError
from dshap.core.places import Place, place_of
from dshap.jobfile.schema import Job
from dshap.steps.row_sources import row_source
from dshap.storage.folder import Folder
from dshap.storage.workspace import workspace_of


def places_of_workers(job: Job, store: Place, here: Path) -> dict[str, Place]:
    """Noun -> a place that every worker must be able to open.

    `here` is a file or folder of this machine that represents the rooms of the run before they are
    made.  Workers read files in these rooms unless rows are read once; then only MSE_v needs that.
    """
    source = row_source(job)
    measures = any(each.n_quality_rows is not None for each in job.explain)
    places = workspace_of(store).seen_places(here, measures or source.workers_read)
    table = source.table()
    if table and Folder(table).is_there():
        places["table"] = place_of(table)
    return places


@contextlib.contextmanager
def probed_places(job: Job) -> Iterator[Mapping[str, Place]]:
    """The places of a job that does not run: a file is put where the run would put one.

    Raises
    ------
    InputError
        Nothing can be written there.
    """
    store = place_of(job.job.store)
    folder = workspace_of(store).probe_folder(job.options().scratch or "")
    try:
        with tempfile.NamedTemporaryFile(prefix=".dshap-", dir=folder) as file:
            yield places_of_workers(job, store, Path(file.name))
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror}") from None
