"""How far the rankings of several explanations agree with that of the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.rankings import Ranking, features_of, places_of
from dshap.core.agreement import ndcg, spearman
from dshap.core.records import FloatArray


@dataclass(frozen=True)
class RankingAgreement:
    """The rankings of e explanations over the same d features; a feature without a value has 0."""

    features: tuple[str, ...]
    """By mean |attribution| of the first explanation, largest first."""
    worths: FloatArray
    """(e, d): mean |attribution|."""
    places: NDArray[np.int64]
    """(e, d): the place of each feature, from 1."""
    ndcg: tuple[float, ...]
    """(e,): nDCG with the mean |attributions| of the first explanation as worths."""
    spearman: tuple[float, ...]
    """(e,): Spearman's correlation with the ranking of the first explanation."""


def ranking_agreement(given: Sequence[Ranking]) -> RankingAgreement:
    """Compare each of these rankings with the first."""
    names = features_of(given)
    worths = np.array([[each.magnitude.get(name, 0.0) for name in names] for each in given])
    return RankingAgreement(
        features=tuple(names),
        worths=worths,
        places=np.array([places_of(each) for each in worths]),
        ndcg=tuple(ndcg(worths[0], each) for each in worths),
        spearman=tuple(spearman(worths[0], each) for each in worths),
    )
