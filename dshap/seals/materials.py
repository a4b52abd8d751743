"""The materials of a run: the things that it was made from, with their digests.

They are its source, models, methods, job file, packages and dshap's source files, and the statement
of the previous run.  The statement of the run lists them as its resolved dependencies.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from dshap import __version__
from dshap.core.places import Place
from dshap.core.records import digest_of
from dshap.cube import read_run, states_of
from dshap.cube.arrays import RUNS
from dshap.cube.chunk_digests import sha256_of_bytes, sha256_of_file
from dshap.history.run_folders import RunFolders
from dshap.jobfile.model_tables import GivenModel, ImportedModel, ModelFileTable, sha256_of_given
from dshap.jobfile.schema import Job
from dshap.seals.statement import ATTESTATION, Resource
from dshap.storage.folder import Folder
from dshap.warehouse.snapshot import SNAPSHOT

OF_STORE = ("prepared/", "parts/", "state/", f"{RUNS}/")
"""Addresses of materials in the store begin with one of these."""
OF_ROWS = "dshapRows"
"""Name of the digest of the used columns of a table (docs/stores.md describes it)."""
OF_MODEL = "dshapPredictions"
"""Name of the digest of a model without a file: it is computed from its predictions or its parts."""


def dependencies_of(
    job: Job, store: Place, run_id: str, cubes: Mapping[str, str], previous: str | None
) -> Iterator[Resource]:
    """Yield the materials of a run.

    Parameters
    ----------
    job : Job
        The job as the command has read it.
    store : Place
    run_id : str
    cubes : mapping
        Explanation -> the name of its cube in the store.
    previous : str or None
        The id of the previous run; None if this is the first one.
    """
    yield _source(job, store, run_id, cubes)
    yield from _models(job, store, cubes)
    yield from _methods(store, cubes)
    files = {"job file": f"{RUNS}/{run_id}/job.json", "packages": f"{RUNS}/{run_id}/packages.txt"}
    for name, file in files.items():
        yield from _file(store, name, file)
    yield Resource("dshap", {"sha256": digest_of_package()}, f"pkg:pypi/dshap@{__version__}")
    if previous is not None:
        yield from _file(store, "attestation of the run before", attestation_file(previous))


def attestation_file(run_id: str) -> str:
    """The file of the statement of a run in its store."""
    return f"{RUNS}/{run_id}/{ATTESTATION}"


def installed_packages() -> str:
    """The installed packages in the form of a lock file: a line such as "numpy==2.1.0" for each."""
    found = {
        f"{each.metadata['Name']}=={each.version}"
        for each in metadata.distributions()
        if each.metadata["Name"]
    }
    return "".join(f"{line}\n" for line in sorted(found, key=str.casefold))


def digest_of_package() -> str:
    """The SHA-256 digest of a list with the digest and name of each source file of dshap."""
    root = Path(__file__).parents[1]
    lines = [
        f"{sha256_of_bytes(file.read_bytes())}  {file.relative_to(root).as_posix()}\n"
        for file in sorted(root.rglob("*.py"))
    ]
    return sha256_of_bytes("".join(lines).encode())


def _source(job: Job, store: Place, run_id: str, cubes: Mapping[str, str]) -> Resource:
    """The rows that were explained: parts in the store, or a table that stays in place."""
    about = {"kind": job.source.kind}
    parts = RunFolders(store, run_id).parts
    # rows that were read once have a record with the digest of each part
    content = Folder(parts).get(SNAPSHOT)
    if content is not None:
        return Resource(
            "source", {"sha256": sha256_of_bytes(content)}, f"parts/{run_id}/{SNAPSHOT}", about
        )
    place = str(dict(job.source).get("path") or "")
    rows: dict[str, Any] = {}
    for cube in cubes.values():
        rows = (read_run(store / cube) or {}).get("fingerprint", {}).get("rows", {})
    digest = {OF_ROWS: str(rows["digest"])} if rows.get("digest") else {}
    if rows:
        about["rows"] = rows.get("n")
    return Resource("source", digest, place, about)


def _models(job: Job, store: Place, cubes: Mapping[str, str]) -> Iterator[Resource]:
    about = {"kind": job.model.kind}
    match job.model:
        case ModelFileTable(path=path) as table:
            yield Resource("model", {"sha256": sha256_of_given(table)}, str(path), about)
            return
        case ImportedModel(function=function):
            about["function"] = function
            yield Resource("model", _digest_of_module(function), function, about)
            return
        case GivenModel():
            return
    states = states_of(store)
    for name in sorted(states.names()):
        if name.startswith("model-"):
            yield from _file(store, "model", f"state/{states.file(name)}", about)


def _digest_of_module(function: str) -> dict[str, str]:
    """The digest of the file of a function's module; empty if the module has no file."""
    found = importlib.util.find_spec(function.partition(":")[0])
    if found is None or not found.origin or not Path(found.origin).is_file():
        return {}
    return {"sha256": sha256_of_bytes(Path(found.origin).read_bytes())}


def _methods(store: Place, cubes: Mapping[str, str]) -> Iterator[Resource]:
    """Yield the methods of cubes, with the digest of the method's file or of its fingerprint."""
    for explain, cube in cubes.items():
        run = read_run(store / cube) or {}
        method = str(run.get("method") or "")
        file = f"prepared/{method}/prepared.json"
        content = Folder(store).get(file) if method else None
        if content is None:
            known = run.get("fingerprint", {})
            yield Resource(f"method of {explain}", {OF_MODEL: digest_of(known.get("value"))})
        else:
            yield Resource(f"method of {explain}", {"sha256": sha256_of_bytes(content)}, file)


def _file(
    store: Place, name: str, file: str, annotations: Mapping[str, Any] | None = None
) -> Iterator[Resource]:
    """Yield a file of the store, if it exists."""
    folder = Folder(store)
    if folder.has_file(file):
        with folder.open(file) as opened:
            digest = sha256_of_file(opened)
        yield Resource(name, {"sha256": digest}, file, annotations or {})
