"""What happens between two commands: files are altered, cut or lost, and tables of sinks too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from dshap.core.places import BucketPath
from dshap.storage.folder import Folder
from tests.chaos.faults import Ended, Fault

if TYPE_CHECKING:
    from tests.chaos.games import Game
    from tests.chaos.jobs import Kind

Alter = Callable[[bytearray, int], bytes | None]
"""Damage to the content of a file at a position: gives the new content, None where the file is lost."""


def flip(content: bytearray, at: int) -> bytes | None:
    content[at] ^= 1 << (at % 8)
    return bytes(content)


def cut(content: bytearray, at: int) -> bytes | None:
    return bytes(content[:at])


def lose(content: bytearray, at: int) -> bytes | None:
    return None


def of_file(alter: Alter, game: Game) -> Ended:
    """Damage one file of the store, drawn from its rooms and then from the files of the room."""
    store = Folder(game.kind.place(game.folder))
    rooms: dict[str, list[str]] = {}
    for name in store.tree():
        rooms.setdefault(_room(name), []).append(name)
    if not rooms:
        return Ended(moment="there is no file", has_struck=False)
    names = rooms[sorted(rooms)[int(game.draws.integers(len(rooms)))]]
    name = names[int(game.draws.integers(len(names)))]
    content = bytearray(store.get(name) or b"")
    if not content and alter is not lose:
        return Ended(moment=f"{name} is empty", has_struck=False)
    at = int(game.draws.integers(max(len(content), 1)))
    _put(store, name, alter(content, at))
    game.damaged.append(name)
    return Ended(moment=f"{name} at {at}")


def _room(name: str) -> str:
    """The part of a store that a file belongs to: each is as likely to be damaged."""
    parts = [part for part in name.split("/") if not part[:8].isdigit()]
    return "/".join(parts[:2])


def _put(store: Folder, name: str, content: bytes | None) -> None:
    """Change a file in its place, as a failing disk does."""
    if content is None:
        store.delete(name)
    elif isinstance(store.path, BucketPath):
        store.replace(name, content)
    else:
        (store.path / name).write_bytes(content)


def lines_deleted(game: Game) -> Ended:
    """Half of the lines of a sink's table are deleted by somebody."""
    return _of_sink(game, "DELETE FROM {table} WHERE {key} IN ({some})")


def lines_doubled(game: Game) -> Ended:
    """A backup of half of the lines is loaded beside them."""
    return _of_sink(game, "INSERT INTO {table} SELECT * FROM {table} WHERE {key} IN ({some})")


def table_dropped(game: Game) -> Ended:
    return _of_sink(game, "DROP TABLE {table}")


def _of_sink(game: Game, statement: str) -> Ended:
    """Alter the table of the sink, where it is there."""
    tables = game.kind.tables(game.folder)
    if tables is None or not tables.has_sink():
        return Ended(moment="there is no table", has_struck=False)
    try:
        tables.alter(statement)
    except Exception as error:  # of any driver: a primary key refuses lines that are there
        if "constraint" not in str(error).lower():
            raise
        return Ended(moment="the primary key of the table refuses it", has_struck=False)
    game.damaged.append("the table of the sink")
    return Ended(moment="the table of the sink")


def unless_sink(kind: Kind) -> str:
    return "" if kind.has_table else "it has no sink in a database"


def unless_replaceable(kind: Kind) -> str:
    """Lines that were doubled in a history stay: no load removes lines from one."""
    return unless_sink(kind) or ("its sink is a history" if kind.is_history else "")


DAMAGES: dict[str, Fault] = {
    "byte flipped": Fault(partial(of_file, flip), alters=True),
    "file cut": Fault(partial(of_file, cut), alters=True),
    "file lost": Fault(partial(of_file, lose), alters=True),
    "lines deleted": Fault(lines_deleted, unless_sink, alters=True),
    "lines doubled": Fault(lines_doubled, unless_replaceable, alters=True),
    "table dropped": Fault(table_dropped, unless_sink, alters=True),
}
"""Damages between two commands."""
