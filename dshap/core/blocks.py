"""Blocks: coalitions of a design, rows of a table, attributions of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dshap.core.records import BoolArray, FloatArray

__all__ = [
    "EMPTY",
    "FULL",
    "NOT_SERVED",
    "N_ENDS",
    "REASONS",
    "ROUNDING",
    "Attribution",
    "CoalitionBlock",
    "DesignInfo",
    "Groups",
    "RowBlock",
    "Scored",
    "Status",
    "jackknife_errors",
    "relative_errors",
]

EMPTY = 0
FULL = 1
N_ENDS = 2
"""The number of trivial coalitions at the head of every list: the empty one, then the full one.
Proper coalitions begin at this index.  The values of the two are v(empty) and v(N), computed by
the model in float64, so a value function is never asked for them."""


class GroupParts(NamedTuple):
    """Consecutive groups whose sums are over the same coalitions of a block."""

    groups: slice
    coalitions: NDArray[np.intp]
    """(m,): positions of the coalitions in the block."""
    scores: FloatArray
    """(groups, m, c): the factors of their values in the sum of each group."""

    def add(self, values: FloatArray, sums: FloatArray) -> None:
        """Add values (n, m of the block, k) × scores to sums (R, n, c, k)."""
        each = self.scores.swapaxes(1, 2)[:, None]
        sums[self.groups] += np.matmul(each, values[:, self.coalitions])


class Groups(NamedTuple):
    """A table of which coalition values of a block enter the sums of which jackknife groups.

    Each of the e entries pairs a coalition with a group.  A value may enter the sum of one group,
    of several, or of none.

    Examples
    --------
    >>> import dshap
    >>> block = dshap.designs.kernelshap(8, 64).block(0, 64)
    >>> type(block.groups).__name__
    'Groups'
    >>> len(block.groups.coalition) == len(block.groups.group) == len(block.groups.score)
    True
    """

    coalition: NDArray[np.intp]
    """(e,): position of the coalition in the block."""
    group: NDArray[np.int16]
    """(e,): the group, 0 to R − 1."""
    score: FloatArray
    """(e, c): the factors of the value in the sum of this group; c is `group_columns` of the
    design."""

    @classmethod
    def none(cls, n_columns: int) -> Groups:
        """Groups without any entry."""
        return cls(np.zeros(0, np.intp), np.zeros(0, np.int16), np.zeros((0, n_columns)))

    def parts(self) -> list[tuple[int, NDArray[np.intp], FloatArray]]:
        """List (group, positions, scores) of every group that has entries here."""
        entries = ((int(g), self.group == g) for g in np.unique(self.group))
        return [(g, self.coalition[chosen], self.score[chosen]) for g, chosen in entries]

    def together(self) -> list[GroupParts]:
        """The groups that have entries here; neighbours with the same coalitions are one."""
        found: list[GroupParts] = []
        for g, coalitions, score in self.parts():
            one = GroupParts(slice(g, g + 1), coalitions, score[None])
            if found and _is_alike(found[-1], one):
                before = found.pop()
                both = np.concatenate([before.scores, one.scores])
                one = GroupParts(slice(before.groups.start, g + 1), coalitions, both)
            found.append(one)
        return found


def _is_alike(before: GroupParts, after: GroupParts) -> bool:
    """Whether groups follow one another and have the same coalitions."""
    is_next = before.groups.stop == after.groups.start
    return is_next and np.array_equal(before.coalitions, after.coalitions)


class CoalitionBlock(NamedTuple):
    """The coalitions of a design at the positions start to stop − 1, with their scores.

    Examples
    --------
    >>> import dshap
    >>> block = dshap.designs.exact(3).block(0, 4)
    >>> type(block).__name__, block.masks.shape, block.score.shape
    ('CoalitionBlock', (4, 3), (4, 3))
    """

    masks: BoolArray
    """(m, d): True if the player is present in the coalition."""
    score: FloatArray
    """(m, d): the factor of each coalition's value in the sum of each player."""
    groups: Groups
    """The values that enter the sums of the jackknife groups."""


@dataclass(frozen=True)
class DesignInfo:
    """Sizes and properties of a design that are known before any value is computed.

    Examples
    --------
    >>> import dshap
    >>> info = dshap.designs.kernelshap(8, 64).info
    >>> type(info).__name__, info.n_players, info.n_coalitions, info.n_replicates
    ('DesignInfo', 8, 64, 20)
    >>> info.is_efficient, info.has_errors
    (True, True)
    """

    n_players: int
    """The number of players, d."""
    n_coalitions: int
    """The number of distinct coalitions, m, with the empty and the full one."""
    n_replicates: int
    """The number of jackknife groups, R; 0 without a sampling error, or if none is asked for."""
    group_columns: int
    """The number of columns of a group's sum, c: d, or fewer if players share an error."""
    is_efficient: bool = True
    """Whether phi.sum(1) + base == prediction by construction."""
    has_errors: bool = True
    """Whether standard errors are asked for; False for a sampled design with n_replicates=0."""
    why_no_errors: str = ""
    """The reason why all standard errors are NaN (too few coalitions); empty if they are not."""
    seed: int = 0
    """The seed of the sampled coalitions; 0 if nothing is drawn."""
    kept_bytes: int = 0
    """Peak bytes that a process needs, for any block, to make blocks and replicates."""
    coalition_bytes: int = 0
    """Bytes for each coalition of a block beyond `kept_bytes`; 0: `block_bytes` counts a mask,
    scores and the group scores."""

    n_units: int = 0
    """The number of independent draws behind the coalitions if these are fewer, such as
    permutations; 0: each coalition is one draw."""
    drawn: tuple[bool, ...] = ()
    """(d,): True for players whose attributions have a sampling error; empty: all of them."""

    has_graph: bool = False
    """Whether a graph of the players decides the coalitions: then no player can be left out, and
    the coalitions of one size are not drawn uniformly."""

    @property
    def is_whole(self) -> bool:
        """Whether every coalition is listed."""
        return self.n_coalitions >= 1 << self.n_players

    @property
    def why_no_order(self) -> str:
        """Why no order of attributions is certain; empty if they are exact or have errors."""
        is_exact = self.is_whole or (self.has_graph and self.has_errors)
        if self.why_no_errors or self.n_replicates or is_exact:
            return self.why_no_errors
        return (
            f"the design lists {self.n_coalitions:,} of 2^{self.n_players} coalitions and has "
            "n_replicates = 0: give n_replicates = 20, or a design with standard errors"
        )

    @property
    def unmet(self) -> float:
        """An upper 95 % bound on the share of coalitions unlike all that were drawn: 3/m.

        This is the rule of three: what none of m independent draws shows is less frequent than 3/m
        with 95 % confidence.  It is 0 if all coalitions are listed, where there are no groups,
        and if errors are NaN.
        """
        if self.is_whole or not self.n_replicates or self.why_no_errors:
            return 0.0
        return 3.0 / (self.n_units or self.n_coalitions)

    def block_bytes(self, m: int) -> int:
        """Peak bytes of a block of m coalitions and of splitting its groups; `kept_bytes` count."""
        if self.n_replicates:
            of_groups = 8 * self.group_columns + 26 * self.n_replicates
        else:
            of_groups = 0
        # a mask of one byte and a score of eight for each player
        return self.kept_bytes + m * (self.coalition_bytes or 9 * self.n_players + of_groups)


Scored = Callable[[FloatArray, int], tuple[FloatArray, FloatArray | None]]
"""A function of rows (n, columns) and the rows of a micro-block; it returns Σ_S v_S(x) score_S (n, d,
k), and predictions (n, k) or None."""


class Status:
    """The values of `status (instance)` in a cube: whether a row is explained, and why not.

    They are flag values as the CF conventions have them, and `MEANINGS` has their words.

    Examples
    --------
    >>> from dshap.blocks import Status
    >>> Status.OK, Status.SKIPPED
    (1, 2)
    >>> Status.MEANINGS[Status.OK], Status.MEANINGS[Status.SKIPPED]
    ('ok', 'skipped')
    """

    PENDING = 0
    OK = 1
    SKIPPED = 2
    FAILED = 3
    MEANINGS = ("pending", "ok", "skipped", "failed")


REASONS = "reasons"
"""The entry, in sums over a part of the coalitions, that gives the reasons why rows failed: (n,)
text, empty for rows that did not."""
NOT_SERVED = "not_served"
"""Name, in `Attribution.counted`, of the number of rows that the pilot of a design does not serve."""
FILL: Mapping[str, int] = {"status": Status.FAILED, "n_coalitions": 0, "classes": -1}
"""Field of `Attribution` -> the value that marks a failed row, for the fields not marked by NaN."""


@dataclass(frozen=True)
class Attribution:
    """Attributions of n instances, in the order of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.blocks import Attribution, Status
    >>> phi = np.array([[[1.0], [2.0]], [[0.0], [3.0]]])  # (n, d, k)
    >>> status = np.array([Status.OK, Status.SKIPPED], np.int8)
    >>> prediction = np.array([[8.0], [8.0]])
    >>> found = Attribution(phi, base=np.array([5.0]), prediction=prediction, status=status)
    >>> found.is_ok.tolist(), found.good.phi.shape
    ([True, False], (1, 2, 1))
    """

    phi: FloatArray
    """(n, d, k): the attributions."""
    base: FloatArray
    """(k,): v(empty), the mean prediction over the background; (n, k) if the link makes it
    differ between rows."""
    prediction: FloatArray
    """(n, k): v(N)."""
    status: NDArray[np.int8]
    """(n,): flags of `Status`."""
    replicates: FloatArray | None = None
    """(R, n, d, k): phi_(g) of `Design.replicates`; None if the design gives none."""

    of_coalitions: FloatArray | None = None
    """(n, d, k): the standard errors without the part of random draws that the values are means over;
    None: those of the replicates."""

    n_coalitions: NDArray[np.int32] | None = None
    """(n,): the number of coalitions used for each row; None if all rows use all."""

    interaction: FloatArray | None = None
    """(n, d, d, k): half the Shapley interaction index off the diagonal, main effects on it; each
    row of the matrix sums to phi."""

    undone: FloatArray | None = None
    """(n, C, k): v(N) − v(N without the players of each code); None if not asked for."""

    classes: NDArray[np.int16] | None = None
    """(n,): the class that a row is explained for, where the link uses the predicted one."""

    stated: Mapping[str, Sequence[float] | float] = field(default_factory=dict)
    """Name of a number that a closed form states, such as an error -> its values for these rows;
    the cube stores the largest over all tiles."""

    counted: Mapping[str, int] = field(default_factory=dict)
    """Name of a property -> how many of these rows have it; the cube adds them up over all tiles."""

    reasons: Mapping[int, str] = field(default_factory=dict)
    """Position of a failed row -> the reason; its attribution is NaN."""

    @property
    def is_ok(self) -> BoolArray:
        """(n,): True for rows that have an attribution."""
        return self.status == Status.OK

    @property
    def good(self) -> Attribution:
        """The attributions of the rows whose status is ok."""
        is_ok = self.is_ok
        if is_ok.all():
            return self
        kept: dict[str, Any] = {
            name: np.compress(is_ok, array, axis) for name, array, axis in self._by_row()
        }
        return replace(self, **kept, reasons={})

    def placed(self, n: int, at: NDArray[np.intp], reasons: Mapping[int, str]) -> Attribution:
        """Put these rows at the positions `at` of n rows; the other rows failed.

        `reasons` maps the positions of failed rows to the reasons.
        """
        if len(at) == n:
            return self
        placed: dict[str, Any] = {
            name: _placed(array, n, at, axis, FILL.get(name, np.nan))
            for name, array, axis in self._by_row()
        }
        own = {int(at[i]): reason for i, reason in self.reasons.items()}
        return replace(self, **placed, reasons={**own, **reasons})

    @staticmethod
    def joined(parts: Sequence[Attribution]) -> Attribution:
        """Join the attributions of consecutive rows."""
        first = parts[0]
        if len(parts) == 1:
            return first
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts], axis)
            for name, _, axis in first._by_row()
        }
        starts = np.cumsum([0, *(len(part.phi) for part in parts)]).tolist()
        reasons = {
            start + position: reason
            for start, part in zip(starts, parts, strict=False)
            for position, reason in part.reasons.items()
        }
        stated = {
            name: np.max([part.stated[name] for part in parts], axis=0).tolist()
            for name in first.stated
        }
        counted = {name: sum(part.counted.get(name, 0) for part in parts) for name in first.counted}
        return replace(first, **arrays, stated=stated, counted=counted, reasons=reasons)

    def _by_row(self) -> list[tuple[str, NDArray[Any], int]]:
        """List (field, its array, the axis of the rows) of every array that is present."""
        axes = dict.fromkeys(
            (
                "phi",
                "prediction",
                "status",
                "n_coalitions",
                "interaction",
                "undone",
                "classes",
                "of_coalitions",
            ),
            0,
        )
        axes["replicates"] = 1
        if self.base.ndim == 2:
            axes["base"] = 0
        arrays = ((name, getattr(self, name), axis) for name, axis in axes.items())
        return [each for each in arrays if each[1] is not None]

    @property
    def relative_error(self) -> FloatArray | None:
        """(n, k): the largest std_error of a player over the range of the attributions.

        None without standard errors; NaN if these are NaN.
        """
        errors = self.std_error
        if errors is None:
            return None
        return relative_errors(self.phi, errors, self.base, self.prediction)

    @cached_property
    def std_error(self) -> FloatArray | None:
        """(n, d, k): jackknife standard errors in the units of phi; None without replicates."""
        if self.replicates is None:
            return None
        return jackknife_errors(self.phi, self.replicates)


def _placed(
    values: NDArray[Any], n: int, at: NDArray[np.intp], axis: int, fill: float
) -> NDArray[Any]:
    """Place values at the positions `at` of n along an axis, with `fill` elsewhere."""
    shape = (*values.shape[:axis], n, *values.shape[axis + 1 :])
    out = np.full(shape, fill, values.dtype)
    out[(slice(None),) * axis + (at,)] = values
    return out


def jackknife_errors(estimate: FloatArray, replicates: FloatArray) -> FloatArray:
    """Standard errors √Σ_g (x_(g) − x)² of estimates x from jackknife replicates x_(g).

    The groups are added one after the other, so that no array of all differences is made.

    Parameters
    ----------
    estimate : (…) array
        The estimates x from all groups.
    replicates : (R, …) array
        The estimates x_(g) without each group, scaled as `Design.replicates` returns them.

    Returns
    -------
    (…) array
        A standard error for each estimate, in its units.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.blocks import jackknife_errors
    >>> estimate = np.array([1.0, 2.0])
    >>> replicates = np.array([[1.3, 2.0], [0.6, 2.0]])  # (R, …): each without one group
    >>> jackknife_errors(estimate, replicates).round(9).tolist()
    [0.5, 0.0]
    """
    total = np.zeros(estimate.shape)
    for replicate in replicates:
        total += np.square(replicate - estimate)
    return np.sqrt(total)


ROUNDING = 1e-12
"""Rounding error relative to |v(empty)| + |v(N)|: a smaller standard error counts as 0."""


def relative_errors(
    phi: FloatArray, std_error: FloatArray, v_empty: FloatArray, v_full: FloatArray
) -> FloatArray:
    """Relative errors of rows: the largest std_error of a player over the range of φ.

    A ratio of 0.05 means that the least certain attribution of a row is known to within 5 % of the
    distance between its largest and its smallest one.  The range of estimates φ̂ exceeds that of φ,
    because of their noise, so that max φ̂ − min φ̂ is multiplied by √(1 − mean std_error²/var φ̂).

    Parameters
    ----------
    phi, std_error : (n, d, k) arrays
        Attributions and their standard errors.
    v_empty, v_full : (n, k) or (k,) arrays
        Base values and predictions, which determine which errors are mere rounding.

    Returns
    -------
    (n, k) array
        0 if the largest error is rounding, infinity if nothing but noise distinguishes the
        players, NaN if the error is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.blocks import relative_errors
    >>> phi = np.array([[[4.0], [0.0]]])  # (n, d, k)
    >>> std_error = np.array([[[0.0], [0.0]]])
    >>> relative_errors(phi, std_error, np.array([[0.0]]), np.array([[4.0]])).tolist()
    [[0.0]]
    """
    largest = std_error.max(axis=1)
    spread = phi.var(axis=1)
    largest = np.where(largest <= ROUNDING * (np.abs(v_empty) + np.abs(v_full)), 0.0, largest)
    noise = np.square(std_error).mean(axis=1)
    signal = np.divide(
        np.maximum(spread - noise, 0.0), spread, out=np.zeros_like(spread), where=spread > 0
    )
    span = np.ptp(phi, axis=1) * np.sqrt(signal)
    ratio: FloatArray = np.divide(
        largest, span, out=np.where(largest == 0, 0.0, np.inf), where=span > 0
    )
    # without a range the ratio of an unknown error would be infinite above
    return np.where(np.isnan(largest), np.nan, ratio)


@dataclass(frozen=True)
class RowBlock:
    """Consecutive rows of a table, as the tasks read them.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.blocks import RowBlock
    >>> x = np.array([[1.0, 2.0], [np.nan, 3.0]])
    >>> block = RowBlock(start=10, x=x, is_ok=np.isfinite(x).all(axis=1))
    >>> block.stop, block.positions.tolist(), block.good.tolist()
    (12, [10, 11], [[1.0, 2.0]])
    """

    start: int
    """The position of the first row in the table."""
    x: FloatArray
    """(n, columns) float64: the feature columns in the order of `RowReader.feature_names`."""
    is_ok: BoolArray
    """(n,): False if a feature is NaN or infinite and `missing` is not "pass"."""
    keys: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Key column -> (n,): int64, datetime64[ns] or StringDType."""
    target: FloatArray | None = None
    """(n,) or (n, k): the target; only if asked for."""
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Feature column -> (n,) in its own dtype; only if asked for."""
    predictions: FloatArray | None = None
    """(good rows, k): the predictions f(x); only if asked for."""
    null_keys: Mapping[str, BoolArray] = field(default_factory=dict)
    """Key column -> (n,): True if the key is null; columns without nulls are left out."""

    @property
    def stop(self) -> int:
        return self.start + len(self.x)

    @property
    def positions(self) -> NDArray[np.int64]:
        """(n,): the positions of the rows in the table."""
        return self.start + np.arange(len(self.x))

    @property
    def targets(self) -> FloatArray:
        """The target of the rows; a ValueError if the reader was opened without one."""
        if self.target is None:
            raise ValueError("the reader was opened without a target")
        return np.asarray(self.target)

    @property
    def good(self) -> FloatArray:
        """The rows (n, columns) whose `is_ok` is True."""
        return self.x[self.is_ok]
