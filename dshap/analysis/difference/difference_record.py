"""The difference of two cubes: its content, and its description in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from dshap.analysis.agreement import Agreement
from dshap.analysis.difference.row_changes import SAME
from dshap.analysis.numbers_as_text import decimals_of, number, text_table
from dshap.core.errors import InputError, unknown_name
from dshap.core.html import table_html
from dshap.core.printing import label
from dshap.core.records import JSON
from dshap.core.scales import unit_words
from dshap.cube.datasets import key_words

SHOWN_FEATURES = 12
"""The most features of a table on the screen."""
SHOWN_PARTS = 8
"""The most features of a changed row that are recorded."""
SHOWN_MOVES = 3
"""The most features whose places are described."""
SMALL_PSI = 0.1
LARGE_PSI = 0.25
"""The usual bounds of a population stability index: below the first it counts as stable, above the
second as another population (Siddiqi, Credit Risk Scorecards, 2006)."""


@dataclass(frozen=True)
class FeatureDifference:
    """The attributions of one feature in both cubes, for one output.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> old = dshap.values.Marginal(lambda x: x[:, 0] - x[:, 1], rows)
    >>> new = dshap.values.Marginal(lambda x: x[:, 0] - 3 * x[:, 1], rows)
    >>> (output,) = dshap.diff(dshap.explain(old, rows), dshap.explain(new, rows)).outputs
    >>> age = next(each for each in output.features if each.feature == "age")
    >>> type(age).__name__, age.place_new, round(age.magnitude_new / age.magnitude_old, 6)
    ('FeatureDifference', 1, 3.0)
    """

    feature: str
    psi: float
    """Population stability index of its attributions."""
    wasserstein: float
    """Wasserstein-1 distance of its attributions, in their units."""
    wasserstein_error: float
    """Largest error of that, from the width of the bins."""
    mean_change: float
    """Mean |Δφ| of the rows in both; NaN if there are none."""
    magnitude_old: float
    """Mean |φ|, without the bias of sampled coalitions."""
    magnitude_new: float
    place_old: int
    """Place in the ranking by mean |φ|, from 1."""
    place_new: int


@dataclass(frozen=True)
class ChangedPart:
    """The attribution of one feature in a row that both cubes explain."""

    feature: str
    attribution_old: float
    attribution_new: float


@dataclass(frozen=True)
class ChangedRow:
    """A row that both cubes explain, for one output.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> old = dshap.values.Marginal(lambda x: x[:, 0] - x[:, 1], rows)
    >>> new = dshap.values.Marginal(lambda x: x[:, 0] - 3 * x[:, 1], rows)
    >>> (output,) = dshap.diff(dshap.explain(old, rows), dshap.explain(new, rows)).outputs
    >>> row = output.rows[0]
    >>> type(row).__name__, row.feature
    ('ChangedRow', 'age')
    """

    key: Mapping[str, str]
    """Key column -> its key; "row" -> its position in cubes without a key."""
    change: float
    """Σ |Δφ| over the features."""
    feature: str
    """The feature whose attribution changed most."""
    attribution_old: float
    attribution_new: float
    prediction_old: float
    prediction_new: float
    parts: tuple[ChangedPart, ...] = ()
    """The features whose attributions changed most, the largest change first."""


@dataclass(frozen=True)
class OutputDifference:
    """The comparison of two cubes by `dshap.diff`, for one output.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> old = dshap.values.Marginal(lambda x: x[:, 0] - x[:, 1], rows)
    >>> new = dshap.values.Marginal(lambda x: x[:, 0] - 3 * x[:, 1], rows)
    >>> (output,) = dshap.diff(dshap.explain(old, rows), dshap.explain(new, rows)).outputs
    >>> type(output).__name__, output.n_changed, len(output.features)
    ('OutputDifference', 50, 2)
    """

    output: str
    ndcg: Agreement
    spearman: Agreement
    base_old: float
    """Mean base value of the explained rows."""
    base_new: float
    prediction_old: float
    """Mean prediction of the explained rows."""
    prediction_new: float
    features: tuple[FeatureDifference, ...]
    """The largest Wasserstein distance first, then by PSI and by place in the old ranking."""
    n_changed: int
    """Number of rows in both whose attributions changed by more than rounding: Σ |Δφ| is above 1e-6
    of the sum of |φ| in both cubes."""
    rows: tuple[ChangedRow, ...]
    """Those that changed most, by Σ |Δφ|."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Feature -> its label, of those that have one in the dictionary of columns."""

    def label_of(self, feature: str) -> str:
        """The label of a feature; its name if it has none."""
        return label(self.labels.get(feature, feature))

    @property
    def decimals(self) -> int:
        """The number of decimals of attributions in tables."""
        return decimals_of(
            value for each in self.features for value in (each.magnitude_old, each.magnitude_new)
        )

    @property
    def moves(self) -> list[FeatureDifference]:
        """The features with another place in the ranking, the longest way first."""
        moved = [each for each in self.features if each.place_old != each.place_new]
        return sorted(
            moved, key=lambda each: (-abs(each.place_old - each.place_new), each.place_new)
        )


@dataclass(frozen=True)
class SideRows:
    """The numbers of rows of one of the two cubes that `dshap.diff` compares.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> value = dshap.values.Marginal(lambda x: x[:, 0] - x[:, 1], rows)
    >>> found = dshap.diff(dshap.explain(value, rows), dshap.explain(value, rows))
    >>> type(found.old).__name__, found.old.n_rows, found.old.n_alone
    ('SideRows', 50, 0)
    """

    name: str
    """Path of the cube, or another description."""
    n_rows: int
    """Number of rows that have attributions: all numbers are about these."""
    n_alone: int
    """Number of them whose keys the other cube does not have."""
    n_unmatched: int
    """Number of them that the other cube has, without attributions."""
    missing: str
    """Which rows have no attributions, and why; empty if none are missing."""


@dataclass(frozen=True)
class Difference:
    """The difference of two cubes: rankings, distributions of attributions, and rows by key.

    Printed, it is a screen of text; a notebook shows it as tables; `to_dict` returns plain values.
    `above` lists the numbers that exceed your limits.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["rooms", "age"])
    >>> old = dshap.values.Marginal(lambda x: x[:, 0] - x[:, 1], rows)
    >>> new = dshap.values.Marginal(lambda x: x[:, 0] - 3 * x[:, 1], rows)
    >>> found = dshap.diff(dshap.explain(old, rows), dshap.explain(new, rows))
    >>> type(found).__name__, found.n_both
    ('Difference', 50)
    >>> found.outputs[0].features[0].feature
    'age'
    """

    old: SideRows
    new: SideRows
    units: str
    n_both: int
    """Number of rows that both cubes explain."""
    matched: str
    """How rows were matched: "in the same order", "by key", or why they were not."""
    has_rows: bool
    """Whether rows were matched."""
    outputs: tuple[OutputDifference, ...]
    scale: str = ""
    """The scale of the attributions, as the cubes state it; empty if neither does."""

    @property
    def measure(self) -> str:
        """Units and scale in words, after a blank; empty if there are none."""
        said = unit_words(self.units, self.scale)
        return f" {label(said)}" * bool(said)

    def __str__(self) -> str:
        return "\n".join(difference_lines(self))

    def __repr__(self) -> str:
        return f"Difference({self.old.name!r}, {self.new.name!r}, {len(self.outputs)} outputs)"

    def _repr_html_(self) -> str:
        return difference_html(self)

    def to_dict(self) -> dict[str, JSON]:
        """The difference as plain values, for JSON."""
        return asdict(self)

    def above(self, limits: Mapping[str, float]) -> list[str]:
        """Describe the numbers above these limits, with the features; empty if there are none.

        Parameters
        ----------
        limits : "psi", "wasserstein", "ndcg_loss", "spearman_loss" or "changed" -> the largest
            value that passes

        Raises
        ------
        InputError
            There is no such metric, or the limit is negative or no number.
        """
        refuse_unknown_metrics(limits)
        found = []
        for metric, limit in limits.items():
            for output in self.outputs:
                values = METRICS[metric](self, output)
                beyond = [
                    (output.labels.get(name, name), value)
                    for name, value in values.items()
                    if value > limit
                ]
                beyond.sort(key=lambda pair: -pair[1])
                if beyond:
                    found.append(_beyond(metric, limit, beyond, self._of(output)))
        return found

    def _of(self, output: OutputDifference) -> str:
        """Words that name an output if there are several."""
        if len(self.outputs) == 1:
            return ""
        return f" of {label(output.output)}"


Metric = Callable[[Difference, OutputDifference], dict[str, float]]


def _changed_share(whole: Difference, output: OutputDifference) -> dict[str, float]:
    return {"": output.n_changed / max(whole.n_both, 1)}


METRICS: Mapping[str, Metric] = {
    "psi": lambda _, output: {each.feature: each.psi for each in output.features},
    "wasserstein": lambda _, output: {each.feature: each.wasserstein for each in output.features},
    "ndcg_loss": lambda _, output: {"": 1.0 - output.ndcg.value},
    "spearman_loss": lambda _, output: {"": 1.0 - output.spearman.value},
    "changed": _changed_share,
}
"""Metric of a limit -> its values by feature, or one value under ""."""


def refuse_unknown_metrics(limits: Mapping[str, float]) -> None:
    """Raise an `InputError` if limits name no metric, or are negative or no numbers.

    Examples
    --------
    >>> import dshap
    >>> sorted(dshap.report.METRICS)
    ['changed', 'ndcg_loss', 'psi', 'spearman_loss', 'wasserstein']
    >>> dshap.report.refuse_unknown_metrics({"psi": 0.2})
    >>> try:
    ...     dshap.report.refuse_unknown_metrics({"psi": -0.2})
    ... except dshap.DshapError as error:
    ...     print(type(error).__name__)
    InputError
    """
    for metric, limit in limits.items():
        if metric not in METRICS:
            raise InputError(unknown_name("metric", metric, METRICS))
        if not limit >= 0.0:
            raise InputError(f"{metric}={limit:g}: give a limit of at least 0")


def _beyond(metric: str, limit: float, beyond: Sequence[tuple[str, float]], of: str) -> str:
    named = ", ".join(f"{label(name)} {value:.4g}".lstrip() for name, value in beyond)
    return f"{metric}{of} is above {limit:g}: {named}"


def difference_lines(found: Difference) -> list[str]:
    """A difference as lines of text, the most important first."""
    lines = [
        f"old: {_side(found.old)}",
        f"new: {_side(found.new)}",
    ]
    for output in found.outputs:
        lines += ["", *_output_lines(found, output)]
    return lines


def _side(side: SideRows) -> str:
    said = f"{label(side.name, 96)}, {side.n_rows:,} rows"
    if side.missing:
        return f"{said}; {side.missing}"
    return said


def _output_lines(found: Difference, output: OutputDifference) -> list[str]:
    decimals = output.decimals
    return [
        *_summary_lines(found, output),
        "",
        *text_table(FEATURE_HEADS, _feature_cells(output, decimals)),
        *_left_out(output),
        "",
        *_row_lines(found, output, decimals),
    ]


def _summary_lines(found: Difference, output: OutputDifference) -> tuple[str, str, str]:
    """The ranking, the feature that moved most, and the means of an output, a line each."""
    head = ""
    if len(found.outputs) > 1:
        head = f"{label(output.output)}: "
    return (
        f"{head}{ranking_words(output)}",
        shift_words(output, found.measure),
        means_words(output),
    )


def means_words(output: OutputDifference) -> str:
    """The base value and the mean prediction, old and new, in words."""
    means = (output.base_old, output.base_new, output.prediction_old, output.prediction_new)
    base_old, base_new, mean_old, mean_new = (number(each, decimals_of(means)) for each in means)
    return f"base value {base_old} → {base_new}, mean prediction {mean_old} → {mean_new}"


def ranking_words(output: OutputDifference) -> str:
    """How the ranking has changed, in words, with its agreement."""
    moves = output.moves[:SHOWN_MOVES]
    if moves:
        told = ", ".join(
            f"{output.label_of(each.feature)} from {each.place_old} to {each.place_new}"
            for each in moves
        )
        said = f"the ranking has changed, {told}"
    else:
        said = "the ranking is the same"
    return f"{said}: nDCG {_agreed(output.ndcg)}, Spearman {_agreed(output.spearman)}"


def _agreed(found: Agreement) -> str:
    if math.isnan(found.low):
        return f"{found.value:.3f}"
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"


def shift_words(output: OutputDifference, units: str) -> str:
    """Which feature's attributions moved most, in words; `units` begin with a blank."""
    first = output.features[0]
    scale = max(max(each.magnitude_old, each.magnitude_new) for each in output.features)
    if first.psi == 0.0 and first.wasserstein <= SAME * scale:
        return "the attributions of no feature moved: PSI and Wasserstein distance are 0"
    size = "which counts as stable"
    if first.psi > LARGE_PSI:
        size = "which counts as large"
    elif first.psi > SMALL_PSI:
        size = "which counts as moderate"
    return (
        f"{output.label_of(first.feature)} moved most: Wasserstein distance {first.wasserstein:.3g}{units}; "
        f"PSI {first.psi:.3g}, {size}"
    )


FEATURE_HEADS = ("feature", "Wasserstein", "PSI", "mean |Δφ|", "mean |φ|", "place")


def _feature_cells(output: OutputDifference, decimals: int) -> list[tuple[str, ...]]:
    """The cells of a table of the features that moved most."""
    return [
        (
            output.label_of(each.feature),
            number(each.wasserstein, decimals),
            f"{each.psi:.4f}",
            number(each.mean_change, decimals),
            f"{number(each.magnitude_old, decimals)} → {number(each.magnitude_new, decimals)}",
            f"{each.place_old} → {each.place_new}",
        )
        for each in output.features[:SHOWN_FEATURES]
    ]


def _left_out(output: OutputDifference) -> list[str]:
    """The line about features that a table leaves out; none if it has all."""
    left = output.features[SHOWN_FEATURES:]
    if not left:
        return []
    largest = left[0].wasserstein
    return [f"{len(left):,} more features, Wasserstein distance at most {largest:.3g}"]


def counts_line(found: Difference, output: OutputDifference) -> str:
    """How many rows are in both, changed, and in one only, in words."""
    if not found.has_rows:
        return f"rows are not compared: {found.matched}"
    share = output.n_changed / max(found.n_both, 1)
    counts = (
        f"{found.n_both:,} rows in both, matched {found.matched}: {output.n_changed:,} changed "
        f"({share:.1%}); {found.old.n_alone:,} only in old, {found.new.n_alone:,} only in new"
    )
    unmatched = found.old.n_unmatched + found.new.n_unmatched
    if unmatched:
        counts += f"; {unmatched:,} in both have attributions in one only"
    return counts


def _row_heads(output: OutputDifference) -> tuple[str, ...]:
    keys = ", ".join(map(label, output.rows[0].key))
    return (keys, "most in", "Σ |Δφ|", "φ", "prediction")


def _row_cells(output: OutputDifference, decimals: int) -> list[tuple[str, ...]]:
    """The cells of a table of the rows that changed most."""
    return [
        (
            label(key_words(each.key)),
            output.label_of(each.feature),
            number(each.change, decimals),
            f"{number(each.attribution_old, decimals)} → {number(each.attribution_new, decimals)}",
            f"{number(each.prediction_old, decimals)} → {number(each.prediction_new, decimals)}",
        )
        for each in output.rows
    ]


def _row_lines(found: Difference, output: OutputDifference, decimals: int) -> list[str]:
    counts = counts_line(found, output)
    if not output.rows:
        return [counts]
    return [counts, *text_table(_row_heads(output), _row_cells(output, decimals), n_texts=2)]


def difference_html(found: Difference) -> str:
    """A difference as tables of HTML, the most important first."""
    parts = []
    for output in found.outputs:
        decimals = output.decimals
        head, moved, means = _summary_lines(found, output)
        notes = [*_left_out(output), moved, means]
        parts.append(table_html(head, FEATURE_HEADS, _feature_cells(output, decimals), notes))
        counts = counts_line(found, output)
        if output.rows:
            rows = _row_cells(output, decimals)
            parts.append(table_html(counts, _row_heads(output), rows, n_texts=2))
        else:
            parts.append(table_html(counts, (), ()))
    sides = [("old", _side(found.old)), ("new", _side(found.new))]
    return "".join([table_html("Difference of two cubes", (), sides, n_texts=2), *parts])
