"""Nodes, bytes and operations of product games, counted without compiling a loop."""

from __future__ import annotations

LANES = 128
"""Terms worked on at once: the data of a background row stay within the L2 cache.

A row needs 40·d·LANES bytes, 92·d·LANES for angles.
"""
BACKGROUND_BLOCK = 32
"""Number of background rows laid out together, shared by all explained rows."""
REAL = (2, 8, 2)
FOURIER = (4, 19, 2)
"""Numbers of blocks, planes and lines that the loop for factors uses, and that for angles."""


def exact_nodes(d: int) -> int:
    """Number of nodes that make the values of d players exact: ⌈d/2⌉, at least 1."""
    return max(1, -(-d // 2))


def buffer_shape(d: int, b: int, r: int) -> tuple[int, int, int]:
    """Numbers of rows, pairs and lanes; lanes are padded to whole cache lines."""
    rows = min(b, BACKGROUND_BLOCK)
    n_pairs = -(-d // 2)
    lanes = min(LANES, r)
    whole_lines = -(-lanes // 8) * 8
    return rows, n_pairs, whole_lines


def product_game_bytes(n: int, b: int, r: int, d: int, k: int, *, is_fourier: bool = False) -> int:
    """Peak bytes of a call beyond its arguments, with the values (n, d, k)."""
    if is_fourier:
        blocks, planes, lines = FOURIER
    else:
        blocks, planes, lines = REAL
    rows, pairs, lanes = buffer_shape(d, b, r)
    buffers = lanes * (pairs * (blocks * rows + planes) + lines)
    values = n * d * k
    scales = r * (b + k)
    numbers = buffers + values + scales
    if is_fourier:
        half_angles = 2 * d * r * (n + b) + d * r * max(n, b)
        complex_numbers = r * (4 * n + 6 * b + 2 * k)
        numbers += half_angles + complex_numbers
    return 8 * numbers + 4096


def product_game_operations(
    n: int, b: int, r: int, d: int, q: int, *, is_fourier: bool = False
) -> float:
    """Floating-point operations of a call, without those for each row alone."""
    steps = -(-q // 2)
    n_pairs = -(-d // 2)
    if is_fourier:
        of_pair = 30.0 + 27.0 * steps
    else:
        of_pair = 2.0 + 38.0 * steps
    return n * b * r * n_pairs * of_pair
