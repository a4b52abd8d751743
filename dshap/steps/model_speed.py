"""The speed of the model on a few rows: the time of all predictions, and how to save some.

A plan contains the number of predictions that an explanation needs; how long one takes must be
measured.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.cores import n_cores
from dshap.core.errors import InputError
from dshap.core.printing import counted
from dshap.core.records import FloatArray
from dshap.core.rows import read_rows
from dshap.core.spread import SpreadOrder
from dshap.core.types import Design
from dshap.engine import Plan
from dshap.engine.plan import OPERATIONS_PER_SECOND
from dshap.jobfile.schema import ExplainTable, Job

LEAST_S = 0.25
"""The least seconds of a call for its rate to count; shorter ones are repeated with more rows."""
GROWTH = 4
"""How many times more rows the next call has."""
SHARES = (2, 4)
"""The divisors of the coalitions and of the background that are offered."""
DRAWN = {"background": "background", "n_samples": "draws"}
"""Key of [[explain]] that is a number of rows drawn for each coalition -> the noun for them."""
LEAST_DRAWN = 10
"""The smallest such number that an alternative offers."""
SPREAD = 256
"""The fewest texts that a call has, so that each length has its share of them."""


@dataclass(frozen=True)
class Alternative:
    """A smaller design, or a smaller background, of one explanation."""

    setting: str
    """The text of --set that asks for it."""
    n_predictions: float
    effect: str
    """The effect on the errors, in words."""


@dataclass(frozen=True)
class TextLengths:
    """The lengths of some texts of a table, and the predictions that texts of these lengths need.

    A plan counts every text as if it had the longest length; a shorter text often has fewer
    coalitions.
    """

    design: Design
    """The design of the longest text."""
    lengths: NDArray[np.int64]
    """(n,): the number of tokens of each text."""

    @classmethod
    def of(cls, design: Design, rows: FloatArray) -> TextLengths:
        """The lengths of texts (n, columns), NaN beyond the end of each."""
        return cls(design, np.count_nonzero(~np.isnan(rows), axis=1))

    @property
    def n_coalitions(self) -> NDArray[np.int64]:
        """(n,): the coalitions of each text but the empty one: predictions per background row."""
        known = {
            length: max(1, self.design.with_players(length).info.n_coalitions - 1)
            for length in np.unique(self.lengths).tolist()
        }
        return np.array([known[length] for length in self.lengths.tolist()])

    @property
    def share(self) -> float:
        """The predictions of these texts over those of as many texts of the longest length."""
        return float(self.n_coalitions.mean()) / max(1, self.design.info.n_coalitions - 1)

    def spread(self, rows: FloatArray) -> FloatArray:
        """Repeat these rows in proportion to their predictions, each at least once in `SPREAD`."""
        weights = np.cumsum(self.n_coalitions / self.n_coalitions.sum())
        n = max(len(rows), SPREAD)
        at = np.searchsorted(weights, (np.arange(n) + 0.5) / n)
        return rows[np.minimum(at, len(rows) - 1)]

    def __str__(self) -> str:
        return f"texts of {self.lengths.min():,} to {self.lengths.max():,} tokens"


@dataclass(frozen=True)
class ModelSpeed:
    """The measured speed of the model in one explanation."""

    explain: str
    n_asked: int
    n_rows: int
    """The number of rows that the model predicted; all rows of a smaller table."""
    first_s: float
    """Seconds of the first call, which may load or compile something."""
    call_rows: int
    """The rows of the call that was measured."""
    seconds_per_prediction: float
    n_predictions: float
    n_cores: int
    """The cores that the job uses, as far as the plan knows."""
    alternatives: tuple[Alternative, ...] = ()
    texts: str = ""
    """The lengths of the texts that were asked for, in words; empty for a table of columns."""

    @property
    def core_seconds(self) -> float:
        """Seconds of all predictions, one call after the other."""
        return self.n_predictions * self.seconds_per_prediction

    def timed(self, plan: Plan) -> Plan:
        """The plan of this explanation, whose stages that call the model have the measured time."""
        each = self.core_seconds / plan.n_predictions * OPERATIONS_PER_SECOND
        stages = [
            stage
            if math.isfinite(stage.operations)
            else replace(stage, operations=stage.predictions * each)
            for stage in plan.stages
        ]
        return replace(plan, stages=tuple(stages))

    def lines(self) -> list[str]:
        """The lines of a plan about it."""
        rows = counted(self.n_rows, "row")
        if self.n_rows < self.n_asked:
            rows = f"all {rows} of the table"
        rate = 1.0 / self.seconds_per_prediction
        lines = [
            "",
            f"probe of {self.explain}: the model predicted {rows}, then {self.call_rows:,} in one "
            f"call: {rate:,.0f} predictions/s (the first call took {self.first_s:.2f} s)",
            f"{self.explain}: {self._most} {self.n_predictions:,.0f} predictions{self._of_texts}: "
            f"{self._times(self.n_predictions)}",
        ]
        if not self.alternatives:
            return lines
        width = max(len(each.setting) for each in self.alternatives)
        for each in self.alternatives:
            lines.append(
                f"    --set {each.setting:<{width}}  {each.n_predictions:>20,.0f} predictions: "
                f"{self._times(each.n_predictions)}; {each.effect}"
            )
        return lines

    @property
    def _most(self) -> str:
        """How exact the number of predictions is, in words."""
        return "about" if self.texts else "at most"

    @property
    def _of_texts(self) -> str:
        return f" of {self.texts}" if self.texts else ""

    def _times(self, n_predictions: float) -> str:
        """The time of so many predictions, on one core and on the cores of the job."""
        seconds = n_predictions * self.seconds_per_prediction
        if self.n_cores == 1:
            return f"{in_time(seconds)} on one core"
        return (
            f"{in_time(seconds)} on one core, {in_time(seconds / self.n_cores)} on {self.n_cores}"
        )

    def to_dict(self) -> dict[str, Any]:
        seconds = {"core_seconds": self.core_seconds}
        return {**asdict(self), **seconds, "seconds": self.core_seconds / self.n_cores}


def speed_lines(speeds: Sequence[ModelSpeed] | None) -> list[str]:
    """The lines of a plan about the speed of the model; none if it was not measured."""
    if speeds is None:
        return []
    if not speeds:
        return [
            "",
            "probe: no explanation calls the model for coalitions: the time is in the table above",
        ]
    return [line for each in speeds for line in each.lines()]


def in_time(seconds: float) -> str:
    """A time in the unit that fits it.

    Examples
    --------
    >>> from dshap.steps.model_speed import in_time
    >>> in_time(0.2), in_time(90), in_time(5_400), in_time(1e6), in_time(9e8)
    ('0.2 s', '1.5 min', '1.5 h', '278 h', '29 years')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3_600:
        return f"{seconds / 60:.1f} min"
    hours = seconds / 3_600
    if hours < 100:
        return f"{hours:.1f} h"
    if hours < 24 * 365 * 3:
        return f"{hours:,.0f} h"
    return f"{hours / 24 / 365:,.0f} years"


def rows_of_probe(reader: Any, n_rows: int) -> FloatArray:
    """Rows (n, columns) of a table, spread over it, that can be explained.

    Raises
    ------
    InputError
        None of them is free of missing values, and the job does not pass these on.
    """
    order = SpreadOrder(reader.n_rows)
    positions = np.sort(order.positions(0, min(n_rows, reader.n_rows)))
    found = read_rows(reader, positions)
    if not len(found["x"]):
        raise InputError(
            f"--probe {n_rows}: every one of these rows has a missing value: give more rows"
        )
    return np.asarray(found["x"])


def prediction_seconds(
    predict: Callable[[FloatArray], Any],
    rows: FloatArray,
    most_rows: int,
    now: Callable[[], float] = time.perf_counter,
) -> tuple[float, int, float]:
    """(seconds of the first call, rows of the measured call, seconds of one prediction).

    The rows are repeated up to `most_rows`, the most that a run hands to the model at once, until a
    call takes `LEAST_S`.

    Parameters
    ----------
    predict : function of rows (n, columns)
    rows : (n, columns)
    most_rows : int
    now : function
        Gives the time in seconds.
    """
    started = now()
    predict(rows)
    first_s = now() - started
    n = len(rows)
    while True:
        batch = np.resize(rows, (n, rows.shape[1]))
        started = now()
        predict(batch)
        spent_s = now() - started
        if spent_s >= LEAST_S or n >= most_rows:
            return first_s, n, max(spent_s, 1e-9) / n
        n = min(most_rows, GROWTH * n)


def measured_speed(
    explain: ExplainTable,
    value: Any,
    reader: Any,
    plan: Plan,
    n_rows: int,
    n_cores: int,
    alternatives: Callable[[FloatArray], Iterator[Alternative]],
    design: Design | None = None,
) -> ModelSpeed:
    """Measure the model of an explanation on so many rows of its table.

    Parameters
    ----------
    explain : the table of the explanation
    value : its value function; for texts the value function of the longest text
    reader : the rows
    plan : its plan
    n_rows : the number of rows that the model is asked for
    n_cores : the cores that share the predictions of the run
    alternatives : function of these rows, which gives what needs fewer predictions
    design : for texts, the design of the longest of them; None for a table of columns
    """
    rows = rows_of_probe(reader, n_rows)
    asked = rows
    n_predictions = plan.n_predictions
    texts = None
    if design is not None:
        texts = TextLengths.of(design, rows)
        asked = texts.spread(rows)
        n_predictions *= texts.share
    first_s, call_rows, seconds = prediction_seconds(value.model, asked, value.model.buffer_rows)
    return ModelSpeed(
        explain.name,
        n_rows,
        min(n_rows, reader.n_rows),
        first_s,
        call_rows,
        seconds,
        n_predictions,
        n_cores,
        tuple(alternatives(rows)),
        "" if texts is None else str(texts),
    )


def smaller_jobs(job: Job, explain: ExplainTable, plan: Plan) -> Iterator[tuple[str, str, Job]]:
    """Yield (text of --set, effect on the errors, job) with fewer coalitions or background rows."""
    is_exact = plan.n_coalitions >= 2.0**plan.n_players
    for share in SHARES:
        effect = f"sampling errors × {share**0.5:.1f}"
        if is_exact:
            effect = "sampled, not exact: std_error includes the sampling"
        for key, number in _sizes_of_design(job.design, plan, share):
            design = job.design.model_copy(update={key: number})
            yield f"design.{key}={number}", effect, job.model_copy(update={"design": design})
    for key in DRAWN:
        given = dict(explain).get(key)
        if not isinstance(given, int):
            continue
        for n, share in ((given // share, share) for share in SHARES):
            smaller = explain.model_copy(update={key: n - n % 2})
            others = [smaller if each is explain else each for each in job.explain]
            if n >= LEAST_DRAWN:
                yield (
                    f"explain.{explain.name}.{key}={n - n % 2}",
                    f"errors of the {DRAWN[key]} × {share**0.5:.1f}",
                    job.model_copy(update={"explain": others}),
                )


def _sizes_of_design(design: Any, plan: Plan, share: int) -> Iterator[tuple[str, int]]:
    """The key of a design that sets its number of coalitions, with a smaller number."""
    given: Mapping[str, Any] = dict(design)
    if design.kind == "auto":
        yield "max_coalitions", plan.n_coalitions // share
        return
    for key in ("n_coalitions", "n_permutations"):
        if isinstance(given.get(key), int):
            half = given[key] // share
            yield key, half - half % 2


def cores_of_plan(job: Job) -> int:
    """The cores that share the predictions of a job, as far as its tables state them."""
    if not job.cluster.has_workers:
        if "cores" in job.worker.model_fields_set:
            return min(job.worker_options.cores, n_cores())
        return n_cores()
    given = dict(job.cluster)
    workers = given.get("maximum") or given.get("workers") or 1
    return int(workers) * job.worker_options.cores
