"""Vocabularies: token ids, their words, and how a text becomes ids."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError, shown
from dshap.core.floats import LARGEST_WHOLE

Ids = NDArray[np.int64]
"""(length,): the token ids of a text."""
Tokenizer = Callable[[str], Iterable[int | str]]
"""A function from a text to its tokens, as ids or as words."""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The token ids from 0, with or without their words."""

    size: int | None = None
    """The number of ids; None: not known."""
    words: tuple[str, ...] = ()
    """(size,): the word of each id; empty if they are not known."""
    padding: int = 0
    """The id that fills rows beyond the end of a text; no text contains it."""
    tokenizer: Tokenizer | None = None

    @classmethod
    def of(cls, given: Any, padding: Any, tokenizer: Tokenizer | None) -> Vocabulary:
        """Build a vocabulary from a number of ids, a list of words, a mapping word -> id, or None.

        A list is in the order of the ids; `padding` is an id or a word.
        """
        if tokenizer is not None and not callable(tokenizer):
            raise InputError(
                f"tokenizer is {shown(tokenizer)}: give a function, text -> ids or words"
            )
        size, words = _size_and_words(given)
        found = cls(size, words, tokenizer=tokenizer)
        return cls(size, words, found.id_of("padding", padding), tokenizer)

    def id_of(self, name: str, token: Any) -> int:
        """The id of a token given as an id or as a word; `name` is the option in messages."""
        if isinstance(token, str):
            if token not in self._positions:
                raise InputError(
                    f"{name} is {token!r}, which is not a word of the vocabulary: give a word of "
                    "the vocabulary, or an id"
                )
            return self._positions[token]
        try:
            found = operator.index(token)
        except TypeError:
            found = -1
        if not 0 <= found < self._end:
            raise InputError(f"{name} is {shown(token)}: give a token id {self._range}")
        return found

    def ids(self, text: Any) -> Ids:
        """The ids (length,) of a text given as ids, as words, or as a string for the tokenizer.

        Padding at its end is cut off.

        Raises
        ------
        InputError
            An id or a word outside the vocabulary, padding before the end, no token at all.
        """
        if isinstance(text, str):
            if self.tokenizer is None:
                raise InputError(
                    "it is a string, and there is no tokenizer: give tokenizer=, string -> ids or "
                    "words"
                )
            text = self.tokenizer(text)
        found = self._numbers(text)
        if (found != self.padding).any():
            length = int(np.flatnonzero(found != self.padding)[-1]) + 1
        else:
            length = 0
        found = found[:length]
        if not length:
            raise InputError("the text is empty: leave it out")
        if len(bad := found[(found < 0) | (found >= self._end)]):
            raise InputError(f"token id {bad[0]} is outside the vocabulary: ids are {self._range}")
        if len(bad := np.flatnonzero(found == self.padding)):
            raise InputError(
                f"the padding id {self.padding} is at position {bad[0]}, before the end: texts are "
                "padded only at their end; give padding= an id that no text contains"
            )
        return found

    def ids_of(self, place: str, text: Any) -> Ids:
        """The ids of a text; an error names the text's place."""
        try:
            return self.ids(text)
        except InputError as error:
            raise InputError(f"{place}: {error}") from None

    def shown(self, ids: NDArray[np.floating[Any]]) -> NDArray[Any]:
        """The words of ids (…), "" if NaN; without words, integer ids, −1 if NaN."""
        plain = np.where(np.isnan(ids), -1, ids).astype(np.int64)
        if not self.words:
            return plain
        return self._lookup[plain]

    def fingerprint(self) -> dict[str, Any]:
        """Everything about the vocabulary that changes a cube."""
        text = "\0".join(self.words).encode()
        return {
            "padding": self.padding,
            "vocabulary": self.size,
            "words": hashlib.blake2b(text, digest_size=16).hexdigest() if self.words else None,
        }

    @property
    def _end(self) -> int:
        if self.size is None:
            return LARGEST_WHOLE
        return self.size

    @property
    def _range(self) -> str:
        if self.size is None:
            return "of at least 0"
        return f"0 to {self.size - 1:,}"

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {word: position for position, word in enumerate(self.words)}

    @cached_property
    def _lookup(self) -> NDArray[Any]:
        """The words by id, with "" at index −1."""
        return np.array([*self.words, ""], dtype=np.dtypes.StringDType())

    def _numbers(self, text: Any) -> Ids:
        """A sequence of ids or words as integers; NaN counts as padding."""
        if text is None or not np.iterable(text):
            raise InputError(f"it is {shown(text)}, where a list of token ids is needed")
        tokens = text if isinstance(text, np.ndarray) else list(text)
        if len(tokens) and isinstance(tokens[0], str):
            unknown = next((word for word in tokens if word not in self._positions), None)
            if unknown is not None:
                raise InputError(
                    f"{unknown!r} is not a word of the vocabulary: let the tokenizer return the "
                    "word for unknown words"
                )
            return np.array([self._positions[word] for word in tokens], dtype=np.int64)
        try:
            numbers = np.asarray(tokens, dtype=np.float64)
        except (TypeError, ValueError):
            numbers = np.array([np.inf])
        numbers = np.where(np.isnan(numbers), self.padding, numbers)
        if numbers.ndim != 1 or not (np.abs(numbers) <= LARGEST_WHOLE).all() or (numbers % 1).any():
            raise InputError(f"it is {shown(text)}, where a list of token ids is needed")
        return numbers.astype(np.int64)


def _size_and_words(given: Any) -> tuple[int | None, tuple[str, ...]]:
    """The number of ids of a vocabulary and their words, from the given value."""
    if given is None:
        return None, ()
    if isinstance(given, Mapping):
        return _of_mapping(given)
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
        words = tuple(map(str, given))
        if len(words) and len(set(words)) == len(words):
            return len(words), words
        raise InputError(
            f"vocabulary has {len(words):,} words, {len(set(words)):,} different ones: list each "
            "once"
        )
    try:
        size = operator.index(given)
    except TypeError:
        size = 0
    if size < 1:
        raise InputError(
            f"vocabulary is {shown(given)}: give the number of token ids, the words in the order "
            "of their ids, or a "
            "mapping word -> id"
        )
    return size, ()


def _of_mapping(given: Mapping[Any, Any]) -> tuple[int, tuple[str, ...]]:
    """The size and words of a mapping word -> id; an id without a word becomes "#id"."""
    by_id = {int(position): str(word) for word, position in given.items()}
    if not by_id or min(by_id) < 0 or len(by_id) < len(given):
        raise InputError(
            "vocabulary maps words to ids: give each word a different id of at least 0"
        )
    size = 1 + max(by_id)
    return size, tuple(by_id.get(position, f"#{position}") for position in range(size))
