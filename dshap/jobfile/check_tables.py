"""The tables [[check]] of a job file: the number that each measures, and its bounds.

A number equal to a bound passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from dshap.core.errors import unknown_name
from dshap.jobfile.fields import NotEmpty
from dshap.jobfile.kinds import Kinds, KindTable

Bound = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
PREVIOUS = "previous"
"""The word for the run before, in `against`."""


class CheckTable(KindTable):
    """A table [[check]]: it warns or fails if its number is beyond a bound."""

    name: str = ""
    """The name in messages and records; by default the kind, after the name of the explanation if
    there are several."""
    explain: str = ""
    """The name of the explanation; leave it out if the job has only one."""
    warn: Bound | None = None
    """The bound beyond which the run warns."""
    error: Bound | None = None
    """The bound beyond which the run ends with exit status 8."""
    blocks_sinks: bool = False
    """Whether it is judged before the sinks are loaded; if it fails, they are not loaded."""

    @model_validator(mode="after")
    def _check_bounds(self) -> CheckTable:
        if self.warn is None and self.error is None:
            raise ValueError(
                f'kind = "{self.kind}" compares with nothing without a bound: give warn, error or '
                "both"
            )
        if (
            self.warn is not None
            and self.error is not None
            and self.is_beyond(self.warn, self.error)
        ):
            raise ValueError(
                f"warn = {self.warn:g} and error = {self.error:g}: it would fail before it warns; "
                f"give a warn of {self.allowed(self.error)}"
            )
        return self

    @property
    def is_floor(self) -> bool:
        """Whether numbers below the bounds are worse; otherwise numbers above them are."""
        return False

    def is_beyond(self, value: float, bound: float) -> bool:
        """Whether a number is worse than a bound."""
        if self.is_floor:
            return value < bound
        return value > bound

    def allowed(self, bound: float) -> str:
        """The numbers that pass a bound, in words."""
        if self.is_floor:
            return f"at least {bound:g}"
        return f"at most {bound:g}"

    @property
    def measures(self) -> str:
        """The word for the measured quantity, if the kind can measure several."""
        return str(dict(self).get("metric", ""))

    @property
    def compares(self) -> bool:
        """Whether the number compares with the baseline, which changes when a run is accepted."""
        return False


class AdditivityCheck(CheckTable):
    """A check of max |Σφ + base value − prediction| over the rows, in units of the output."""


class FailedRowsCheck(CheckTable):
    """A check of the rows without attributions; it replaces exit status 5."""

    metric: Literal["rows", "share"] = "rows"
    """The number of failed rows, or their share of all rows."""


class RowCountCheck(CheckTable):
    """A check of the number of rows of the table; fewer are worse."""

    metric: Literal["rows", "ratio"] = "rows"
    """"rows": the number of rows; "ratio": this number divided by that of the baseline."""

    @property
    def is_floor(self) -> bool:
        return True

    @property
    def compares(self) -> bool:
        return self.metric == "ratio"


class QualityCheck(CheckTable):
    """A check of MSE_v, the largest over all outputs; it needs [[explain]] quality_rows."""

    metric: Literal["mse", "share_of_variance"] = "mse"
    """MSE_v in squared units of the output, or divided by the variance of the predictions."""


class StdErrorCheck(CheckTable):
    """A check of the standard errors, in units of the output: the largest of each row."""

    metric: Literal["largest", "median"] = "largest"
    """"largest": the largest over all rows; "median": their median."""


class DriftCheck(CheckTable):
    """A check of the attributions against those of an earlier run.

    It compares the ranking of the columns, or the distribution of the attributions of each column.
    """

    metric: Literal["ndcg", "psi", "wasserstein"] = "ndcg"
    """"ndcg": compares the ranking of columns by mean |φ|, 1 for the same order; the smallest over
    all outputs.  "psi" (population stability index) and "wasserstein" (Wasserstein-1 distance, in
    units of the output): compare the distributions of a column's attributions; the largest over all
    columns and outputs."""
    against: NotEmpty = PREVIOUS
    """The run to compare with: "previous", the last run whose checks passed and whose sinks were
    loaded, or the id of a run of the store."""

    @property
    def is_floor(self) -> bool:
        return self.metric == "ndcg"

    @property
    def compares(self) -> bool:
        return self.against == PREVIOUS


CHECKS = Kinds(
    "kind",
    {
        "additivity": AdditivityCheck,
        "failed_rows": FailedRowsCheck,
        "row_count": RowCountCheck,
        "mse_v": QualityCheck,
        "std_error": StdErrorCheck,
        "drift": DriftCheck,
    },
    CheckTable,
)


def check_checks(checks: Sequence[CheckTable], explains: Mapping[str, Any]) -> None:
    """Raise a ValueError if a check names no explanation of the job, or could never be judged.

    `explains` has the table of each explanation by its name.
    """
    for check in checks:
        name = f"[[check]] {check.name or check.kind}"
        if not check.explain and len(explains) > 1:
            raise ValueError(
                f"{name}: the job has {len(explains)} explanations: give explain = one of "
                f"{', '.join(explains)}"
            )
        if check.explain and check.explain not in explains:
            raise ValueError(f"{name} {unknown_name('explain', check.explain, explains)}")
        explain = check.explain or next(iter(explains))
        if check.kind == "mse_v" and explains[explain].n_quality_rows is None:
            raise ValueError(
                f"{name}: MSE_v is measured only if [[explain]] {explain} has quality_rows: give "
                "quality_rows too"
            )
    names = [check_name(check, explains) for check in checks]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two [[check]] are named {twice[0]!r}: give each a name of its own")


def check_name(check: CheckTable, explains: Iterable[str]) -> str:
    """The name of a check in messages and records."""
    if check.name:
        return check.name
    if len(list(explains)) > 1:
        return f"{check.explain}.{check.kind}"
    return check.kind
