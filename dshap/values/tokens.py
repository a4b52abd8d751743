"""Values of texts: absent tokens become a reference token, or tokens of background texts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dshap.core.annotations import TextLike
from dshap.core.errors import InputError, shown
from dshap.core.fixed_words import LinkName, Scale
from dshap.core.players import Players
from dshap.core.records import JSON, FloatArray
from dshap.core.rules import checked
from dshap.core.types import Link
from dshap.core.vocabulary import Ids, Tokenizer, Vocabulary
from dshap.predictors.token_function import TokenFunction
from dshap.values.base import PROBE_ROWS, TableValue, checked_scale
from dshap.values.links import link_of
from dshap.values.marginal import Marginal

PROBE_LENGTH = 8
"""Length of the text that predict is tried on, where it accepts any length."""


class Tokens(Marginal):
    """Interventional values of texts of any length: each token is a player.

    v_S(x) = f(x_S, r_S̄): an absent token is replaced by a reference token r.  With a background of
    texts z_b the value is the mean of f(x_S, z_b,S̄) over these texts: an absent token is replaced by
    the token of z_b at its position, or by padding if z_b is shorter.  The length of a text stays
    the same, whichever tokens are absent.

    Parameters
    ----------
    predict : callable
        token ids (n, longest) int64, padded at the end -> (n,) or (n, k).  It runs on the workers
        and must be picklable.
    vocabulary : int, sequence of str or mapping, optional
        The number of token ids, their words in the order of the ids, or a mapping word -> id.  With
        words, the cube names tokens by their words, and rows may contain words.  By default any id
        is allowed.
    padding : int or str
        The token after the end of a text.  It must not occur in a text.
    reference : int or str, optional
        The token that replaces absent tokens; `padding` by default.
    background : list of texts, optional
        Texts that replace absent tokens, instead of a reference.
    longest : int, optional
        Number of columns that predict accepts, such as 128; longer texts raise an error.  By default
        predict accepts texts of any length, and receives texts of one length at a time, without
        padding.
    tokenizer : callable, optional
        A function of a string that returns its tokens, as ids or words.  Rows may then be strings.
    column : str, optional
        The column of a table that contains the texts; by default the only column that can.
    output_names : sequence of str, optional
        See `Marginal`.
    link : str or Link, optional
        See `Marginal`; "log_probability" explains the probability of each text's predicted class.
    buffer_rows : int
        The most texts in one predict call.
    scale : str, optional
        The scale of the predictions; see `Marginal`.

    Raises
    ------
    InputError
        A token outside the vocabulary, or both a reference and a background.
    PredictError
        The predict function fails, or returns an array that is not (n,) or (n, k).  It is called
        when the object is made.

    Notes
    -----
    A prediction depends on its text and on `longest`, never on the other texts of a run.
    Source of the plug-in reference: Chen, Song, Wainwright & Jordan, L-Shapley and C-Shapley
    (2019), section 5.

    Examples
    --------
    >>> import dshap
    >>> def predict(ids):  # good words minus bad ones
    ...     return (ids == 1).sum(axis=1) - (ids == 2).sum(axis=1)
    >>> value = dshap.values.Tokens(predict, ["", "good", "bad", "film"])
    >>> cube = dshap.explain(value, [["good", "film"], ["bad", "film"]], design="exact")
    >>> cube.attribution.values[:, :, 0].round(9).tolist()
    [[1.0, 0.0], [-1.0, 0.0]]
    """

    model: TokenFunction

    def __init__(
        self,
        predict: Callable[[NDArray[np.int64]], ArrayLike],
        vocabulary: int | Sequence[str] | Mapping[str, int] | None = None,
        *,
        padding: int | str = 0,
        reference: int | str | None = None,
        background: Sequence[TextLike] | None = None,
        longest: int | None = None,
        tokenizer: Tokenizer | None = None,
        column: str | None = None,
        output_names: Sequence[str] | None = None,
        link: LinkName | Link | None = None,
        buffer_rows: int = 4_096,
        scale: Scale | None = None,
    ) -> None:
        if not callable(predict) or isinstance(predict, type):
            raise InputError(
                f"predict is {shown(predict)}: give a function, such as a model's predict_proba"
            )
        (buffer_rows, output_names) = checked(buffer_rows=buffer_rows, output_names=output_names)
        if longest is None:
            self.longest = None
        else:
            self.longest = checked(longest=longest)[0]
        if column is None:
            self.column = None
        else:
            self.column = checked(column=column)[0]
        self.vocabulary = Vocabulary.of(vocabulary, padding, tokenizer)
        if background is not None and reference is not None:
            raise InputError(
                "absent tokens become reference, or the tokens of background: leave one out"
            )
        self._reference = self.vocabulary.id_of(
            "reference", self.vocabulary.padding if reference is None else reference
        )
        self._others = self._texts_of(background)
        self.streams_data = False
        model = TokenFunction(
            predict,
            self._background_of(self.longest or max([PROBE_LENGTH, *map(len, self._others)]))[
                :PROBE_ROWS
            ],
            self.vocabulary.padding,
            self.longest,
            output_names=output_names,
            buffer_rows=buffer_rows,
            scale=checked_scale(scale),
        )
        TableValue.__init__(self, model, None, None)
        self.background = self._background_of(model.n_columns)
        self.link = link_of(link, model.output_names)
        self.link.check(model.probe)

    def __repr__(self) -> str:
        return f"Tokens(outputs: {', '.join(self.model.output_names)})"

    def of_length(self, n_tokens: int) -> Self:
        """A copy for texts of at most `n_tokens` tokens, with `n_tokens` players."""
        other = copy.copy(self)
        other.model = self.model.of_length(n_tokens)
        other.players = Players(tuple(map(str, range(n_tokens))), np.eye(n_tokens, dtype=bool))
        other.background = self._background_of(n_tokens)
        return other

    def mean_prediction(self) -> FloatArray:
        """Mean prediction f (k,) with all tokens absent, before the link."""
        assert self.background is not None
        mean: FloatArray = self.model(self.background).mean(axis=0)
        return mean

    def fingerprint(self) -> dict[str, JSON]:
        """Everything that changes a value, or the name of a token."""
        given = {"value": "tokens", "longest": self.longest, "players": len(self.players)}
        return {**super().fingerprint(), **self.vocabulary.fingerprint(), **given}

    def _texts_of(self, background: Any) -> tuple[Ids, ...]:
        """Token ids of the background texts; empty if there is a reference."""
        if background is None:
            return ()
        if isinstance(background, str) or not np.iterable(background):
            texts = []
        else:
            texts = list(background)
        if not texts:
            raise InputError(f"background is {shown(background)}: give a list of texts")
        return tuple(
            self.vocabulary.ids_of(f"background text {b}", text) for b, text in enumerate(texts)
        )

    def _background_of(self, n_columns: int) -> FloatArray:
        """(b, columns): the tokens that absent ones become, at each position."""
        if not self._others:
            return np.full((1, n_columns), float(self._reference))
        out = np.full((len(self._others), n_columns), float(self.vocabulary.padding))
        for row, ids in zip(out, self._others, strict=True):
            row[: len(ids)] = ids[:n_columns]
        return out
