"""Options of a run: one frozen record, checked once; an unknown name is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self, TypedDict

import numpy as np
from numpy.typing import DTypeLike

from dshap.core.code_groups import checked_codes
from dshap.core.errors import InputError, shown, unknown_name
from dshap.core.fixed_words import MissingRule
from dshap.core.rules import Choice, Flag, Number, Rule, Text, Whole

MISSING_POLICIES: tuple[MissingRule, ...] = ("refuse", "skip", "pass")
STORED_DTYPES = ("float64", "float32")
WAIT_S = 120.0
"""The seconds that a cluster may be without a worker."""
_TILE = Whole(1, ", or leave it out")
RULES: Mapping[str, Rule] = {
    "missing": Choice(MISSING_POLICIES),
    "dtype": Choice(STORED_DTYPES),
    "units": Text(),
    "max_coalitions": _TILE,
    "instance_tile": _TILE,
    "coalition_tile": _TILE,
    "coalition_groups": _TILE,
    "micro_rows": _TILE,
    "row_span": _TILE,
    "tol": Number(
        0.0,
        1.0,
        open_low=True,
        open_high=True,
        hint=", the largest std_error / range(attributions)",
    ),
    "keep_rows": Flag(),
    "interactions": Flag(),
    "codes": checked_codes,
    "undo_codes": Flag(),
    "stochastic": Flag(),
    "wait": Number(0.0, hint=", the seconds that a cluster may be without a worker"),
    "scratch": Text(),
}
ALWAYS = ("missing", "dtype", "units", "keep_rows", "interactions", "stochastic", "wait")
"""Options that cannot be None."""

_COALITIONS = (
    "Coalitions are max_coalitions, or those of a design: design=dshap.designs.kernelshap(d, 512)."
)
_OF_VALUE = "It belongs to the value function: give it there."
OF_CALLS = (
    "classes",
    "client",
    "compute",
    "design",
    "key",
    "progress",
    "quality",
    "store",
    "what_if",
)
"""Arguments of `explain` that are no options of a run; messages suggest them."""
ELSEWHERE: Mapping[str, str] = {
    "nsamples": _COALITIONS,
    "n_samples": _COALITIONS,
    "samples": _COALITIONS,
    "budget": _COALITIONS,
    "n_coalitions": _COALITIONS,
    "max_evals": _COALITIONS,
    "npermutations": _COALITIONS,
    "n_permutations": "It belongs to a design: design=dshap.designs.permutation(d, 100).",
    "seed": "It belongs to a design: design=dshap.designs.kernelshap(d, 512, seed=1).",
    "random_state": "A seed belongs to a design: design=dshap.designs.kernelshap(d, 512, seed=1).",
    "n_jobs": "Processes are those of a cluster: give client= a Dask client.",
    "workers": "Processes are those of a cluster: give client= a Dask client.",
    "batch_size": "Rows of a task are instance_tile, rows of a call of the model buffer_rows of the value function.",
    "feature_names": _OF_VALUE,
    "classes": _OF_VALUE,
    "output_names": _OF_VALUE,
    "players": _OF_VALUE,
    "link": _OF_VALUE,
    "background": _OF_VALUE,
    "overwrite": "A store is never written over: remove it, or give another store=.",
    "silent": "Progress is hidden by progress=False.",
    "verbose": "Progress is shown by progress=True.",
    "check_additivity": "Every row is checked.",
}
"""Name of an option in other programs, or of another part of dshap -> what to give here instead."""


class TaskOptions(TypedDict, total=False):
    """Options, by keyword, of every call that reads rows; `RunOptions` has their meanings."""

    missing: MissingRule
    coalition_tile: int | None
    row_span: int | None
    micro_rows: int | None
    memory_limit: int | str | None
    wait: float
    scratch: str | None


class LearnOptions(TaskOptions, total=False):
    """Options, by keyword, of `dshap.prepare` and `dshap.mse_v`."""

    max_coalitions: int | None
    instance_tile: int | None


class CubeOptions(TaskOptions, total=False):
    """Options, by keyword, of calls that make a cube."""

    dtype: DTypeLike
    units: str
    codes: Mapping[str, Sequence[str]] | None
    undo_codes: bool | None
    stochastic: bool
    instance_tile: int | None
    coalition_groups: int | None


class ExplainOptions(CubeOptions, total=False):
    """Options, by keyword, of `dshap.explain`."""

    interactions: bool


@dataclass(frozen=True)
class RunOptions:
    """Options of how a run is divided into tasks and stored.

    None means that the plan chooses, from shapes alone, and shows why.

    Examples
    --------
    >>> from dshap.core.options import RunOptions
    >>> options = RunOptions.of({"missing": "skip", "dtype": "float32"})
    >>> options.missing, options.max_coalitions
    ('skip', None)
    """

    missing: MissingRule = "refuse"
    """The treatment of NaN or infinity in a feature: "refuse" the run, "skip" those rows, "pass"
    them to the model."""
    max_coalitions: int | None = None
    """The most coalitions of design "auto", which samples if there would be more; with `tol`,
    the number at which rounds end."""
    tol: float | None = None
    """The largest std_error over the range of a row's attributions at which no more coalitions are
    drawn for it."""
    dtype: str = "float64"
    """The stored type of the attributions; sums are always float64."""
    interactions: bool = False
    """Whether to store `interaction (instance, feature, feature_other, output)` too."""
    codes: Mapping[str, Sequence[str]] | None = None
    """Code -> the players that it groups, such as the reasons of an adverse action notice; each
    player has one code.  If attributions have standard errors, `reason_code_error
    (instance, reason_code, reason_code_other, output)` is stored too: the standard error of the
    difference of two codes, on the diagonal that of one."""
    undo_codes: bool | None = None
    """Whether to evaluate one more coalition for each of the `codes`, and store
    `reason_code_undone (instance, reason_code, output)`: v(N) − v(N without the code's players)."""
    stochastic: bool = False
    """Whether the model may answer differently when asked again: every prediction is then made
    twice, and the standard errors include the noise."""
    keep_rows: bool = False
    """Whether to store the explained columns in the group `rows` of the cube; `explain` without a
    store includes them unless this is False."""
    units: str = "1"
    """The units of the output, for the attributes of the cube."""
    instance_tile: int | None = None
    """The rows of one evaluation task, and of one shard."""
    coalition_tile: int | None = None
    """The number of coalitions prepared together."""
    coalition_groups: int | None = None
    """The number of parts that the coalitions of one instance tile are cut into, each a task of its
    own."""
    micro_rows: int | None = None
    """The number of rows that `evaluate` processes together."""
    row_span: int | None = None
    """The rows of one task of the sums over the data."""
    memory_limit: int | None = None
    """The bytes that one worker process may use; a plan that needs more is refused."""
    wait: float = WAIT_S
    """The seconds that a cluster may be without a worker before the run gives up."""
    scratch: str | None = None
    """The folder for temporary files of a run whose store is in a bucket; workers on other machines
    must see it too.  None: the system's folder for temporary files."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _dtype_name(self.dtype))
        for name, rule in RULES.items():
            given = vars(self)[name]
            if given is not None or name in ALWAYS:
                object.__setattr__(self, name, rule(name, given))
        if self.coalition_groups and self.tol is not None:
            raise InputError(
                "with tol a task goes through all rounds of its rows: leave coalition_groups out"
            )
        if self.stochastic and self.tol is not None:
            raise InputError(
                "stochastic=True and tol: more coalitions do not reduce the noise of a model; "
                "leave one of them out"
            )
        if self.undo_codes and self.stochastic:
            raise InputError(
                "undo_codes and stochastic=True: the sign of a single value could be due to the "
                "noise of the model; leave one of them out"
            )
        if self.undo_codes and self.codes is None:
            raise InputError(
                "undo_codes needs codes, the groups of players that are removed together: give "
                "codes too"
            )
        if self.memory_limit is not None:
            object.__setattr__(self, "memory_limit", parse_bytes(self.memory_limit))

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Self:
        """Build the record from keyword arguments or a job file's table.

        Unknown names raise an `InputError`.
        """
        allowed = [option.name for option in fields(cls)]
        for name in given:
            if name not in allowed:
                raise InputError(_unknown_option(name, allowed))
        options: Mapping[str, Any] = given
        return cls(**options)


def _unknown_option(name: str, allowed: list[str]) -> str:
    """The message for an unknown option: advice for names of other programs, else near names."""
    if name in ELSEWHERE:
        return f"unknown option {name!r}. {ELSEWHERE[name]}"
    return unknown_name("option", name, allowed, OF_CALLS)


def _dtype_name(given: Any) -> Any:
    """The name of a dtype, such as "float32"; anything that is no dtype unchanged."""
    try:
        if given is None:
            return given
        return np.dtype(given).name
    except TypeError:
        return given


_UNITS = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}


def parse_bytes(text: str | int | float) -> int:
    """Parse a memory size in bytes: 2_000_000, "3GiB", "512 MB"."""
    if isinstance(text, int | float) and not isinstance(text, bool) and text > 0:
        return int(text)
    match = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?i?)b?\s*", str(text).lower())
    if not match or not _is_number(match[1]) or float(match[1]) <= 0:
        raise InputError(
            f"memory size {shown(text)} is not understood: write a number of bytes, or like '3GiB' "
            "or '500MB'"
        )
    return int(float(match[1]) * _UNITS[match[2]])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
