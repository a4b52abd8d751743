"""Products of single coalitions at chosen terms, from products over groups of columns."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dshap.core.records import BoolArray, FloatArray
from dshap.loops.sizes import PRODUCT_GROUP
from dshap.loops.subset_products import Coalitions


@njit(nogil=True, cache=True)
def fill_wide(factors, bounds, lattice):
    """lattice (groups, entries, r, n): products of all subsets of each group."""
    _, r, n = factors.shape
    for group in range(lattice.shape[0]):
        for term in range(r):
            for row in range(n):
                lattice[group, 0, term, row] = 1.0
        # each column doubles the entries: those without it, times its factor
        for bit in range(bounds[group + 1] - bounds[group]):
            column = bounds[group] + bit
            size = 1 << bit
            for entry in range(size):
                for term in range(r):
                    for row in range(n):
                        lattice[group, size + entry, term, row] = (
                            lattice[group, entry, term, row] * factors[column, term, row]
                        )


@njit(nogil=True, cache=True)
def kept_products(lattice, codes, kept, out):
    """out (q, n): the product of one coalition, codes (groups,), at the selected terms (q,)."""
    n = lattice.shape[3]
    # `Coalitions` have two groups or more
    first = codes[0]
    second = codes[1]
    for position in range(len(kept)):
        term = kept[position]
        for row in range(n):
            out[position, row] = lattice[0, first, term, row] * lattice[1, second, term, row]
        for group in range(2, lattice.shape[0]):
            entry = codes[group]
            for row in range(n):
                out[position, row] *= lattice[group, entry, term, row]


@njit(nogil=True, cache=True)
def _sums(products, weights, out):
    """out (k, n) = Σ_r weights (r, k) products (r, n), four terms at a time."""
    r, n = products.shape
    whole = r - r % 4
    for term in range(0, whole, 4):
        for j in range(weights.shape[1]):
            w = weights[term : term + 4, j]
            for row in range(n):
                out[j, row] += (w[0] * products[term, row] + w[1] * products[term + 1, row]) + (
                    w[2] * products[term + 2, row] + w[3] * products[term + 3, row]
                )
    for term in range(whole, r):
        for j in range(weights.shape[1]):
            for row in range(n):
                out[j, row] += weights[term, j] * products[term, row]


def squares_of_sums(products: NDArray[Any], weights: NDArray[Any]) -> FloatArray:
    """Σ_rows (Re Σ_r weights_r products_r)² (…), for products (n, r) and weights (r, …).

    Products are as `Lattice.product` returns them.  For a few sums: matrix products would spend
    half their time on copies of the products.
    """
    few = np.ascontiguousarray(weights.reshape(len(weights), -1))
    sums = np.zeros((few.shape[1], len(products)), products.dtype)
    _sums(products.T, few, sums)
    return np.asarray(np.square(sums.real).sum(axis=1).reshape(weights.shape[1:]))


class Lattice:
    """Products of the subsets of every group of columns, for a block of rows; buffers are reused.

    All coalitions share them.

    Parameters
    ----------
    columns : (m, c)
        Columns of each coalition.
    n_terms, n_rows : int
        The most terms and rows of a block.
    dtype : float64 or complex128
    coalitions : Coalitions, optional
        Those of these columns, where another lattice has them.
    """

    def __init__(
        self,
        columns: BoolArray,
        n_terms: int,
        n_rows: int,
        dtype: Any,
        coalitions: Coalitions | None = None,
    ) -> None:
        self.coalitions = coalitions or Coalitions.of(columns, PRODUCT_GROUP)
        n_groups = self.coalitions.codes.shape[1]
        self._entries = np.empty(n_groups * self.coalitions.n_entries * n_terms * n_rows, dtype)
        self._product = np.empty(n_terms * n_rows, dtype)
        self._all = np.arange(n_terms)
        self._shape = (n_groups, self.coalitions.n_entries)
        # None rather than itself: a cycle would keep the entries until the next garbage collection
        self._source: Lattice | None = None

    @property
    def order(self) -> NDArray[np.intp]:
        """Coalitions sorted by their entries: consecutive ones find theirs in the cache."""
        return np.lexsort(self.coalitions.codes.T[::-1])

    @property
    def is_shared(self) -> bool:
        """Whether the entries are those of another lattice, which fills them."""
        return self._source is not None

    @property
    def entries(self) -> NDArray[Any]:
        """(groups, entries, r, n): the products of every subset of each group of columns."""
        filled: NDArray[Any] = (self._source or self)._lattice
        return filled

    def also(self, columns: BoolArray) -> Lattice:
        """A lattice of other coalitions (m, c) that uses the entries of this one."""
        other = copy.copy(self)
        other.coalitions = Coalitions.of(columns, PRODUCT_GROUP)
        other._product = np.empty_like(self._product)
        other._source = self
        return other

    def fill(self, factors: NDArray[Any]) -> None:
        """Compute the entries from the factors (c, r, n) of a block of rows."""
        r, n = factors.shape[1:]
        self._lattice = self._entries[: self._shape[0] * self._shape[1] * r * n].reshape(
            *self._shape, r, n
        )
        fill_wide(factors, self.coalitions.bounds, self._lattice)

    def product(self, coalition: int, kept: NDArray[np.integer] | None = None) -> NDArray[Any]:
        """The product (n, q) of one coalition at the selected terms, or at all if None.

        A view, valid until the next call.
        """
        terms = self._all if kept is None else kept
        lattice = self.entries
        n = lattice.shape[3]
        out = self._product[: len(terms) * n].reshape(len(terms), n)
        kept_products(lattice, self.coalitions.codes[coalition], terms, out)
        return out.T
