"""Seals of runs whose cubes an erasure has changed: a new statement, which names the old one.

If the old statement was signed, the new one is signed too, by the same key if it is available.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from dshap.core.errors import DamagedError, InputError
from dshap.core.places import Place
from dshap.core.printing import counted
from dshap.cube.arrays import RUNS
from dshap.erasure.reached_jobs import ReachedJobs
from dshap.history.backfills import sink_of_backfill
from dshap.history.key_joins import KeyJoins
from dshap.jobfile.schema import Job
from dshap.seals.attestations import read_envelope, replace_seal
from dshap.seals.materials import attestation_file
from dshap.seals.sealed_loads import loads_of
from dshap.seals.signing_keys import SigningKey
from dshap.seals.statement import Resource
from dshap.steps.sink_targets import sink_in
from dshap.storage.folder import Folder

STATEMENT = "attestation.json"
"""The file of the statement of a run, in its folder."""
SHOWN = 12
"""The characters of the name of a key in messages."""


def sealed_among(store: Place, runs: Iterable[str]) -> list[str]:
    """The runs among these that have a statement."""
    folder = Folder(store)
    return [
        run_id for run_id in sorted(set(runs)) if folder.has_file(f"{RUNS}/{run_id}/{STATEMENT}")
    ]


def keys_of_seals(
    store: Place, runs: Iterable[str], keys: Sequence[SigningKey], *, unsigned: bool
) -> tuple[dict[str, SigningKey | None], list[str]]:
    """The key for the new statement of each sealed run, and warnings about keys that differ.

    Parameters
    ----------
    store : Place
    runs : iterable of str
    keys : sequence of SigningKey
        The keys that are here.
    unsigned : bool
        Whether signed runs lose their signature if no key is here.

    Returns
    -------
    tuple
        Run -> its key, None for a statement without a signature; and lines for people.

    Raises
    ------
    InputError
        A run was signed, and no key is here.
    DamagedError
        A statement cannot be read.
    """
    chosen: dict[str, SigningKey | None] = {}
    others: dict[str, list[str]] = {}
    """Name of a key that is not here -> the runs that were signed with it."""
    for run_id in sealed_among(store, runs):
        try:
            envelope = read_envelope(store, run_id)
        except ValueError as error:
            raise DamagedError(
                f"{store / attestation_file(run_id)} is damaged ({error}): nothing is erased; write "
                "the file again from a copy of the store, or remove it, and run the same command "
                "again"
            ) from error
        chosen[run_id] = None
        if envelope is None or not envelope.is_signed:
            continue
        same = next((key for key in keys if envelope.is_signed_by(key.public)), None)
        chosen[run_id] = same or next(iter(keys), None)
        if same is None:
            others.setdefault(next(iter(envelope.signatures))[:SHOWN], []).append(run_id)
    if others and not keys and not unsigned:
        n_runs = sum(map(len, others.values()))
        raise InputError(
            f"an erasure seals runs again, but the key {', '.join(others)}, which signed "
            f"{counted(n_runs, 'run')} of {store}, is not here: nothing is erased; with --job "
            "JOB.toml give the job that has this [seal] key, or give --unsigned to seal the runs "
            "without a signature"
        )
    return chosen, [_warning(name, ids, keys) for name, ids in others.items()]


def _warning(name: str, runs: Sequence[str], keys: Sequence[SigningKey]) -> str:
    """The line about runs whose key is not here."""
    said = f"warning: the key {name}, which signed {counted(len(runs), 'run')}, is not here"
    if not keys:
        return f"{said}: sealed again without a signature"
    return f"{said}: signed again with the key {keys[0].public.keyid[:SHOWN]}"


def renew_seals(
    store: Place, keys: Mapping[str, SigningKey | None], jobs: ReachedJobs, reason: str
) -> list[str]:
    """Seal these runs again; returns their ids.

    Parameters
    ----------
    store : Place
    keys : mapping
        Sealed run -> the key of its new statement; None: it is not signed, and contains a note on
        this.
    jobs : ReachedJobs
        The jobs whose sinks the runs have loaded.
    reason : str
        Why the statements are replaced, in words for the new ones.
    """
    renewed = []
    with tempfile.TemporaryDirectory(prefix="dshap-keys-") as folder:
        joins = KeyJoins(partial(tempfile.mkdtemp, dir=folder))
        # An erasure has dropped runs that were not finished, with their statements
        for run_id in sealed_among(store, keys):
            job = jobs.of_run(run_id)
            loads = () if job is None else tuple(_loads_now(store, run_id, job, joins))
            replace_seal(store, run_id, keys[run_id], reason, loads)
            renewed.append(run_id)
    return renewed


def _loads_now(store: Place, run_id: str, job: Job, joins: KeyJoins) -> Iterator[Resource]:
    """The loads that a statement names, with the lines that they have now.

    A load of a sink that the job does not have any more is left out.
    """
    sinks = [(table, sink_in(job, table)) for table in job.sink]
    named = {table.name or sink.label: sink for table, sink in sinks}
    for load in loads_of(store, run_id):
        sink = named.get(load.name)
        if sink is None:
            continue
        if load.is_of_backfill:
            sink = sink_of_backfill(sink) or sink
        yield load.renewed(sink, joins)
