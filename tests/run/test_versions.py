"""Versions of the numerics: what each changed, in messages and on the page about upgrades."""

from __future__ import annotations

import re

import pytest

import dshap
from dshap.run import versions
from dshap.run.versions import ADDED, CHANGES, NUMERICS_VERSION, Writer
from tests.pages import ROOT

PAGE = (ROOT / "docs" / "upgrading.md").read_text()


def test_each_version_of_the_numerics_says_what_it_changed():
    """Whoever raises the number writes a line here and on the page."""
    assert sorted(CHANGES) == list(range(2, NUMERICS_VERSION + 1))
    assert ADDED.keys() <= CHANGES.keys()
    rows = dict(re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.MULTILINE))
    assert rows == {"1": "the first version", **{str(n): said for n, said in CHANGES.items()}}


def test_the_page_has_the_numerics_of_this_version_and_of_no_other_twice():
    """A version whose numbers are others gets a number of its own."""
    rows = re.findall(r"^\| (\d+\.\d+\.\d+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows[0] == (dshap.__version__, str(NUMERICS_VERSION))
    names = [name for name, _ in rows]
    assert len(set(names)) == len(names)
    headings = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert len(set(headings)) == len(headings)
    assert set(headings) <= set(names)


def test_a_writer_in_words(monkeypatch):
    earlier = Writer.of({"version": "0.2.0"}, {"numerics": NUMERICS_VERSION - 2})
    assert str(earlier) == f"dshap 0.2.0 (numerics {NUMERICS_VERSION - 2})"
    assert earlier.is_other
    first, second = (CHANGES[NUMERICS_VERSION - back] for back in (1, 0))
    assert earlier.changes == (
        f"changed since: {first} ({NUMERICS_VERSION - 1}); {second} ({NUMERICS_VERSION})"
    )
    assert earlier.remedy == "finish it with dshap 0.2.0"
    assert earlier.unknown_entries == {"value.own_rows", "design.background_rows"}
    here = Writer.here()
    assert not here.is_other
    assert here.unknown_entries == set()
    assert str(here) == f"dshap {dshap.__version__} (numerics {NUMERICS_VERSION})"
    monkeypatch.setattr(versions, "NUMERICS_VERSION", NUMERICS_VERSION - 1)
    assert here.is_other
    assert here.changes == "its numerics are those of a later version"
    assert here.remedy == "finish it with the version that began it"


@pytest.mark.parametrize("record", [{}, {"version": ""}])
def test_a_record_without_a_version(record):
    unknown = Writer.of(record, {})
    assert str(unknown) == "dshap of an unknown version (numerics 0)"
    assert unknown.remedy == "finish it with the version that began it"
