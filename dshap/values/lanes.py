"""Steps of the loops over tables in explicit vectors, which a compiler does not find by itself: it must expect that
what is written overlaps what is read, and takes half-width steps.  Any processor runs them, with the widest registers
that it has.  Who changes this file alone deletes `__pycache__`: numba's caches look at the loop's file, `loops.py`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["LANES", "STEP", "TERMS", "add_complex_products", "add_products"]

LANES = 16
"""Rows that one step takes: two registers of AVX-512, four of AVX2."""
TERMS = 4
"""Terms that are added up in registers before a partial sum is stored."""
STEP = LANES * TERMS
"""Numbers of an entry of a lattice, or of one of its two planes where factors are complex."""

_WIDTH = 8
"""Numbers of a vector; narrower processors take it in parts."""
_FUSED = ("contract",)


class _Step:
    """Writes the instructions of total[lane] += Re Σ_q left[q, lane] right[q, lane] table[q]."""

    def __init__(self, builder: ir.IRBuilder, pointers: list[Any], offsets: list[Any]) -> None:
        self.builder, self.pointers, self.offsets = builder, pointers, offsets
        self.vector = ir.VectorType(ir.DoubleType(), _WIDTH)

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
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), _WIDTH), [0] * _WIDTH)
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
        for lane in range(0, LANES, _WIDTH):
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
