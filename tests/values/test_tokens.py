"""The value function of texts, asked by itself."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dshap.core.capabilities import is_of_texts
from dshap.core.errors import InputError, PredictError
from dshap.predictors.token_function import TokenFunction, by_length
from dshap.values import Marginal, Tokens
from tests.attributors.texts import N_TOKENS, chances, texts_of, two_outputs

MASKS = np.array([[True, False, True], [False, False, True], [False, True, False]])


def test_absent_tokens_become_the_reference():
    game = Tokens(two_outputs, N_TOKENS, reference=4).of_length(3)
    values = game.evaluate(game.prepare(MASKS), np.array([[7.0, 8.0, 9.0]]))
    assert_allclose(values[0], two_outputs(np.array([[7, 4, 9], [4, 4, 9], [4, 8, 4]])), atol=1e-15)


def test_absent_tokens_become_those_of_other_texts():
    """One text has ended at the third position, and one is longer than the text itself."""
    game = Tokens(two_outputs, N_TOKENS, background=[[1, 2], [3, 4, 5, 6]]).of_length(3)
    values = game.evaluate(game.prepare(MASKS[2:]), np.array([[7.0, 8.0, 9.0]]))
    assert_allclose(
        values[0, 0], two_outputs(np.array([[1, 8, 0], [3, 8, 5]])).mean(axis=0), atol=1e-15
    )
    assert_allclose(
        game.mean_prediction(),
        two_outputs(np.array([[1, 2, 0], [3, 4, 5]])).mean(axis=0),
        atol=1e-15,
    )


def test_it_is_marginal_on_texts_of_one_length():
    others = np.array(texts_of([4, 4, 4], seed=5))
    rows, masks = (
        np.array(texts_of([4, 4], seed=6), float),
        np.random.default_rng(0).random((6, 4)) < 0.5,
    )
    game = Tokens(two_outputs, N_TOKENS, background=others.tolist()).of_length(4)
    plain = Marginal(lambda rows: two_outputs(rows.astype(np.int64)), others.astype(float))
    assert_array_equal(
        game.evaluate(game.prepare(masks), rows), plain.evaluate(plain.prepare(masks), rows)
    )


def test_predict_gets_padded_ids_of_one_width_and_never_too_many():
    seen: list[tuple[int, ...]] = []

    def watching(ids):
        seen.append(ids.shape)
        assert ids.dtype == np.int64
        return two_outputs(ids)

    game = Tokens(watching, N_TOKENS, longest=6, buffer_rows=2).of_length(3)
    game.evaluate(game.prepare(MASKS), np.array([[7.0, 8.0, 9.0]]))
    assert {width for _, width in seen} == {6}
    assert max(n for n, _ in seen) <= 2


def test_predict_of_any_length_gets_no_padding():
    seen: list[np.ndarray] = []

    def watching(ids):
        seen.append(ids)
        return two_outputs(ids)

    model = TokenFunction(watching, np.ones((1, 3)), 0, None, output_names=None, buffer_rows=8)
    rows = np.array([[1, 2, np.nan], [3, np.nan, np.nan], [4, 5, np.nan]])
    found = model(rows)
    assert [ids.tolist() for ids in seen[1:]] == [[[3]], [[1, 2], [4, 5]]]
    assert_array_equal(found, np.concatenate([two_outputs(np.array([[1, 2]])), two_outputs(np.array([[3]])),
                                              two_outputs(np.array([[4, 5]]))]))  # fmt: skip


def test_rows_are_padded_by_the_id_of_padding():
    model = TokenFunction(two_outputs, np.ones((1, 3)), 7, 4, output_names=None, buffer_rows=8)
    found = model(np.array([[1, 2, np.nan], [3, 4, 5]]))
    assert_array_equal(found, two_outputs(np.array([[1, 2, 7, 7], [3, 4, 5, 7]])))


def test_rows_by_their_length():
    rows = np.array([[1, 2, np.nan], [3, np.nan, np.nan], [4, 5, np.nan]])
    assert [(length, at.tolist()) for length, at in by_length(rows)] == [(1, [1]), (2, [0, 2])]


def test_what_it_is():
    value = Tokens(chances, N_TOKENS, output_names=["bad", "good"])
    assert is_of_texts(value)
    assert not is_of_texts(Marginal(lambda rows: rows[:, 0], np.ones((1, 2))))
    assert repr(value) == "Tokens(outputs: bad, good)"
    assert value.of_length(5).players.names == ("0", "1", "2", "3", "4")


def test_its_fingerprint_tells_what_changes_a_value():
    makes = [{}, {"padding": 1}, {"reference": 2}, {"background": [[2]]}, {"background": [[2, 3]]}, {"longest": 9},
             {"vocabulary": None}, {"link": "log_odds"}]  # fmt: skip
    prints = [
        str(Tokens(chances, **{"vocabulary": N_TOKENS, **given}).of_length(4).fingerprint())
        for given in makes
    ]
    assert len(set(prints)) == len(makes)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"predict": chances(np.ones((1, 2), np.int64))}, "predict is a ndarray"),
        ({"reference": 12}, "reference is 12: give a token id 0 to 11"),
        ({"reference": 1, "background": [[1]]}, "leave one out"),
        ({"background": []}, "background is"),
        ({"background": "ab"}, "background is 'ab'"),
        ({"background": [[1], [99]]}, "background text 1: token id 99 is outside the vocabulary"),
        ({"background": [[1], []]}, "background text 1: the text is empty"),
        ({"longest": 0}, "longest is 0"),
        ({"link": "no"}, "link 'no'"),
        ({"buffer_rows": 0}, "buffer_rows is 0"),
    ],
)
def test_wrong_options_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        Tokens(**{"predict": chances, "vocabulary": N_TOKENS, **given})


def test_a_predict_function_that_fails_is_refused_at_once():
    with pytest.raises(PredictError, match="failed"):
        Tokens(lambda ids: ids.nothing, N_TOKENS)
    with pytest.raises(PredictError, match="gave shape"):
        Tokens(lambda ids: np.zeros(7), N_TOKENS)
