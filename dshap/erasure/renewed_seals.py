"""Seals of runs whose cubes an erasure has changed: a new statement, which names the old one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dshap.core.places import Place
from dshap.cube.arrays import RUNS
from dshap.seals.attestations import replace_seal
from dshap.storage.folder import Folder

STATEMENT = "attestation.json"
"""The file of the statement of a run, in its folder."""


def sealed_among(store: Place, runs: Iterable[str]) -> list[str]:
    """The runs among these that have a statement."""
    folder = Folder(store)
    return [
        run_id for run_id in sorted(set(runs)) if folder.has_file(f"{RUNS}/{run_id}/{STATEMENT}")
    ]


def renew_seals(store: Place, runs: Iterable[str], key: Any, reason: str) -> list[str]:
    """Seal these runs again, those that have a statement; gives their ids.

    Parameters
    ----------
    store : Place
    runs : iterable of str
    key : SigningKey, optional
        None: the new statements are not signed, and contain a note on this.
    reason : str
        Why the statements are replaced, in words for the new ones.
    """
    renewed = []
    for run_id in sealed_among(store, runs):
        replace_seal(store, run_id, key, reason)
        renewed.append(run_id)
    return renewed
