"""Numbers of the package that a reader feels: none grows unseen.  Lower a bound when the number
falls."""

from __future__ import annotations

import pytest

from tests.house import circles, importers_of_designs, measured, members

# Nodes and classes were raised by a tenth for clusters, shards and object stores: a file a kind of cluster, a store.
# Nodes were raised by a sixtieth when dense statements were unfolded.
# Nodes and classes were raised by a twentieth for scales and classes of models, lakehouses, checksums, errors of draws
# and rows unlike those of a pilot.
# Nodes were raised by a twentieth for nights that cannot be fooled: baselines, backfills, damage, lost workers, checks
# of a job, contracts of used columns, upgrades, walltimes, masked values, keys joined on disk.
# Nodes were raised by a five-hundredth, and classes by five, when each kind of sink and of table that is read once
# became a class.
# Nodes were raised by a hundredth, and classes by 32, when a run became one list of steps: sources, cubes, scopes and
# models of a job are objects, and 100 conditions on modes went.
# Nodes were raised by a thirtieth, and classes by 19, when trees got an engine of their own: parsers of four
# libraries, tables of patterns, quadrature, walks and counts of backgrounds, in place of shap's.
# Nodes were raised by a two-hundredth, classes by 13, when quick tasks went into packs, commands used every core, and
# shards learned: an object each, and three more scopes.
# Nodes were raised by a two-hundredth, classes by 5 and questions about types by 5, when packages became lazy: each
# lists its names in a stub, and what `status`, `show` and `job` need lies apart from what opens arrays.
# Nodes were raised by a hundredth, classes by 16 and protocols by two, when a call without a store got a cube and
# states in memory: an object beside that of a store, for each part that a store has.
# Nodes were raised by a fiftieth, classes by 10, when finished cubes were packed and rows of nights were hashed by
# compiled code, beside the digests of earlier versions.
# Nodes were raised by an eightieth, classes by 15, protocols and questions about types by one, when value functions
# came to learn from as many rows as are enough, and forms were folded to few landmarks.
# Nodes were raised by a two-hundredth, and classes by three, when pairs of orders got background rows of their own: a
# method, its attributor, and weights of the drawn rows.
# Nodes were raised by a hundredth, and classes by nine, when the error of folds became a note, judging rows a stage of
# the plan, few rows got loops over all coalitions at once, pairs were shared by tasks, and forms became squares.
# Nodes were raised by a five-hundredth, ternaries by two and classes by one, and members that are asked for by five,
# when `explain` came to take models as they are: libraries are known by what their objects have.
# Nodes were raised by a fiftieth, classes by 11, statements by two and ternaries by one, when columns got words: a
# dictionary, a card, years and digits, intervals over rows, and sentences about reasons by language.
# Nodes were raised by a sixteenth, classes by 13 and ternaries by 23, when pictures got options, sums of what they
# leave out, axes of their own and a second library: a record for each picture, and a chart beside it.
# Nodes were raised by a tenth, classes by 110, ternaries by 66, protocols by two and questions about types by 30, when
# six new uses got rooms of their own: the page's first screen, rows and runs, what-if models, reason codes with certain
# places, seals and replays, erasure, and what comes before a first night (samples, probes, a first job file).
# Classes were raised by six and protocols by four when signatures got real types: options by name, and models of any
# library by what they have.
# Nodes were raised by a hundredth, ternaries by 18 and classes by ten when the rest of these uses came: paths of every
# type, values without codes of closed forms, loads in renewed seals, jobs of all targets in an erasure, text probes.
BOUNDS = {
    "syntax nodes": 512_000,
    "syntax nodes in a hundred statements": 717,
    "assignments of several things at once": 4,
    "ternaries": 500,
    "ternaries with another inside": 0,
    "fmt: skip": 0,
    "classes": 988,
    "protocols": 57,
    "docstrings that open as a fragment": 0,
    "files beside the folders": 7,
    "names that several modules define": 0,
    "members of ValueFunction": 9,
    "members of Design": 6,
    "frames from explain to a compiled loop": 8,
    "frames from explain to predict": 10,
    "statements of the longest function outside loops/": 40,
    "isinstance, hasattr, getattr": 360,
    "modules in circles": 0,
    "modules in circles with typing imports": 0,
    "modules that import designs outside attributors and the face": 0,
}


@pytest.fixture(scope="module")
def numbers() -> dict[str, int]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dshap.run.session.current_client", lambda: None)
        return measured()


def test_no_number_grows(numbers):
    grown = {name: number for name, number in numbers.items() if number > BOUNDS[name]}
    assert grown == {}


def test_every_number_has_a_bound(numbers):
    assert set(numbers) == set(BOUNDS)


def test_what_is_counted():
    """Members of a protocol of this size, by hand; a circle would be seen."""
    assert members("Link") == 10
    assert members("Rounds") == 1 + members("Design")
    assert circles() == 0
    assert all(name.startswith("dshap.") for name in importers_of_designs())
