"""Games notice broken promises: with a check of dshap taken away they end with a line that says so."""

from __future__ import annotations

import os
from unittest import mock

import numpy as np
import pytest

from dshap.cube import current_of
from dshap.storage.folder import Folder
from tests.buckets import running_s3
from tests.chaos.faults import Ended, Fault
from tests.chaos.games import ALL_FAULTS, Game, drawn_plan, undisturbed
from tests.chaos.jobs import KINDS
from tests.chaos.nights import nights
from tests.chaos.promises import differences


@pytest.fixture(scope="module")
def service():
    with running_s3() as service, mock.patch.dict(os.environ, service.environment):
        yield service


def chunk_lost(game):
    """A file of the values of the cube that is read is lost: it reads as NaN."""
    cube = game.store / "reasons"
    Folder(cube / current_of(cube) / "attribution").delete("c.0.0.0")
    game.damaged.append("attribution")
    return Ended()


CASES = (
    ("trust all tables", "nights of trees, DuckDB", "lines deleted", "lines of the sink"),
    ("trust all blocks", "nights of trees, DuckDB", "chunk lost", "without advice"),
    ("keep every lease", "nights in a bucket, SQLite", "replaced at a change", ""),
)
"""What is broken, the kind of job, the fault of its second night, and words of the broken promise."""
GAMES = 8
"""Games in one of which a fault that comes at any change is noticed."""


@pytest.mark.slow
@pytest.mark.parametrize(("sabotage", "name", "fault", "words"), CASES)
def test_a_check_that_is_taken_away_is_noticed(
    service, tmp_path, monkeypatch, sabotage, name, fault, words
):
    monkeypatch.setitem(ALL_FAULTS, "chunk lost", Fault(chunk_lost, alters=True))
    kind = nights(None)[name]
    calms = undisturbed(kind, tmp_path / "calm", service)

    def broken(seed, broken_on_purpose):
        """The promises that a game of this seed breaks."""
        folder = tmp_path / f"{seed} {broken_on_purpose}"
        draws = np.random.default_rng(seed)
        game = Game(kind, folder, service, draws, calms, sabotage=broken_on_purpose)
        return [
            line.found for line in game.play(seed, name, ((), (fault,), ())) if line.found != "ok"
        ]

    for seed in range(GAMES):
        if found := broken(seed, sabotage):
            assert words in found[0], found
            assert not broken(seed, "")
            return
    pytest.fail(f"{GAMES} games noticed nothing")


def test_a_plan_has_its_fault_and_others_that_fit():
    kind = nights(None)["nights of trees, DuckDB"]
    names = ["kill all", "file lost"]
    plans = [drawn_plan(kind, "full disk", np.random.default_rng(i), names) for i in range(50)]
    for plan in plans:
        drawn = [fault for night in plan for fault in night]
        assert len(plan) == kind.n_nights
        assert drawn.count("full disk") == 1
        assert set(drawn) <= {"full disk", *names}
        assert 2 <= len(drawn) <= 5
    assert len({plan.index(next(n for n in plan if "full disk" in n)) for plan in plans}) == 3


def test_every_fault_fits_a_kind_and_every_kind_a_fault():
    kinds = {**KINDS, **nights(None)}
    for name, kind in kinds.items():
        assert any(not fault.unfit(kind) for fault in ALL_FAULTS.values()), name
    for name, fault in ALL_FAULTS.items():
        reasons = {fault.unfit(kind) for kind in kinds.values()}
        assert "" in reasons or reasons == {"no small file system can be mounted here"}, name


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"a": np.zeros(2)}, {"a": np.zeros(3)}, "a: 3 in place of 2"),
        ({"a": np.zeros(2)}, {"b": np.zeros(2)}, "['b'] in place of ['a']"),
        ({"a": np.zeros(2)}, {"a": np.full(2, 1e-9)}, "a: other values"),
        ({"a": [(1, 0.5)]}, {"a": [(1, 0.6)]}, "a: (1, 0.6) in place of (1, 0.5)"),
    ],
)
def test_differences_are_told(one, other, words):
    assert list(differences(one, other)) == [words]
    assert list(differences(one, one)) == []


def test_rounding_is_no_difference_where_it_is_allowed():
    one = {"a": np.array([1.0, np.nan]), "b": [(1, 0.5, "x", None)]}
    other = {"a": np.array([1.0 + 1e-13, np.nan]), "b": [(1, 0.5 + 1e-13, "x", None)]}
    assert list(differences(one, other, 1e-12)) == []
    assert len(list(differences(one, other))) == 2
    other["b"] = [(1, 0.5, "y", None)]
    assert list(differences(one, other, 1e-12)) == [
        "b: (1, 0.5, 'y', None) in place of (1, 0.5, 'x', None)"
    ]
