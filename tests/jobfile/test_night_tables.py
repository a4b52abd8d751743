"""The tables [incremental] and [prepare]: spans of time, and what belongs together."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dshap.core.errors import InputError
from dshap.jobfile.night_tables import duration_of
from dshap.jobs import parse_job
from tests.jobs.job_files import changed


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90s", 90),
        ("5m", 300),
        ("24h", 86_400),
        ("30d", 2_592_000),
        ("2 w", 1_209_600),
        ("1.5h", 5400),
    ],
)
def test_spans_of_time(written, seconds):
    assert duration_of(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize("written", ["", "24", "h", "0d", "-1d", "0.0h", "1.h", "1y", 30, None])
def test_what_is_no_span_of_time(written):
    with pytest.raises(ValueError, match="not a time span"):
        duration_of(written)


def test_a_span_beyond_all_calendars():
    with pytest.raises(ValueError, match="too long"):
        duration_of(f"{'9' * 400}d")


def test_freshness_takes_the_same_spans():
    """Weeks and decimals, each in the words of the job file."""
    limits = {"column": "at", "warn_after": "1.5h", "error_after": "2w"}
    table = {"kind": "csv", "path": "a.csv", "key": ["id"], "features": ["x"], "target": "y"}
    source = parse_job(changed(("source", {**table, "freshness": limits}))).source
    found = source.age_limits()
    assert (found.warn_after, found.warn_s) == ("1.5h", 5400)
    assert (found.error_after, found.error_s) == ("2w", 1_209_600)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"prepare": {"every": "30d"}}, r"\[prepare\] every belongs to runs that keep"),
        ({"incremental": {"deletes": "mark"}}, "give strategy"),
        ({"incremental": {"strategy": "clock"}}, "strategy"),
        ({"incremental": {"strategy": "digest"}, "source.key": None}, r"\[source\] key is missing"),
        ({"source.key": ["id", "id"]}, r"\[source\] key = .*'id' occurs 2 times"),
    ],
)
def test_refused(tables, said):
    with pytest.raises(InputError, match=said):
        parse_job(changed(*tables.items()))


def test_a_job_is_of_one_cube_unless_it_says_so():
    assert not parse_job(changed()).is_incremental
    nightly = changed(("incremental", {"strategy": "digest"}), ("prepare", {"every": "30d"}))
    assert parse_job(nightly).prepare.every == timedelta(days=30)
