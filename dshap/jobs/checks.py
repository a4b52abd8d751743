"""Checks of a finished run: the tables [[check]] of a job, and the judgement over their bounds.

Every check measures one number of a finished cube and holds it against `warn` and `error`.  A
number that lies on a bound passes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from dshap.core.agreement import ndcg
from dshap.core.errors import DshapError, InputError, unknown_name
from dshap.core.places import Place
from dshap.core.printing import label
from dshap.cube import read_run
from dshap.jobs.baselines import Baselines
from dshap.jobs.fields import NotEmpty
from dshap.jobs.kinds import Kinds, KindTable
from dshap.jobs.run_record import (
    CheckResult,
    CheckStatus,
    ExplanationFacts,
    RunFacts,
    RunRecord,
    read_records,
)
from dshap.report import error_sizes, largest_shift

Bound = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
PREVIOUS = "previous"
"""The word for the run before, in `against`."""


class Measured(NamedTuple):
    """The number that a check is about."""

    value: float | None
    """The number; None where there is none."""
    said: str
    """The number in words, or why there is none."""
    baseline: str = ""
    """The id of the run that it compares with; empty for none."""
    is_unknown: bool = False
    """Whether there should be a number and it is not known: the check then fails."""


class CheckTable(KindTable, ABC):
    """A table [[check]]: it warns or fails where its number lies beyond a bound."""

    name: str = ""
    """The name in messages and records; left out, the kind, after the explanation where there are
    several."""
    explain: str = ""
    """The name of the explanation; it may be left out where the job has one only."""
    warn: Bound | None = None
    """The bound beyond which the run warns."""
    error: Bound | None = None
    """The bound beyond which the run ends with exit status 8."""
    blocks_sinks: bool = False
    """Whether it is judged before the sinks, which are not loaded where it fails."""

    @model_validator(mode="after")
    def _check_bounds(self) -> CheckTable:
        if self.warn is None and self.error is None:
            raise ValueError(
                f'kind = "{self.kind}" judges nothing without a bound: give warn, error or both'
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
        """Whether numbers below the bounds are the worse ones; else those above."""
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
        """The word for what is measured, where a kind can measure several things."""
        return str(dict(self).get("metric", ""))

    @property
    def compares(self) -> bool:
        """Whether the number compares with the baseline, so that it changes with a run accepted."""
        return False

    @abstractmethod
    def measured(self, facts: ExplanationFacts, earlier: Baselines) -> Measured:
        """The number of a finished explanation, given the baselines of its run."""


class AdditivityCheck(CheckTable):
    """A check of max |Σφ + base value − prediction| over the rows, in units of the output."""

    def measured(self, facts: ExplanationFacts, earlier: Baselines) -> Measured:
        residuals = [each for each in facts.accuracy.get("residual", ()) if each is not None]
        if not residuals:
            return Measured(None, "no row has attributions")
        value = max(residuals)
        return Measured(value, f"|Σφ + base value − prediction| is at most {value:.2g}")


class FailedRowsCheck(CheckTable):
    """A check of the rows without attributions; it decides in the place of exit status 5."""

    metric: Literal["rows", "share"] = "rows"
    """The number of failed rows, or their share of all rows."""

    def measured(self, facts: ExplanationFacts, earlier: Baselines) -> Measured:
        share = facts.failed / max(facts.rows, 1)
        said = f"{facts.failed:,} of {facts.rows:,} rows failed"
        if self.metric == "share":
            return Measured(share, f"{said}, {share:.3%}")
        return Measured(float(facts.failed), said)


class RowCountCheck(CheckTable):
    """A check of the rows of the table; fewer are worse."""

    metric: Literal["rows", "ratio"] = "rows"
    """The number of rows, or its ratio to that of the baseline."""

    @property
    def is_floor(self) -> bool:
        return True

    @property
    def compares(self) -> bool:
        return self.metric == "ratio"

    def measured(self, facts: ExplanationFacts, earlier: Baselines) -> Measured:
        said = f"the table has {facts.rows:,} rows"
        if self.metric == "rows":
            return Measured(float(facts.rows), said)
        before = next((each for each in earlier if each.rows(facts.name)), None)
        if before is None:
            return Measured(None, f"{said}, and {earlier.reason_for_none}")
        n_before = before.rows(facts.name)
        ratio = facts.rows / n_before
        said = f"{said}, {ratio:.3g} × the {n_before:,} of run {before.run_id}"
        return Measured(ratio, said, before.run_id)


class QualityCheck(CheckTable):
    """A check of MSE_v, the largest of all outputs; it needs [[explain]] quality_rows."""

    metric: Literal["mse", "share_of_variance"] = "mse"
    """MSE_v in squared units of the output, or divided by the variance of the predictions."""

    def measured(self, facts: ExplanationFacts, earlier: Baselines) -> Measured:
        note = facts.accuracy.get("mse_v", {})
        found = [each for each in note.get(self.metric, ()) if each is not None]
        if not found:
            return Measured(None, "MSE_v was not measured in this run")
        value = max(found)
        return Measured(value, f"MSE_v is {value:.4g}{_UNITS[self.metric]}")


class StdErrorCheck(CheckTable):
    """A check of the standard errors, in units of the output: of each row the largest of a column."""

    metric: Literal["largest", "median"] = "largest"
    """The largest of all rows, or their median."""

    def measured(self, facts: ExplanationFacts, earlier: Baselines) -> Measured:
        found = error_sizes(facts.cube) if facts.cube else None
        if found is None:
            return Measured(None, "the attributions have no standard errors")
        if not found.rows:
            return Measured(None, "no row has attributions")
        if not found.has_some:
            said = f"no row states an error: std_error is NaN in each of {found.rows:,} rows"
            return Measured(None, said, is_unknown=True)
        value = {"largest": found.largest, "median": found.median}[self.metric]
        said = f"{_OF_ERRORS[self.metric]} is {value:.4g}"
        if found.unknown:
            said += f" without {found.unknown:,} of {found.rows:,} rows, whose std_error is NaN"
        return Measured(value, said)


_OF_ERRORS = {
    "largest": "the largest std_error",
    "median": "the median of the rows' largest std_error",
}
_UNITS = {"mse": "", "share_of_variance": " of the variance"}


class DriftCheck(CheckTable):
    """A check of the attributions against those of an earlier run: of the ranking of the columns, or
    of the distribution of the attributions of each column."""

    metric: Literal["ndcg", "psi", "wasserstein"] = "ndcg"
    """NDCG of tonight's mean |φ| by the earlier one: 1 for the same order, of several outputs the
    smallest.  Or the population stability index or the Wasserstein-1 distance (in units of the
    output) of the attributions of a column, the largest of all columns and outputs."""
    against: NotEmpty = PREVIOUS
    """The run to compare with: "previous", the last one whose checks passed and whose sinks were
    loaded, or the id of a run of the store."""

    @property
    def is_floor(self) -> bool:
        return self.metric == "ndcg"

    @property
    def compares(self) -> bool:
        return self.against == PREVIOUS

    def measured(self, facts: ExplanationFacts, earlier: Baselines) -> Measured:
        before = self._before(facts.name, earlier)
        if before is None:
            return Measured(None, self._reason_for_none(facts.name, earlier))
        if not facts.ranking:
            return Measured(None, "no row has attributions")
        if self.metric == "ndcg":
            found = self._of_ranking(facts, before)
        else:
            found = self._of_distributions(facts, before)
        return found._replace(baseline=before.run_id)

    def _of_ranking(self, facts: ExplanationFacts, before: RunRecord) -> Measured:
        ranking = before.ranking(facts.name)
        if set(ranking) != set(facts.ranking):
            then, tonight = (", ".join(map(label, each)) for each in (ranking, facts.ranking))
            said = f"run {before.run_id} explained the outputs {then}, and this one {tonight}"
            return Measured(None, said)
        scores = {
            output: ndcg_of_rankings(ranking[output], now) for output, now in facts.ranking.items()
        }
        output = min(scores, key=lambda name: scores[name])
        said = f"NDCG of the ranking is {scores[output]:.4f} against run {before.run_id}"
        if len(scores) > 1:
            said += f" ({output})"
        return Measured(scores[output], said)

    def _of_distributions(self, facts: ExplanationFacts, before: RunRecord) -> Measured:
        """Read both cubes; the earlier one lies beside tonight's, or is the same."""
        tonight = facts.cube or Path()
        cube = tonight.with_name(before.cube_name(facts.name) or "none")
        if read_run(cube) is None:
            said = f"the cube of run {before.run_id} is not kept ([job] keep_runs keeps more)"
            return Measured(None, said)
        try:
            shift = largest_shift(cube, tonight, self.metric)
        except DshapError as error:  # of other features, say, or damaged
            return Measured(None, str(error))
        said = f"{_NAMES[self.metric]} of {label(shift.feature)} is {shift.value:.4g}"
        if len(facts.ranking) > 1:
            said += f" ({label(shift.output)})"
        return Measured(shift.value, f"{said} against run {before.run_id}")

    def _before(self, explain: str, earlier: Baselines) -> RunRecord | None:
        """The run to compare with."""
        if self.against == PREVIOUS:
            return next((each for each in earlier if each.ranking(explain)), None)
        named = (each for each in earlier.earlier if each.run_id == self.against)
        return next((each for each in named if each.ranking(explain)), None)

    def _reason_for_none(self, explain: str, earlier: Baselines) -> str:
        """The reason why there is no run to compare with, in words."""
        if self.against == PREVIOUS:
            return earlier.reason_for_none
        if any(each.run_id == self.against and each.is_over for each in earlier.earlier):
            return f"run {self.against} has no attributions of {explain} to compare with"
        return f"no earlier run of the store is {self.against}"


_NAMES = {"psi": "PSI", "wasserstein": "the Wasserstein distance"}

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
    """Raise a ValueError where a check names no explanation of the job, or could never be judged.

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
                f"{name}: MSE_v is measured where [[explain]] {explain} has quality_rows: give both"
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


def refuse_unknown_runs(checks: Sequence[CheckTable], store: Place) -> None:
    """Raise an InputError where a check compares with a run that the store does not know.

    It is asked before anything is read.
    """
    wanted = {check.against for check in checks if isinstance(check, DriftCheck)} - {PREVIOUS}
    if not wanted:
        return
    known = [each.run_id for each in read_records(store) if each.is_over]
    for run_id in sorted(wanted - set(known)):
        raise InputError(f"[[check]] drift against: {unknown_name('run', run_id, known)}")


def judge(checks: Sequence[CheckTable], facts: RunFacts, store: Place) -> tuple[CheckResult, ...]:
    """Judge the checks over the explanations of a run.

    Parameters
    ----------
    checks : sequence of CheckTable
        Those to judge, in their order; those with `blocks_sinks` before the sinks are loaded.
    facts : RunFacts
        The facts of the run, with its explanations.
    store : Path
        The store of the job, whose earlier runs are compared with.
    """
    explanations = {each.name: each for each in facts.explanations}
    earlier = Baselines(store, facts.run_id, facts.as_of, facts.is_backfill)
    results = []
    for check in checks:
        explain = check.explain or next(iter(explanations), "")
        name = check_name(check, explanations)
        if explain in explanations and explanations[explain].cube is not None:
            measured = check.measured(explanations[explain], earlier)
        else:
            measured = Measured(None, "the explanation has no cube")
        result = _result(check, name, explain, measured)
        if result.status == "error":
            result = _if_accepted(check, result, earlier)
        results.append(result)
    return tuple(results)


def _result(check: CheckTable, name: str, explain: str, measured: Measured) -> CheckResult:
    status, bound = _status(check, measured)
    message = measured.said
    if status in ("warn", "error") and bound is not None:
        message = f"{message}; {status} = {bound:g} allows {check.allowed(bound)}"
    if status == "skipped":
        message = f"not judged: {message}"
    return CheckResult(
        name,
        status,
        measured.value,
        bound,
        message,
        check.kind,
        explain,
        check.measures,
        measured.baseline,
    )


def _if_accepted(check: CheckTable, failed: CheckResult, earlier: Baselines) -> CheckResult:
    """The result of a check that failed: a warning where a number that is no better was accepted.

    Else its message names the option that accepts it, where later runs depend on that.  A number
    that compares with the baseline is never accepted by itself: the run that is accepted becomes
    the baseline.
    """
    if earlier.is_backfill or not check.compares:
        known = earlier.accepted_number(failed.name)
        if known is not None and _is_no_worse(check, failed.value, known.value):
            message = f"{failed.message}; accepted with run {known.run_id}"
            return replace(failed, status="warn", message=message, accepted=known.run_id)
    if not (check.compares or check.blocks_sinks):
        return failed
    remedy = f"if the data are right, `dshap run JOB --accept {earlier.before}` accepts this run"
    return replace(failed, message=f"{failed.message}; {remedy}")


def _is_no_worse(check: CheckTable, value: float | None, accepted: float | None) -> bool:
    """Whether a number is no worse than one that was accepted; None is unknown, the worst."""
    if value is None or accepted is None:
        return accepted is None
    return not check.is_beyond(value, accepted)


def _status(check: CheckTable, measured: Measured) -> tuple[CheckStatus, float | None]:
    """The status that a number gives, and the bound that it follows from."""
    if measured.is_unknown:
        if check.error is not None:
            return "error", check.error
        return "warn", check.warn
    value = measured.value
    if value is None or math.isnan(value):
        return "skipped", None
    if check.error is not None and check.is_beyond(value, check.error):
        return "error", check.error
    if check.warn is not None and check.is_beyond(value, check.warn):
        return "warn", check.warn
    if check.warn is not None:
        return "pass", check.warn
    return "pass", check.error


def ndcg_of_rankings(before: Mapping[str, float], now: Mapping[str, float]) -> float:
    """NDCG of the order of `now` where `before` says what each feature is worth.

    A feature that one of them lacks is worth 0 there.
    """
    features = list({**before, **now})
    worth = np.array([before.get(feature) or 0.0 for feature in features])
    score = np.array([now.get(feature) or 0.0 for feature in features])
    return ndcg(worth, score)
