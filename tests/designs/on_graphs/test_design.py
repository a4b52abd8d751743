"""What the designs of a graph share, alone and in runs."""

import json
import pickle
import tracemalloc
import warnings

import numpy as np
import pytest

import dshap
from dshap import designs
from dshap.core.blocks import EMPTY, FULL
from dshap.core.errors import InputError
from dshap.core.types import Design
from dshap.designs import chain, connected, connected_regression, grid, local, myerson
from dshap.designs.on_graphs.design import ScoreTerms, TermList
from dshap.designs.on_graphs.subsets import to_masks, to_words
from tests.designs.design_games import attribute

MAKERS = {
    "local": lambda graph: local(graph, 1),
    "local, present": lambda graph: local(graph, 1, outside="present"),
    "local, sampled": lambda graph: local(graph, 3, n_permutations=30, seed=4),
    "connected": lambda graph: connected(graph, 1),
    "connected, boundary": lambda graph: connected(graph, 1, coefficients="boundary"),
    "connected, present": lambda graph: connected(
        graph, 1, coefficients="boundary", outside="present"
    ),
    "connected_regression": lambda graph: connected_regression(graph, 2),
    "connected_regression, kernel": lambda graph: connected_regression(graph, 2, weights="kernel"),
    "myerson": lambda graph: myerson(graph),
}
every_design = pytest.mark.parametrize("name", MAKERS)


@every_design
def test_protocol_pickle_and_fingerprint(name):
    for graph in (chain(8), grid(2, 4), ~np.eye(5, dtype=bool)):
        design = MAKERS[name](graph)
        assert isinstance(design, Design)
        assert design.info.has_graph
        assert pickle.loads(pickle.dumps(design)) == design
        stored = json.loads(json.dumps(design.fingerprint()))
        assert stored["design"] == name.split(",")[0]
        again = designs.restored_design(stored)
        assert again == design
        assert again.fingerprint() == stored


@every_design
def test_lists_begin_with_the_two_ends_and_have_nothing_twice(name):
    for graph in (chain(1), chain(2), chain(7), grid(2, 3), np.zeros((3, 3))):
        masks = MAKERS[name](graph).masks
        assert not masks[EMPTY].any()
        assert masks[FULL].all()
        assert len(np.unique(masks, axis=0)) == len(masks)


@every_design
def test_a_constant_game_is_worth_nothing_to_anybody(name):
    design = MAKERS[name](grid(2, 4))
    np.testing.assert_allclose(attribute(design, np.full(2**8, 7.0)), 0.0, atol=1e-13)


@every_design
def test_any_chunking_equals_one(name):
    design = MAKERS[name](grid(3, 3))
    whole = design.block(0, design.n_coalitions)
    for step in (1, 13):
        parts = [
            design.block(i, min(i + step, design.n_coalitions))
            for i in range(0, design.n_coalitions, step)
        ]
        np.testing.assert_array_equal(np.concatenate([part.masks for part in parts]), whole.masks)
        np.testing.assert_array_equal(np.concatenate([part.score for part in parts]), whole.score)
    with pytest.raises(InputError, match="give 0 <= start <= stop"):
        design.block(0, design.n_coalitions + 1)


@every_design
def test_another_number_of_players(name):
    design = MAKERS[name](chain(8))
    assert design.with_players(8) is design
    assert design.with_players(5) == MAKERS[name](chain(5))
    with pytest.raises(
        InputError, match="a graph of 8 players, and there are 5 players: make the graph"
    ):
        MAKERS[name](grid(2, 4)).with_players(5)


@pytest.mark.parametrize(("make", "options", "said"), [
    (local, {"order": 2, "n_permutations": 30}, "local(order=2, n_permutations=30)"),
    (connected, {"order": None, "coefficients": "boundary"}, "connected(order=None, coefficients='boundary')"),
    (connected_regression, {"order": 3}, "connected_regression(order=3)"),
    (myerson, {}, "myerson()"),
])  # fmt: skip
def test_without_a_graph_it_is_of_chains_of_any_length(make, options, said):
    """What is wrong with the options is told at once, as where there is a graph."""
    found = make(**options)
    assert found(5) == make(chain(5), **options) == make(graph=chain(5), **options)
    assert repr(found) == said
    assert pickle.loads(pickle.dumps(found)) == found
    assert not isinstance(found, Design)
    with pytest.raises(TypeError):
        make(**options, ordre=2)
    for wrong in ({"order": 0}, {"outside": "gone"}, {"coefficients": "papers"}):
        if wrong.keys() <= options.keys():
            with pytest.raises(InputError):
                make(**options | wrong)


@pytest.mark.slow
@pytest.mark.parametrize(("make", "d"), [
    (lambda graph: connected(graph, None), 250),
    (lambda graph: connected(graph, 40, outside="present"), 420),
])  # fmt: skip
def test_the_runs_of_a_chain_are_counted_as_they_are_listed(make, d):
    """A chain, whose runs are counted by a formula, and its adjacency, of which all are made: the
    same refusal, and the same list of the highest order that fits."""
    said = []
    for graph in (chain(d), chain(d).adjacency):
        with pytest.raises(InputError, match="highest order that fits is") as caught:
            make(graph)
        said.append(str(caught.value))
    assert said[0] == said[1]


@pytest.mark.parametrize(("make", "best"), [
    (lambda graph: connected(graph, None), 13),
    (lambda graph: connected(graph, None, coefficients="boundary"), 230),
    (lambda graph: connected_regression(graph, None), 462),
    (myerson, 230),
    (lambda graph: local(graph, None), 4),
])  # fmt: skip
def test_of_long_chains_the_highest_order_that_fits_is_told(make, best):
    """Of 2,500 players 462 · (5,001 − 462)/2 = 1,048,509 runs of up to 462 fit into 2^20,
    neighbourhoods of order 230 have 461, and 378 runs in each of order 13 are 945,000 at most; 2^9
    subsets in each of order 4 fit into 2^21."""
    with pytest.raises(InputError, match=rf"the highest order that fits is {best}(;|$)"):
        make(chain(2_500))


def test_no_graph_is_not_none():
    with pytest.raises(InputError, match="graph is None"):
        local(None, 2)
    with pytest.raises(TypeError, match="order"):
        local()


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: local(chain(401), 3),
        lambda: local(grid(31, 31), 1, outside="present"),
        lambda: local(chain(303), 9, n_permutations=100),
        lambda: connected(chain(402), 3),
        lambda: connected(grid(16, 17), 2, coefficients="boundary"),
        lambda: myerson(chain(203)),
        lambda: connected_regression(grid(21, 22), 4),
    ],
)
def test_a_process_needs_no_more_than_the_design_says(make):
    """Making the list, the solution and a block of 2,000; and no less than a quarter of it."""
    tracemalloc.start()
    design = make()
    m = min(2_000, design.n_coalitions)
    block = design.block(0, m)
    design.finish(block.score[:1, :, None], np.zeros((1, 1)), np.ones((1, 1)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= design.info.block_bytes(m) <= 4 * peak


def test_terms_of_equal_coalitions_are_added():
    words = to_words(np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 1]], dtype=bool))
    terms = ScoreTerms(
        np.array([0, 2, 1, 3]), np.array([0, 0, 2, 1]), np.array([1.0, 2.0, 4.0, 8.0])
    )
    listed = TermList.of(3, words, terms, np.array([0, 1, 1, -1], np.int16), 2)
    masks = to_masks(listed.words, 3).astype(int)
    np.testing.assert_array_equal(masks, [[0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 1, 0]])
    score, groups = listed.scored(0, 4)
    np.testing.assert_array_equal(score, [[0, 0, 0], [0, 8, 0], [3, 0, 0], [0, 0, 4]])
    np.testing.assert_array_equal(groups.coalition, [2, 2, 3])
    np.testing.assert_array_equal(groups.group, [0, 1, 1])
    np.testing.assert_array_equal(groups.score, [[1, 0, 0], [2, 0, 0], [0, 0, 4]])


def predict(rows):
    """Interactions of every order of neighbours, more than one output."""
    return np.stack(
        [np.tanh(rows @ np.arange(1.0, rows.shape[1] + 1)), np.prod(1 + rows / 3, axis=1)], axis=1
    )


@every_design
@pytest.mark.parametrize("constant", [(), (2,)])
def test_explain_gives_the_values_of_the_design(name, constant, rng):
    """With a column that is constant in all rows too: it stays a neighbour, whatever it is
    worth."""
    rows, background = rng.normal(size=(5, 6)), rng.normal(size=(3, 6))
    rows[:, constant], background[:, constant] = 1.0, 1.0
    design = MAKERS[name](grid(2, 3))
    value = dshap.values.Marginal(predict, background)
    cube = dshap.explain(value, rows, design=design, progress=False)
    for n in range(5):
        mixed = np.where(design.masks[:, None, :], rows[n], background)  # (m, b, columns)
        v = predict(mixed.reshape(-1, 6)).reshape(*mixed.shape[:2], 2).mean(axis=1)
        np.testing.assert_allclose(cube.attribution.values[n], design.operator.T @ v, atol=1e-12)
    gap = cube.attribution.sum("feature") + cube.base_value - cube.prediction
    assert (np.abs(gap.values).max() < 1e-12) == design.info.is_efficient
    assert (cube.status.values == 1).all()
    assert ("std_error" in cube) == (name == "local, sampled")


def test_a_connected_graph_is_checked_and_a_disconnected_one_is_not(rng):
    """A model that answers differently is told by the sum where the sum is one; a broken design
    too."""
    rows, value = rng.normal(size=(4, 4)), dshap.values.Marginal(predict, rng.normal(size=(2, 4)))
    apart = np.zeros((4, 4))
    apart[0, 1] = apart[1, 0] = apart[2, 3] = apart[3, 2] = 1
    cube = dshap.explain(value, rows, design=myerson(apart), progress=False)
    gap = np.abs((cube.attribution.sum("feature") + cube.base_value - cube.prediction).values)
    assert gap.min() > 1e-6

    class Broken(designs.MyersonDesign):
        def finish(self, sums, v_empty, v_full):
            return 1.01 * sums

    with pytest.raises(dshap.DshapError, match="attributions miss the prediction"):
        dshap.explain(value, rows, design=Broken(chain(4)), progress=False)


def test_what_runs_refuse(rng):
    rows, value = rng.normal(size=(4, 6)), dshap.values.Marginal(predict, rng.normal(size=(2, 6)))
    with pytest.raises(
        InputError,
        match=r"the design has 8 players, the value function 6 \(.*make its graph of 6 play",
    ):
        dshap.explain(value, rows, design=local(chain(8), 1))
    with pytest.raises(
        InputError, match="this design lists only coalitions of neighbours: give design='exact'"
    ):
        dshap.mse_v(
            dshap.values.Gaussian(predict, rng.normal(size=(50, 6))),
            rows,
            design=local(chain(6), 1),
        )
    with pytest.raises(
        InputError,
        match="interactions need design='exact' or 'kriging', and the design is local",
    ):
        dshap.explain(value, rows, design=local(chain(6), 1), interactions=True)
    with pytest.raises(InputError, match=r"tol grows a design .* the design is myerson"):
        dshap.explain(value, rows, design=myerson(chain(6)), tol=0.1)


def test_standard_errors_reach_the_cube(rng):
    """Of sampled players alone; too few orders are said once."""
    value, rows = dshap.values.Marginal(predict, rng.normal(size=(2, 9))), rng.normal(size=(4, 9))
    design = local(chain(9), 4, n_permutations=100)
    cube = dshap.explain(value, rows, design=design, progress=False)
    errors = cube.std_error.values
    assert (errors[:, design.is_sampled] > 0).all()
    assert (errors[:, ~design.is_sampled] == 0).all()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        few = local(chain(9), 3, n_permutations=8)
        cube = dshap.explain(value, rows, design=few, progress=False)
    np.testing.assert_array_equal(np.isnan(cube.std_error.values).all(axis=(0, 2)), few.is_sampled)
    assert [str(each.message) for each in caught if "std_error is NaN" in str(each.message)] == [
        "std_error is NaN: n_permutations=8 is too few for standard errors: give 100 or more"
    ]


def test_learned_values_take_graphs_too(rng, tmp_path):
    """A value function that learns, on two coalition tiles; prepared states know the design
    again."""
    x = rng.normal(size=(200, 5))
    value = dshap.values.ConditionalRegression(
        predict, x, dshap.kernels.RBF(1.0), dshap.kernels.Nystrom(20), 1e-3
    )
    design = connected(chain(5), None, coefficients="boundary")
    cube = dshap.explain(value, x[:6], design=design, progress=False, coalition_tile=6)
    prepared = dshap.prepare(value, x, design, tmp_path / "states", progress=False)
    again = dshap.explain(dshap.open_prepared(tmp_path / "states", value), x[:6], progress=False)
    np.testing.assert_allclose(again.attribution.values, cube.attribution.values, rtol=1e-9)
    assert prepared.method.design == design
    np.testing.assert_allclose(
        (cube.attribution.sum("feature") + cube.base_value).values,
        cube.prediction.values,
        atol=1e-10,
    )


@pytest.mark.parametrize("name", ["local", "local, sampled", "connected", "myerson"])
def test_sums_without_the_values_are_those_of_the_values(name, expansion, table):
    """A value function that may know a shorter way to Σ_S v_S score_S, beside one that has none."""
    design = MAKERS[name](chain(table.shape[1]))
    direct = dshap.explain(
        dshap.values.KernelInterventional(expansion, table),
        table[:6],
        design=design,
        progress=False,
    )
    plain = dshap.explain(
        dshap.values.Marginal(expansion.predict, table), table[:6], design=design, progress=False
    )
    np.testing.assert_allclose(direct.attribution.values, plain.attribution.values, atol=1e-9)


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("name", ["local, sampled", "connected, boundary", "connected_regression"])
def test_two_workers_give_the_same_bits(name, client, rng, tmp_path):
    """Each makes its own list; coalitions in tiles of ten, and in two groups."""

    def predict(x):
        return np.tanh(x.sum(axis=1)) + np.prod(1 + x / 3, axis=1)

    value, rows = dshap.values.Marginal(predict, rng.normal(size=(2, 9))), rng.normal(size=(40, 9))
    design = MAKERS[name](grid(3, 3))
    options = {"instance_tile": 16, "coalition_tile": 10, "coalition_groups": 2, "progress": False}
    shared = dshap.explain(
        value, rows, design=design, client=client, store=tmp_path / "shared.zarr", **options
    )
    alone = dshap.explain(value, rows, design=design, store=tmp_path / "alone.zarr", **options)
    for variable in shared.data_vars:
        np.testing.assert_array_equal(shared[variable].values, alone[variable].values)
