"""Text for people: what a terminal would obey is escaped, letters of all languages stay."""

from __future__ import annotations

import pytest

from dshap.core.errors import DoesNotFitError, InputError, PredictError
from dshap.core.printing import counted, label, one_line, printable, shortened

ESCAPED = {
    "clear\x1b[2J": r"clear\x1b[2J",
    "bell\x07\b\x7f": r"bell\x07\x08\x7f",
    "one\ntwo\r\tthree": r"one\ntwo\r\tthree",
    "c1\x9b2J\x85": r"c1\x9b2J\x85",
    "half \ud83d": r"half \ud83d",
    "lines\u2028\u2029": r"lines\u2028\u2029",
    "gnp.\u202eexe\u2066": r"gnp.\u202eexe\u2066",
    "nul\x00": r"nul\x00",
}
KEPT = [
    "",
    "plain",
    r"a\x1b",
    "naïve φ − Σ",
    "两个",
    "عربي",
    "क्\u200dष",
    "👩\u200d👧",
    "a\xa0b",
    "$\\frac{1$",
]


@pytest.mark.parametrize("text", ESCAPED)
def test_what_a_terminal_obeys_is_escaped(text):
    assert printable(text) == ESCAPED[text]
    assert printable(printable(text)) == printable(text)


@pytest.mark.parametrize("text", KEPT)
def test_what_people_read_stays(text):
    assert printable(text) == text


def test_a_message_is_one_line():
    assert one_line(" a\n  b\r\nc\x1bd ") == r"a b c\x1bd"


@pytest.mark.parametrize("kind", [InputError, PredictError, DoesNotFitError])
def test_errors_are_one_line_whatever_stands_in_them(kind):
    assert str(kind("column 'a\x1b[2J\nb' is\n  not there")) == r"column 'a\x1b[2J b' is not there"


@pytest.mark.parametrize(("text", "longest", "expected"), [("abcdef", 6, "abcdef"), ("abcdefg", 6, "ab…efg"),
                                                           ("abcdefg", 5, "ab…fg"), ("", 5, "")])  # fmt: skip
def test_the_middle_of_a_long_text_is_left_out(text, longest, expected):
    assert shortened(text, longest) == expected


def test_a_label_is_printable_and_short():
    assert label("\x1b" * 100) == shortened(r"\x1b" * 100, 48)
    assert len(label("x" * 100)) == 48
    assert label(3) == "3"
    assert label("abcd", 3) == "a…d"


def test_one_has_no_plural():
    assert [counted(n, "row") for n in (0, 1, 2_000)] == ["0 rows", "1 row", "2,000 rows"]
