"""Seals of runs whose cubes an erasure has changed: a new statement, which names the old one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from dshap.core.places import Place
from dshap.cube.arrays import RUNS
from dshap.history.backfills import sink_of_backfill
from dshap.history.key_joins import KeyJoins
from dshap.jobfile.schema import Job
from dshap.seals.attestations import replace_seal
from dshap.seals.sealed_loads import loads_of
from dshap.seals.statement import Resource
from dshap.steps.sink_targets import sink_in
from dshap.storage.folder import Folder

STATEMENT = "attestation.json"
"""The file of the statement of a run, in its folder."""


def sealed_among(store: Place, runs: Iterable[str]) -> list[str]:
    """The runs among these that have a statement."""
    folder = Folder(store)
    return [
        run_id for run_id in sorted(set(runs)) if folder.has_file(f"{RUNS}/{run_id}/{STATEMENT}")
    ]


def renew_seals(
    store: Place, runs: Iterable[str], job: Job | None, key: Any, reason: str
) -> list[str]:
    """Seal these runs again, those that have a statement; gives their ids.

    Parameters
    ----------
    store : Place
    runs : iterable of str
    job : Job, optional
        The job, whose sinks the runs have loaded.  None: the new statements name no loads.
    key : SigningKey, optional
        None: the new statements are not signed, and contain a note on this.
    reason : str
        Why the statements are replaced, in words for the new ones.
    """
    renewed = []
    with tempfile.TemporaryDirectory(prefix="dshap-keys-") as folder:
        joins = KeyJoins(partial(tempfile.mkdtemp, dir=folder))
        for run_id in sealed_among(store, runs):
            loads = () if job is None else tuple(_loads_now(store, run_id, job, joins))
            replace_seal(store, run_id, key, reason, loads)
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
