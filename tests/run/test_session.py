"""What the steps of a run share: spans of a table on the executor, one of them without it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from dshap.core.blocks import RowBlock
from dshap.core.errors import LockedError
from dshap.core.records import Moments
from dshap.core.rows import SPAN_ROWS
from dshap.engine import Events, LoopExecutor
from dshap.engine.events import while_held
from dshap.run.session import Session, open_session
from dshap.storage.running import alone
from dshap.tables import ArraySource
from dshap.tables.site import Site
from tests.said import Said


class Counted(LoopExecutor):
    """How often it ran."""

    n_runs = 0

    def run(self, *args, **options):
        self.n_runs += 1
        super().run(*args, **options)


@dataclass(frozen=True)
class Total:
    """The pass that adds up the first column."""

    wants = ()

    def partial(self, block: RowBlock) -> Moments:
        return Moments({"sum": np.array(block.x[:, 0].sum()), "spans": np.array(1)})

    def finish(self, total: Moments) -> tuple[float, int]:
        return float(total["sum"]), int(total["spans"])


def test_a_session_is_a_site_of_fresh_folders(tmp_path):
    with alone(tmp_path / "store", "a run") as workspace:
        session: Site = Session(LoopExecutor(), workspace)
        assert session.is_local
        assert session.learn(Total(), ArraySource(np.arange(3.0)[:, None])) == (3.0, 1)
        one, two = session.folder("rows"), session.folder("rows")
        assert one != two
        assert one.is_dir()
        assert two.is_dir()
    assert not one.exists()


@pytest.mark.parametrize(("n_rows", "n_runs"), [(1, 0), (SPAN_ROWS, 0), (SPAN_ROWS + 1, 1)])
def test_one_span_starts_no_executor(n_rows, n_runs, tmp_path):
    executor = Counted()
    with alone(tmp_path / "store", "a run") as workspace:
        found = Session(executor, workspace).learn(Total(), ArraySource(np.ones((n_rows, 1))))
    assert found == (n_rows, 1 + n_runs)
    assert executor.n_runs == n_runs


def test_progress_of_a_store_that_another_process_holds():
    """A call ends before its next step; what is kept is still said."""

    def lost():
        raise LockedError("no longer locked by this process")

    said = Said()
    progress = Events(while_held(lost), said)
    for step in (lambda: progress.begin("moments", 3, "tiles"), progress.advance, progress.end):
        with pytest.raises(LockedError):
            step()
    progress.say("what is kept")
    assert said == ["what is kept"]


@pytest.mark.parametrize("progress", [True, False])
def test_quiet_calls_stay_quiet(progress, tmp_path, capsys):
    with open_session(tmp_path / "cube.zarr", None, progress, {}) as (_, session):
        session.progress.begin("moments", 3, "tiles")
        session.progress.advance(3)
        session.progress.end()
        assert session.shows_progress is progress
    assert ("moments: 3 tiles in" in capsys.readouterr().err) is progress
