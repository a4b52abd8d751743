"""What the steps of a run share: spans of a table on the executor, one of them without it."""

from __future__ import annotations

import pytest

from dshap.cube import Workspace
from dshap.engine import LoopExecutor
from dshap.rows import SPAN_ROWS
from dshap.session import Session, each_span
from dshap.tables.opener import Site


class Counted(LoopExecutor):
    """How often it ran."""

    n_runs = 0

    def run(self, *args, **options):
        self.n_runs += 1
        super().run(*args, **options)


def joined(start: int, stop: int, *args: str) -> tuple[int, int, str]:
    return start, stop, "".join(args)


@pytest.mark.parametrize(("n_rows", "n_runs"), [(1, 0), (SPAN_ROWS, 0), (SPAN_ROWS + 1, 1)])
def test_one_span_starts_no_executor(n_rows, n_runs):
    executor = Counted()
    found = each_span(executor, joined, n_rows, "a", "b")
    wanted = [(0, min(n_rows, SPAN_ROWS), "ab")] + [(SPAN_ROWS, n_rows, "ab")] * (n_rows > SPAN_ROWS)
    assert found == wanted and executor.n_runs == n_runs


def test_a_session_is_a_site_of_fresh_folders(tmp_path):
    with Workspace(tmp_path / "store") as workspace:
        session: Site = Session(LoopExecutor(), workspace)
        assert session.is_local
        assert session.each_span(joined, 3) == [(0, 3, "")]
        one, two = session.folder("rows"), session.folder("rows")
        assert one != two and one.is_dir() and two.is_dir()
    assert not one.exists()
