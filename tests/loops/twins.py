"""Plain numpy twins of the compiled loops: the same sums by their definition, one coalition after
the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from dshap.core.records import BoolArray, FloatArray
from dshap.loops.masking import Masks
from dshap.loops.product_games import legendre_nodes
from dshap.loops.row_hashes import KEY

AnyArray = NDArray[Any]


def plain_subset_products(factors: NDArray[Any], present: BoolArray) -> NDArray[Any]:
    """Π over present columns (c,) of factors (c, r, n) -> (r, n)."""
    return np.asarray(factors[present].prod(axis=0))


def plain_subset_sums(factors: NDArray[Any], columns: BoolArray) -> NDArray[Any]:
    """Σ_n of the products (m, r) of coalitions whose columns are (m, c)."""
    return np.stack([plain_subset_products(factors, present).sum(axis=1) for present in columns])


def plain_table_values(
    factors: NDArray[Any], columns: BoolArray, table: NDArray[Any], base: FloatArray
) -> FloatArray:
    """base + Re Σ_r products · table (m, k, r) -> (n, m, k)."""
    values = [
        (plain_subset_products(factors, p).T @ t.T).real
        for p, t in zip(columns, table, strict=True)
    ]
    return np.asarray(base + np.stack(values, axis=1))


def plain_member_sums(
    factors: FloatArray, columns: BoolArray, table: FloatArray, weights: FloatArray
) -> FloatArray:
    """Σ_{S ∋ c} w_S Σ_r products · table (m, k, r) -> (n, c, k)."""
    values = [
        plain_subset_products(factors, own).T @ part.T
        for own, part in zip(columns, table, strict=True)
    ]
    return np.einsum("m,mc,mnk->nck", weights, columns, np.stack(values))


def plain_products_by_weights(
    left: FloatArray,
    right: FloatArray,
    columns: BoolArray,
    kept: Sequence[NDArray[np.intp]],
    weights: Sequence[FloatArray],
    coefficients: FloatArray,
) -> FloatArray:
    """Σ_i l_i Σ_r W_ir k_r a_r -> (n, m, k)."""
    out = []
    for present, of_left, matrix in zip(columns, kept, weights, strict=True):
        inside = plain_subset_products(left, present)[of_left]
        away = plain_subset_products(right, present)
        out.append(np.einsum("in,ir,rn,rk->nk", inside, matrix, away, coefficients))
    return np.stack(out, axis=1)


def plain_mixed_values(
    predict: Callable[[FloatArray], FloatArray],
    masks: Masks,
    rows: FloatArray,
    background: FloatArray,
    weights: FloatArray,
    k: int,
) -> FloatArray:
    """`mixed_values` by every mix, one instance after the other."""
    total = np.zeros((len(rows), len(masks.columns), k))
    for i, row in enumerate(rows):
        mixed = np.where(masks.columns[:, None], row, background)  # (m, b, columns)
        f = predict(mixed.reshape(-1, rows.shape[1])).reshape(
            len(masks.columns), len(background), k
        )
        total[i] = np.einsum("mbk,b->mk", f, weights)
    return total


def plain_game_values(
    x_factors: AnyArray,
    background_factors: AnyArray,
    coefficients: AnyArray,
    q: int,
    *,
    rest: AnyArray | None = None,
    weights: FloatArray | None = None,
) -> FloatArray:
    """The numpy twin of both loops, for real or complex factors: the real part of φ (n, d, k);
    holds (d, n, b, r)."""
    a, c = x_factors[:, :, None, :], background_factors[:, None, :, :]
    # (d, n, b, r)
    integral = np.zeros(np.broadcast_shapes(a.shape, c.shape), dtype=np.result_type(a, c))
    for t, w in zip(*legendre_nodes(q), strict=True):
        u = t * a + (1.0 - t) * c
        one = np.ones_like(u[:1])
        before = np.concatenate([one, u[:-1]]).cumprod(axis=0)
        after = np.concatenate([one, u[:0:-1]]).cumprod(axis=0)[::-1]
        integral += w * before * after
    given = np.full(c.shape[2], 1.0 / c.shape[2]) if weights is None else weights
    scale = given[:, None] * (np.ones((1, c.shape[3])) if rest is None else rest)  # (b, r)
    return np.einsum(
        "inbr,inbr,br,rk->nik", a - c, integral, scale, coefficients, optimize=True
    ).real


def worst_node_error(d: int, q: int) -> float:
    """The largest error of q nodes in ∫₀¹ Π_{j≠i} (t a_j + (1−t) c_j) dt over all factors in [0,
    1]; it is attained.

    So |error of φ_i| ≤ Σ_r |A_r| mean_b rest_br |a_i − c_i| · this, for every row: a guarantee
    where a sample is not enough.  The error is affine in each (a_j, c_j), hence largest where every
    factor is 0, 1, t or 1 − t, and the product t^p (1−t)^s, p + s ≤ d − 1.  At d = 32 it is 1.3e-2
    for 4 nodes, 2.8e-5 for 8, 1.6e-10 for 12; at d = 64 4.6e-9 for 16.
    """
    p, s = (power.ravel() for power in np.meshgrid(np.arange(d), np.arange(d)))
    p, s = p[p + s < d], s[p + s < d]
    t, w = legendre_nodes(q)
    return float(
        np.max(
            np.abs((t ** p[:, None] * (1.0 - t) ** s[:, None]) @ w - np.exp(betaln(p + 1, s + 1)))
        )
    )


def plain_siphash(message: bytes) -> bytes:
    """SipHash-2-4 of 128 bits (Aumasson and Bernstein 2012) with the key of `row_hashes`."""
    size = 1 << 64
    v = [0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573]
    v = [word ^ KEY[j % 2] for j, word in enumerate(v)]
    v[1] ^= 0xEE

    def turned(word: int, by: int) -> int:
        return (word << by | word >> (64 - by)) % size

    def rounds(n_rounds: int) -> None:
        for _ in range(n_rounds):
            v[0], v[2] = (v[0] + v[1]) % size, (v[2] + v[3]) % size
            v[1], v[3] = turned(v[1], 13) ^ v[0], turned(v[3], 16) ^ v[2]
            v[0] = turned(v[0], 32)
            v[2], v[0] = (v[2] + v[1]) % size, (v[0] + v[3]) % size
            v[1], v[3] = turned(v[1], 17) ^ v[2], turned(v[3], 21) ^ v[0]
            v[2] = turned(v[2], 32)

    whole = len(message) // 8 * 8
    last = message[whole:].ljust(7, b"\0") + bytes([len(message) % 256])
    for start in range(0, whole + 8, 8):
        word = int.from_bytes((message[:whole] + last)[start : start + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    halves = []
    for j, constant in ((2, 0xEE), (1, 0xDD)):
        v[j] ^= constant
        rounds(4)
        halves.append(v[0] ^ v[1] ^ v[2] ^ v[3])
    return b"".join(half.to_bytes(8, "little") for half in halves)


def plain_form_values(
    factors: FloatArray, present: BoolArray, terms: NDArray[np.intp], matrix: FloatArray
) -> FloatArray:
    """Σ_ij k_i A_ij k_j (n,), by the products k of the columns that are present."""
    products = plain_subset_products(factors, present)[terms]  # (p, n)
    return np.einsum("in,ij,jn->n", products, matrix, products[: matrix.shape[1]])
