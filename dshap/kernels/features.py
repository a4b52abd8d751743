"""Features of product kernels on any subset of the columns, for embeddings and models.

An `Embedding` defines how features are chosen (`Nystrom` landmarks, `Fourier` frequencies).  Bound
to a kernel and its anchors it is a `Basis`: per-column factors (columns, n, q), real or complex.
Their products over a subset S of the columns become real features Φ_S (n, p) with Φ_S Φ_Sᵀ ≈ K_S,
and weights of these features become coefficients of the products, so that Φ_S w = Re(products ·
coefficients).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.records import JSON, BoolArray, FloatArray
from dshap.core.rules import check_fields, of_kind
from dshap.kernels.product import ProductKernel


class SubsetFeatures(Protocol):
    """The features Φ_S of one subset S of the columns, from products (n, q_S) of factors over S."""

    @property
    def kept(self) -> NDArray[np.intp]:
        """(q_S,): positions of the products that are used, among all q."""
        ...

    @property
    def n_features(self) -> int:
        """Number of features p_S."""
        ...

    def whitened(self, products: np.ndarray) -> FloatArray:
        """Φ_S (n, p_S) from the selected products (n, q_S); Φ_S Φ_Sᵀ approximates K_S."""
        ...

    def coefficients(self, weights: FloatArray) -> np.ndarray:
        """Coefficients (q_S, k) of weights (p_S, k): Φ_S weights = Re(products · coefficients)."""
        ...

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Flat arrays of the features; `kept` is one of them."""
        ...

    def describe(self) -> str:
        """A line of text for people."""
        ...


class Basis(Protocol):
    """An embedding bound to a kernel and its anchors."""

    @property
    def size(self) -> int:
        """Number of products q."""
        ...

    @property
    def dtype(self) -> type[np.float64 | np.complex128]:
        """Type of the factors: float64 or complex128."""
        ...

    @property
    def noun(self) -> str:
        """Name of the features' origin, in the plural, for error messages."""
        ...

    @property
    def points(self) -> FloatArray:
        """Rows (·, columns) that single features represent, in their order; at least one."""
        ...

    def factors(self, x: FloatArray) -> np.ndarray:
        """Factors (columns, n, q) of rows (n, columns); rows are neighbours in memory."""
        ...

    def matrix(self, x: FloatArray) -> np.ndarray:
        """Products (n, q) over all columns."""
        ...

    def subset(self, columns: BoolArray) -> SubsetFeatures:
        """The features of the columns (columns,) that are True."""
        ...


@runtime_checkable
class Embedding(Protocol):
    """A way to approximate a kernel by finitely many features: `Nystrom` or `Fourier`."""

    @property
    def size(self) -> int:
        """Number of products q."""
        ...

    @property
    def n_features(self) -> int:
        """The most real features p."""
        ...

    @property
    def dtype(self) -> type[np.float64 | np.complex128]:
        """Type of the products: float64 or complex128."""
        ...

    @property
    def sample_size(self) -> int:
        """Number of rows of the data that `anchors` needs; 0 if none."""
        ...

    @property
    def has_categories(self) -> bool:
        """Whether the embedding works for categorical columns."""
        ...

    def anchor_bytes(self, n_rows: int, n_columns: int) -> int:
        """Bytes of `anchors` and `basis` from a sample of n rows.

        The kernel matrix of the anchors is not counted.
        """
        ...

    def anchors(
        self, sample: FloatArray, kernel: ProductKernel, coordinates: FloatArray | None = None
    ) -> FloatArray:
        """Landmarks or frequencies (q, columns)."""
        ...

    def basis(self, kernel: ProductKernel, anchors: FloatArray, rank_tolerance: float) -> Basis:
        """The features of a kernel by these landmarks or frequencies."""
        ...

    def fingerprint(self) -> dict[str, JSON]:
        """Plain values that determine every feature."""
        ...


def checked_embedding(given: object) -> Embedding:
    """Check that an object is an embedding; anything else raises an InputError.

    Examples
    --------
    >>> import dshap
    >>> dshap.kernels.checked_embedding(dshap.kernels.Nystrom(50)).n_landmarks
    50
    """
    asked = (
        "dshap.kernels.Nystrom(n_landmarks) or Fourier(n_features); "
        "for landmarks of your own Nystrom(landmarks=X[:40])"
    )
    embedding: Embedding = of_kind("embedding", given, Embedding, asked)
    return embedding


def _student(degrees: float) -> Any:
    return lambda rng, n: rng.standard_t(degrees, n)


SPECTRA: Mapping[str, Callable[[np.random.Generator, int], FloatArray]] = {
    "rbf": lambda rng, n: rng.standard_normal(n),
    "laplacian": _student(1.0),
    "matern32": _student(3.0),
    "matern52": _student(5.0),
}
"""family -> draws (n,) from the spectral distribution of its factor at length-scale 1 (Bochner).

Normal, Cauchy or Student.
"""


@dataclass(frozen=True)
class Fourier:
    """Random Fourier features: approximate a kernel by cosines and sines of random frequencies.

    k(x, z) = E cos ω·(x − z), with frequencies ω from the spectral distribution of the kernel.  For
    a subset of the columns, the same frequencies are restricted to these columns.

    Parameters
    ----------
    n_features : int
        Number of real features, even, such as 1_000: a cosine and a sine for each of n_features / 2
        frequencies.
    seed : int
        Seed of the frequencies.
    orthogonal : bool
        True: make the frequencies of the c RBF columns orthogonal in groups of c, which lowers the
        variance (Yu et al. 2016).  Those of Laplacian and Matérn columns are always independent.

    Notes
    -----
    Fourier features exist for RBF, Laplacian and Matérn columns.  A categorical column has no
    frequencies: use `Nystrom`.  Source: Rahimi & Recht, Random Features for Large-Scale Kernel
    Machines (2007); Yu et al., Orthogonal Random Features (2016).

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> from dshap.kernels import RBF, Fourier
    >>> x = np.random.default_rng(0).normal(size=(100, 1))
    >>> model = dshap.models.KernelRidge(kernel=RBF(1.0), embedding=Fourier(200), penalty=1e-6)
    >>> fitted = model.fit(x, np.sin(x[:, 0]))
    >>> bool(np.abs(fitted.predict(x) - np.sin(x[:, 0])).max() < 0.1)
    True
    """

    n_features: int
    seed: int = 0
    orthogonal: bool = True

    dtype = np.complex128
    sample_size = 0
    has_categories = False

    def __post_init__(self) -> None:
        check_fields(self, "n_features", "seed", "orthogonal")

    @property
    def size(self) -> int:
        """Number of frequencies."""
        return self.n_features // 2

    def anchors(
        self, sample: FloatArray, kernel: ProductKernel, coordinates: FloatArray | None = None
    ) -> FloatArray:
        """Frequencies (q, columns) in radians per unit of each column; the sample is not used.

        Raises
        ------
        InputError
            A categorical column.
        """
        refused = [column for column, family in enumerate(kernel.families) if family not in SPECTRA]
        if refused:
            raise InputError(
                f"column {refused[0]} has a {kernel.families[refused[0]]} kernel, which has no "
                "frequencies: use "
                "Nystrom landmarks, or an RBF, Laplacian or Matern kernel on that column"
            )
        rng = np.random.default_rng(self.seed)
        draws = np.column_stack([SPECTRA[family](rng, self.size) for family in kernel.families])
        is_rbf = np.array([family == "rbf" for family in kernel.families])
        if self.orthogonal and is_rbf.sum() > 1:
            draws[:, is_rbf] = _orthogonal(draws[:, is_rbf], rng)
        return np.asarray(draws / kernel.parameters)

    def basis(
        self, kernel: ProductKernel, anchors: FloatArray, rank_tolerance: float
    ) -> FourierBasis:
        """The features of a kernel by these frequencies (q, columns)."""
        return FourierBasis(kernel, anchors)

    def anchor_bytes(self, n_rows: int, n_columns: int) -> int:
        """0: frequencies are drawn without rows."""
        return 0

    def fingerprint(self) -> dict[str, JSON]:
        """Plain values that determine every feature."""
        return {
            "kind": "fourier",
            "n_features": self.n_features,
            "seed": self.seed,
            "orthogonal": self.orthogonal,
        }


def unit_circle(angle: FloatArray) -> NDArray[np.complex128]:
    """e^{i·angle} by real cosines and sines, which numpy has vectorised."""
    out = np.empty(angle.shape, np.complex128)
    np.cos(angle, out=out.real)
    np.sin(angle, out=out.imag)
    return out


def _orthogonal(gaussian: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Rows of the given lengths in directions that are orthogonal in groups.

    A group has as many rows as there are columns.
    """
    q, c = gaussian.shape
    length = np.linalg.norm(gaussian, axis=1, keepdims=True)
    groups = [np.linalg.qr(rng.standard_normal((c, c))) for _ in range(-(-q // c))]
    # with the signs of R, Q is uniform among the orthogonal matrices; LAPACK's own signs are not
    directions = np.concatenate([(each * np.sign(np.diagonal(upper))).T for each, upper in groups])
    return directions[:q] * length


@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """The Fourier features of a subset of the columns: Φ_S = [Re, Im](products)/√q.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.kernels import RBF, FourierBasis
    >>> basis = FourierBasis(RBF(1.0).bind(2), frequencies=np.ones((4, 2)))
    >>> features = basis.subset(np.array([True, False]))
    >>> type(features).__name__, features.n_features
    ('FourierFeatures', 8)
    """

    kept: NDArray[np.intp]
    """(q,): positions of the frequencies; all of them."""

    @property
    def n_features(self) -> int:
        """Number of real features: a cosine and a sine for each frequency."""
        return 2 * len(self.kept)

    def whitened(self, products: np.ndarray) -> FloatArray:
        """Φ_S (n, 2q) from products (n, q)."""
        return np.hstack([products.real, products.imag]) / np.sqrt(len(self.kept))

    def coefficients(self, weights: FloatArray) -> np.ndarray:
        """Complex coefficients (q, k): a·cos + b·sin = Re((a − ib) e^{iω·x})."""
        cos, sin = np.split(weights, 2)
        return np.asarray((cos - 1j * sin) / np.sqrt(len(self.kept)))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The positions of the frequencies, as `kept`."""
        return {"kept": self.kept}

    def describe(self) -> str:
        """A line of text for people."""
        return f"frequencies: {len(self.kept)}, a cosine and a sine each"


@dataclass(frozen=True, eq=False)
class FourierBasis:
    """Random Fourier features of a kernel, with the frequencies drawn.

    Each column j and frequency r has a factor e^{iω_rj x_j}; a subset of the columns has the products
    of its factors.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.kernels import RBF, FourierBasis
    >>> basis = FourierBasis(RBF(1.0).bind(2), frequencies=np.ones((4, 2)))
    >>> basis.size, basis.matrix(np.zeros((3, 2))).shape
    (4, (3, 4))
    """

    kernel: ProductKernel
    """The kernel that the features approximate."""
    frequencies: FloatArray
    """ω (q, columns), in radians per unit of each column."""

    dtype = np.complex128
    noun = "Fourier features"

    @property
    def size(self) -> int:
        """Number of frequencies q."""
        return len(self.frequencies)

    @property
    def points(self) -> FloatArray:
        """The origin (1, columns): frequencies represent no rows."""
        return np.zeros((1, self.frequencies.shape[1]))

    def factors(self, x: FloatArray) -> np.ndarray:
        """Factors (columns, n, q) of rows x (n, columns)."""
        return unit_circle(self.frequencies.T[:, :, None] * x.T[:, None, :]).swapaxes(1, 2)

    def matrix(self, x: FloatArray) -> np.ndarray:
        """Products e^{iω·x} (n, q) over all columns."""
        return unit_circle(x @ self.frequencies.T)

    def subset(self, columns: BoolArray) -> FourierFeatures:
        """The features of a subset of the columns; all frequencies are used."""
        return FourierFeatures(np.arange(self.size))
