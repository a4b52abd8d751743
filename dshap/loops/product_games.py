"""Interventional Shapley values of product models by Gauss–Legendre quadrature, without coalitions.

A kernel model f(x) = c + Σ_r A_r Π_j k_j(x_j, z_rj) and a random-Fourier model f(x) = c + Re Σ_r
A_r Π_j e^{i ω_rj x_j} are sums of products over the players.  For one term r and one background row
b the game is a product itself, and

    φ_i = (a_i − c_i) ∫₀¹ Π_{j≠i} (t a_j + (1−t) c_j) dt

with a_j, c_j the factors of the explained and of the background row: a polynomial of degree d−1 in
t, which ⌈d/2⌉ nodes integrate exactly.  `product_game_values` accepts real factors,
`fourier_game_values` angles.

Source: the multilinear extension of a product game; published for product kernels as QuadraSHAP.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dshap.core.records import FloatArray
from dshap.loops.game_sizes import FOURIER, REAL, buffer_shape

_FAST = {"reassoc", "contract", "nsz"}

AnyArray = NDArray[Any]


@functools.lru_cache(maxsize=64)
def legendre_nodes(q: int) -> tuple[FloatArray, FloatArray]:
    """Gauss–Legendre nodes t (q,), rising, and weights (q,) on [0, 1].

    Exact for polynomials of degree 2q − 1.
    """
    s, weights = np.polynomial.legendre.leggauss(q)
    return (s + 1.0) / 2.0, weights / 2.0


def product_game_values(
    x_factors: FloatArray,
    background_factors: FloatArray,
    coefficients: FloatArray,
    q: int,
    *,
    rest: FloatArray | None = None,
    weights: FloatArray | None = None,
) -> FloatArray:
    """φ (n, d, k) of product games with real factors, by quadrature with q nodes.

    φ = Σ_b w_b Σ_r A_rk rest_br (a_i − c_i) ∫₀¹ Π_{j≠i} (t a_j + (1−t) c_j) dt.

    Parameters
    ----------
    x_factors, background_factors : (d, n, r), (d, b, r)
        a and c, one factor a player (`player_factors`); any real numbers.
    coefficients : (r, k)
        A, the model's weights; outputs cost next to nothing.
    q : int
        Nodes; an odd number costs as much as the next even one.
    rest : (b, r), optional
        Factor of the background's columns that belong to no player (`rest_factor`).
    weights : (b,), optional
        Weights of the background rows, not normalised; None: 1/b each.

    Notes
    -----
    With `exact_nodes(d)` nodes Σ_i φ_i = v(N) − v(∅) to rounding.  Prefix and suffix products need
    no division: factors may be 0.  A row's values do not depend on the other rows of the call.  The
    cost is n·b·r·d·q steps of 9.5 operations; laying out the background costs about as much as one
    row, so that calls should have a dozen rows or more.
    """
    d, n, r = x_factors.shape
    b = background_factors.shape[1]
    t, w = legendre_nodes(q)
    if q % 2:  # the loop takes two at a time
        t = np.append(t, 0.5)
        w = np.append(w, 0.0)
    n_outputs = coefficients.shape[1]
    out = np.zeros((n, d, n_outputs))
    x = _own(x_factors)
    background = _own(background_factors)
    scale = _scale(b, r, rest, weights)
    of_outputs = _own(coefficients.T)
    buffers = _buffers(d, b, r, *REAL)
    _product_loop(x, background, scale, of_outputs, t, w, *buffers, out)
    return out


def fourier_game_values(
    x_angles: FloatArray,
    background_angles: FloatArray,
    coefficients: AnyArray,
    q: int,
    *,
    rest: FloatArray | None = None,
    weights: FloatArray | None = None,
) -> FloatArray:
    """φ (n, d, k) of f(x) = c + Re Σ_r A_r e^{i Σ_j θ_rj}, by quadrature in real arithmetic.

    It is `product_game_values` with a = e^{iθ}.

    Parameters
    ----------
    x_angles, background_angles : (d, n, r), (d, b, r)
        Angles θ in radians, one a player (`player_angles`).
    coefficients : (r, k) complex
        A; a·cos(ωᵀx + β) has a·e^{iβ}, a·cos + b·sin has a − ib.
    q, weights
        See `product_game_values`.
    rest : (b, r), optional
        Angle of the background's columns that belong to no player (`rest_angle`).

    Notes
    -----
    With δ_j half the difference of the two angles, α_j half their sum and s = 2t − 1 the factor is
    e^{iα_j} (cos δ_j + i s sin δ_j), so that

        φ_i = −2 Im(A_r e^{i Σ_j α_j}) sin δ_i ∫₀¹ Re Π_{j≠i} (cos δ_j + i s sin δ_j) dt,

    where s and −s give conjugates: half of the nodes suffice, with 13.5 operations for each of them
    and 15 once.  The cosines of the background cost as much as a dozen rows.
    """
    x = _own(x_angles)
    background = _own(background_angles)
    d, n, r = x.shape
    b = background.shape[1]
    s, w = _half_nodes(q)
    phase = np.exp(0.5j * x.sum(axis=0))  # (n, r)
    middle = 0.5 * background.sum(axis=0)  # (b, r)
    if rest is not None:
        middle = middle + rest
    scale = -2.0 * _scale(b, r, np.exp(1j * middle), weights)
    of_outputs = _own(coefficients.T, complex)
    n_outputs = coefficients.shape[1]
    out = np.zeros((n, d, n_outputs))
    _fourier_loop(
        np.cos(0.5 * x),
        np.sin(0.5 * x),
        np.cos(0.5 * background),
        np.sin(0.5 * background),
        phase,
        _own(scale.real),
        _own(scale.imag),
        of_outputs,
        s,
        w,
        *_buffers(d, b, r, *FOURIER),
        out,
    )
    return out


def _half_nodes(q: int) -> tuple[FloatArray, FloatArray]:
    """The nodes s = 2t − 1 ≥ 0 of q Gauss–Legendre nodes, with the weights of s and −s together."""
    t, w = legendre_nodes(q)
    first = q // 2
    s = (2.0 * t - 1.0)[first:]
    both = 2.0 * w[first:]
    if q % 2:  # s = 0 counts once
        s[0] = 0.0
        both[0] = both[0] / 2.0
    return s, both


def _own(array: AnyArray, dtype: type = float) -> AnyArray:
    """A copy in C order, of one dtype and writeable, if need be: one compilation serves all.

    Arrays of cluster workers are often read-only.
    """
    return np.require(array, dtype, ("C", "W"))


def _scale(b: int, r: int, rest: AnyArray | None, weights: FloatArray | None) -> AnyArray:
    """w_b rest_br (b, r)."""
    if weights is None:
        of_rows = np.full(b, 1.0 / b)
    else:
        of_rows = np.asarray(weights, dtype=float)
    if rest is None:
        rest = np.ones((1, r))
    return np.ascontiguousarray(of_rows[:, None] * rest)


def _buffers(
    d: int, b: int, r: int, blocks: int, planes: int, lines: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Buffers of ones: background block (blocks, rows, pairs, lanes), planes and lines.

    Planes are (planes, pairs, lanes), lines (lines, lanes).
    """
    rows, pairs, lanes = buffer_shape(d, b, r)
    return (
        aligned_ones(blocks, rows, pairs, lanes),
        aligned_ones(planes, pairs, lanes),
        aligned_ones(lines, lanes),
    )


def aligned_ones(*shape: int) -> FloatArray:
    """Ones that begin on a cache line: loads that cross lines cost a third of the rate."""
    size = int(np.prod(shape))
    store = np.ones(size + 8)
    start = -(store.ctypes.data // 8) % 8
    return store[start : start + size].reshape(shape)


# Both loops process the players in pairs, which halves what is stored between the two sweeps; the
# missing partner of an odd one has the factors 1 of the buffers.  The innermost loops run over
# terms.  Each array that one of these writes is a plane of its own under a single index, and what
# it reads is sliced before: otherwise the compiler must expect overlaps or negative indices and
# takes single steps, at a third of the rate.


@njit(nogil=True, cache=True, fastmath=_FAST)
def _product_loop(x, background, scale, coefficients, nodes, weights, block, planes, lines, out):
    """out (n, d, k) += values, from factors x (d, n, r) and background (d, b, r).

    scale is (b, r), coefficients (k, r).
    """
    d, n, r = x.shape
    n_background = background.shape[1]
    n_pairs = planes.shape[1]
    lanes = lines.shape[1]
    c0 = block[0]
    c1 = block[1]
    # factors of the row, minus those of the background row
    a0 = planes[0]
    a1 = planes[1]
    e0 = planes[2]
    e1 = planes[3]
    # products over the pairs that follow, at the nodes s and t
    after_s = planes[4]
    after_t = planes[5]
    sum0 = planes[6]
    sum1 = planes[7]
    run_s = lines[0]
    run_t = lines[1]
    for start in range(0, r, lanes):
        width = min(lanes, r - start)
        stop = start + width
        for first in range(0, n_background, c0.shape[0]):
            rows = min(c0.shape[0], n_background - first)
            for i in range(d):
                c = c0 if i % 2 == 0 else c1
                for b in range(rows):
                    c[b, i // 2, :width] = background[i, first + b, start:stop]
            for row in range(n):
                for i in range(d):
                    a = a0 if i % 2 == 0 else a1
                    a[i // 2, :width] = x[i, row, start:stop]
                sum0[:] = 0.0
                sum1[:] = 0.0
                for b in range(rows):
                    row_scale = scale[first + b, start:stop]
                    for p in range(n_pairs):
                        for j in range(width):
                            e0[p, j] = a0[p, j] - c0[b, p, j]
                            e1[p, j] = a1[p, j] - c1[b, p, j]
                    for node in range(0, len(nodes), 2):
                        s = nodes[node]
                        t = nodes[node + 1]
                        run_s[:] = 1.0
                        run_t[:] = 1.0
                        # backward: products of the pairs behind each pair
                        for p in range(n_pairs - 1, -1, -1):
                            for j in range(width):
                                after_s[p, j] = run_s[j]
                                after_t[p, j] = run_t[j]
                                run_s[j] *= (c0[b, p, j] + s * e0[p, j]) * (
                                    c1[b, p, j] + s * e1[p, j]
                                )
                                run_t[j] *= (c0[b, p, j] + t * e0[p, j]) * (
                                    c1[b, p, j] + t * e1[p, j]
                                )
                        # forward, from the weights: each product has them once
                        for j in range(width):
                            run_s[j] = weights[node] * row_scale[j]
                            run_t[j] = weights[node + 1] * row_scale[j]
                        for p in range(n_pairs):
                            for j in range(width):
                                s0 = c0[b, p, j] + s * e0[p, j]
                                s1 = c1[b, p, j] + s * e1[p, j]
                                t0 = c0[b, p, j] + t * e0[p, j]
                                t1 = c1[b, p, j] + t * e1[p, j]
                                others_s = run_s[j] * after_s[p, j]
                                others_t = run_t[j] * after_t[p, j]
                                sum0[p, j] += e0[p, j] * (others_s * s1 + others_t * t1)
                                sum1[p, j] += e1[p, j] * (others_s * s0 + others_t * t0)
                                run_s[j] *= s0 * s1
                                run_t[j] *= t0 * t1
                for k in range(out.shape[2]):
                    of_output = coefficients[k, start:stop]
                    for i in range(d):
                        total = sum0 if i % 2 == 0 else sum1
                        value = 0.0
                        for j in range(width):
                            value += total[i // 2, j] * of_output[j]
                        out[row, i, k] += value


@njit(nogil=True, cache=True, fastmath=_FAST)
def _fourier_loop(
    x_cos,
    x_sin,
    background_cos,
    background_sin,
    phase,
    scale_re,
    scale_im,
    coefficients,
    nodes,
    weights,
    block,
    planes,
    lines,
    out,
):
    """out (n, d, k) += values, from cos and sin of half angles (d, n, r) and (d, b, r).

    The nodes are s ≥ 0 with their weights.  A pair's factor is (m − s² h) + i s g with m = cos cos,
    h = sin sin, g = sin0 cos1 + cos0 sin1; the products of the other players for its two players
    follow from two moments, Σ Re(others) and Σ s Im(others) over the nodes.
    """
    d, n, r = x_cos.shape
    n_background = background_cos.shape[1]
    n_pairs = planes.shape[1]
    lanes = lines.shape[1]
    b_cos0 = block[0]
    b_cos1 = block[1]
    b_sin0 = block[2]
    b_sin1 = block[3]
    x_cos0 = planes[0]
    x_cos1 = planes[1]
    x_sin0 = planes[2]
    x_sin1 = planes[3]
    cos0 = planes[4]
    cos1 = planes[5]
    sin0 = planes[6]
    sin1 = planes[7]
    m = planes[8]
    h = planes[9]
    g = planes[10]
    after_re = planes[11]
    after_im = planes[12]
    moment0 = planes[13]
    moment1 = planes[14]
    re0 = planes[15]
    im0 = planes[16]
    re1 = planes[17]
    im1 = planes[18]
    run_re = lines[0]
    run_im = lines[1]
    # the buffers are ones: the partner of an odd player must have cosine 1 and sine 0
    x_sin1[:] = 0.0
    b_sin1[:] = 0.0
    for start in range(0, r, lanes):
        width = min(lanes, r - start)
        stop = start + width
        for first in range(0, n_background, b_cos0.shape[0]):
            rows = min(b_cos0.shape[0], n_background - first)
            for i in range(d):
                cos, sin = (b_cos0, b_sin0) if i % 2 == 0 else (b_cos1, b_sin1)
                for b in range(rows):
                    cos[b, i // 2, :width] = background_cos[i, first + b, start:stop]
                    sin[b, i // 2, :width] = background_sin[i, first + b, start:stop]
            for row in range(n):
                for i in range(d):
                    cos, sin = (x_cos0, x_sin0) if i % 2 == 0 else (x_cos1, x_sin1)
                    cos[i // 2, :width] = x_cos[i, row, start:stop]
                    sin[i // 2, :width] = x_sin[i, row, start:stop]
                re0[:] = 0.0
                im0[:] = 0.0
                re1[:] = 0.0
                im1[:] = 0.0
                for b in range(rows):
                    for p in range(n_pairs):
                        for j in range(width):
                            cos0[p, j] = (
                                x_cos0[p, j] * b_cos0[b, p, j] + x_sin0[p, j] * b_sin0[b, p, j]
                            )
                            sin0[p, j] = (
                                x_sin0[p, j] * b_cos0[b, p, j] - x_cos0[p, j] * b_sin0[b, p, j]
                            )
                        for j in range(width):
                            cos1[p, j] = (
                                x_cos1[p, j] * b_cos1[b, p, j] + x_sin1[p, j] * b_sin1[b, p, j]
                            )
                            sin1[p, j] = (
                                x_sin1[p, j] * b_cos1[b, p, j] - x_cos1[p, j] * b_sin1[b, p, j]
                            )
                        for j in range(width):
                            m[p, j] = cos0[p, j] * cos1[p, j]
                            h[p, j] = sin0[p, j] * sin1[p, j]
                            g[p, j] = sin0[p, j] * cos1[p, j] + sin1[p, j] * cos0[p, j]
                    moment0[:] = 0.0
                    moment1[:] = 0.0
                    for node in range(len(nodes)):
                        s = nodes[node]
                        run_re[:] = 1.0
                        run_im[:] = 0.0
                        for p in range(n_pairs - 1, -1, -1):
                            for j in range(width):
                                re = m[p, j] - s * s * h[p, j]
                                im = s * g[p, j]
                                z_re = run_re[j]
                                z_im = run_im[j]
                                after_re[p, j] = z_re
                                after_im[p, j] = z_im
                                run_re[j] = z_re * re - z_im * im
                                run_im[j] = z_re * im + z_im * re
                        run_re[:] = weights[node]
                        run_im[:] = 0.0
                        for p in range(n_pairs):
                            for j in range(width):
                                re = m[p, j] - s * s * h[p, j]
                                im = s * g[p, j]
                                z_re = run_re[j]
                                z_im = run_im[j]
                                moment0[p, j] += z_re * after_re[p, j] - z_im * after_im[p, j]
                                moment1[p, j] += s * (z_re * after_im[p, j] + z_im * after_re[p, j])
                                run_re[j] = z_re * re - z_im * im
                                run_im[j] = z_re * im + z_im * re
                    own_re = scale_re[first + b, start:stop]
                    own_im = scale_im[first + b, start:stop]
                    for p in range(n_pairs):
                        for j in range(width):
                            value = (
                                sin0[p, j] * cos1[p, j] * moment0[p, j] - h[p, j] * moment1[p, j]
                            )
                            re0[p, j] += own_re[j] * value
                            im0[p, j] += own_im[j] * value
                        for j in range(width):
                            value = (
                                sin1[p, j] * cos0[p, j] * moment0[p, j] - h[p, j] * moment1[p, j]
                            )
                            re1[p, j] += own_re[j] * value
                            im1[p, j] += own_im[j] * value
                for k in range(out.shape[2]):
                    for j in range(width):
                        z = coefficients[k, start + j] * phase[row, start + j]
                        run_re[j] = z.real
                        run_im[j] = z.imag
                    for i in range(d):
                        re_i, im_i = (re0, im0) if i % 2 == 0 else (re1, im1)
                        value = 0.0
                        for j in range(width):
                            value += run_re[j] * im_i[i // 2, j] + run_im[j] * re_i[i // 2, j]
                        out[row, i, k] += value
