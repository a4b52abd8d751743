"""The sums of one row in explicit vectors, which a compiler does not find by itself: it must expect that what is
written overlaps what is read, and keeps no sum in a register.  Any processor runs them, with the widest registers that
it has.

The same in plain numba takes 1.4 to 1.5 times as long in whole runs over rows that share values
(`python -m tests.benchmarks.lanes`), to the same bits.  Who changes this file alone deletes `__pycache__`: numba's
caches look at the file of the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dshap.loops.subset_products import GROUP

__all__ = ["LAST_COLUMNS", "TERM_BLOCK", "WIDTH", "add_shared_row"]

WIDTH = 8
"""Terms of a block whose sums are kept apart until the end: one number each of a vector; narrower processors take it in
parts."""
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
    """Instructions on vectors of numbers, at offsets of arrays."""

    def __init__(self, builder: ir.IRBuilder, pointers: list[Any], offsets: list[Any]) -> None:
        self.builder, self.pointers, self.offsets = builder, pointers, offsets
        self.vector = ir.VectorType(ir.DoubleType(), WIDTH)

    def address(self, array: int, offset: int) -> Any:
        begin = self.offsets[array]
        return self.builder.gep(self.pointers[array], [self.builder.add(begin, ir.Constant(begin.type, offset))])

    def vector_at(self, array: int, offset: int) -> Any:
        return self.builder.bitcast(self.address(array, offset), self.vector.as_pointer())

    def load(self, array: int, offset: int) -> Any:
        return self.builder.load(self.vector_at(array, offset), align=8)

    def times(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b, flags=_FUSED)

    def plus(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b, flags=_FUSED)

    def subset_products(self, factors: list[Any]) -> list[Any]:
        """Of all subsets but the empty one; the first factor is the highest bit."""
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
        begin, index = list(self.offsets), self.offsets[0].type
        with cgutils.for_range(self.builder, ir.Constant(index, TERM_BLOCK // WIDTH)) as loop:
            ahead = self.builder.mul(loop.index, ir.Constant(index, WIDTH))
            self.offsets = [self.builder.add(offset, ahead) for offset in begin]
            products = [None, *self.subset_products([self.load(column, 0) for column in columns])]
            for slot in self._slots(n_members):
                added = self.builder.load(sums[slot])
                for entry, at in self._summands(slot):
                    weight = self.load(table, at * TERM_BLOCK)
                    added = self.plus(added, self.times(products[entry], weight) if entry else weight)
                self.builder.store(added, sums[slot])
        self.offsets = begin
        for slot in self._slots(n_members):
            self.builder.store(self.builder.load(sums[slot]), self.vector_at(total, slot * WIDTH), align=8)

    def _summands(self, slot: int) -> list[tuple[int, int]]:
        """(product, 0 for none, and its place in the table) of one sum."""
        entries = 1 << LAST_COLUMNS
        if slot == 0:
            return [(entries - 1, 0)]
        first = 1 + (slot - entries + 1) * entries
        return [(slot, 1 + slot)] if slot < entries else [(entry, first + entry) for entry in range(entries)]

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
