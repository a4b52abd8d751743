"""Texts of the experiments as tokens, read where they lie, and the sentence of the paper."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = [
    "SENTENCE",
    "Reviews",
    "imdb",
    "made_up_reviews",
    "texts_of_csv",
    "tokens_of",
    "vocabulary_of",
    "words_of",
]

IntArray = NDArray[np.int64]
SENTENCE = "It is not heartwarming or entertaining. It just sucks."
PADDING, UNKNOWN = "<padding>", "<unknown>"
"""The words of tokens 0 and 1."""
LONGEST = 400
"""Tokens that are kept of a review, its last ones."""


@dataclass(frozen=True)
class Reviews:
    """Texts of two classes as tokens (n, longest), padded at the end."""

    words: tuple[str, ...]
    """Of the tokens, in their order."""
    x_train: IntArray
    y_train: IntArray
    x_test: IntArray
    y_test: IntArray
    classes: tuple[str, ...] = ("negative", "positive")


def words_of(text: str) -> list[str]:
    """Words of a text in small letters, without tags."""
    return re.findall(r"[a-z0-9]+(?:'[a-z]+)?", re.sub(r"<[^>]*>", " ", text.lower()))


def vocabulary_of(texts: Iterable[list[str]], size: int) -> tuple[str, ...]:
    """Padding, the unknown word, and the most frequent words, `size` in all; equally frequent ones
    by the alphabet."""
    counts = Counter(word for words in texts for word in words)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return (PADDING, UNKNOWN, *ranked[: size - 2])


def tokens_of(texts: Sequence[list[str]], words: Sequence[str], longest: int = LONGEST) -> IntArray:
    """(n, longest): the last words of each text as tokens, padded at the end; a text of no word is
    an unknown one."""
    token = {word: position for position, word in enumerate(words)}
    out = np.zeros((len(texts), min(longest, max(map(len, texts)))), dtype=np.int64)
    for row, text in zip(out, texts, strict=True):
        kept = text[-longest:]
        row[: len(kept) or 1] = [token.get(word, 1) for word in kept] or [1]
    return out


def imdb(folder: Path, n_words: int = 5_000, longest: int = LONGEST) -> Reviews:
    """IMDB of imdb_reviews.parquet: 25,000 reviews to train on and 25,000 to test."""
    table = pd.read_parquet(folder / "imdb_reviews.parquet", columns=["split", "label", "text"])
    of_split = {name: table[table["split"] == name] for name in ("train", "test")}
    texts = {name: [words_of(text) for text in part["text"]] for name, part in of_split.items()}
    labels = {name: part["label"].to_numpy(np.int64) for name, part in of_split.items()}
    return _reviews(texts, labels, n_words, longest)


def texts_of_csv(folder: Path, n_words: int = 5_000, longest: int = LONGEST) -> Reviews:
    """Texts of train.csv and test.csv, whose first column is the class from 1; the other columns
    are one text."""
    tables = {
        name: pd.read_csv(folder / f"{name}.csv", header=None, na_filter=False)
        for name in ("train", "test")
    }
    labels = {name: table[0].to_numpy(np.int64) - 1 for name, table in tables.items()}
    texts = {
        name: [
            words_of(" ".join(map(str, row))) for row in table.iloc[:, 1:].itertuples(index=False)
        ]
        for name, table in tables.items()
    }
    names, n_classes = folder / "classes.txt", 1 + max(int(each.max()) for each in labels.values())
    classes = (
        names.read_text().split("\n")[:n_classes]
        if names.exists()
        else map(str, range(1, n_classes + 1))
    )
    return _reviews(texts, labels, n_words, longest, tuple(classes))


def made_up_reviews(n: int, seed: int = 0) -> Reviews:
    """Sentences of 4 to 12 words with "good", "bad" or "not" before them: n to train on, n to
    test."""
    rng = np.random.default_rng(seed)
    others = np.array([*SENTENCE.lower().replace(".", "").split(), "film", "plot", "actor"])
    texts, labels = [], rng.integers(0, 2, 2 * n)
    for label in labels:
        is_turned = rng.random() < 0.3
        said = ["not"] * is_turned + [("bad", "good")[label ^ is_turned]]
        text = rng.choice(others[others != "not"], rng.integers(3, 11)).tolist()
        at = int(rng.integers(0, len(text) + 1))
        texts.append([*text[:at], *said, *text[at:]])
    return _reviews(
        {"train": texts[:n], "test": texts[n:]}, {"train": labels[:n], "test": labels[n:]}, 40
    )


def _reviews(
    texts: dict[str, list[list[str]]],
    labels: dict[str, IntArray],
    n_words: int,
    longest: int = LONGEST,
    classes: tuple[str, ...] = ("negative", "positive"),
) -> Reviews:
    words = vocabulary_of(texts["train"], n_words)
    x_train, x_test = (tokens_of(texts[name], words, longest) for name in ("train", "test"))
    return Reviews(words, x_train, labels["train"], x_test, labels["test"], classes)
