"""MSE_v of a job's finished explanations, on rows held out of the fit if there are any."""

from __future__ import annotations

from typing import Any

from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.core.rows import read_rows, smallest_draws
from dshap.core.types import RowReader
from dshap.cube import read_notes
from dshap.engine import Plan, format_bytes
from dshap.jobfile.schema import ExplainTable, Job
from dshap.jobinput.job_model import model_of_job
from dshap.run.explanation import Explanation
from dshap.run.measuring import measure
from dshap.run.quality import Note
from dshap.run.session import Session

MAX_SAMPLE_BYTES = 256 << 20
"""The largest sample that this process reads."""


def check_quality(explain: ExplainTable, plan: Plan, reader: RowReader) -> None:
    """Raise an `InputError` if MSE_v cannot be measured, before anything is computed."""
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


def stored_quality(explain: ExplainTable, job: Job, explanation: Explanation) -> Note | None:
    """The note of a quality that an earlier run measured on the same sample, or None.

    It is None too if the note is damaged or gone.
    """
    note: Note = read_notes(explanation.path).get("mse_v", {})
    if note.get("sample") == _sample(explain, job):
        return note
    return None


def measured_by_job(
    explain: ExplainTable,
    job: Job,
    reader: RowReader,
    explanation: Explanation,
    session: Session,
) -> Note:
    """Measure MSE_v on a seeded sample of rows, and note it in the cube; nothing is fitted again.

    Gives the note: that of `dshap.mse_v`, with facts about the rows.
    """
    rows, is_held_out = quality_sample(job, reader, int(explain.n_quality_rows or 0))
    facts = {
        "held_out_of_the_fit": is_held_out,
        "learnt_from": explanation.plan.data_rows == reader.n_rows,
        "sample": _sample(explain, job),
    }
    return measure(explanation, rows, session, facts=facts)


def quality_sample(job: Job, reader: RowReader, n_rows: int) -> tuple[FloatArray, bool]:
    """A sample (n, columns) without NaN, and whether its rows were held out of the fit.

    It is a sample of all rows if none were held out.  The rows are those with the smallest draws
    of `rows.row_draws`, which also decide the rows held out; the table is read span by span.
    """
    holdout = model_of_job(job).holdout
    chosen = smallest_draws(reader.n_rows, n_rows, job.job.seed, holdout)
    is_held_out = len(chosen) > 0
    # no fit has held rows out: the sample is of all rows, and the note in the cube shows that
    if not is_held_out:
        chosen = smallest_draws(reader.n_rows, n_rows, job.job.seed)
    return read_rows(reader, chosen)["x"], is_held_out


def _sample(explain: ExplainTable, job: Job) -> dict[str, Any]:
    """The sample of rows that a job asks for: their number and the seed."""
    return {"rows": explain.n_quality_rows, "seed": job.job.seed}
