"""The judgement of a finished run by the checks of its job.

Every check measures one number of a finished cube and compares it with `warn` and `error`.  A
number equal to a bound passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dshap.analysis.accuracy import error_sizes
from dshap.analysis.agreement import ndcg
from dshap.analysis.difference.cube_comparison import largest_shift
from dshap.core.errors import DshapError, InputError, unknown_name
from dshap.core.places import Place
from dshap.core.printing import label
from dshap.cube import read_run
from dshap.history.baselines import Baselines
from dshap.history.run_record import (
    CheckResult,
    CheckStatus,
    ExplanationFacts,
    RunFacts,
    RunRecord,
    read_records,
)
from dshap.jobfile.check_tables import (
    PREVIOUS,
    AdditivityCheck,
    CheckTable,
    DriftCheck,
    FailedRowsCheck,
    QualityCheck,
    RowCountCheck,
    StdErrorCheck,
    check_name,
)


class Measured(NamedTuple):
    """The number that a check measures, or why there is none."""

    value: float | None
    """The number; None if there is none."""
    said: str
    """The number in words, or why there is none."""
    baseline: str = ""
    """The id of the run that it compares with; empty for none."""
    is_unknown: bool = False
    """Whether the number exists but could not be measured; the check then fails."""


def _additivity(check: AdditivityCheck, facts: ExplanationFacts, earlier: Baselines) -> Measured:
    residuals = [each for each in facts.accuracy.get("residual", ()) if each is not None]
    if not residuals:
        return Measured(None, "no row has attributions")
    value = max(residuals)
    return Measured(value, f"|Σφ + base value − prediction| is at most {value:.2g}")


def _failed_rows(check: FailedRowsCheck, facts: ExplanationFacts, earlier: Baselines) -> Measured:
    share = facts.failed / max(facts.rows, 1)
    said = f"{facts.failed:,} of {facts.rows:,} rows failed"
    if check.metric == "share":
        return Measured(share, f"{said}, {share:.3%}")
    return Measured(float(facts.failed), said)


def _row_count(check: RowCountCheck, facts: ExplanationFacts, earlier: Baselines) -> Measured:
    said = f"the table has {facts.rows:,} rows"
    if check.metric == "rows":
        return Measured(float(facts.rows), said)
    before = next((each for each in earlier if each.rows(facts.name)), None)
    if before is None:
        return Measured(None, f"{said}, and {earlier.reason_for_none}")
    n_before = before.rows(facts.name)
    ratio = facts.rows / n_before
    said = f"{said}, {ratio:.3g} × the {n_before:,} of run {before.run_id}"
    return Measured(ratio, said, before.run_id)


def _mse_v(check: QualityCheck, facts: ExplanationFacts, earlier: Baselines) -> Measured:
    note = facts.accuracy.get("mse_v", {})
    found = [each for each in note.get(check.metric, ()) if each is not None]
    if not found:
        return Measured(None, "MSE_v was not measured in this run")
    value = max(found)
    return Measured(value, f"MSE_v is {value:.4g}{_UNITS[check.metric]}")


def _std_error(check: StdErrorCheck, facts: ExplanationFacts, earlier: Baselines) -> Measured:
    found = error_sizes(facts.cube) if facts.cube else None
    if found is None:
        return Measured(None, "the attributions have no standard errors")
    if not found.rows:
        return Measured(None, "no row has attributions")
    if not found.has_some:
        said = f"no row has a standard error: std_error is NaN in each of {found.rows:,} rows"
        return Measured(None, said, is_unknown=True)
    value = {"largest": found.largest, "median": found.median}[check.metric]
    said = f"{_OF_ERRORS[check.metric]} is {value:.4g}"
    if found.unknown:
        said += f" without {found.unknown:,} of {found.rows:,} rows, whose std_error is NaN"
    return Measured(value, said)


def _drift(check: DriftCheck, facts: ExplanationFacts, earlier: Baselines) -> Measured:
    before = _before(check, facts.name, earlier)
    if before is None:
        return Measured(None, _reason_for_none(check, facts.name, earlier))
    if not facts.ranking:
        return Measured(None, "no row has attributions")
    if check.metric == "ndcg":
        found = _of_ranking(facts, before)
    else:
        found = _of_distributions(check, facts, before)
    return found._replace(baseline=before.run_id)


def _of_ranking(facts: ExplanationFacts, before: RunRecord) -> Measured:
    ranking = before.ranking(facts.name)
    if set(ranking) != set(facts.ranking):
        then, tonight = (", ".join(map(label, each)) for each in (ranking, facts.ranking))
        said = f"run {before.run_id} explained the outputs {then}, and this one {tonight}"
        return Measured(None, said)
    scores = {
        output: ndcg_of_rankings(ranking[output], now) for output, now in facts.ranking.items()
    }
    output = min(scores, key=lambda name: scores[name])
    said = f"nDCG of the ranking is {scores[output]:.4f} against run {before.run_id}"
    if len(scores) > 1:
        said += f" ({output})"
    return Measured(scores[output], said)


def _of_distributions(check: DriftCheck, facts: ExplanationFacts, before: RunRecord) -> Measured:
    """Read both cubes; the earlier one is beside tonight's, or is the same."""
    tonight = facts.cube or Path()
    cube = tonight.with_name(before.cube_name(facts.name) or "none")
    if read_run(cube) is None:
        said = f"the cube of run {before.run_id} is not kept ([job] keep_runs keeps more)"
        return Measured(None, said)
    try:
        shift = largest_shift(cube, tonight, check.metric)
    except DshapError as error:  # of other features, say, or damaged
        return Measured(None, str(error))
    said = f"{_NAMES[check.metric]} of {label(shift.feature)} is {shift.value:.4g}"
    if len(facts.ranking) > 1:
        said += f" ({label(shift.output)})"
    return Measured(shift.value, f"{said} against run {before.run_id}")


def _before(check: DriftCheck, explain: str, earlier: Baselines) -> RunRecord | None:
    """The run to compare with."""
    if check.against == PREVIOUS:
        return next((each for each in earlier if each.ranking(explain)), None)
    named = (each for each in earlier.earlier if each.run_id == check.against)
    return next((each for each in named if each.ranking(explain)), None)


def _reason_for_none(check: DriftCheck, explain: str, earlier: Baselines) -> str:
    """The reason why there is no run to compare with, in words."""
    if check.against == PREVIOUS:
        return earlier.reason_for_none
    if any(each.run_id == check.against and each.is_over for each in earlier.earlier):
        return f"run {check.against} has no attributions of {explain} to compare with"
    return f"no earlier run of the store is {check.against}"


_OF_ERRORS = {
    "largest": "the largest std_error",
    "median": "the median of the rows' largest std_error",
}
_UNITS = {"mse": "", "share_of_variance": " of the variance"}
_NAMES = {"psi": "PSI", "wasserstein": "the Wasserstein distance"}
MEASURES: Mapping[str, Callable[[Any, ExplanationFacts, Baselines], Measured]] = {
    "additivity": _additivity,
    "failed_rows": _failed_rows,
    "row_count": _row_count,
    "mse_v": _mse_v,
    "std_error": _std_error,
    "drift": _drift,
}
"""Kind of check -> the function that measures its number, of a finished explanation and the baselines
of its run."""


def refuse_unknown_runs(checks: Sequence[CheckTable], store: Place) -> None:
    """Raise an InputError if a check compares with a run that the store does not know.

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
            measured = MEASURES[check.kind](check, explanations[explain], earlier)
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
    """The result of a failed check: only a warning if an equal or worse number was accepted before.

    Otherwise its message names the option that accepts the run, if later runs depend on this.  A
    number that compares with the baseline is not accepted separately: the accepted run becomes the
    baseline.
    """
    # a backfill never becomes the baseline, so that its numbers are accepted one by one
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
    """The status of a number, and the bound that decided it."""
    if measured.is_unknown:
        if check.error is not None:
            return "error", check.error
        return "warn", check.warn
    value = measured.value
    # there is nothing to judge, such as no earlier run to compare with
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
    """The nDCG of the order of features in `now`, with their values in `before` as relevance.

    A feature that one of the two does not have counts as 0 there.
    """
    features = list({**before, **now})
    worth = np.array([before.get(feature) or 0.0 for feature in features])
    score = np.array([now.get(feature) or 0.0 for feature in features])
    return ndcg(worth, score)
