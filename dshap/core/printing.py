"""Text for people: names and messages on one line, without terminal control characters."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from dshap.core.addresses import without_secrets

UNSEEN = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories that are escaped: control characters, surrogates, and separators of lines."""
TURNS = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
"""Unicode directions that can make a text read in another order than it is written."""
LONGEST_LABEL = 48
"""The most characters of a name in a table or a picture, which would otherwise be as wide as the
longest name."""


def printable(text: str) -> str:
    r"""Escape characters that move a cursor, control a terminal or reverse the reading order.

    They are written as in a Python literal, such as ``\x1b`` for escape and ``\n`` for the end of a
    line.  Letters of all languages stay as they are, and so does what was escaped before.
    Passwords and tokens of addresses are masked.
    """
    text = without_secrets(text)
    if text.isprintable():
        return text
    return "".join(_escaped(each) if _is_obeyed(each) else each for each in text)


def one_line(text: str) -> str:
    """Put a message on one line: line breaks and runs of blanks become one blank.

    The rest is escaped by `printable`.
    """
    return printable(" ".join(text.split()))


LEVELS = {
    "error": "error",
    "traceback": "error",
    "warning": "warning",
    "failed_rows": "warning",
    "worker_lost": "warning",
    "no_workers": "warning",
}
"""Event of a line for machines -> its level; all other events have the level "info"."""


def dated(line: str) -> str:
    """Put the time, to the second and with its zone, before a line that may go to a log."""
    return f"{_now()} {line}"


def json_line(event: str, **facts: Any) -> str:
    """One line of a log for machines: a JSON object with time, level, event, and the event's facts.

    Secrets of addresses are masked.
    """
    content = {"time": _now(), "level": _level_of(event, facts), "event": event, **facts}
    return without_secrets(json.dumps(content, ensure_ascii=False, default=str))


def _level_of(event: str, facts: Mapping[str, Any]) -> str:
    """The level of a line for machines: "info", "warning" or "error"."""
    if str(facts.get("message", "")).startswith("warning: "):
        return "warning"
    return LEVELS.get(event, "info")


def counted(n: int, noun: str) -> str:
    """A number of things, such as "1 row" or "2,000 rows"."""
    if n == 1:
        return f"{n} {noun}"
    return f"{n:,} {noun}s"


def _now() -> str:
    """The time, to the second and with its zone."""
    return datetime.now().astimezone().isoformat(timespec="seconds")


def label(name: object, longest: int = LONGEST_LABEL) -> str:
    """A name as tables and pictures show it: printable, and not too long."""
    return shortened(printable(str(name)), longest)


def shortened(text: str, longest: int) -> str:
    """Leave out the middle of a text that has more than `longest` characters."""
    if len(text) <= longest:
        return text
    behind = longest // 2
    return f"{text[: longest - behind - 1]}…{text[len(text) - behind :]}"


def _is_obeyed(character: str) -> bool:
    return (
        unicodedata.category(character) in UNSEEN or unicodedata.bidirectional(character) in TURNS
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def format_bytes(n: float) -> str:
    """A number of bytes as text, such as "1.5 GiB".

    Examples
    --------
    >>> import dshap
    >>> dshap.engine.format_bytes(1536 * 2**20)
    '1.5 GiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(n) < 1024:
            if unit == "B":
                return f"{n:.0f} {unit}"
            return f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} TiB"
