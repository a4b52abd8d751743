"""Labels of features for a width: whole names on two lines if they fit, and no two alike."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence

from dshap.core.printing import printable, shortened

CUT = "…"
SEPARATORS = frozenset("_ -./:=")
"""The characters after which a name is broken into two lines."""
LEAST_WIDTH = 6
"""The least width of a line, in characters: the cut and some letters around it."""


def labels_of(
    names: Sequence[str],
    width: int,
    *,
    lines: int = 2,
    given: Mapping[str, str] | None = None,
) -> list[str]:
    r"""Label each feature of a picture, on at most so many lines of `width` characters.

    A name that fits is whole: on one line, or broken after `_`, a space or another separator.  Of
    longer names the parts that they have in common are cut first, from the end of their common
    beginning and then from their common end, so that their differences are shown.  No two labels
    are the same.

    Parameters
    ----------
    names : names of the features, each once
    width : characters of a line, at least 6; wide letters, such as Chinese ones, count twice
    lines : the most lines of a label, 1 or 2
    given : feature -> the label to show in place of its name, such as the label of a dictionary of
        columns; features that are not in it have their names

    Returns
    -------
    list
        The labels in the order of the names, with ``\n`` between lines.

    Examples
    --------
    >>> from dshap.report.labels import labels_of
    >>> labels_of(["age", "monthly_income"], 12)
    ['age', 'monthly_\nincome']
    >>> labels_of(["balance_of_all_accounts_2023", "balance_of_all_accounts_2024"], 14, lines=1)
    ['balance_o…2023', 'balance_o…2024']
    """
    width = max(width, LEAST_WIDTH)
    texts = _texts(names, given or {})
    found = [wrapped(text, width, lines) for text in texts]
    long = [place for place, label in enumerate(found) if label is None]
    cut = _cut([texts[place] for place in long], width * lines)
    for place, text in zip(long, cut, strict=True):
        found[place] = wrapped(text, width, lines) or text
    return _numbered([label or "" for label in found])


def labels_with_values(
    names: Sequence[str],
    values: Sequence[str],
    width: int,
    *,
    given: Mapping[str, str] | None = None,
) -> list[str]:
    r"""Label features with the values of their columns, on at most two lines: "age = 31".

    Parameters
    ----------
    names, width, given : as in `labels_of`
    values : the value of each feature as text; "" if there is none

    Examples
    --------
    >>> from dshap.report.labels import labels_with_values
    >>> labels_with_values(["age", "monthly_income"], ["31", "2,400"], 14)
    ['age = 31', 'monthly_income\n= 2,400']
    """
    on_two = labels_of(names, width, given=given)
    on_one = labels_of(names, width, lines=1, given=given)
    found = []
    for two, one, value in zip(on_two, on_one, values, strict=True):
        said = f"= {one_label(value, width - 2)}"
        if not value:
            found.append(two)
        elif _size(two.split("\n")[-1]) + 1 + _size(said) <= width:
            found.append(f"{two} {said}")
        elif "\n" in two:
            found.append(f"{one}\n{said}")
        else:
            found.append(f"{two}\n{said}")
    return found


def one_label(name: str, width: int, *, lines: int = 1) -> str:
    """Label a single name, such as the name of an axis or a legend."""
    return labels_of([name], width, lines=lines)[0]


def wrapped(text: str, width: int, lines: int) -> str | None:
    r"""A text on at most so many lines (1 or 2), with ``\n`` between them; None if it is longer.

    It is broken behind a separator, where both lines are about equally long; else anywhere.
    """
    if _size(text) <= width:
        return text
    if lines == 1 or _size(text) > 2 * width:
        return None
    breaks = [place + 1 for place, letter in enumerate(text[:-1]) if letter in SEPARATORS]
    sizes = {
        place: max(_size(text[:place].rstrip()), _size(text[place:].lstrip())) for place in breaks
    }
    fitting = {place: size for place, size in sizes.items() if size <= width}
    at = min(fitting, key=lambda place: fitting[place], default=_at_size(text, width))
    return f"{text[:at].rstrip()}\n{text[at:].lstrip()}"


def _at_size(text: str, width: int) -> int:
    """The number of first characters of a text that fill a line."""
    place = 0
    while place < len(text) and _size(text[: place + 1]) <= width:
        place += 1
    return place


def _size(text: str) -> int:
    """The width of a text in characters."""
    if text.isascii():
        return len(text)
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)


def _texts(names: Sequence[str], given: Mapping[str, str]) -> list[str]:
    """The label of each name, or the name; a label that is given twice has the name behind it."""
    shown = [str(given.get(name, name)) for name in names]
    times = Counter(shown)
    return [
        printable(text if times[text] == 1 or text == str(name) else f"{text} ({name})")
        for name, text in zip(names, shown, strict=True)
    ]


def _cut(texts: Sequence[str], room: int) -> list[str]:
    """These texts in at most `room` characters each, first without their common parts."""
    if not texts:
        return []
    head, tail = _in_common(texts)
    short = [_without(text, head, tail, room) for text in texts]
    times = Counter(short)
    # Each call has fewer texts than the one before, so that this comes to an end.
    for alike in [each for each, count in times.items() if 1 < count < len(texts)]:
        places = [place for place, each in enumerate(short) if each == alike]
        for place, text in zip(places, _cut([texts[place] for place in places], room), strict=True):
            short[place] = text
    return short


def _in_common(texts: Sequence[str]) -> tuple[int, int]:
    """The number of characters of the common beginning and of the common end of several texts.

    They are whole words if they have separators.
    """
    if len(texts) == 1:
        return 0, 0
    head = _whole_words(_common_beginning(texts))
    return head, _whole_words(_common_beginning([text[head:][::-1] for text in texts]))


def _common_beginning(texts: Sequence[str]) -> str:
    """The longest text that all of these begin with."""
    first = min(texts)
    last = max(texts)  # these two differ most
    n_same = 0
    while n_same < min(len(first), len(last)) and first[n_same] == last[n_same]:
        n_same += 1
    return first[:n_same]


def _whole_words(text: str) -> int:
    """The number of characters up to the last separator of a text; all if it has none."""
    return 1 + max(map(text.rfind, SEPARATORS)) or len(text)


def _without(text: str, head: int, tail: int, room: int) -> str:
    """A text of at most `room` characters: its common head is cut first, then its common tail."""
    if _size(text) <= room:
        return text
    room = room * len(text) // _size(text)  # fewer letters if some are wide
    n_out = len(text) - room + 1
    if n_out <= head:
        return f"{text[: head - n_out]}{CUT}{text[head:]}"
    middle = text[head : len(text) - tail]
    n_tail = room - len(middle) - 2
    if 0 <= n_tail < tail:
        return f"{CUT}{middle}{CUT}{text[len(text) - n_tail :]}"
    if head == tail == 0:
        return shortened(text, room)
    return f"{CUT}{shortened(middle, room - 2)}{CUT}"


def _numbered(labels: Sequence[str]) -> list[str]:
    """The labels; one that was there before has a number behind it."""
    taken: set[str] = set()
    found = []
    for label in labels:
        unique = label
        number = 2
        while unique in taken:
            unique = f"{label} ({number})"
            number += 1
        taken.add(unique)
        found.append(unique)
    return found
