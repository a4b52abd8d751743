"""Steps of the loops over tables in explicit vectors, which a compiler does not find by itself: it must expect that
what is written overlaps what is read, and takes half-width steps.  Any processor runs them, with the widest registers
that it has.  Who changes this file alone deletes `__pycache__`: numba's caches look at the file of the loop.

Rows stand in the lanes of the first steps, terms in those of the last ones, from `contract` on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = [
    "GROUP",
    "LANES",
    "LAST_COLUMNS",
    "STEP",
    "TERMS",
    "TERM_BLOCK",
    "TILE",
    "WIDTH",
    "add_complex_products",
    "add_contracted",
    "add_contracted_transposed",
    "add_products",
    "add_shared_products",
    "add_shared_row",
    "contract",
    "contract_split",
    "expand",
    "fill_products",
]

LANES = 16
"""Rows that one step takes: two registers of AVX-512, four of AVX2."""
TERMS = 4
"""Terms that are added up in registers before a partial sum is stored."""
STEP = LANES * TERMS
"""Numbers of an entry of a lattice, or of one of its two planes where factors are complex."""

WIDTH = 8
"""Numbers of a vector; narrower processors take it in parts."""
TILE = 8 if binding.get_host_cpu_features().get("avx512f") else 4
"""Sums that `add_contracted` holds in registers: as many as hide the latency of an addition, and no more than fit."""
GROUP = 6
"""Columns of a group, at most: 64 entries of a lattice."""
TERM_BLOCK = 64
"""Terms whose coefficients of the last columns stay in the first cache: 24 KiB of them for eight columns."""
LAST_COLUMNS = 3
"""Columns whose products are made row by row, in registers."""
MAX_MEMBERS = 2 * GROUP - LAST_COLUMNS
"""Other columns, at most."""
ROW_SUMS = (1 << LAST_COLUMNS) + MAX_MEMBERS
"""Of a row, at most: that of all columns, one for every product of the last columns, one for every other column."""
_FUSED = ("contract",)


class _Step:
    """Writes the instructions of total[lane] += Re Σ_q left[q, lane] right[q, lane] table[q]."""

    def __init__(self, builder: ir.IRBuilder, pointers: list[Any], offsets: list[Any]) -> None:
        self.builder, self.pointers, self.offsets = builder, pointers, offsets
        self.vector = ir.VectorType(ir.DoubleType(), WIDTH)

    def address(self, array: int, offset: int) -> Any:
        own = self.offsets[array]
        return self.builder.gep(self.pointers[array], [self.builder.add(own, ir.Constant(own.type, offset))])

    def vector_at(self, array: int, offset: int) -> Any:
        return self.builder.bitcast(self.address(array, offset), self.vector.as_pointer())

    def load(self, array: int, offset: int) -> Any:
        return self.builder.load(self.vector_at(array, offset), align=8)

    def spread(self, array: int, offset: int) -> Any:
        """One number in every lane."""
        number, none = self.builder.load(self.address(array, offset), align=8), ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(none, number, ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
        return self.builder.shuffle_vector(first, none, zeros)

    def times(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b, flags=_FUSED)

    def plus(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b, flags=_FUSED)

    def minus(self, a: Any, b: Any) -> Any:
        return self.builder.fsub(a, b, flags=_FUSED)

    def subset_products(self, factors: list[Any]) -> list[Any]:
        """Of all subsets but the empty one; the first factor is the highest bit."""
        products: list[Any] = []
        for factor in reversed(factors):
            products += [factor, *(self.times(own, factor) for own in products)]
        return products

    def write(self, is_complex: bool) -> None:
        left, right, table, total = range(4)
        weights = [self.spread(table, q) for q in range(TERMS * (2 if is_complex else 1))]
        for lane in range(0, LANES, WIDTH):
            added = self.load(total, lane)
            for q in range(TERMS):
                at = q * LANES + lane
                a, b = self.load(left, at), self.load(right, at)
                if not is_complex:
                    added = self.plus(added, self.times(self.times(a, b), weights[q]))
                    continue
                a_im, b_im = self.load(left, STEP + at), self.load(right, STEP + at)
                real = self.minus(self.times(a, b), self.times(a_im, b_im))
                imaginary = self.plus(self.times(a, b_im), self.times(a_im, b))
                added = self.plus(added, self.times(real, weights[q]))
                added = self.minus(added, self.times(imaginary, weights[TERMS + q]))
            self.builder.store(added, self.vector_at(total, lane), align=8)


def _step(is_complex: bool) -> Any:
    """What numba calls."""

    def step(typing: Any, lattice: Any, left: Any, right: Any, table: Any, weight: Any, total: Any, to: Any) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            own, i, j, weights, at, sums, start = arguments
            arrays = ((0, own), (0, own), (3, weights), (5, sums))
            data = [context.make_array(signature.args[n])(context, builder, array).data for n, array in arrays]
            _Step(builder, data, [i, j, at, start]).write(is_complex)
            return context.get_dummy_value()

        return types.void(lattice, left, right, table, weight, total, to), generate

    return intrinsic(step)


add_products = _step(is_complex=False)
"""(lattice, left, right, table, weight, total, to): total[to + lane] += Σ_q lattice[left + q·LANES + lane] ·
lattice[right + q·LANES + lane] · table[weight + q].  Arrays of float64, C order; offsets are not checked."""
add_complex_products = _step(is_complex=True)
"""The same with complex numbers in planes, STEP real parts and STEP imaginary ones, TERMS and TERMS in the table; the
real part is added up."""


class _Contraction(_Step):
    """Writes total[o, lane] += left[o, lane] · Σ_i table[o, i] right[i, lane], the sums over i in registers.

    The table lies in blocks of TILE × TILE, each with its rows or its columns strung together.
    """

    def write_loop(self, block_stride: Any, n_blocks: Any, is_transposed: bool) -> None:
        table, left, right, total = range(4)
        zero = ir.Constant(self.vector, [0.0] * WIDTH)
        sums = [cgutils.alloca_once_value(self.builder, zero) for _ in range(TILE)]
        for own in sums:
            self.builder.store(zero, own)
        begin = list(self.offsets)
        with cgutils.for_range(self.builder, n_blocks) as loop:
            ahead = self.builder.mul(loop.index, ir.Constant(loop.index.type, TILE * WIDTH))
            self.offsets[table] = self.builder.add(begin[table], self.builder.mul(loop.index, block_stride))
            self.offsets[right] = self.builder.add(begin[right], ahead)
            for i in range(TILE):
                b = self.load(right, i * WIDTH)
                for o, own in enumerate(sums):
                    weight = self.spread(table, o * TILE + i if is_transposed else i * TILE + o)
                    self.builder.store(self.plus(self.builder.load(own), self.times(weight, b)), own)
        self.offsets = begin
        for o, own in enumerate(sums):
            product = self.times(self.load(left, o * WIDTH), self.builder.load(own))
            added = self.plus(self.load(total, o * WIDTH), product)
            self.builder.store(added, self.vector_at(total, o * WIDTH), align=8)


def _contraction(is_transposed: bool) -> Any:
    """What numba calls."""

    def contract(
        typing: Any, table: Any, at: Any, stride: Any, n: Any, lattice: Any, left: Any, right: Any, total: Any, to: Any
    ) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            weights, corner, across, blocks, own, i, j, sums, start = arguments
            arrays = ((0, weights), (4, own), (4, own), (7, sums))
            data = [context.make_array(signature.args[n])(context, builder, array).data for n, array in arrays]
            _Contraction(builder, data, [corner, i, j, start]).write_loop(across, blocks, is_transposed)
            return context.get_dummy_value()

        return types.void(table, at, stride, n, lattice, left, right, total, to), generate

    return intrinsic(contract)


add_contracted = _contraction(is_transposed=False)
"""(table, at, stride, n, lattice, left, right, total, to): total[to + o·WIDTH + lane] += lattice[left + o·WIDTH + lane]
· Σ_{b < n} Σ_{i < TILE} table[at + b·stride + i·TILE + o] · lattice[right + (b·TILE + i)·WIDTH + lane], o < TILE."""
add_contracted_transposed = _contraction(is_transposed=True)
"""The same with table[at + b·stride + o·TILE + i]."""


class _Products(_Step):
    """Writes lattice[entry, lane] = Π over the bits of the entry of factors[bit, lane], entries from 1."""

    def write_all(self, stride: Any, n: Any) -> None:
        factors, lattice = range(2)
        begin = self.offsets[factors]
        for bit in range(GROUP):
            with self.builder.if_then(self.builder.icmp_signed("<", ir.Constant(n.type, bit), n)):
                ahead = self.builder.mul(stride, ir.Constant(stride.type, bit))
                self.offsets[factors] = self.builder.add(begin, ahead)
                own = self.load(factors, 0)
                for entry in range(1 << bit):
                    product = self.times(self.load(lattice, entry * WIDTH), own) if entry else own
                    self.builder.store(product, self.vector_at(lattice, ((1 << bit) + entry) * WIDTH), align=8)


def _fill_products(typing: Any, factors: Any, at: Any, stride: Any, n: Any, lattice: Any, to: Any) -> Any:
    """What numba calls."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        given, first, across, columns, entries, start = arguments
        arrays = ((0, given), (4, entries))
        data = [context.make_array(signature.args[n])(context, builder, array).data for n, array in arrays]
        _Products(builder, data, [first, start]).write_all(across, columns)
        return context.get_dummy_value()

    return types.void(factors, at, stride, n, lattice, to), generate


fill_products: Any = intrinsic(_fill_products)
"""(factors, at, stride, n, lattice, to): lattice[to + entry·WIDTH + lane] = Π of factors[at + bit·stride + lane] over
the bits of the entry, entries 1 to 2ⁿ − 1, n at most `GROUP`."""


class _Halves(_Step):
    """Writes into[e] = low[e] + factors · high[e] for the entries e of half a table, `TERM_BLOCK` terms each; where
    `part` is wanted, part[e] = factors · high[e] too."""

    def write_loop(self, half: Any, is_split: bool) -> None:
        low, high, factors, into, part = range(5)
        own = [self.load(factors, q) for q in range(0, TERM_BLOCK, WIDTH)]
        begin = list(self.offsets)
        with cgutils.for_range(self.builder, half) as loop:
            ahead = self.builder.mul(loop.index, ir.Constant(loop.index.type, TERM_BLOCK))
            for array in (low, high, into, part):
                self.offsets[array] = self.builder.add(begin[array], ahead)
            for lane, factor in zip(range(0, TERM_BLOCK, WIDTH), own, strict=True):
                product = self.times(factor, self.load(high, lane))
                total = self.plus(self.load(low, lane), product)
                self.builder.store(total, self.vector_at(into, lane), align=8)
                if is_split:
                    self.builder.store(product, self.vector_at(part, lane), align=8)
        self.offsets = begin


def _halves(is_split: bool) -> Any:
    """What numba calls."""

    def join(
        typing: Any, store: Any, low: Any, high: Any, factors: Any, at: Any, into: Any, part: Any, half: Any
    ) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
            held, i, j, given, own, to, other, n = arguments
            arrays = ((0, held), (0, held), (3, given), (0, held), (0, held))
            data = [context.make_array(signature.args[a])(context, builder, array).data for a, array in arrays]
            _Halves(builder, data, [i, j, own, to, other]).write_loop(n, is_split)
            return context.get_dummy_value()

        return types.void(store, low, high, factors, at, into, part, half), generate

    return intrinsic(join)


contract = _halves(is_split=False)
"""(store, low, high, factors, at, into, part, half): store[into + e·TERM_BLOCK + q] = store[low + e·TERM_BLOCK + q] +
factors[at + q] · store[high + e·TERM_BLOCK + q], e < half, q < TERM_BLOCK; what is written overlaps nothing that is
read.  `part` counts for `contract_split` alone."""
contract_split = _halves(is_split=True)
"""The same, and the product alone at store[part + e·TERM_BLOCK + q]."""


class _SharedRow(_Step):
    """Writes the sums of one row over a block of terms; see `add_shared_row`."""

    def write(self, n_members: Any) -> None:
        table, *columns, total = range(2 + LAST_COLUMNS)
        sums = [cgutils.alloca_once(self.builder, self.vector) for _ in range(ROW_SUMS)]
        for own in self._slots(n_members):
            self.builder.store(self.load(total, own * WIDTH), sums[own])
        begin, index = list(self.offsets), self.offsets[0].type
        with cgutils.for_range(self.builder, ir.Constant(index, TERM_BLOCK // WIDTH)) as loop:
            ahead = self.builder.mul(loop.index, ir.Constant(index, WIDTH))
            self.offsets = [self.builder.add(own, ahead) for own in begin]
            products = [None, *self.subset_products([self.load(column, 0) for column in columns])]
            for own in self._slots(n_members):
                added = self.builder.load(sums[own])
                for entry, at in self._summands(own):
                    weight = self.load(table, at * TERM_BLOCK)
                    added = self.plus(added, self.times(products[entry], weight) if entry else weight)
                self.builder.store(added, sums[own])
        self.offsets = begin
        for own in self._slots(n_members):
            self.builder.store(self.builder.load(sums[own]), self.vector_at(total, own * WIDTH), align=8)

    def _summands(self, own: int) -> list[tuple[int, int]]:
        """(product, 0 for none, and its place in the table) of one sum."""
        entries = 1 << LAST_COLUMNS
        if own == 0:
            return [(entries - 1, 0)]
        first = 1 + (own - entries + 1) * entries
        return [(own, 1 + own)] if own < entries else [(entry, first + entry) for entry in range(entries)]

    def _slots(self, n_members: Any) -> Iterator[int]:
        """Every sum; what is written for one of a member is skipped where there are not so many."""
        yield from range(ROW_SUMS - MAX_MEMBERS)
        for member in range(MAX_MEMBERS):
            with self.builder.if_then(self.builder.icmp_signed("<", ir.Constant(n_members.type, member), n_members)):
                yield ROW_SUMS - MAX_MEMBERS + member


def _add_shared_row(
    typing: Any, table: Any, at: Any, factors: Any, first: Any, second: Any, third: Any, n: Any, total: Any, to: Any
) -> Any:
    """What numba calls."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        held, begin, given, i, j, k, n_members, sums, start = arguments
        arrays = ((0, held), (2, given), (2, given), (2, given), (7, sums))
        data = [context.make_array(signature.args[n])(context, builder, array).data for n, array in arrays]
        _SharedRow(builder, data, [begin, i, j, k, start]).write(n_members)
        return context.get_dummy_value()

    return types.void(table, at, factors, first, second, third, n, total, to), generate


add_shared_row: Any = intrinsic(_add_shared_row)
"""(table, at, factors, first, second, third, n, total, to), with p_e[q] the product of factors[first + q],
factors[second + q] and factors[third + q] over the bits of the entry e, the first the highest, and T_a,e[q] =
table[at + (1 + a·8 + e)·TERM_BLOCK + q]: sums over q < TERM_BLOCK, kept apart by q modulo WIDTH,
total[to …] += Σ_q p_7[q] table[at + q], total[to + e·WIDTH …] += Σ_q p_e[q] T_0,e[q] for every e from 1 to 7, and
total[to + (7 + a)·WIDTH …] += Σ_q Σ_e p_e[q] T_a,e[q] for a from 1 to n, at most `MAX_MEMBERS`."""


class _Expansion(_Step):
    """Writes low[e] += given[e], high[e] += factors · given[e], given[e] = 0 for entries of `TERM_BLOCK` terms."""

    def write_loop(self, half: Any) -> None:
        low, high, factors, given = range(4)
        own, zero = (
            [self.load(factors, q) for q in range(0, TERM_BLOCK, WIDTH)],
            ir.Constant(self.vector, [0.0] * WIDTH),
        )
        begin = list(self.offsets)
        with cgutils.for_range(self.builder, half) as loop:
            ahead = self.builder.mul(loop.index, ir.Constant(loop.index.type, TERM_BLOCK))
            for array in (low, high, given):
                self.offsets[array] = self.builder.add(begin[array], ahead)
            for lane, factor in zip(range(0, TERM_BLOCK, WIDTH), own, strict=True):
                sums = self.load(given, lane)
                product = self.plus(self.load(high, lane), self.times(factor, sums))
                self.builder.store(self.plus(self.load(low, lane), sums), self.vector_at(low, lane), align=8)
                self.builder.store(product, self.vector_at(high, lane), align=8)
                self.builder.store(zero, self.vector_at(given, lane), align=8)
        self.offsets = begin


def _expand(typing: Any, store: Any, low: Any, high: Any, factors: Any, at: Any, given: Any, half: Any) -> Any:
    """What numba calls."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        held, i, j, values, own, start, entries = arguments
        arrays = ((0, held), (0, held), (3, values), (0, held))
        data = [context.make_array(signature.args[n])(context, builder, array).data for n, array in arrays]
        _Expansion(builder, data, [i, j, own, start]).write_loop(entries)
        return context.get_dummy_value()

    return types.void(store, low, high, factors, at, given, half), generate


expand: Any = intrinsic(_expand)
"""(store, low, high, factors, at, given, half), with x_e[q] = store[given + e·TERM_BLOCK + q], which is then 0:
store[low + e·TERM_BLOCK + q] += x_e[q], store[high + e·TERM_BLOCK + q] += factors[at + q] · x_e[q], e < half."""


class _SharedProducts(_Step):
    """Writes total[e] += Σ over rows of the products of the last columns, e from 1; see `add_shared_products`."""

    def write_loop(self, stride: Any, n_rows: Any) -> None:
        factors, where, total = range(3)
        count = (1 << LAST_COLUMNS) - 1
        sums = [cgutils.alloca_once(self.builder, self.vector) for _ in range(count)]
        begin, index = list(self.offsets), n_rows.type
        with cgutils.for_range(self.builder, ir.Constant(index, TERM_BLOCK // WIDTH)) as lanes:
            ahead = self.builder.mul(lanes.index, ir.Constant(index, WIDTH))
            self.offsets[total] = self.builder.add(begin[total], ahead)
            for entry, own in enumerate(sums, start=1):
                self.builder.store(self.load(total, entry * TERM_BLOCK), own)
            with cgutils.for_range(self.builder, n_rows) as rows:
                self.offsets[where] = self.builder.add(begin[where], self.builder.mul(rows.index, stride))
                columns = []
                for column in range(LAST_COLUMNS):
                    value = self.builder.load(self.address(where, column))
                    first = self.builder.mul(value, ir.Constant(index, TERM_BLOCK))
                    self.offsets[factors] = self.builder.add(begin[factors], self.builder.add(first, ahead))
                    columns.append(self.load(factors, 0))
                for own, product in zip(sums, self.subset_products(columns), strict=True):
                    self.builder.store(self.plus(self.builder.load(own), product), own)
            for entry, own in enumerate(sums, start=1):
                self.builder.store(self.builder.load(own), self.vector_at(total, entry * TERM_BLOCK), align=8)
        self.offsets = begin


def _add_shared_products(
    typing: Any, factors: Any, at: Any, where: Any, first: Any, stride: Any, n: Any, store: Any, to: Any
) -> Any:
    """What numba calls."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        given, own, places, begin, across, n_rows, held, start = arguments
        arrays = ((0, given), (2, places), (6, held))
        data = [context.make_array(signature.args[n])(context, builder, array).data for n, array in arrays]
        _SharedProducts(builder, data, [own, begin, start]).write_loop(across, n_rows)
        return context.get_dummy_value()

    return types.void(factors, at, where, first, stride, n, store, to), generate


add_shared_products: Any = intrinsic(_add_shared_products)
"""(factors, at, where, first, stride, n, store, to): store[to + e·TERM_BLOCK + q] += Σ_{i < n} of the products, over
the bits of the entry e from 1 to 7, of factors[at + where[first + i·stride + j]·TERM_BLOCK + q], j < 3, j = 0 the
highest bit; q < TERM_BLOCK."""
