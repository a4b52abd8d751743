"""Which place a reason has, stated only if it is certain.

Codes are ordered by their estimated values.  Let c_A be the true value of code A, ĉ_A its estimate,
and s_AB the standard error of ĉ_A − ĉ_B from R jackknife groups.  For two codes, or a code and 0,
the statement "A is larger than B" is made where

    ĉ_A − ĉ_B > t · s_AB,     t = t_{R−1}(1 − α/M),     M = C (C + 1)/2,

with t_{R−1} the quantile of Student's distribution and M the number of pairs among C codes and 0.
Of each pair at most one direction is wrong, and it is stated with a probability of at most α/M, so
that with probability 1 − α or more no statement about a row is wrong (Bonferroni; the pairs may
depend on each other in any way, as they do, having the coalitions in common).  Conclusions from
right statements are right: "A is larger than B" and "B is larger than C" imply "A is larger than C".

The place of a code then is between 1 + (codes that are stated to be larger) and C − (codes that are
stated to be smaller).  If both ends are one number the place is stated, and all stated places of a
row are right together with probability 1 − α or more.  Otherwise the code cannot be distinguished
from its neighbours.  Ranges of ranks from simultaneous intervals of all differences are those of
Klein, Wright and Wieczorek, A joint confidence region for an overall ranking of populations (JRSS
C, 2020).

Without standard errors (exact methods) s = 0: every difference beyond rounding is certain, and codes
whose values are equal to rounding share their places.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap.core.records import BoolArray, FloatArray

ALPHA = 0.05
"""The probability, at most, that a stated place of a row is wrong."""


class Places(NamedTuple):
    """The places of codes in the order of their values, the largest first; arrays (n, C)."""

    first: NDArray[np.int64]
    """The smallest place that the data allow, from 1 on; 0 for codes that are not compared."""
    last: NDArray[np.int64]
    """The largest place that the data allow."""
    is_reason: BoolArray
    """Whether the value is certain to be above 0."""

    @property
    def is_certain(self) -> BoolArray:
        """Whether the place is certain."""
        return self.first == self.last


def factor_of_pairs(n_codes: int, n_replicates: int) -> float:
    """t: how many standard errors two codes must be apart, for all pairs of C codes and 0 at once."""
    n_pairs = n_codes * (n_codes + 1) // 2
    return float(scipy.special.stdtrit(max(n_replicates - 1, 1), 1 - ALPHA / n_pairs))


def reason_places(
    values: FloatArray,
    errors: FloatArray | None,
    n_replicates: int,
    rounding: FloatArray,
    takes_part: BoolArray,
) -> Places:
    """The places of codes among the compared codes of a row.

    Parameters
    ----------
    values : (n, C), the estimated values; larger is a stronger reason
    errors : (n, C, C), the standard errors of their differences, on the diagonal of each value; None
        if values are exact; NaN if errors are not known, so that nothing is certain
    n_replicates : R, the number of jackknife groups
    rounding : (n,), differences up to this size are rounding
    takes_part : (n, C), False for codes that are left out, such as those whose undoing contradicts
    """
    n, n_codes = values.shape
    with_zero = np.concatenate([values, np.zeros((n, 1))], axis=1)
    difference = with_zero[:, :, None] - with_zero[:, None, :]  # (n, C + 1, C + 1)
    least = np.broadcast_to(rounding[:, None, None], difference.shape)
    if errors is not None:
        apart = np.zeros(difference.shape)
        apart[:, :-1, :-1] = errors
        of_one = np.diagonal(errors, axis1=1, axis2=2)
        apart[:, -1, :-1] = of_one
        apart[:, :-1, -1] = of_one
        least = np.fmax(least, factor_of_pairs(n_codes, n_replicates) * apart)
        least = np.where(np.isnan(apart), np.inf, least)
    is_larger = difference > least
    # A above B and B above C are both right, or the bound on all pairs is broken: A is above C.
    for middle in range(n_codes + 1):
        is_larger |= is_larger[:, :, middle, None] & is_larger[:, None, middle, :]
    is_reason = is_larger[:, :-1, -1] & takes_part
    among = is_larger[:, :-1, :-1] & takes_part[:, :, None] & takes_part[:, None, :]
    first = np.where(takes_part, 1 + among.sum(axis=1), 0)
    last = np.where(takes_part, takes_part.sum(axis=1)[:, None] - among.sum(axis=2), 0)
    return Places(first, last, is_reason)
