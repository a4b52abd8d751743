"""Base of expansions f(x) = c + Re Σ_r A_r Π_j factors_jr(x_j), and sums of expansions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dshap.core.annotations import MatrixLike
from dshap.core.errors import InputError
from dshap.core.records import FloatArray, Record
from dshap.core.rules import Choice, check_fields, finite_array
from dshap.core.scales import MEANINGS, TARGET
from dshap.kernels import ProductKernel
from dshap.models.rows import MICRO_BLOCK, as_rows

NAMES = ("feature_names", "output_names")


class BaseExpansion(ABC):
    """Base of the single expansions, which are frozen dataclasses with arrays and names."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    weights: FloatArray
    intercept: FloatArray
    feature_names: tuple[str, ...] | None
    output_names: tuple[str, ...] | None
    output_scale: str
    kernel: ProductKernel | None
    shapes: ClassVar[tuple[tuple[str, int, str], ...]]
    """(array, number of axes, shape in messages) for each array."""
    stored_name: ClassVar[str]
    """The name of `predict` in the fingerprints of stores, independent of the file it is in."""

    def _hold(self) -> None:
        """Check and store the given arrays and names."""
        for name, ndim, shape in self.shapes:
            object.__setattr__(self, name, finite_array(name, vars(self)[name], (ndim,), shape))
        for name in NAMES:
            check_fields(self, name)
            names = vars(self)[name]
            object.__setattr__(self, name, names if names is None else tuple(map(str, names)))
        Choice(tuple(MEANINGS))("output_scale", self.output_scale)

    def _check_names(self) -> None:
        wanted = (
            (self.feature_names, self.n_columns, "feature"),
            (self.output_names, self.n_outputs, "output"),
        )
        for names, count, what in wanted:
            if names is not None and len(names) != count:
                raise InputError(f"{len(names)} {what} names for {count}: give one for each")

    @property
    def parts(self) -> tuple[BaseExpansion, ...]:
        """The expansions that add up to this one: only itself."""
        return (self,)

    def mapped(self, change: Callable[[BaseExpansion], BaseExpansion]) -> BaseExpansion:
        """Apply a function to this expansion; a sum applies it to each of its parts."""
        return change(self)

    def __add__(self, other: AnyExpansion) -> ExpansionSum:
        """The sum of both expansions."""
        return ExpansionSum((*self.parts, *other.parts))

    @property
    @abstractmethod
    def n_columns(self) -> int: ...

    @property
    @abstractmethod
    def size(self) -> int:
        """r: number of terms."""

    @property
    @abstractmethod
    def coefficients(self) -> NDArray[Any]:
        """A (r, k), real or complex, in f(x) = intercept + Re Σ_r A_r Π_j factors_j."""

    @abstractmethod
    def factors(self, x: FloatArray) -> NDArray[Any]:
        """Factors (columns, n, r) of rows (n, columns); rows are adjacent in memory."""

    @property
    def n_outputs(self) -> int:
        return self.intercept.size

    @abstractmethod
    def moved(self, shift: FloatArray, scale: FloatArray) -> BaseExpansion:
        """The expansion of the same function in original columns x.

        This expansion is a function of (x − shift) / scale; both are (columns,).
        """

    def check(self, rows: FloatArray) -> None:  # noqa: B027 - most are for any row
        """Raise InputError for rows (n, columns) that the model does not apply to."""

    def predict(self, x: MatrixLike) -> FloatArray:
        """f(x) (n, k) in float64, computed for 1,024 rows at a time to bound memory."""
        rows = as_rows(x, self.n_columns, self.feature_names)
        self.check(rows)
        out = np.empty((len(rows), self.n_outputs))  # (n, k)
        for start in range(0, len(rows), MICRO_BLOCK):
            block = slice(start, start + MICRO_BLOCK)
            out[block] = self._sums(rows[block])
        return out + self.intercept

    def predict_bytes(self, n: int) -> int:
        """Peak bytes of a prediction of n rows.

        The columns of a micro-block and of all terms count twice, as they are reordered; then three
        arrays of a micro-block's terms, the predictions twice, and those of a micro-block.
        """
        held = min(n, MICRO_BLOCK)
        r = self.size
        return 8 * (
            2 * (held + r) * self.n_columns + 3 * held * r + (2 * n + held) * self.n_outputs
        )

    @abstractmethod
    def _sums(self, rows: FloatArray) -> FloatArray:
        """f(x) (n, k) without the intercept."""

    def to_record(self) -> Record:
        """The expansion as flat arrays; absent names and kernels are left out."""
        fields = vars(self)
        names = {
            name: np.array(fields[name], dtype=str) for name in NAMES if fields[name] is not None
        }
        arrays = {name: fields[name] for name, _, _ in self.shapes}
        if self.output_scale != TARGET:
            names["output_scale"] = np.array(self.output_scale)
        return Record(
            {**({} if self.kernel is None else self.kernel.to_arrays()), **arrays, **names}
        )

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """Rebuild the expansion that `to_record` stored."""
        arrays = record.arrays
        given: dict[str, Any] = {name: arrays[name] for name, _, _ in cls.shapes}
        given |= {name: tuple(arrays[name]) for name in NAMES if name in arrays}
        given["output_scale"] = str(arrays.get("output_scale", TARGET))
        if "kernel_family" in arrays:
            given["kernel"] = ProductKernel.from_arrays(arrays)
        else:
            given["kernel"] = None
        return cls(**given, **cls._more(arrays))

    @classmethod
    def _more(cls, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """Fields that only this kind of expansion has, from its record."""
        return {}

    def digest(self) -> str:
        """A digest that changes when any array or name does."""
        return self.to_record().digest()


@dataclass(frozen=True, eq=False)
class ExpansionSum:
    """The sum of several expansions on the same columns: f(x) = Σ_p f_p(x).

    Use it for a model whose kernel is a sum of products.  It has the interface of a single
    expansion, with the terms of all parts in their order.  It has no `kernel`, because every part
    has a different one.

    Parameters
    ----------
    expansions : sequence of KernelExpansion, FourierExpansion or ExpansionSum
        At least one.  A sum among them is replaced by its parts.  If some parts have real factors
        and some complex ones, all factors are complex.

    Raises
    ------
    InputError
        The parts differ in the number or the names of columns or outputs.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> from dshap.models import ExpansionSum, KernelExpansion
    >>> kernel, zeros = dshap.kernels.RBF(1.0), np.zeros((1, 2))
    >>> low = KernelExpansion(kernel, zeros, np.array([[2.0]]), np.array([1.0]))
    >>> high = KernelExpansion(kernel, zeros, np.array([[3.0]]), np.array([1.0]))
    >>> total = ExpansionSum([low, high])
    >>> total.predict(zeros).tolist(), total.size
    ([[7.0]], 2)
    """

    expansions: tuple[BaseExpansion, ...]

    def __post_init__(self) -> None:
        parts = [each for given in self.expansions for each in given.parts]
        object.__setattr__(self, "expansions", tuple(parts))
        if not parts:
            raise InputError("a sum of expansions needs at least one")
        sizes = {
            "n_columns": {part.n_columns for part in parts},
            "n_outputs": {part.n_outputs for part in parts},
        }
        for name, counts in sizes.items():
            if len(counts) > 1:
                raise InputError(
                    f"{name} of the parts of a sum are {sorted(counts)}: they must be the same"
                )
        for name in NAMES:
            if len(known := {vars(part)[name] for part in parts} - {None}) > 1:
                raise InputError(
                    f"{name} of the parts of a sum disagree: "
                    f"{' and '.join(map(str, sorted(known)))}"
                )

    @property
    def parts(self) -> tuple[BaseExpansion, ...]:
        return self.expansions

    def mapped(self, change: Callable[[BaseExpansion], BaseExpansion]) -> ExpansionSum:
        """The sum of the parts, with the function `change` applied to each."""
        return ExpansionSum(tuple(map(change, self.expansions)))

    def __add__(self, other: AnyExpansion) -> ExpansionSum:
        return ExpansionSum((*self.parts, *other.parts))

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the first part that has them."""
        return next(
            (part.feature_names for part in self.expansions if part.feature_names is not None), None
        )

    @property
    def output_names(self) -> tuple[str, ...] | None:
        """The names of the first part that has them."""
        return next(
            (part.output_names for part in self.expansions if part.output_names is not None), None
        )

    @property
    def output_scale(self) -> str:
        """The scale of the first part."""
        return self.expansions[0].output_scale

    @property
    def n_columns(self) -> int:
        return self.expansions[0].n_columns

    @property
    def n_outputs(self) -> int:
        return self.expansions[0].n_outputs

    @property
    def size(self) -> int:
        """Number of terms of all parts."""
        return sum(part.size for part in self.expansions)

    @property
    def intercept(self) -> FloatArray:
        """(k,): the sum of the parts' intercepts."""
        return np.sum([part.intercept for part in self.expansions], axis=0)

    @property
    def coefficients(self) -> np.ndarray:
        """(size, k): A_r in f(x) = intercept + Re Σ_r A_r Π_j factors_j; complex if any part is."""
        return np.concatenate([part.coefficients for part in self.expansions])

    def factors(self, x: FloatArray) -> np.ndarray:
        """Factors (columns, n, size) of rows (n, columns); complex if any part is.

        Rows are adjacent in memory.
        """
        return np.concatenate(
            [part.factors(x).swapaxes(1, 2) for part in self.expansions], axis=1
        ).swapaxes(1, 2)

    def predict(self, x: MatrixLike) -> FloatArray:
        """f(x) (n, k) in float64."""
        rows = as_rows(x, self.n_columns, self.feature_names)
        return np.sum([part.predict(rows) for part in self.expansions], axis=0)

    def predict_bytes(self, n: int) -> int:
        """The peak of the largest part, plus the predictions of all parts twice."""
        largest = max(part.predict_bytes(n) for part in self.expansions)
        return largest + 8 * n * self.n_outputs * (2 * len(self.expansions) + 1)

    def to_record(self) -> Record:
        """The arrays of every part, named `part0_landmarks` and so on."""
        parts = enumerate(part.to_record().arrays for part in self.expansions)
        return Record(
            {f"part{p}_{name}": array for p, arrays in parts for name, array in arrays.items()}
        )

    def digest(self) -> str:
        """A digest that changes when any array or name of any part does."""
        return self.to_record().digest()


AnyExpansion = BaseExpansion | ExpansionSum
"""A kernel model as a sum of products: a `dshap.models.KernelExpansion`, a
`dshap.models.FourierExpansion`, or a sum of several."""


def sum_of(expansions: Sequence[AnyExpansion]) -> AnyExpansion:
    """The sum of expansions; a single one unchanged."""
    if len(expansions) == 1:
        return expansions[0]
    return ExpansionSum(tuple(expansions))  # type: ignore[arg-type]
