"""The arrays of codes in a cube: standard errors of their differences, and values without each.

The value of a code is the sum of its players' attributions, c_A = Σ_{i ∈ A} φ_i, which any reader of
a cube can add up.  Its error does not follow from theirs, since the errors of the players of one row
depend on each other: all come from the same coalitions.  A jackknife group left out gives every
player at once, so that sums and differences have replicates of their own,

    c_A(g) = Σ_{i ∈ A} φ_i(g),    se²(c_A − c_B) = Σ_g [(c_A(g) − c_B(g)) − (c_A − c_B)]²,

the formula of each attribution for another linear form of them.  Both are computed while the
replicates of a block are there, and C² numbers a row are stored of its R · d replicates.
"""

from __future__ import annotations

import numpy as np

from dshap.core.blocks import Attribution
from dshap.core.code_groups import code_members
from dshap.core.records import FloatArray
from dshap.cube.layout import CubeLayout


def code_errors(phi: FloatArray, replicates: FloatArray, members: FloatArray) -> FloatArray:
    """Standard errors (n, C, C, k) of the differences of codes, on the diagonal of each code.

    Parameters
    ----------
    phi : (n, d, k)
    replicates : (R, n, d, k), phi_(g) of `Design.replicates`
    members : (d, C), 1 if a player belongs to a code
    """
    n, _, k = phi.shape
    n_codes = members.shape[1]
    total = np.zeros((n, n_codes, n_codes, k))
    own = np.arange(n_codes)
    of_one = np.zeros((n, n_codes, k))
    # one replicate after the other: all differences at once would take R times the memory
    for replicate in replicates:
        moved = np.matmul(members.T, replicate - phi)  # (n, C, k)
        total += np.square(moved[:, :, None] - moved[:, None, :])
        of_one += np.square(moved)
    total[:, own, own] = of_one
    return np.sqrt(total, out=total)


def code_arrays(layout: CubeLayout, attribution: Attribution) -> dict[str, FloatArray]:
    """Variable -> the values of the explained rows, of those that the layout has for codes."""
    found = {}
    if layout.has_code_errors and attribution.replicates is not None:
        members = code_members(layout.codes, layout.players)
        found["reason_code_error"] = code_errors(attribution.phi, attribution.replicates, members)
    if layout.undoes_codes and attribution.undone is not None:
        found["reason_code_undone"] = attribution.undone
    return found
