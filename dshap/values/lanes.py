"""Steps of the loops over tables in explicit vectors, which a compiler does not find by itself: it must expect that
what is written overlaps what is read, and takes half-width steps.  Any processor runs them, with the widest registers
that it has.  Who changes this file alone deletes `__pycache__`: numba's caches look at the loop's file, `loops.py`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = [
    "LANES",
    "STEP",
    "TERMS",
    "TILE",
    "WIDTH",
    "add_complex_products",
    "add_contracted",
    "add_contracted_transposed",
    "add_products",
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
