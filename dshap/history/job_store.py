"""The store of a job: its allowed places, its identity, and the files of its fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dshap import __version__
from dshap.core.errors import StoreMismatchError
from dshap.core.places import Place
from dshap.core.types import RowReader
from dshap.cube import holds_runs_alone, lost_its_metadata, read_job, read_run
from dshap.cube.creation import is_free
from dshap.jobfile.model_tables import ModelFileTable, sha256_of_given
from dshap.jobfile.schema import Job
from dshap.predictors.times import times_of
from dshap.run.versions import numerics
from dshap.storage.workspace import workspace_of
from dshap.tables import Census

NIGHTS = {"cubes": "one each night"}
"""The fingerprint of the store of a job with [incremental]; its cubes have different ones."""
LATER_KEYS = ("classes", "max_iter", "shapley", "standardize", "tol", "unseen")
"""Keys of [model] that were added after stores were written without them."""


def fingerprint_of_job(job: Job, reader: RowReader, census: Census) -> dict[str, Any]:
    """The fingerprint that all explanations of a store share, and that decides the fit.

    Each cube has a different fingerprint too.
    """
    shared = {
        "numerics": numerics(),
        "seed": job.job.seed,
        "model": _described(job.model),
        "features": list(reader.feature_names),
        "target": list(reader.target_names),
        "keys": dict(reader.key_dtypes),
        "missing": reader.missing,
        "rows": {"digest": census.fingerprint, "n": census.n_rows},
    }
    # without times there is no entry, so that the fingerprints of earlier versions stay valid
    if times := times_of(reader):
        shared["times"] = dict(times)
    return shared


def _described(model: Any) -> dict[str, Any]:
    """The table of a model, for the fingerprint: of a file its content, not its path.

    Keys of `LATER_KEYS` are left out at their default, so that older stores stay valid.
    """
    fields = type(model).model_fields
    described: dict[str, Any] = {
        name: value
        for name, value in model.model_dump(mode="json").items()
        if name not in LATER_KEYS or value != fields[name].default
    }
    match model:
        case ModelFileTable(places=places):
            unplaced = dict.fromkeys(places, "")
            return {**described, **unplaced, "sha256": sha256_of_given(model)}
    return described


def job_description(job: Job, fingerprint: dict[str, Any]) -> dict[str, Any]:
    """The content of the store's attribute `dshap_job`."""
    return {
        "name": job.job.name,
        "units": job.run.units,
        "version": __version__,
        "fingerprint": fingerprint,
    }


def version_of_cubes(cubes: Sequence[Place]) -> str:
    """The version of dshap that wrote the first cube that is there; empty if none is."""
    versions = (run["version"] for run in map(read_run, cubes) if run and "version" in run)
    return next(versions, "")


def refuse_store(job: Job, store: Place) -> None:
    """Raise if a store cannot be that of a job: by its place, or as it is another job's.

    Raises
    ------
    InputError
        A name that no store can have.
    StoreMismatchError
        Something else is there, or a job of another name has made the store.
    """
    refuse_place(store)
    stored = read_job(store)
    if stored is None or stored.get("name") in (None, job.job.name):
        return
    raise StoreMismatchError(
        f"{store} is the store of the job {stored['name']!r}, and this job has the name "
        f"{job.job.name!r}: choose another [job] store, or write name = {stored['name']!r} to "
        "continue with it"
    )


def refuse_place(store: Place) -> None:
    """Raise if a store cannot be: by its name, inside a store, or at a place that is in use."""
    workspace_of(store).check()
    for above in store.parents:
        if read_job(above) is not None or read_run(above) is not None:
            raise StoreMismatchError(
                f"{above} is a store, and {store} would be inside it: choose another [job] store"
            )
    may_begin = is_free(store) or lost_its_metadata(store) or holds_runs_alone(store)
    if not may_begin and read_job(store) is None:
        raise StoreMismatchError(
            f"{store} exists and is not the store of a job: choose another [job] store"
        )
