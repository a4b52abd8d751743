"""The errors of a model that answers differently when it is asked again.

Each coalition is asked twice: the value is (a + b)/2, and (a − b)/2 has the same variance as its noise.  φ is linear in
the values, so R sums of these halves with random signs, each time dealt anew to the coalitions of a tile (a player's φ
hangs on a few of them, too few to tell a variance by), over √R, are replicates beside those of the design.  The model's
answers for a row itself and for the background weigh more than any coalition and cost little: they are asked for R
times.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dshap.blocks import EMPTY, FULL, N_ENDS, CoalitionBlock
from dshap.designs.jackknife import N_REPLICATES
from dshap.records import FloatArray
from dshap.types import Design

__all__ = ["N_REPLICATES", "add_noise", "asked_often", "no_noise", "with_noise"]

STREAM = 0x6E6F697365


def asked_often(predict: Callable[[FloatArray], FloatArray], rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The mean (n, k) of R answers, and their deviations (R, n, k), whose squares sum to the variance of the mean."""
    answers = np.stack([predict(rows) for _ in range(N_REPLICATES)])
    mean = answers.mean(axis=0)
    return mean, (answers - mean) / np.sqrt(N_REPLICATES * (N_REPLICATES - 1))


def no_noise(n: int, d: int, k: int) -> FloatArray:
    """Sums (R, n, d, k) over no coalition."""
    return np.zeros((N_REPLICATES, n, d, k))


def add_noise(sums: FloatArray, halves: FloatArray, block: CoalitionBlock, start: int) -> None:
    """Add Σ_S ±score_S half/√R of the coalitions start… of a design, halves (n, m, k), to sums (R, n, d, k).

    Signs and deals are the same for all rows, so that sums over rows have their errors too.
    """
    rng, m = np.random.default_rng([STREAM, start]), len(block.score)
    for group in sums:
        signed = block.score * np.where(rng.random(m) < 0.5, -1.0, 1.0)[:, None] / np.sqrt(N_REPLICATES)
        group += np.matmul(signed.T, halves[:, rng.permutation(m)])


def with_noise(design: Design, phi: FloatArray, sums: FloatArray, ends: FloatArray) -> FloatArray:
    """Replicates (R, n, d, k) of phi (n, d, k), from sums (R, n, d, k) of the proper coalitions and deviations
    (R, n, 2, k) of the two ends."""
    score = design.block(EMPTY, N_ENDS).score
    parts = (
        design.finish(group + np.matmul(score.T, end), end[:, EMPTY], end[:, FULL])
        for group, end in zip(sums, ends, strict=True)
    )
    return phi + np.stack(list(parts))
