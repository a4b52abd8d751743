"""The record of a pilot, as fields, as a state and in a fingerprint."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dshap.core.records import Record
from dshap.designs import kriging, restored_design
from dshap.designs.kriging.findings import NOTHING_FOUND, Findings

FOUND = Findings(
    decay=0.1 + 0.2,
    variation=0.0,
    relevance=(0.5, 1.5),
    average=((0.1, 0.0, 0.5, 3.0, 0.75), (1.0, 0.3, 0.0, 30.0, 0.25)),
    sizes=(1.0, 1 / 3),
    by_game=True,
    by_game_gain=0.7,
    own_decay=0.03,
    sparse=False,
    sparse_gain=1.0,
    doubt=1.25,
)
"""All that can be found, but for how the list goes on."""


@pytest.mark.parametrize(
    "found", [FOUND, NOTHING_FOUND, Findings(2), Findings(0, sizes=(1.0,)), Findings(average=())]
)
def test_a_state_gives_them_back(found):
    """To the bit, with the same kinds; a note of the cube is the same numbers as lists."""
    again = Findings.of(found.record().arrays)
    assert again == found
    assert hash(again) == hash(found)
    assert type(again.by_game) is bool
    assert type(again.later_shells) is type(found.later_shells)
    noted = {name: array.tolist() for name, array in found.record().arrays.items()}
    assert Findings.of(json.loads(json.dumps(noted))) == found


def test_what_was_not_looked_for_is_left_out():
    assert set(Findings(1).record().arrays) == {"later_shells", "by_game"}


@pytest.mark.parametrize(
    "found", [FOUND, NOTHING_FOUND, Findings(1), Findings(0, sizes=(1.0,) * 9)]
)
def test_a_fingerprint_gives_the_design_back(found):
    design = replace(kriging(9, 60, seed=3), findings=found)
    assert restored_design(json.loads(json.dumps(design.fingerprint()))) == design


def test_the_fingerprint_before_a_pilot_names_no_findings():
    """The digests of stored runs follow from it."""
    assert kriging(9, 60, seed=3).fingerprint() == {
        "design": "kriging",
        "n_players": 9,
        "budgets": [60],
        "decay": None,
        "seed": 3,
        "n_replicates": 20,
        "variation": 0.0,
        "shells": None,
        "later_shells": 1,
        "sparse": None,
        "by_game": False,
    }


def test_flat_fingerprints_of_before_are_read():
    """All fields stood beside each other."""
    flat = {"later_shells": 1, "relevance": [0.5] * 4 + [1.5] * 4, "doubt": 1.5, "by_game": True}
    own = {"design": "kriging", "n_players": 8, "budgets": [40], "decay": 0.1, "sparse": True}
    design = restored_design(own | flat)
    assert design.decay == 0.1
    assert design.sparse is True
    assert design.findings == Findings.of(flat)


def test_a_later_look_keeps_how_the_list_goes_on():
    """The rest is what the later look says; a record without findings changes nothing."""
    design = kriging(8, 40).tuned(Record({"later_shells": np.array(0), "sizes": np.ones(8)}))
    tuned = design.tuned(FOUND.record())
    assert tuned.findings == replace(FOUND, later_shells=0)
    assert tuned.tuned(Record({"relative_error": np.array(0.1)})) == tuned
    assert tuned.tuned(Record()) == tuned


def test_a_record_without_findings_settles_an_open_list():
    design = kriging(8, 40)
    assert design.pair_list.is_open
    assert design.tuned(Record()).findings == Findings(later_shells=1)
