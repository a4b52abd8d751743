"""Token ids, the words that they stand for, and texts that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.core.errors import InputError
from dshap.core.vocabulary import Vocabulary

WORDS = ["<pad>", "a", "good", "film"]


def test_ids_are_taken_from_anything_that_holds_them():
    vocabulary = Vocabulary.of(4, 0, None)
    for text in (
        [1, 2],
        (1, 2),
        np.array([1, 2], np.int32),
        [1.0, 2.0, np.nan],
        [1, 2, 0, 0],
        np.array([1, 2, 0]),
    ):
        ids = vocabulary.ids(text)
        assert ids.dtype == np.int64
        assert ids.tolist() == [1, 2]


@pytest.mark.parametrize(
    "given", [WORDS, tuple(WORDS), np.array(WORDS), {word: j for j, word in enumerate(WORDS)}]
)
def test_words_have_ids(given):
    vocabulary = Vocabulary.of(given, "<pad>", str.split)
    assert vocabulary.size == 4
    assert vocabulary.padding == 0
    assert (
        vocabulary.ids("a good film").tolist()
        == vocabulary.ids(["a", "good", "film"]).tolist()
        == [1, 2, 3]
    )
    shown = vocabulary.shown(np.array([[1.0, 3.0], [2.0, np.nan]]))
    assert shown.tolist() == [["a", "film"], ["good", ""]]


def test_a_tokenizer_may_give_ids():
    vocabulary = Vocabulary.of(None, 0, lambda text: [len(word) for word in text.split()])
    assert vocabulary.ids("a good film").tolist() == [1, 4, 4]
    assert vocabulary.shown(np.array([1.0, 4.0, np.nan])).tolist() == [1, 4, -1]


def test_ids_without_a_word_stand_for_themselves():
    vocabulary = Vocabulary.of({"a": 1, "film": 3}, 0, None)
    assert vocabulary.words == ("#0", "a", "#2", "film")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ([1, 4], "token id 4 is outside the vocabulary: ids are 0 to 3"),
        ([1, -1], "token id -1 is outside the vocabulary"),
        ([], "the text is empty: leave it out"),
        ([0, 0], "the text is empty"),
        ([1, 0, 2], "the padding id 0 is at position 1, before the end"),
        ([1.5], "where a list of token ids is needed"),
        ([[1, 2]], "where a list of token ids is needed"),
        (7, "it is 7, where a list of token ids is needed"),
        (None, "it is None"),
        ([1, None, 2], "the padding id 0 is at position 1"),
        ([float("inf")], "where a list of token ids is needed"),
        (["a", "bad"], "'bad' is not a word of the vocabulary"),
        ("a film", "there is no tokenizer"),
    ],
)
def test_what_is_no_text_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        Vocabulary.of(WORDS, 0, None).ids(text)
    with pytest.raises(InputError, match="row 5: "):
        Vocabulary.of(WORDS, 0, None).ids_of("row 5", text)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((0, 0, None), "vocabulary is 0: give the number of token ids"),
        (("film", 0, None), "vocabulary is 'film'"),
        ((["a", "a"], 0, None), "vocabulary has 2 words, 1 different ones"),
        (({"a": 1, "b": 1}, 0, None), "give each word a different id"),
        (({"a": -1}, 0, None), "give each word a different id"),
        ((3, 3, None), "padding is 3: give a token id 0 to 2"),
        ((3, "x", None), "padding is 'x', which is not a word of the vocabulary"),
        ((3, 0, "words"), "tokenizer is 'words': give a function"),
    ],
)
def test_what_is_no_vocabulary_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        Vocabulary.of(*given)
