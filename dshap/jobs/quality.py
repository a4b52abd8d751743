"""MSE_v of a job's finished explanations, on rows held out of the fit where there are any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dshap.core.errors import InputError
from dshap.core.records import FloatArray, Record, digest_of
from dshap.core.rows import read_rows, smallest_draws
from dshap.core.types import RowReader
from dshap.cube import mark_finished, read_notes, states_of
from dshap.engine import Plan, Progress, format_bytes
from dshap.jobs.schema import ExplainTable, Job
from dshap.run.explanation import Explanation, measure
from dshap.run.session import Session

MAX_SAMPLE_BYTES = 256 << 20
"""The largest sample that this process reads."""


@dataclass(frozen=True)
class JobQuality:
    """MSE_v of one explanation; see `dshap.mse_v`."""

    mse: tuple[float, ...]
    """(k,): the mean over rows and proper coalitions of (f − v_S)²."""
    variance: tuple[float, ...]
    """(k,): the variance of f over the same rows."""
    n_rows: int
    n_coalitions: int
    is_held_out: bool
    """Whether the rows were held out of the model's fit."""
    is_fitted_to: bool
    """Whether the value function was fitted to the whole table, these rows included."""

    def to_record(self) -> Record:
        counts = np.array(
            [self.n_rows, self.n_coalitions, int(self.is_held_out), int(self.is_fitted_to)]
        )
        return Record(
            {"mse": np.array(self.mse), "variance": np.array(self.variance), "counts": counts}
        )

    @classmethod
    def from_record(cls, record: Record) -> JobQuality:
        n_rows, n_coalitions, is_held_out, is_fitted_to = record["counts"].tolist()
        mse = tuple(record["mse"].tolist())
        variance = tuple(record["variance"].tolist())
        return cls(mse, variance, n_rows, n_coalitions, bool(is_held_out), bool(is_fitted_to))

    def to_dict(self) -> dict[str, Any]:
        share = [
            mse / variance if variance > 0.0 else None
            for mse, variance in zip(self.mse, self.variance, strict=True)
        ]
        return {
            "mse_v": list(self.mse),
            "share_of_variance": share,
            "rows": self.n_rows,
            "coalitions": self.n_coalitions,
            "held_out_of_the_fit": self.is_held_out,
            "learnt_from": self.is_fitted_to,
        }

    def __str__(self) -> str:
        shares = ", ".join(
            f"{mse:.6g}" + (f" ({mse / variance:.2%} of the variance)" if variance > 0.0 else "")
            for mse, variance in zip(self.mse, self.variance, strict=True)
        )
        rows = f"{self.n_rows:,} rows" + (" held out of the fit" if self.is_held_out else "")
        if self.is_fitted_to:
            fitted = "; the values were learnt from these rows too"
        else:
            fitted = ""
        return f"{shares}, over {self.n_coalitions:,} coalitions and {rows}{fitted}"


def check_quality(explain: ExplainTable, plan: Plan, reader: RowReader) -> None:
    """Raise an `InputError` where MSE_v cannot be measured, before anything is computed."""
    if explain.n_quality_rows is None:
        return
    place = f"[[explain]] {explain.name} quality_rows"
    if plan.is_closed_form:
        raise InputError(
            f"{place}: MSE_v is over coalitions, and this explanation is a closed form without "
            "any: leave it out, or "
            'give [design] kind = "kernelshap"'
        )
    size = 8 * min(explain.n_quality_rows, reader.n_rows) * len(reader.feature_names)
    if size > MAX_SAMPLE_BYTES:
        raise InputError(
            f"{place} = {explain.n_quality_rows}: these rows take {format_bytes(size)}, at most "
            f"{format_bytes(MAX_SAMPLE_BYTES)} allowed: give a smaller number"
        )


def stored_quality(
    explain: ExplainTable, job: Job, explanation: Explanation, progress: Progress
) -> JobQuality | None:
    """The quality that an earlier run measured, or None.

    It is None too where its state or its note is damaged or gone.
    """
    states = states_of(explanation.path)
    name = _state_name(explain, job, explanation)
    for damaged in states.mend([name]):
        progress.say(f"state {damaged} is damaged: it is computed again")
    if "mse_v" not in read_notes(explanation.path):
        return None
    if states.has(name):
        return JobQuality.from_record(states.get(name, Record))
    return None


def measured_by_job(
    explain: ExplainTable,
    job: Job,
    reader: RowReader,
    explanation: Explanation,
    session: Session,
) -> JobQuality:
    """Measure and store MSE_v on a seeded sample of rows; nothing is fitted again."""
    rows, is_held_out = quality_sample(job, reader, int(explain.n_quality_rows or 0))
    is_fitted = explanation.plan.data_rows == reader.n_rows
    found = measure(
        explanation, rows, session, held_out_of_the_fit=is_held_out, learnt_from=is_fitted
    )
    measured = JobQuality(
        tuple(found.mse.tolist()),
        tuple(found.variance.tolist()),
        found.n_rows,
        len(found.masks),
        is_held_out,
        is_fitted,
    )
    states_of(explanation.path).put(_state_name(explain, job, explanation), measured.to_record())
    mark_finished(explanation.path)  # the list of finished files must name this state
    return measured


def quality_sample(job: Job, reader: RowReader, n_rows: int) -> tuple[FloatArray, bool]:
    """A sample (n, columns) without NaN, and whether its rows were held out of the fit.

    It is a sample of all rows where none were held out.  The rows are those with the smallest draws
    of `rows.row_draws`, which also decide the rows held out; the table is read span by span.
    """
    if job.is_imported:
        holdout = 0.0
    else:
        holdout = job.model.holdout
    chosen = smallest_draws(reader.n_rows, n_rows, job.job.seed, holdout)
    is_held_out = len(chosen) > 0
    if not is_held_out:
        chosen = smallest_draws(reader.n_rows, n_rows, job.job.seed)
    return read_rows(reader, chosen)["x"], is_held_out


def _state_name(explain: ExplainTable, job: Job, explanation: Explanation) -> str:
    made_for = {
        "rows": explain.n_quality_rows,
        "seed": job.job.seed,
        "run": explanation.work.run_digest,
    }
    return f"quality-{digest_of(made_for)}"
