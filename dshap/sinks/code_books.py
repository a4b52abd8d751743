"""Code books: reason codes with their players, and their texts in one language or several."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from dshap.core.code_groups import checked_codes
from dshap.core.errors import InputError
from dshap.core.printing import label
from dshap.core.records import digest_of
from dshap.core.rules import as_path

CODE = "code"
PLAYERS = "players"
TEXT = "text"
"""The columns of a code book; a book of several languages has `text_en`, `text_de` and so on."""
BETWEEN = ";"
"""The character between the players of a code."""


@dataclass(frozen=True)
class CodeBook:
    """Codes with their players and their texts, as a file lists them."""

    players: Mapping[str, Sequence[str]]
    """Code -> its players."""
    texts: Mapping[str, Sequence[str]]
    """Column, such as "text" or "text_de" -> the text of each code, in their order."""
    path: str = ""

    @property
    def digest(self) -> str:
        """A digest of codes, players and texts: after a change, loaded lines are out of date."""
        return digest_of({"players": dict(self.players), "texts": dict(self.texts)})[:12]

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes, in the order of their names."""
        return tuple(self.players)


def read_code_book(path: str | Path) -> CodeBook:
    """Read a code book from a CSV file with the columns code, players, and text or text_LANGUAGE.

    Each line is a code.  Its players are in one cell, separated by semicolons; a name that contains
    a semicolon is in quotes within the cell.

    Raises
    ------
    InputError
        The file does not exist, is no CSV, or has different columns or no line; a code occurs twice
        or has no text; or a player has two codes.
    """
    path = as_path("codes", path, "file")
    try:
        # spreadsheets begin a file with a byte order mark
        content = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"codes: there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"codes: {path} cannot be read as text ({error})") from None
    try:
        reader = csv.reader(StringIO(content), strict=True)  # a quoted text may have line breaks
        lines = [(reader.line_num, cells) for cells in reader if any(map(str.strip, cells))]
    except csv.Error as error:
        raise InputError(f"codes: {path} cannot be read as CSV ({error})") from None
    if not lines:
        raise InputError(f"codes: {path} is empty: give the columns {_asked()}")
    names = [cell.strip() for cell in lines[0][1]]
    languages = _languages(path, names)
    rows = [_row(path, number, names, cells) for number, cells in lines[1:]]
    if not rows:
        raise InputError(f"codes: {path} has no code below its first line: give one on each line")
    rows.sort(key=lambda row: row[CODE])  # as `checked_codes` orders the players
    counts = Counter(row[CODE] for row in rows)
    if twice := [code for code, count in counts.items() if count > 1]:
        raise InputError(f"codes: {path}: code {label(twice[0])!r} occurs twice: write it once")
    players = {row[CODE]: _split(row[PLAYERS]) for row in rows}
    if empty := [code for code, named in players.items() if not named]:
        raise InputError(f"codes: {path}: code {label(empty[0])!r} has no players: give some")
    for column in languages:
        for row in rows:
            if not row[column]:
                raise InputError(
                    f"codes: {path}: code {label(row[CODE])!r} has no {column}: write the text that "
                    "an applicant is to read"
                )
    texts = {column: [row[column] for row in rows] for column in languages}
    return CodeBook(checked_codes(f"codes: {path}", players), texts, str(path))


def _languages(path: Path, names: Sequence[str]) -> list[str]:
    """The columns of texts."""
    languages = [name for name in names if name == TEXT or name.startswith(f"{TEXT}_")]
    others = [name for name in names if name not in (CODE, PLAYERS, *languages)]
    is_known = {CODE, PLAYERS} <= set(names) and languages and not others
    if not is_known or len(set(names)) < len(names):
        raise InputError(f"codes: {path} has the columns {', '.join(names)}: give {_asked()}")
    return languages


def _row(path: Path, number: int, names: Sequence[str], line: Sequence[str]) -> dict[str, str]:
    """Column -> the cell of one line."""
    if len(line) != len(names):
        raise InputError(
            f"codes: {path}, line {number} has {len(line)} cells, and the first line {len(names)}: "
            "put a cell with a comma in quotes"
        )
    row = {name: cell.strip() for name, cell in zip(names, line, strict=True)}
    if not row[CODE]:
        raise InputError(f"codes: {path}, line {number} has no code: give it one")
    return row


def _split(cell: str) -> list[str]:
    """The players of a cell."""
    parts = next(csv.reader([cell], delimiter=BETWEEN, skipinitialspace=True), [])
    return [part.strip() for part in parts if part.strip()]


def _asked() -> str:
    return f"{CODE}, {PLAYERS} and {TEXT}, or {TEXT}_en, {TEXT}_de and so on for several languages"
