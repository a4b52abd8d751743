"""Texts of different lengths in one run, against each of them explained alone by its own game."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dshap
from dshap import designs
from dshap.core.errors import DoesNotFitError, FailedBlocksError, InputError
from dshap.cube import CubeWriter, feature_ranking, is_finished, verify_cube
from dshap.engine import Plan
from dshap.run.session import IDLE_WORKER_BYTES
from dshap.values import Tokens
from tests.attributors.texts import N_TOKENS, brute_force, chances, padded, texts_of, two_outputs

pytestmark = pytest.mark.usefixtures("in_this_process")

LENGTHS = [4, 1, 6, 2, 4, 5, 1, 3, 6, 2, 7, 4]
"""Out of order, one token among them."""
TEXTS = texts_of(LENGTHS)
LONGEST = max(LENGTHS)


def explained(value, texts=TEXTS, **options):
    return dshap.explain(value, texts, progress=False, **options)


def log_of_predicted(mean: np.ndarray, full: np.ndarray) -> np.ndarray:
    return np.log(mean[[full.argmax()]])


@pytest.mark.parametrize("width", [None, LONGEST, LONGEST + 3])
@pytest.mark.parametrize("others", [None, [[5]], [[3, 7, 1], [2, 2, 9, 4, 8, 1, 1, 6]]])
def test_each_text_is_its_own_game(others, width):
    """The plug-in reference, padding or another; texts shorter and longer than those explained."""
    given = (
        {} if others is None else {"reference": 5} if others == [[5]] else {"background": others}
    )
    cube = explained(Tokens(two_outputs, N_TOKENS, longest=width, **given), design="exact")
    assert cube.sizes == {"instance": len(TEXTS), "feature": LONGEST, "output": 2}
    for row, text in enumerate(TEXTS):
        taken = [[0] * 9] if others is None else [[5] * 9] if others == [[5]] else others
        wanted = brute_force(two_outputs, text, taken, width)
        assert_allclose(cube.attribution[row, : len(text)], wanted, atol=1e-12)
        assert np.isnan(cube.attribution[row, len(text) :]).all()
        empty = [padded([*other, *[0] * 9][: len(text)], width) for other in taken]
        assert_allclose(cube.base_value[row], two_outputs(np.array(empty)).mean(axis=0), atol=1e-12)
        assert_allclose(cube.prediction[row], two_outputs(padded(text, width)[None])[0], atol=1e-12)


def test_the_logarithm_of_the_predicted_class():
    """The value of the paper, row by row of another class."""
    cube = explained(Tokens(chances, N_TOKENS, link="log_probability"), design="exact")
    for row, text in enumerate(TEXTS):
        wanted = brute_force(chances, text, [[0] * 9], link=log_of_predicted)
        assert_allclose(cube.attribution[row, : len(text)], wanted, atol=1e-12)
    classes = [chances(np.array([text]))[0].argmax() for text in TEXTS]
    assert_array_equal(cube.explained_class, classes)
    assert 0 < sum(classes) < len(classes)


GRAPHS = [
    designs.local(designs.chain(7), 1),
    designs.connected(designs.chain(7), 2, coefficients="boundary"),
    designs.connected_regression(designs.chain(3), 2),
    designs.myerson(designs.chain(1)),
]
"""Of chains of any length: each text has the chain of its own tokens."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "design", ["auto", "kernelshap", designs.permutation(4, 40), designs.kernelshap(9, 60), *GRAPHS]
)
def test_any_design_of_each_length(design):
    """As a run of the texts of that length alone, by the same design of as many players."""
    value = Tokens(two_outputs, N_TOKENS, background=texts_of([5, 8, 3], seed=2))
    cube = explained(value, design=design)
    for length in set(LENGTHS):
        rows = [row for row, text in enumerate(TEXTS) if len(text) == length]
        of_length = design if isinstance(design, str) else design.with_players(length)
        alone = explained(value, [TEXTS[row] for row in rows], design=of_length)
        assert_allclose(cube.attribution[rows, :length], alone.attribution, atol=1e-11)
        assert_allclose(cube.base_value[rows], alone.base_value, atol=1e-13)


def test_standard_errors_are_those_of_each_length_alone():
    value, design = Tokens(two_outputs, N_TOKENS), designs.permutation(2, 100)
    cube = explained(value, design=design)
    for row in (2, 10):
        alone = explained(value, [TEXTS[row]], design=design)
        assert_allclose(cube.std_error[row, : LENGTHS[row]], alone.std_error[0], atol=1e-14)
        assert (alone.std_error > 0).any()
        assert np.isnan(cube.std_error[row, LENGTHS[row] :]).all()


class Mixed(designs.PermutationDesign):
    """Orders of long texts, all coalitions of short ones: these have no replicates."""

    def with_players(self, n_players):
        return designs.exact(n_players) if n_players < 4 else Mixed(n_players, self.n_permutations)


def test_where_a_length_has_no_replicates_its_errors_are_none():
    cube = explained(Tokens(two_outputs, N_TOKENS), design=Mixed(2, 100))
    assert (cube.std_error[0, :4] > 0).any()
    assert (cube.std_error[9, :2] == 0).all()
    assert (cube.std_error[1, 0] == 0).all()


def budget(d: int):
    """Four evaluations a token."""
    return designs.kernelshap(d, 4 * d)


@pytest.mark.filterwarnings("ignore:std_error is NaN")
def test_a_function_of_the_length_is_a_design(tmp_path):
    value, store = Tokens(two_outputs, N_TOKENS), tmp_path / "cube.zarr"
    cube = explained(value, design=budget, store=store)
    for row in (2, 4):
        alone = explained(
            value, [TEXTS[row]], design=designs.kernelshap(LENGTHS[row], 4 * LENGTHS[row])
        )
        assert_allclose(cube.attribution[row, : LENGTHS[row]], alone.attribution[0], atol=1e-12)
    with pytest.raises(dshap.DshapError, match="contains a different run"):
        explained(value, design=lambda d: designs.kernelshap(d, 4 * d + 2), store=store)
    with pytest.raises(InputError, match="for 8 players it returned 3"):
        explained(value, design=lambda d: 3)
    with pytest.raises(InputError, match="design is"):
        dshap.explain(
            dshap.values.Marginal(lambda x: x[:, 0], np.zeros((1, 2))),
            np.ones((2, 2)),
            design=budget,
        )


WITHOUT_GRAPH = [
    (designs.local, {"order": 2}),
    (designs.local, {"order": 3, "n_permutations": 4, "outside": "present"}),
    (designs.connected, {"order": 1, "coefficients": "boundary"}),
    (designs.connected_regression, {"order": 2}),
    (designs.myerson, {}),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:std_error is NaN")
@pytest.mark.parametrize(("make", "options"), WITHOUT_GRAPH)
def test_a_design_without_a_graph_takes_the_chain_of_each_text(make, options, tmp_path):
    """The run of the design of a chain, of whatever length: the store of one is that of the
    other."""
    value, store = Tokens(two_outputs, N_TOKENS), tmp_path / "cube.zarr"
    cube = explained(value, design=make(**options), store=store).load()
    assert cube.equals(explained(value, design=make(designs.chain(3), **options), store=store))
    for row, text in enumerate(TEXTS):
        alone = explained(value, [text], design=make(designs.chain(len(text)), **options))
        assert_allclose(cube.attribution[row, : len(text)], alone.attribution[0], atol=1e-12)


def test_a_design_without_a_graph_is_for_texts_alone(tmp_path):
    """Of a table it would have to guess who is beside whom: one line, and nothing is written."""
    rows = np.random.default_rng(0).normal(size=(20, 3))
    value = dshap.values.ConditionalRegression(
        lambda x: x[:, 0], rows, dshap.kernels.RBF(1.0), dshap.kernels.Nystrom(5), 1e-3
    )
    said = (
        r"^design is local\(order=2\), which needs a graph, and only texts have one by default: "
        r"give dshap.designs.chain"
        r"\(3\), grid\(height, width\) or an adjacency as graph=$"
    )
    for run in (
        lambda: explained(value, rows, design=designs.local(order=2), store=tmp_path / "cube.zarr"),
        lambda: dshap.prepare(value, rows, designs.local(order=2), tmp_path / "states"),
        lambda: dshap.mse_v(value, rows, design=designs.local(order=2)),
    ):
        with pytest.raises(InputError, match=said):
            run()
    assert not any(tmp_path.iterdir())


def test_a_design_without_errors_of_short_texts_has_none_of_theirs():
    """kernelshap lists all coalitions of a short text, and samples those of a long one."""
    texts = texts_of([12, 3])
    cube = explained(Tokens(two_outputs, N_TOKENS), texts, design=designs.kernelshap(12, 120))
    assert (cube.std_error[0] > 0).all()
    assert (cube.std_error[1, :3] == 0).all()


def test_texts_that_have_not_moved_have_the_errors_of_unmet_coalitions():
    """Token 5 seven times over is worth 4, and no other text anything: 3/m times the range over the
    texts."""

    def rare(tokens):
        return 4.0 * ((tokens == 5).sum(axis=1) >= 7)

    texts = [np.array([5] * 12), np.array([5] * 6 + [1] * 6), np.array([2, 5, 2])]
    cube = explained(Tokens(rare, N_TOKENS), texts, design=designs.kernelshap(12, 120))
    assert (cube.attribution[1].values == 0).all()
    assert (cube.std_error[2, :3].values == 0).all()
    assert_allclose(cube.std_error[1], 4.0 * 3 / 120)


@pytest.mark.slow
def test_rows_keep_their_order_and_their_numbers_in_any_tiles():
    value = Tokens(two_outputs, N_TOKENS)
    whole = explained(value, design="exact")
    assert_allclose(
        explained(value, design="exact", instance_tile=1).attribution, whole.attribution, atol=1e-13
    )
    order = np.random.default_rng(3).permutation(len(TEXTS))
    turned = explained(value, [TEXTS[row] for row in order], design="exact", instance_tile=5)
    assert_allclose(turned.attribution, whole.attribution[order], atol=1e-13)
    assert_array_equal(turned.length, np.array(LENGTHS)[order])


def test_length_and_tokens_stand_in_the_cube():
    cube = explained(Tokens(two_outputs, N_TOKENS))
    assert_array_equal(cube.length, LENGTHS)
    assert cube.token.dims == ("instance", "feature")
    assert cube.token.dtype == np.int64
    assert cube.token[0].values.tolist() == [*TEXTS[0], -1, -1, -1]
    words = [f"word{token}" for token in range(N_TOKENS)]
    named = explained(
        Tokens(two_outputs, words), [[words[token] for token in text] for text in TEXTS]
    )
    assert named.token[1].values.tolist() == [words[TEXTS[1][0]], *[""] * 6]
    assert named.attribution.equals(cube.attribution)


def test_padding_takes_no_room(tmp_path):
    """Seven texts of eight are short: what is stored is as large as the attributions that there
    are."""
    texts = texts_of([*[20] * 70, *[400] * 10])
    explained(
        Tokens(two_outputs, N_TOKENS),
        texts,
        design=designs.permutation(2, 2, n_replicates=0),
        store=tmp_path,
    )
    there, padded_to = 8 * 2 * sum(map(len, texts)), 8 * 2 * len(texts) * 400
    stored = sum(
        path.stat().st_size for path in (tmp_path / "attribution").rglob("*") if path.is_file()
    )
    assert stored < 1.1 * there < 0.2 * padded_to


def test_a_padding_of_another_id():
    """The last id pads; 0 is a token like others."""

    def predict(ids):
        return two_outputs(np.where(ids == 11, 0, np.where(ids == 0, 11, ids)))

    swapped = [[0 if token == 11 else token for token in text] for text in TEXTS]
    assert any(0 in text for text in swapped)
    cube = explained(Tokens(predict, N_TOKENS, padding=11, longest=9), swapped, design="exact")
    assert cube.attribution.equals(
        explained(Tokens(two_outputs, N_TOKENS, longest=9), design="exact").attribution
    )


@pytest.mark.slow
def test_the_same_bits_on_a_cluster(client, tmp_path):
    value = Tokens(chances, N_TOKENS, background=texts_of([5, 2]), link="log_odds")
    here = explained(value, instance_tile=2)
    there = explained(value, client=client, store=tmp_path / "cube.zarr", instance_tile=2)
    assert there.load().drop_attrs().equals(here.drop_attrs())
    assert verify_cube(tmp_path / "cube.zarr") == []


def stopped_after(n_tiles, monkeypatch, run):
    """A run that is killed before it writes another tile."""
    write = CubeWriter.write

    def stopping(self, tile, block, attribution):
        if tile == n_tiles:
            raise KeyboardInterrupt
        return write(self, tile, block, attribution)

    with monkeypatch.context() as patch:
        patch.setattr(CubeWriter, "write", stopping)
        with pytest.raises(KeyboardInterrupt):
            run()


@pytest.mark.slow
def test_a_killed_run_goes_on(tmp_path, monkeypatch):
    store, value = tmp_path / "cube.zarr", Tokens(two_outputs, [f"w{j}" for j in range(N_TOKENS)])
    stopped_after(3, monkeypatch, lambda: explained(value, store=store, instance_tile=2))
    assert not is_finished(store)
    cube = explained(value, store=store, instance_tile=2)
    assert cube.load().drop_attrs().equals(explained(value, instance_tile=2).drop_attrs())
    assert verify_cube(store) == []


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore:std_error is NaN")
@pytest.mark.parametrize("options", [{}, {"n_permutations": 4, "seed": 2}])
def test_neighbours_of_texts_on_two_workers(options, client, tmp_path, monkeypatch):
    """The bits of one process: by two workers, and by two that go on where a process was killed."""
    value, resumed = (
        Tokens(chances, N_TOKENS, background=texts_of([5, 2]), link="log_odds"),
        tmp_path / "resumed.zarr",
    )
    given = {"design": designs.local(order=2, **options), "instance_tile": 2}
    here = explained(value, **given).drop_attrs()
    there = explained(value, client=client, store=tmp_path / "whole.zarr", **given)
    stopped_after(3, monkeypatch, lambda: explained(value, store=resumed, **given))
    assert not is_finished(resumed)
    later = explained(value, client=client, store=resumed, **given)
    for cube in (there, later):
        assert cube.load().drop_attrs().equals(here)
    assert verify_cube(resumed) == []


def test_damage_is_seen_and_mended(tmp_path):
    store, value = tmp_path / "cube.zarr", Tokens(two_outputs, N_TOKENS)
    explained(value, store=store, instance_tile=4)
    chunk = store / "token" / "c.0.0"
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(bytes(content))
    assert [str(damage) for damage in verify_cube(store) if "token" in str(damage)]


def test_rankings_count_what_is_there(tmp_path):
    """A position beyond the end of a text is worth nothing, and poisons no mean."""
    store = tmp_path / "cube.zarr"
    cube = explained(
        Tokens(two_outputs, N_TOKENS),
        store=store,
        instance_tile=5,
        design=designs.permutation(2, 100),
    )
    ranking = feature_ranking(store)
    assert_allclose(ranking["mean"], cube.attribution.fillna(0.0).mean("instance"), atol=1e-13)
    assert np.isfinite(ranking.mean_magnitude).all()
    assert np.isfinite(ranking.mean_magnitude_std_error).all()
    assert (ranking.residual < 1e-12).all()


def test_the_plan_counts_the_longest(tmp_path):
    """Players, coalitions and bytes of the longest text, before anything is computed; too little
    memory is refused."""
    plans = []
    for name, texts in (("short", TEXTS), ("long", [*TEXTS, texts_of([300])[0]])):
        explained(Tokens(two_outputs, N_TOKENS), texts, store=tmp_path / name, compute=False)
        plans.append(Plan.from_json((tmp_path / name / "state" / "plan.json").read_bytes()))
    short, long = plans
    assert (short.n_players, short.n_coalitions) == (LONGEST, 2**LONGEST)
    assert (long.n_players, long.n_coalitions) == (300, 2048)
    assert long.process_bytes > 2 * short.process_bytes
    limit = IDLE_WORKER_BYTES + long.process_bytes - 1
    with pytest.raises(DoesNotFitError, match="lower instance_tile"):
        explained(Tokens(two_outputs, N_TOKENS), [*TEXTS, texts_of([300])[0]], memory_limit=limit)


def test_texts_of_one_token_alone():
    cube = explained(Tokens(two_outputs, N_TOKENS), [[3], [5]])
    assert_allclose(
        cube.attribution[:, 0], two_outputs(np.array([[3], [5]])) - two_outputs(np.array([[0]]))
    )


def test_an_error_of_the_model_names_the_rows():
    def failing(ids):
        if (ids == 11).any():
            raise ValueError("no such word")
        return two_outputs(ids)

    with pytest.raises((FailedBlocksError, InputError), match="no such word"):
        explained(Tokens(failing, N_TOKENS), [[1, 2], [11, 3]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"tol": 0.1},
            "tol lets one list of coalitions grow, and texts have a list for each length",
        ),
        ({"interactions": True}, "interactions are of pairs of players"),
        ({"stochastic": True}, "stochastic is for Marginal"),
        ({"keep_rows": True}, "keep_rows keeps columns, and the cube of texts has their tokens"),
        ({"coalition_groups": 2}, "coalition_groups cuts one list of coalitions"),
        ({"missing": "skip"}, "missing is about missing values"),
        ({"design": "kriging"}, "kriging chooses from a pilot of rows that have the same players"),
        ({"design": designs.kriging(7, 40)}, "kriging chooses from a pilot"),
        ({"quality": TEXTS}, "MSE_v is a mean over one list of coalitions"),
        ({"design": "closed_form"}, "Tokens has none"),
    ],
)
def test_what_makes_no_sense_of_texts_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        explained(Tokens(two_outputs, N_TOKENS), **options)


ROWS = np.random.default_rng(0).normal(size=(8, 6))
BAD = {
    "not square": (
        lambda: designs.local(np.zeros((3, 4)), 1),
        r"adjacency of shape \(3, 4\): give a square one",
    ),
    "not symmetric": (
        lambda: designs.myerson(np.triu(np.ones((6, 6)))),
        r"not symmetric: \[0, 1\] is an edge and \[1, 0\]",
    ),
    "other players": (
        lambda: designs.connected(designs.chain(8), 1),
        "the design has 8 players, the value function 6",
    ),
    "no order": (
        lambda: designs.local(~np.eye(6, dtype=bool), 0),
        "order is 0: give a whole number of at least 1",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_graph_that_does_not_fit_is_one_line(name, tmp_path):
    make, said = BAD[name]
    value = dshap.values.Marginal(lambda rows: rows[:, 0], np.zeros((1, 6)))
    with pytest.raises(InputError, match=said) as caught:
        explained(value, ROWS, design=make(), store=tmp_path / "cube.zarr")
    assert "\n" not in str(caught.value)
    assert not any(tmp_path.iterdir())


LONG = texts_of([3, 400])
TOO_MANY = {
    "local": (
        lambda: designs.local(order=8),
        r"order 8: .* have 50,592,768 subsets, at most 2,097,152 allowed: the highest order that fits is 5; or give",
    ),
    "connected": (
        lambda: designs.connected(order=None),
        r"order None: .* have more than 1,048,576 connected coalitions, .*: the highest order that fits is \d+$",
    ),
    "grid": (
        lambda: designs.local(designs.grid(20, 20), 2),
        "order 2: .* have 2,402,560 subsets, .*the highest order that fits is 1; or give "
        "n_permutations",
    ),
    "no chain": (
        lambda: designs.local(designs.grid(20, 20), 1),
        "^the design has a graph of 400 players that is not a chain, and the graph of a text is "
        "the chain of its tokens",
    ),
}


@pytest.mark.parametrize("name", TOO_MANY)
def test_an_order_too_high_for_the_longest_text_is_refused(name, tmp_path):
    """With the number and the highest that fits, before anything is written."""
    make, said = TOO_MANY[name]
    with pytest.raises(InputError, match=said) as caught:
        explained(Tokens(two_outputs, N_TOKENS), LONG, design=make(), store=tmp_path / "cube.zarr")
    assert "\n" not in str(caught.value)
    assert not any(tmp_path.iterdir())


def test_there_is_nothing_to_prepare(tmp_path):
    with pytest.raises(
        InputError,
        match=r"Tokens learns from no rows: there is nothing to prepare; give it to dshap\.explain",
    ):
        dshap.prepare(Tokens(two_outputs, N_TOKENS), TEXTS, store=tmp_path / "states")
    assert not (tmp_path / "states").exists()


def test_another_run_is_told(tmp_path):
    """By the words, the padding, the longest text and the rows, as far as they change what the cube
    holds."""
    make, store = partial(Tokens, two_outputs), tmp_path / "cube.zarr"
    explained(make(N_TOKENS), store=store)
    assert explained(make(N_TOKENS), store=store).equals(dshap.open_cube(store))
    others = [
        make([f"w{j}" for j in range(N_TOKENS)]),
        make(N_TOKENS, reference=3),
        make(N_TOKENS, longest=7),
    ]
    for value in others:
        with pytest.raises(dshap.DshapError, match="contains a different run"):
            explained(value, store=store)
    with pytest.raises(dshap.DshapError, match="contains a different run"):
        explained(make(N_TOKENS), TEXTS[::-1], store=store)
