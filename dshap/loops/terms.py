"""What products are made of: a kernel model, landmarks, frequencies."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from dshap.records import FloatArray

__all__ = ["ColumnTerms", "Terms"]


class Terms(Protocol):
    """Factors of every column."""

    def factors(self, x: FloatArray) -> NDArray[Any]:
        """(columns, n, r), real or complex, of rows (n, columns)."""
        ...


@runtime_checkable
class ColumnTerms(Terms, Protocol):
    """Real factors, of a single column too."""

    def factor(self, column: int, x: FloatArray) -> FloatArray:
        """(n, r) of values (n,) of one column."""
        ...
