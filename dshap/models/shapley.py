"""The Shapley regulariser: fits with a penalty on the attributions of one player."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.attributors.player_basis import OnePlayer, PlayerLearning, PlayerTerms
from dshap.core.annotations import MatrixLike
from dshap.core.blocks import RowBlock
from dshap.core.errors import InputError
from dshap.core.floats import as_array
from dshap.core.records import FloatArray, Moments, tree_sum
from dshap.core.rows import sample_positions, spans
from dshap.core.threads import one_blas_thread
from dshap.core.types import Pass, replaced
from dshap.kernels import Embedding, Nystrom
from dshap.models.cost import player_tile
from dshap.models.expansion import FourierExpansion, KernelExpansion
from dshap.models.report import PlayerReport
from dshap.models.rows import HELD_OUT, MICRO_BLOCK, as_rows
from dshap.models.shapley_penalty import ShapleyPenalty, checked_penalty
from dshap.predictors.expansion import KernelModelLike, expansion_of
from dshap.values.terms import InterventionalTerms, ObservationalTerms, TermValue

N_LANDMARKS = 256
"""Number of landmarks of the conditional embeddings of a model that has none."""


@dataclass(frozen=True, eq=False)
class PlayerForm:
    """A Shapley penalty as a quadratic form in a model's weights: strength · wᵀ train w.

    The model is f = c + Φw.
    """

    penalty: ShapleyPenalty
    player: str
    n_coalitions: int
    train: FloatArray
    """(p, p): mean of ζζᵀ over the training rows, in the whitened features."""
    held_out: FloatArray | None
    """(p, p): mean of ζζᵀ over the held-out rows; None if there are none."""

    @property
    def ridge(self) -> FloatArray:
        """(p, p): the penalty's term in the system of a fit, for each training row."""
        return self.penalty.strength * self.train

    def at(self, strength: float) -> PlayerForm:
        """The form for another strength."""
        return replace(self, penalty=replace(self.penalty, strength=strength))

    def report(self, weights: FloatArray) -> PlayerReport:
        """The mean squared attributions of a model with weights (p, k)."""
        train = _quadratic(self.train, weights)
        held_out = None
        if self.held_out is not None:
            held_out = _quadratic(self.held_out, weights)
        penalty = self.penalty
        return PlayerReport(
            self.player, penalty.value, penalty.strength, self.n_coalitions, train, held_out
        )


@dataclass(frozen=True, eq=False)
class PlayerSquares:
    """The pass that computes the `PlayerForm` of a fit."""

    step: Any
    """The `TunedRidge` or `LogisticStep` that follows."""
    player: str
    strengths: tuple[float, ...] | None
    """Strengths to fit; None: the one of the model."""
    terms: PlayerTerms
    wants = ("target",)

    def partial(self, block: RowBlock) -> Moments:
        """Σζζᵀ and the number of rows, for training rows and for held-out rows."""
        model = self.step.model
        x = block.x
        roles = model.roles_of(block)
        with one_blas_thread():
            train = self._gram(x[roles < HELD_OUT])
            held_out = self._gram(x[roles == HELD_OUT])
        counts = [
            np.array(float((roles < HELD_OUT).sum())),
            np.array(float((roles == HELD_OUT).sum())),
        ]
        return Moments(
            dict(
                zip(
                    ("train", "held_out", "n_train", "n_held_out"),
                    (train, held_out, *counts),
                    strict=True,
                )
            )
        )

    def _gram(self, rows: FloatArray) -> FloatArray:
        features = self.step.features
        out = np.zeros((features.size, features.size))
        for start in range(0, len(rows), MICRO_BLOCK):
            zeta = features.subset.whitened(self.terms(rows[start : start + MICRO_BLOCK]))
            out += zeta.T @ zeta
        return out

    def finish(self, total: Moments) -> Pass:
        n_held_out = float(total["n_held_out"])
        form = PlayerForm(
            self.step.model.shapley,
            self.player,
            len(self.terms.coalitions.score) + 2,
            total["train"] / float(total["n_train"]),
            total["held_out"] / n_held_out if n_held_out else None,
        )
        step = replace(self.step, form=form)
        found: Pass = step if self.strengths is None else step.along(self.strengths)
        return found


def regularised(
    step: Any,
    sample: FloatArray,
    names: Sequence[str] | None,
    strengths: tuple[float, ...] | None = None,
) -> Pass:
    """The passes that compute the `PlayerForm`, followed by the pass `step` of the fit.

    sample (n, columns) of the rows.

    Raises
    ------
    InputError
        A player that does not exist.
    """
    model = step.model
    features = step.features
    unit = _with_unit_weights(features.expansion(np.zeros((features.size, 1)), np.zeros(1), None))
    is_real = features.basis.dtype is np.float64
    if is_real:
        embedding = Nystrom(landmarks=features.anchors)
    else:
        embedding = model.embedding
    terms = _Terms.of(model.shapley, unit, embedding, sample, names)
    then = partial(PlayerSquares, step, terms.player.name, strengths)
    tile = player_tile(model.shapley, model.embedding, unit.n_columns)
    return PlayerLearning(terms.value, terms.player.coalitions, tile, model.training_rows, then)


def mean_squared_attribution(
    model: KernelModelLike, rows: MatrixLike, data: MatrixLike, penalty: ShapleyPenalty
) -> FloatArray:
    """Measure how much a fitted kernel model relies on one player: the mean of φ_A(x)².

    It is the term that a `ShapleyPenalty` makes small, divided by its strength.

    Parameters
    ----------
    model : KernelRidge, KernelLogistic or an expansion
        A fitted model.
    rows : (n, columns) array or table
        Rows over which φ_A(x)² is averaged.
    data : (b, columns) array or table
        The background of interventional values, or the rows from which observational values are
        learned.
    penalty : ShapleyPenalty
        The player, the kind of values and how they are computed; `strength` is not used.

    Returns
    -------
    array (k,)
        The mean for each output, in squared units of the output.

    Raises
    ------
    InputError
        The model is no kernel model, the player does not exist, or rows contain NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = dshap.models.KernelRidge(penalty=1e-3, embedding=dshap.kernels.Nystrom(20))
    >>> fitted = model.fit(x, x[:, 0])
    >>> penalty = dshap.models.ShapleyPenalty(player=1, strength=1.0)
    >>> size = dshap.models.mean_squared_attribution(fitted, x, x, penalty)
    >>> bool(size[0] < 0.01)  # the target does not depend on the second column
    True
    """
    phi = player_attributions(model, rows, data, penalty)
    return np.asarray(np.square(phi).mean(axis=0))


def player_attributions(model: Any, rows: Any, data: Any, penalty: ShapleyPenalty) -> FloatArray:
    """φ_A(x) (n, k) of a penalty's player, for a fitted kernel model.

    See `mean_squared_attribution`.
    """
    expansion: Any = expansion_of(model)
    x = numbers_of(expansion, rows, "rows")
    terms = learned_terms(model, data, penalty)
    with one_blas_thread():
        zeta = (terms(x[start : start + MICRO_BLOCK]) for start in range(0, len(x), MICRO_BLOCK))
        return np.concatenate([(each @ expansion.coefficients).real for each in zeta])


def learned_terms(model: Any, data: Any, penalty: ShapleyPenalty) -> PlayerTerms:
    """ζ of a penalty's player in the terms of a kernel model, learned from data (b, columns)."""
    expansion: Any = expansion_of(model)
    penalty = checked_penalty(penalty)
    x = numbers_of(expansion, data, "data")
    if penalty.value == "observational" and len(expansion.parts) > 1:
        raise InputError(
            "observational values of a sum of models have no one kernel to embed: give one model"
        )
    embedding = _embedding_of(model, expansion, x)
    unit = expansion.mapped(_with_unit_weights)
    terms = _Terms.of(penalty, unit, embedding, x, expansion.feature_names, expansion.coefficients)
    tile = player_tile(penalty, embedding, expansion.n_columns)
    found: Any = PlayerLearning(terms.value, terms.player.coalitions, tile, _all_rows, _as_it_is)
    blocks = [
        RowBlock(start, x[start:stop], np.ones(stop - start, dtype=bool))
        for start, stop in spans(0, len(x))
    ]
    with one_blas_thread():
        while isinstance(found, Pass):
            found = found.finish(tree_sum(found.partial(block) for block in blocks))
    learned: PlayerTerms = found
    return learned


def numbers_of(expansion: Any, given: Any, noun: str) -> FloatArray:
    """Rows (n, columns) for an expansion; InputError if they are empty or contain NaN."""
    x = as_rows(as_array(noun, given), expansion.n_columns, expansion.feature_names)
    if not len(x):
        raise InputError(f"{noun} of shape {x.shape} contain no row: give one at least")
    if not (is_ok := np.isfinite(x).all(axis=1)).all():
        raise InputError(
            f"{(~is_ok).sum()} of {len(x)} {noun} contain NaN or infinity, the first is row "
            f"{is_ok.argmin()}: drop them"
        )
    for part in expansion.parts:
        part.check(x)
    return x


@dataclass(frozen=True, eq=False)
class _Terms:
    """The values of a model's basis functions, and the player whose attributions are wanted."""

    value: TermValue
    player: OnePlayer

    @classmethod
    def of(
        cls,
        penalty: ShapleyPenalty,
        unit: Any,
        embedding: Embedding,
        sample: FloatArray,
        names: Sequence[str] | None,
        weights: NDArray[Any] | None = None,
    ) -> _Terms:
        """Build them from an expansion `unit` whose coefficients are all 1.

        `embedding` is the model's own, `sample` (n, columns) are rows of the data, and `weights`
        (r, k) the coefficients of the model if it is fitted.
        """
        d = unit.n_columns
        player = OnePlayer.of(
            penalty.positions(d, names), d, names, penalty.most_coalitions, penalty.seed
        )
        value: Any = InterventionalTerms(unit, sample)
        if penalty.value == "observational":
            options = penalty.embedding or embedding, penalty.penalty, penalty.rank_tolerance
            value = ObservationalTerms(unit, sample, *options)
            if value.sample_size:
                value = value.chosen(value.choose(sample))
            value.weights = weights
        return cls(replaced(value, players=player.players, data=None), player)


def _with_unit_weights(part: Any) -> Any:
    """The expansion with the same terms and all coefficients 1."""
    if isinstance(part, KernelExpansion):
        return replace(
            part, weights=np.ones((part.size, 1)), intercept=np.zeros(1), output_names=None
        )
    q = part.term_frequencies
    return FourierExpansion(
        q, np.zeros(len(q)), np.ones((len(q), 1)), np.zeros(1), kernel=part.kernel
    )


def _embedding_of(model: Any, expansion: Any, data: FloatArray) -> Embedding:
    """The embedding for conditional values: the model's landmarks or features, else data rows."""
    if isinstance(expansion, KernelExpansion):
        return Nystrom(landmarks=expansion.landmarks)
    if isinstance(embedding := getattr(model, "embedding", None), Embedding):
        return embedding
    return Nystrom(landmarks=data[sample_positions(len(data), min(len(data), N_LANDMARKS), 0)])


def _quadratic(form: FloatArray, weights: FloatArray) -> FloatArray:
    """wᵀ form w (k,) of each output."""
    return np.asarray(np.einsum("pk,pq,qk->k", weights, form, weights))


def _all_rows(block: RowBlock) -> FloatArray:
    return block.x


def _as_it_is(terms: PlayerTerms) -> PlayerTerms:
    return terms
