"""The statements of a store's runs: `runs/RUN_ID/attestation.json`, and those that were replaced.

A later erasure of values, such as the removal of a key, makes a new statement by `replace_seal`.
It names the old one by its digest; the old one stays beside it as `attestation-1.json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.cube.arrays import RUNS, read_run
from dshap.cube.chunk_digests import sha256_of_bytes, sha256_of_file
from dshap.history.run_record import ID, RECORD, RunRecord, read_record
from dshap.jobfile.schema import Job
from dshap.seals.envelope import Envelope, envelope_in, enveloped
from dshap.seals.materials import OF_STORE, attestation_file, dependencies_of, installed_packages
from dshap.seals.signing_keys import SigningKey
from dshap.seals.statement import ATTESTATION, Resource, statement_of
from dshap.seals.stored_job import JOB, StoredJob
from dshap.seals.subjects import CUBE, PACKAGES, subjects_of_cube, subjects_of_files
from dshap.storage.folder import Folder


@dataclass(frozen=True)
class MadeByRun:
    """The cubes and loads that a run has left beside its record."""

    cubes: Mapping[str, str]
    """Explanation -> the name of its cube in the store."""
    unchanged: frozenset[str] = frozenset()
    """The explanations whose cubes were written by an earlier run."""
    loads: tuple[Resource, ...] = ()
    """The subjects of its loads of sinks."""


def seal_run(
    store: Place,
    job: Job,
    kept: StoredJob,
    record: RunRecord,
    content: bytes,
    made: MadeByRun,
    key: SigningKey | None,
) -> Place:
    """Write the statement of a run that is over, and return its path.

    It is written before the record, which is the last file of a run: if the run is killed in
    between, the next command finishes and seals it again.

    Parameters
    ----------
    store : Place
    job : Job
        The job as the command has read it.
    kept : StoredJob
        The job as the store has it.
    record, content : RunRecord and bytes
        The record that will be written.
    made : MadeByRun
    key : SigningKey, optional
        None: the statement is not signed, and contains a note on this.
    """
    run_id = record.run_id
    folder = Folder(store)
    folder.replace(f"{RUNS}/{run_id}/{JOB}", kept.to_bytes())
    folder.replace(f"{RUNS}/{run_id}/{PACKAGES}", installed_packages().encode())
    before = sealed_before(store, run_id)
    subjects = [*subjects_of_files(store, run_id, content), *made.loads]
    for explain, cube in made.cubes.items():
        earlier: Sequence[Resource] = ()
        if explain in made.unchanged and before is not None:
            earlier = known_subjects(store, before, cube)
        subjects += earlier or subjects_of_cube(store, cube, run_id)
    dependencies = [*dependencies_of(job, store, run_id, made.cubes, before)]
    public = None if key is None else key.public
    statement = statement_of(record, subjects, dependencies, public)
    name = attestation_file(run_id)
    folder.replace(name, enveloped(statement, key).to_bytes())
    return store / name


def replace_seal(
    store: Place,
    run_id: str,
    key: SigningKey | None,
    reason: str,
    loads: Sequence[Resource] = (),
) -> Place:
    """Seal a run again whose cubes were changed on purpose, such as by an erasure.

    The new statement has the digests of the present content, also of materials in the store, and
    the digest of the old one, which stays beside it under another name.

    Parameters
    ----------
    store : Place
    run_id : str
    key : SigningKey, optional
        None: the new statement is not signed, and contains a note on this.
    reason : str
        Why the cubes were changed, in words.
    loads : sequence of Resource
        The subjects of the lines that its sinks have now (`subject_of_sink`); without them the new
        statement names no load.

    Raises
    ------
    InputError
        The run has no statement, or no record.
    """
    folder = Folder(store)
    name = attestation_file(run_id)
    content = folder.get(name)
    record = read_record(store, run_id)
    recorded = folder.get(f"{RUNS}/{run_id}/{RECORD}")
    if content is None or record is None or recorded is None:
        raise InputError(f"run {run_id} of {store} has no {ATTESTATION} that could be replaced")
    old = envelope_in(content).statement
    old_name = _free_name(folder, run_id)
    # first, so that the old statement is there whenever the new one names it
    folder.replace(old_name, content)
    before = [Resource.read(each) for each in old["subject"]]
    cubes = {str(each.annotations["cube"]) for each in before if _is_of_cube(each)}
    subjects = [
        *subjects_of_files(store, run_id, recorded),
        *loads,
    ]
    for cube in sorted(cubes):
        if (
            read_run(store / cube) is None
        ):  # it was removed since, by [job] keep_runs or [retention]
            subjects += [each for each in before if each.annotations.get("cube") == cube]
            continue
        subjects += subjects_of_cube(store, cube, run_id)
    given = old["predicate"]["buildDefinition"]["resolvedDependencies"]
    dependencies = [_as_it_is(store, Resource.read(each)) for each in given]
    public = None if key is None else key.public
    replaced = Resource(ATTESTATION, {"sha256": sha256_of_bytes(content)}, old_name)
    statement = statement_of(record, subjects, dependencies, public, replaced, reason)
    folder.replace(name, enveloped(statement, key).to_bytes())
    return store / name


def _as_it_is(store: Place, material: Resource) -> Resource:
    """A material with the digest that its file in the store has now; another one as it is.

    One whose file is gone has its name, without a digest.
    """
    folder = Folder(store)
    if not (material.uri.startswith(OF_STORE) and material.sha256):
        return material
    if not folder.has_file(material.uri):
        return replace(material, digest={}, annotations={**material.annotations, "erased": True})
    with folder.open(material.uri) as opened:
        return replace(material, digest={"sha256": sha256_of_file(opened)})


def _free_name(folder: Folder, run_id: str) -> str:
    """The name under which a statement stays that is replaced."""
    number = 1
    while folder.has(name := f"{RUNS}/{run_id}/attestation-{number}.json"):
        number += 1
    return name


def read_envelope(store: Place, run_id: str) -> Envelope | None:
    """The envelope of a run; None if it has none.

    Raises
    ------
    ValueError
        The file is no envelope, or was altered.
    """
    content = Folder(store).get(attestation_file(run_id))
    if content is None:
        return None
    return envelope_in(content)


def sealed_runs(store: Place) -> list[str]:
    """The runs of a store that have a statement, the oldest first."""
    folder = Folder(store)
    names = Folder(store / RUNS).list()
    return [name for name in names if ID.fullmatch(name) and folder.has(attestation_file(name))]


def sealed_before(store: Place, run_id: str) -> str | None:
    """The newest run before one that has a statement; None if none has."""
    return max((each for each in sealed_runs(store) if each < run_id), default=None)


def known_subjects(store: Place, run_id: str, cube: str) -> Sequence[Resource]:
    """The subjects of a cube in the statement of an earlier run; none if it has none."""
    try:
        envelope = read_envelope(store, run_id)
    except ValueError:
        return ()
    if envelope is None:
        return ()
    return subjects_of(envelope.statement, cube)


def subjects_of(statement: Mapping[str, object], cube: str) -> Sequence[Resource]:
    """The subjects of a statement that are of one cube."""
    given: Iterable[Mapping[str, object]] = statement["subject"]  # type: ignore[assignment]
    found = [Resource.read(each) for each in given]
    return [each for each in found if _is_of_cube(each) and each.annotations["cube"] == cube]


def _is_of_cube(resource: Resource) -> bool:
    return resource.annotations.get("kind") == CUBE
