"""Steps over rows that share values, in explicit vector instructions.

A compiler does not find these by itself: it must expect that the arrays written overlap those read,
and leaves no sum in a register.  They run on any processor, with its widest registers.

The same steps in plain numba take 1.4 to 1.7 times as long in whole runs over rows that share
values (`python -m tests.benchmarks.lanes`, an Intel Xeon), with the same bits.  After a change of
this file alone delete `__pycache__`: numba's caches compare only the file of the loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dshap.loops.sizes import GROUP, LAST_COLUMNS, TERM_BLOCK, WIDTH

MAX_MEMBERS = 2 * GROUP - LAST_COLUMNS
"""The most other columns."""
ROW_SUMS = (1 << LAST_COLUMNS) + MAX_MEMBERS
"""The most sums of a row.

One of all columns, one for every product of the last columns, one for every other column.
"""
_FUSED = ("contract",)


class _Step:
    """Base of the generated steps: vector instructions at offsets of arrays."""

    def __init__(self, builder: ir.IRBuilder, pointers: list[Any], offsets: list[Any]) -> None:
        self.builder = builder
        self.pointers = pointers
        self.offsets = offsets
        self.vector = ir.VectorType(ir.DoubleType(), WIDTH)

    def address(self, array: int, offset: int) -> Any:
        begin = self.offsets[array]
        return self.builder.gep(
            self.pointers[array], [self.builder.add(begin, ir.Constant(begin.type, offset))]
        )

    def vector_at(self, array: int, offset: int) -> Any:
        return self.builder.bitcast(self.address(array, offset), self.vector.as_pointer())

    def load(self, array: int, offset: int) -> Any:
        return self.builder.load(self.vector_at(array, offset), align=8)

    def times(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b, flags=_FUSED)

    def plus(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b, flags=_FUSED)

    def subset_products(self, factors: list[Any]) -> list[Any]:
        """Products of all non-empty subsets of factors; the first factor is the highest bit."""
        products: list[Any] = []
        for factor in reversed(factors):
            products += [factor, *(self.times(product, factor) for product in products)]
        return products


class _SharedRow(_Step):
    """Writes the sums of one row over a block of terms; see `add_shared_row`."""

    def write(self, n_members: Any) -> None:
        table, *columns, total = range(2 + LAST_COLUMNS)
        sums = [cgutils.alloca_once(self.builder, self.vector) for _ in range(ROW_SUMS)]
        for slot in self._slots(n_members):
            self.builder.store(self.load(total, slot * WIDTH), sums[slot])
        begin = list(self.offsets)
        index = self.offsets[0].type
        with cgutils.for_range(self.builder, ir.Constant(index, TERM_BLOCK // WIDTH)) as loop:
            ahead = self.builder.mul(loop.index, ir.Constant(index, WIDTH))
            self.offsets = [self.builder.add(offset, ahead) for offset in begin]
            products = [None, *self.subset_products([self.load(column, 0) for column in columns])]
            for slot in self._slots(n_members):
                added = self.builder.load(sums[slot])
                for entry, at in self._summands(slot):
                    weight = self.load(table, at * TERM_BLOCK)
                    added = self.plus(
                        added, self.times(products[entry], weight) if entry else weight
                    )
                self.builder.store(added, sums[slot])
        self.offsets = begin
        for slot in self._slots(n_members):
            self.builder.store(
                self.builder.load(sums[slot]), self.vector_at(total, slot * WIDTH), align=8
            )

    def _summands(self, slot: int) -> list[tuple[int, int]]:
        """(product, place in the table) of each summand of a sum; product 0 is the constant 1."""
        entries = 1 << LAST_COLUMNS
        if slot == 0:
            return [(entries - 1, 0)]
        first = 1 + (slot - entries + 1) * entries
        return (
            [(slot, 1 + slot)]
            if slot < entries
            else [(entry, first + entry) for entry in range(entries)]
        )

    def _slots(self, n_members: Any) -> Iterator[int]:
        """Yield every sum; code written for a member beyond `n_members` is skipped at run time."""
        yield from range(ROW_SUMS - MAX_MEMBERS)
        for member in range(MAX_MEMBERS):
            with self.builder.if_then(
                self.builder.icmp_signed("<", ir.Constant(n_members.type, member), n_members)
            ):
                yield ROW_SUMS - MAX_MEMBERS + member


def _generated(
    step: Callable[..., Any],
    arrays: tuple[int, ...],
    offsets: tuple[int, ...],
    counts: tuple[int, ...],
) -> Any:
    """The code generator of a step, given the argument positions of arrays, offsets and counts."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, given: Any) -> Any:
        data = [
            context.make_array(signature.args[n])(context, builder, given[n]).data for n in arrays
        ]
        step(builder, data, [given[n] for n in offsets]).write(*(given[n] for n in counts))
        return context.get_dummy_value()

    return generate


def _add_shared_row(
    typing: Any,
    table: Any,
    at: Any,
    factors: Any,
    first: Any,
    second: Any,
    third: Any,
    n: Any,
    total: Any,
    to: Any,
) -> Any:
    """Numba's typing function of `add_shared_row`."""
    signature = types.void(table, at, factors, first, second, third, n, total, to)
    return signature, _generated(_SharedRow, (0, 2, 2, 2, 7), (1, 3, 4, 5, 8), (6,))


add_shared_row: Any = intrinsic(_add_shared_row)
"""Call (table, at, factors, first, second, third, n, total, to) adds a row's sums to `total`.

Let p_e[q] be the product of factors[first + q], factors[second + q] and factors[third + q] over the
bits of the entry e, the first the highest, and T_a,e[q] = table[at + (1 + a·8 + e)·TERM_BLOCK + q].
Sums over q < TERM_BLOCK are separate by q modulo WIDTH: total[to …] += Σ_q p_7[q] table[at + q];
total[to + e·WIDTH …] += Σ_q p_e[q] T_0,e[q] for e from 1 to 7; and total[to + (7 + a)·WIDTH …] +=
Σ_q Σ_e p_e[q] T_a,e[q] for a from 1 to n, at most `MAX_MEMBERS`.
"""


class _SharedProducts(_Step):
    """Writes total[e] += Σ over rows of the products of the last columns, for entries e from 1.

    See `add_shared_products`.
    """

    def write(self, stride: Any, n_rows: Any) -> None:
        factors, where, total = range(3)
        sums = [
            cgutils.alloca_once(self.builder, self.vector) for _ in range((1 << LAST_COLUMNS) - 1)
        ]
        begin = list(self.offsets)
        index = n_rows.type
        with cgutils.for_range(self.builder, ir.Constant(index, TERM_BLOCK // WIDTH)) as lanes:
            ahead = self.builder.mul(lanes.index, ir.Constant(index, WIDTH))
            self.offsets[total] = self.builder.add(begin[total], ahead)
            for entry, added in enumerate(sums, start=1):
                self.builder.store(self.load(total, entry * TERM_BLOCK), added)
            with cgutils.for_range(self.builder, n_rows) as rows:
                self.offsets[where] = self.builder.add(
                    begin[where], self.builder.mul(rows.index, stride)
                )
                columns = []
                for column in range(LAST_COLUMNS):
                    value = self.builder.load(self.address(where, column))
                    first = self.builder.mul(value, ir.Constant(index, TERM_BLOCK))
                    self.offsets[factors] = self.builder.add(
                        begin[factors], self.builder.add(first, ahead)
                    )
                    columns.append(self.load(factors, 0))
                for added, product in zip(sums, self.subset_products(columns), strict=True):
                    self.builder.store(self.plus(self.builder.load(added), product), added)
            for entry, added in enumerate(sums, start=1):
                self.builder.store(
                    self.builder.load(added), self.vector_at(total, entry * TERM_BLOCK), align=8
                )
        self.offsets = begin


def _add_shared_products(
    typing: Any,
    factors: Any,
    at: Any,
    where: Any,
    first: Any,
    stride: Any,
    n: Any,
    store: Any,
    to: Any,
) -> Any:
    """Numba's typing function of `add_shared_products`."""
    signature = types.void(factors, at, where, first, stride, n, store, to)
    return signature, _generated(_SharedProducts, (0, 2, 6), (1, 3, 7), (4, 5))


add_shared_products: Any = intrinsic(_add_shared_products)
"""Call (factors, at, where, first, stride, n, store, to) adds subset products of rows.

store[to + e·TERM_BLOCK + q] += Σ_{i < n} of the products, over the bits of the entry e from 1 to 7,
of factors[at + where[first + i·stride + j]·TERM_BLOCK + q], j < 3, j = 0 the highest bit; q <
TERM_BLOCK.
"""


class _Expansion(_Step):
    """Adds half a table of entries to both halves of the next; see `expand`."""

    def write(self, half: Any) -> None:
        low, high, factors, given = range(4)
        lanes = range(0, TERM_BLOCK, WIDTH)
        held = [self.load(factors, lane) for lane in lanes]
        zero = ir.Constant(self.vector, [0.0] * WIDTH)
        begin = list(self.offsets)
        with cgutils.for_range(self.builder, half) as loop:
            ahead = self.builder.mul(loop.index, ir.Constant(loop.index.type, TERM_BLOCK))
            for array in (low, high, given):
                self.offsets[array] = self.builder.add(begin[array], ahead)
            for lane, factor in zip(lanes, held, strict=True):
                sums = self.load(given, lane)
                product = self.plus(self.load(high, lane), self.times(factor, sums))
                self.builder.store(
                    self.plus(self.load(low, lane), sums), self.vector_at(low, lane), align=8
                )
                self.builder.store(product, self.vector_at(high, lane), align=8)
                self.builder.store(zero, self.vector_at(given, lane), align=8)
        self.offsets = begin


def _expand(
    typing: Any, store: Any, low: Any, high: Any, factors: Any, at: Any, given: Any, half: Any
) -> Any:
    """Numba's typing function of `expand`."""
    signature = types.void(store, low, high, factors, at, given, half)
    return signature, _generated(_Expansion, (0, 0, 3, 0), (1, 2, 4, 5), (6,))


expand: Any = intrinsic(_expand)
"""Call (store, low, high, factors, at, given, half) moves sums by one column.

With x_e[q] = store[given + e·TERM_BLOCK + q], which is then 0: store[low + e·TERM_BLOCK + q] +=
x_e[q] and store[high + e·TERM_BLOCK + q] += factors[at + q] · x_e[q], for e < half and q <
TERM_BLOCK.
"""


class _FormColumns(_Step):
    """Adds some columns of quadratic forms of a block of rows; see `add_form_columns`."""

    def __init__(self, n_columns: int, n_rows: int, *given: Any) -> None:
        super().__init__(*given)
        self.n_columns = n_columns
        self.n_rows = n_rows

    def write(self, stride: Any, n_terms: Any) -> None:
        sums = self._sums(stride, n_terms)
        _, products, total = range(3)
        for lane, held in zip(self._lanes, zip(*sums, strict=True), strict=True):
            value = self.load(total, lane)
            for column, each in enumerate(held):
                factor = self.load(products, column * self.n_rows + lane)
                value = self.plus(value, self.times(self.builder.load(each), factor))
            self.builder.store(value, self.vector_at(total, lane), align=8)

    @property
    def _lanes(self) -> range:
        """The first row of each vector."""
        return range(0, self.n_rows, WIDTH)

    def _sums(self, stride: Any, n_terms: Any) -> list[list[Any]]:
        """The places of the sums over the terms, of each column and vector of rows."""
        weights, products = range(2)
        zero = ir.Constant(self.vector, [0.0] * WIDTH)
        sums = [
            [cgutils.alloca_once(self.builder, self.vector) for _ in self._lanes]
            for _ in range(self.n_columns)
        ]
        for each in itertools.chain.from_iterable(sums):
            self.builder.store(zero, each)
        begin = list(self.offsets)
        of_rows = ir.Constant(stride.type, self.n_rows)
        with cgutils.for_range(self.builder, n_terms) as loop:
            for array, step in ((weights, stride), (products, of_rows)):
                ahead = self.builder.mul(loop.index, step)
                self.offsets[array] = self.builder.add(begin[array], ahead)
            factors = [self.load(products, lane) for lane in self._lanes]
            for column, held in enumerate(sums):
                weight = self._spread(weights, column)
                for each, factor in zip(held, factors, strict=True):
                    added = self.plus(self.builder.load(each), self.times(weight, factor))
                    self.builder.store(added, each)
        self.offsets = begin
        return sums

    def _spread(self, array: int, offset: int) -> Any:
        """A vector with one number of an array in each place."""
        number = self.builder.load(self.address(array, offset))
        empty = ir.Constant(self.vector, ir.Undefined)
        index = ir.IntType(32)
        first = self.builder.insert_element(empty, number, ir.Constant(index, 0))
        places = ir.Constant(ir.VectorType(index, WIDTH), [0] * WIDTH)
        return self.builder.shuffle_vector(first, empty, places)


class _SquareColumns(_FormColumns):
    """Adds some squares; see `add_squares`."""

    def write(self, stride: Any, n_terms: Any) -> None:
        sums = self._sums(stride, n_terms)
        _, _, total, scales = range(4)
        spread = [self._spread(scales, column) for column in range(self.n_columns)]
        for lane, held in zip(self._lanes, zip(*sums, strict=True), strict=True):
            value = self.load(total, lane)
            for scale, each in zip(spread, held, strict=True):
                root = self.builder.load(each)
                value = self.plus(value, self.times(self.times(scale, root), root))
            self.builder.store(value, self.vector_at(total, lane), align=8)


def _add_form_columns(n_columns: int) -> Any:
    """Numba's typing function of `add_form_columns` with so many columns."""

    def typed(
        typing: Any,
        weights: Any,
        at: Any,
        stride: Any,
        products: Any,
        first: Any,
        n: Any,
        total: Any,
        to: Any,
        vectors: Any,
    ) -> Any:
        signature = types.void(weights, at, stride, products, first, n, total, to, vectors)
        step = partial(_FormColumns, n_columns, WIDTH * vectors.count)
        return signature, _generated(step, (0, 3, 6), (1, 4, 7), (2, 5))

    return typed


add_form_columns: Any = intrinsic(_add_form_columns(4))
"""Call (weights, at, stride, products, first, n, total, to, vectors) adds four columns of forms.

The rows Q are those of `vectors`, a tuple of as many numbers: 4 fill the registers, 1 is for few rows.
With k_i[q] = products[first + i·Q + q] and A_ij = weights[at + i·stride + j]: total[to + q] +=
Σ_{j < 4} k_j[q] Σ_{i < n} A_ij k_i[q] for q < Q.
"""
add_form_column: Any = intrinsic(_add_form_columns(1))
"""Call it as `add_form_columns`, for one column, j = 0."""


def _add_squares(
    typing: Any,
    weights: Any,
    at: Any,
    stride: Any,
    products: Any,
    begin: Any,
    n: Any,
    total: Any,
    to: Any,
    scales: Any,
    first: Any,
    vectors: Any,
) -> Any:
    """Numba's typing function of `add_squares`."""
    signature = types.void(
        weights, at, stride, products, begin, n, total, to, scales, first, vectors
    )
    step = partial(_SquareColumns, 4, WIDTH * vectors.count)
    return signature, _generated(step, (0, 3, 6, 8), (1, 4, 7, 9), (2, 5))


add_squares: Any = intrinsic(_add_squares)
"""Call (weights, at, stride, products, begin, n, total, to, scales, first, vectors) adds four squares.

With k_i[q] = products[begin + i·Q + q], A_ij = weights[at + i·stride + j] and s_j = scales[first + j]:
total[to + q] += Σ_{j < 4} s_j (Σ_{i < n} A_ij k_i[q])² for q < Q, the rows of `vectors`.
"""
