"""Stages: what is refused, and what is printed."""

from __future__ import annotations

import math

import pytest

from dshap.core.errors import DoesNotFitError
from dshap.core.printing import format_bytes
from dshap.engine.plan import OPERATIONS_PER_SECOND, Stage, check_stages, stage_lines

GIB = 1 << 30
STAGES = (
    Stage("base", 3, GIB, 0.0, "data", "state/base-*", "stage"),
    Stage(
        "moments",
        1_200,
        3 * GIB,
        90 * OPERATIONS_PER_SECOND,
        "data",
        "state/moments-*",
        "coalition tile",
    ),
    Stage(
        "evaluation", 7, 2 * GIB, math.inf, "rows, state", "attribution, receipts", "instance tile"
    ),
)


def test_a_worker_must_hold_its_largest_task_on_every_thread():
    check_stages(STAGES, None, 99, 99 * GIB, "")
    check_stages(STAGES, 7 * GIB, 2, GIB, "lower coalition_tile")
    message = (
        r"stage moments needs 7.0 GiB on a worker of 2 threads \(1.0 GiB of it for the whole run\) but workers have "
        r"7.0 GiB: lower coalition_tile or give workers at least 7168 MiB \(memory_limit\)"
    )
    with pytest.raises(DoesNotFitError, match=message):
        check_stages(STAGES, 7 * GIB - 1, 2, GIB, "lower coalition_tile")
    message = (
        r"stage moments does not fit, however small its tasks: a worker of 2 threads needs 1.0 GiB throughout, and "
        r"workers have 1.0 GiB: give workers at least 7168 MiB \(memory_limit\)"
    )
    with pytest.raises(DoesNotFitError, match=message):
        check_stages(STAGES, GIB, 2, GIB, "lower coalition_tile")
    with pytest.raises(DoesNotFitError, match="on a worker of 1 thread "):
        check_stages(STAGES, 3 * GIB, 1, 1, "")


def test_a_table_says_tasks_bytes_and_time():
    heading, base, moments, evaluation = stage_lines(STAGES)
    assert heading.split() == [
        "stage",
        "tasks",
        "bytes/task",
        "core",
        "time",
        "makes",
        "kept",
        "per",
    ]
    assert base.split()[:6] == ["base", "3", "1.0", "GiB", "<", "0.1"]
    assert moments.split()[:6] == ["moments", "1,200", "3.0", "GiB", "90.0", "s"]
    assert "not known" in evaluation
    assert evaluation.endswith("instance tile")


def test_words_of_a_stage_that_keeps_nothing():
    census = Stage("census", 1, GIB, 0.0, "rows", "digests", "none")
    assert stage_lines((census,))[1].endswith("not kept")


@pytest.mark.parametrize(
    ("n", "text"),
    [(0, "0 B"), (1_023, "1023 B"), (1_024, "1.0 KiB"), (3 << 19, "1.5 MiB"), (2**41, "2.0 TiB")],
)
def test_bytes_for_people(n, text):
    assert format_bytes(n) == text
