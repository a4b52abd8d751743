"""Made-up models of texts with interactions of every order, and Shapley values of one text from the
definition."""

from __future__ import annotations

import numpy as np

from tests.values.oracles import shapley

N_TOKENS, PADDING = 12, 0
RNG = np.random.default_rng(20)
EFFECT, ODD = RNG.normal(size=(N_TOKENS, 9)), RNG.normal(size=N_TOKENS)
EFFECT[PADDING] = 0.3  # padding is seen by the model, so that a wrong one shows


def scores(ids: np.ndarray) -> np.ndarray:
    """(n,): a product over all positions, so that all of them interact, and sums that depend on the
    order."""
    assert ids.dtype == np.int64
    assert ids.ndim == 2
    place = np.arange(ids.shape[1]) % 9
    effects = EFFECT[ids, place]  # (n, width)
    return (
        np.prod(1.0 + 0.4 * effects, axis=1)
        + np.tanh(effects.sum(axis=1))
        + ODD[ids[:, 0]] * ODD[ids[:, -1]]
    )


def chances(ids: np.ndarray) -> np.ndarray:
    """(n, 2): probabilities of two classes."""
    chance = 1.0 / (1.0 + np.exp(-scores(ids)))
    return np.column_stack([1.0 - chance, chance])


def two_outputs(ids: np.ndarray) -> np.ndarray:
    """(n, 2)"""
    return np.column_stack([scores(ids), np.cos(scores(ids))])


def texts_of(lengths: list[int], seed: int = 1) -> list[list[int]]:
    """Texts without padding."""
    rng = np.random.default_rng(seed)
    return [rng.integers(1, N_TOKENS, n).tolist() for n in lengths]


def padded(ids: list[int], width: int | None) -> np.ndarray:
    out = np.full(width or len(ids), PADDING, np.int64)
    out[: len(ids)] = ids
    return out


def brute_force(
    predict, text: list[int], others: list[list[int]], width: int | None = None, link=None
) -> np.ndarray:
    """Shapley values (d, k) of one text by all coalitions; `others` are what absent tokens are
    taken from, one after the other, padding where they have ended."""
    d = len(text)
    full = predict(padded(text, width)[None])[0]

    def worth(present: frozenset[int]) -> np.ndarray:
        mixes = []
        for other in others:
            at = [*other, *[PADDING] * d][:d]
            mixes.append(padded([text[i] if i in present else at[i] for i in range(d)], width))
        mean = predict(np.array(mixes)).mean(axis=0)
        return mean if link is None else link(mean, full)

    return shapley(worth, d)
