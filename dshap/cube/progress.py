"""How far a cube is: its rows by status, from the receipts of its blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dshap.core.places import Place
from dshap.cube.erased_note import erased_rows
from dshap.cube.layout import reading, refuse_foreign
from dshap.cube.metadata import known_facts
from dshap.cube.reference_copy import failures_of, has_copy, receipts_of
from dshap.storage.sealed_files import ReceiptFolder

MAX_TOLD = 1_000
"""Largest number of blocks with failed rows whose reasons a status reports."""


@dataclass(frozen=True)
class FailedRows:
    """The rows that failed for one reason."""

    rows: int
    first: str
    """The first of these rows, with its key."""
    reason: str


@dataclass(frozen=True)
class CubeStatus:
    """The progress of a cube: numbers of rows by status, and of finished blocks."""

    path: str
    n_rows: int
    ok: int
    skipped: int
    failed: int
    pending: int
    blocks_done: int
    n_blocks: int
    erased: int = 0
    """The rows that were erased, which are not among the skipped ones."""
    failures: tuple[FailedRows, ...] = ()
    """The reasons why rows failed, from the first blocks with such rows."""

    @property
    def is_complete(self) -> bool:
        return self.blocks_done == self.n_blocks


def cube_status(path: Place) -> CubeStatus:
    """Count the rows by status and the blocks with a receipt; reads the marks of the blocks."""
    refuse_foreign(path)
    with reading(path):
        return _status(path)


def _status(path: Place) -> CubeStatus:
    n_rows = known_facts(path / "status").shape[0]
    is_sealed = has_copy(path)
    failed = {name: record["failed"] for name, record in _records(failures_of(path), is_sealed)}
    ok = 0
    skipped = 0
    done = 0
    for name, receipt in _records(receipts_of(path), is_sealed):
        groups = receipt.get("failed", [])
        # the block was explained after it had failed
        failed.pop(name, None)
        if groups:
            failed[name] = groups
        done += 1
        ok += receipt["ok"]
        skipped += receipt["stop"] - receipt["start"] - receipt["ok"] - _rows_of(groups)
    n_failed = sum(map(_rows_of, failed.values()))
    n_erased = len(erased_rows(path))
    told = [failed[name] for name in sorted(failed)[:MAX_TOLD]]
    return CubeStatus(
        str(path),
        n_rows=n_rows,
        ok=ok,
        skipped=skipped - n_erased,
        failed=n_failed,
        pending=n_rows - ok - skipped - n_failed,
        blocks_done=done,
        n_blocks=known_facts(path / "blocks" / "count").shape[0],
        erased=n_erased,
        failures=_failures(group for groups in told for group in groups),
    )


def _records(marks: ReceiptFolder, is_sealed: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, record) of the marks of a folder; marks of earlier versions have no seal."""
    for name in marks.names():
        record, fault = marks.looked_at(name)
        if record is not None and not (fault and is_sealed):
            yield name, record


def _rows_of(groups: Iterable[Mapping[str, Any]]) -> int:
    """The rows in groups of failed ones."""
    return sum(group["rows"] for group in groups)


def _failures(groups: Iterable[Mapping[str, Any]]) -> tuple[FailedRows, ...]:
    """The reasons of failed rows; those that differ in numbers only are merged."""
    found: dict[str, FailedRows] = {}
    for group in groups:
        kind = re.sub(r"\d+", "#", group["reason"])
        before = found.get(kind, FailedRows(0, group["first"], group["reason"]))
        found[kind] = replace(before, rows=before.rows + group["rows"])
    return tuple(found.values())
