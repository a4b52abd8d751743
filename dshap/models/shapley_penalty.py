"""The options of the Shapley regulariser: player, strength, kind of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dshap.core.errors import InputError, unknown_name
from dshap.core.rules import Choice, Whole, check_fields, of_kind, refused
from dshap.kernels import Embedding, checked_embedding

VALUES = ("interventional", "observational")
N_COALITIONS = {"interventional": 4_096, "observational": 256}
"""Kind of values -> coalitions listed or drawn by default.

Each costs r operations a row for interventional values, r² for observational ones.
"""
MOST = 1 << 20
"""The most coalitions."""
COALITIONS = Whole(4)
"""The rule of a number of coalitions, which is at most `MOST` too."""


@dataclass(frozen=True)
class ShapleyPenalty:
    """Make a fit rely less on one column: a penalty on the attributions of one player.

    strength · mean over the training rows of φ_A(x)² is added to the objective of a kernel model,
    for the attribution φ_A of player A.

    - "interventional" values ignore that A depends on other columns: the fitted model then uses A
      less, which helps if the distribution of A is expected to change (ISV-REG).
    - "observational" values include this dependence: effects through columns that are correlated
      with A are penalised too, as fair learning requires (OSV-REG).

    Parameters
    ----------
    player : str, int, or a list of them
        A column by its name or position, or several columns that form one player.
    strength : float
        At least 0, in units of the loss divided by those of f²; 0 gives the model without the
        penalty.
    value : {"interventional", "observational"}, default "interventional"
    embedding : Nystrom or Fourier, optional
        Embedding for observational values.  None: the landmarks or features of the model.
    penalty : float or "validate", default "validate"
        λ for observational values.  "validate" chooses one for each coalition.  A fit, which has no
        weights yet, chooses it for all basis functions equally; `KernelObservational` and
        `mean_squared_attribution` choose it for the fitted model.
    n_coalitions : int, optional
        The most coalitions, by default 4,096 for interventional and 256 for observational values;
        at most 2^20.  If d players have no more coalitions than this, all 2^d are listed; else
        this many are drawn: first a size, uniformly, then a coalition among those of the size.
    seed : int, default 0
        Seed of the drawn coalitions.
    rank_tolerance : float, default 1e-6
        Rank tolerance of the embeddings for observational values, as in `KernelObservational`.

    Notes
    -----
    φ_A(x) = Σ_r a_r ζ_r(x) is linear in the weights a of the basis functions, so that the penalty
    is the quadratic form strength · aᵀ(ζᵀζ/n)a.  ζ uses the training rows: as the background of
    interventional values, or to learn the embeddings of observational ones.  A fit needs one more
    pass over the rows for each tile of coalitions, and one for ζᵀζ.  The penalties of several
    outputs are summed.  Source: Chau, Hu, Gonzalez & Sejdinovic, RKHS-SHAP (2022), section 4 and
    Proposition 7; λ_S of the paper is strength · n.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> x = np.random.default_rng(0).normal(size=(80, 2))
    >>> penalty = dshap.models.ShapleyPenalty(player=1, strength=100.0)
    >>> embedding = dshap.kernels.Nystrom(20)
    >>> model = dshap.models.KernelRidge(penalty=1e-3, embedding=embedding, shapley=penalty)
    >>> fitted = model.fit(x, x[:, 0] + x[:, 1])
    >>> phi = dshap.explain(fitted, x, progress=False).attribution.values[:, :, 0]
    >>> first, second = (phi**2).mean(axis=0)
    >>> bool(second < first / 10)
    True
    """

    player: str | int | Sequence[str | int]
    strength: float
    value: Literal["interventional", "observational"] = "interventional"
    embedding: Embedding | None = None
    penalty: float | Literal["validate"] = "validate"
    n_coalitions: int | None = None
    seed: int = 0
    rank_tolerance: float = 1e-6

    def __post_init__(self) -> None:
        object.__setattr__(self, "player", self._plain_player())
        check_fields(self, "penalty", "seed", "rank_tolerance", "strength")
        Choice(VALUES)("value", self.value)
        if self.n_coalitions is not None and COALITIONS("n_coalitions", self.n_coalitions) > MOST:
            raise refused("n_coalitions", self.n_coalitions, f"a whole number of at most {MOST}")
        if self.embedding is not None:
            checked_embedding(self.embedding)

    def _plain_player(self) -> str | int | tuple[str | int, ...]:
        """The player as a string, an integer or a tuple of them."""
        is_one = isinstance(self.player, str | int | np.integer)
        given: Any = self.player
        if is_one:
            given = [self.player]
        is_list = isinstance(given, Sequence | np.ndarray) and len(given) > 0
        if not is_list or not all(_is_column(each) for each in given):
            raise refused("player", self.player, "a column's name or position, or a list of them")
        plain = tuple(each if isinstance(each, str) else int(each) for each in given)
        if is_one:
            return plain[0]
        return plain

    @property
    def columns(self) -> tuple[str | int, ...]:
        """The player's columns, as given."""
        if isinstance(self.player, str | int):
            return (self.player,)
        return tuple(self.player)

    def positions(self, n_columns: int, names: Sequence[str] | None) -> list[int]:
        """Positions of the player's columns in a table; unnamed columns are called x0, x1, ….

        Raises
        ------
        InputError
            A column that does not exist, or that is named twice.
        """
        if names:
            known = [str(name) for name in names]
        else:
            known = [f"x{j}" for j in range(n_columns)]
        found = [_position(each, known) for each in self.columns]
        if len(set(found)) < len(found):
            raise InputError(f"player {list(self.columns)} names a column twice: give each once")
        return found

    @property
    def most_coalitions(self) -> int:
        """The most coalitions that are listed or drawn."""
        return self.n_coalitions or N_COALITIONS[self.value]


def _position(column: str | int, names: Sequence[str]) -> int:
    """Position of a column given by name or position."""
    if isinstance(column, str):
        if column not in names:
            raise InputError(unknown_name("player", column, names))
        return names.index(column)
    if not 0 <= column < len(names):
        raise InputError(
            f"player {column} is not a column: a whole number is a position, 0 to "
            f"{len(names) - 1}; give a name as text"
        )
    return column


def _is_column(given: Any) -> bool:
    """Whether it is a name or a position."""
    return isinstance(given, str | int | np.integer) and not isinstance(given, bool)


def checked_penalty(given: Any) -> ShapleyPenalty:
    """The penalty; InputError for any other object."""
    asked = "dshap.models.ShapleyPenalty(player, strength)"
    penalty: ShapleyPenalty = of_kind("penalty", given, ShapleyPenalty, asked)
    return penalty
