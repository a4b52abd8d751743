"""The record of an erasure: `state/erasures/ID.json`, begun before anything is erased.

It contains keyed digests in place of the keys, the positions of the erased rows, and the sinks.
The secret of the digests is a file next to it; without the secret nobody can use the digests.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime

from dshap.core.errors import DamagedError, NotLearnedError
from dshap.core.places import Place
from dshap.storage.folder import Folder
from dshap.storage.seals import ALTERED, sealed_record, whole_record

ROOM = "state/erasures"
"""The room of the records, in the store of a job or in that of one cube."""
SECRET = "secret"
"""The file of the secret of the keyed digests."""
# as long as the digests of SHA-256, the least that RFC 2104 advises
SECRET_BYTES = 32
ID_FORMAT = "%Y%m%dT%H%M%S.%fZ"


@dataclass(frozen=True)
class Erasure:
    """One erasure, as it is recorded."""

    erasure_id: str
    """The time in UTC at which it began."""
    keys: tuple[str, ...]
    """A keyed digest of each key (HMAC-SHA-256)."""
    key_columns: tuple[str, ...]
    rows: Mapping[str, list[int]] = field(default_factory=dict)
    """Cube, by its name in the store -> the positions of the erased rows."""
    withdrawn: tuple[str, ...] = ()
    """The explanations whose method was learned from an erased row."""
    sinks: Mapping[str, int] = field(default_factory=dict)
    """Sink -> the number of lines that were removed."""
    left: tuple[str, ...] = ()
    """The places that could not be reached, in words."""
    ended_at: str = ""
    """The time in UTC at which nothing was left to do in the store; empty before."""

    @property
    def is_over(self) -> bool:
        """Whether the store has none of the rows any more."""
        return bool(self.ended_at)

    def ended(self) -> Erasure:
        """The erasure as it is recorded at its end."""
        return replace(self, ended_at=datetime.now(UTC).isoformat(timespec="seconds"))


class Journal:
    """The erasures of a store.

    Parameters
    ----------
    store : Place
        The store of a job, or of one cube.
    """

    def __init__(self, store: Place) -> None:
        self.store = store
        self._folder = Folder(store / "state" / "erasures")

    def __iter__(self) -> Iterator[Erasure]:
        """The erasures, the oldest first.

        Raises
        ------
        DamagedError
            A record differs from its written content.
        """
        for name in self._folder.list():
            if name.endswith(".json"):
                yield self._read(name)

    def _read(self, name: str) -> Erasure:
        try:
            content = whole_record(name, self._folder.get(name) or b"")
            lists = {
                key: tuple(content[key]) for key in ("keys", "key_columns", "withdrawn", "left")
            }
            return Erasure(**content | lists)
        except (ValueError, TypeError, KeyError):
            raise DamagedError(
                f"{self._folder.place(name)} is damaged ({ALTERED}): remove it, and forget the same "
                "keys again"
            ) from None

    @property
    def unfinished(self) -> Erasure | None:
        """The erasure that was killed before its end; None if none was."""
        return next((each for each in self if not each.is_over), None)

    @property
    def digests(self) -> frozenset[str]:
        """The keyed digests of all keys that were ever erased."""
        return frozenset(digest for each in self for digest in each.keys)

    def secret(self) -> bytes:
        """The secret of the keyed digests; it is made if there is none."""
        self._folder.put_new(SECRET, secrets.token_hex(SECRET_BYTES).encode())
        return bytes.fromhex((self._folder.get(SECRET) or b"").decode())

    @property
    def has_records(self) -> bool:
        """Whether anything was ever erased here."""
        return any(name.endswith(".json") for name in self._folder.list())

    def write(self, erasure: Erasure) -> None:
        """Write the record of an erasure, over an earlier one of it."""
        name = f"{erasure.erasure_id}.json"
        self._folder.replace(name, sealed_record(name, asdict(erasure)))


def new_erasure_id() -> str:
    """The id of an erasure that begins now."""
    return datetime.now(UTC).strftime(ID_FORMAT)


def erased_of_cube(store: Place, cube: str) -> int:
    """The number of rows that were erased from a cube of a store, by its name there."""
    found = {row for each in Journal(store) for row in each.rows.get(cube, ())}
    return len(found)


def refuse_erased(store: Place, run_id: str, cube: Place) -> None:
    """Raise an error if a run cannot be computed again, as rows of it were erased.

    Parameters
    ----------
    store : Place
    run_id : str
    cube : Place
        The cube that the run has left, in the store.

    Raises
    ------
    NotLearnedError
        Rows of the cube, or rows that its method was learned from, were erased.
    """
    name = str(cube).removeprefix(f"{store}/")
    n_rows = erased_of_cube(store, name)
    if n_rows:
        raise NotLearnedError(f"run {run_id} is not replayable: {n_rows:,} rows erased from {name}")
    explain = name.partition("/")[0]
    for each in Journal(store):
        if explain in each.withdrawn and each.erasure_id > run_id:
            raise NotLearnedError(
                f"run {run_id} is not replayable: its method was learned from rows that erasure "
                f"{each.erasure_id} has erased, and was withdrawn"
            )
