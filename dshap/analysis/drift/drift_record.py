"""The drift of rows between two tables: its content, and its description in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.numbers_as_text import decimals_of, number, text_table
from dshap.core.errors import InputError
from dshap.core.html import table_html
from dshap.core.late import pd
from dshap.core.printing import label
from dshap.core.records import JSON, FloatArray
from dshap.core.rules import Number
from dshap.cube.datasets import key_words

SHOWN_COLUMNS = 20
"""The most columns of a table on the screen."""
LEVEL = 0.05
"""The level at which texts say that the tables differ: p-values up to it."""


@dataclass(frozen=True)
class ColumnDrift:
    """The part of one column in the drift of rows.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> draw = np.random.default_rng(0)
    >>> old = pd.DataFrame({"age": draw.normal(40, 5, 80), "income": draw.normal(30, 4, 80)})
    >>> new = pd.DataFrame({"age": draw.normal(40, 5, 80), "income": draw.normal(50, 4, 80)})
    >>> first, second = dshap.mmd_drift(old, new, n_permutations=99).columns
    >>> type(first).__name__, first.column, second.column
    ('ColumnDrift', 'income', 'age')
    """

    column: str
    attribution: float
    """Its Shapley value; the values of all columns add up to MMD²."""
    std_error: float
    """Standard error, with the rows as samples; without any drift it is too small."""
    expected: float
    """Mean attribution without drift, over the permutations."""
    p_value: float
    """Share of permutations whose attribution is as large."""
    adjusted: float
    """The p-value adjusted for the number of columns (Westfall and Young)."""
    marginal_p_value: float
    """P-value of the column alone: Kolmogorov–Smirnov test with Fisher's exact test of missing
    values, χ² test of categories."""
    psi: float
    """Population stability index of the column alone."""


@dataclass(frozen=True)
class DriftingRow:
    """A row that carries much of the drift: an old one where old rows are dense, or a new one.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> draw = np.random.default_rng(0)
    >>> old = pd.DataFrame({"age": draw.normal(40, 5, 80)})
    >>> new = pd.DataFrame({"age": draw.normal(60, 5, 90)})
    >>> row = dshap.mmd_drift(old, new, n_permutations=99).rows[0]
    >>> type(row).__name__, row.column
    ('DriftingRow', 'age')
    """

    table: str
    """"old" or "new"."""
    key: Mapping[str, str]
    """Key column -> its key; "row" -> its position in tables without a key."""
    carried: float
    """Its part of MMD²; the parts of all rows add up to MMD²."""
    witness: float
    """f(x): positive where old rows are denser, negative where new rows are denser."""
    column: str
    """The column with the largest attribution of the same sign."""
    attribution: float
    """The attribution of that column in the witness at this row."""


@dataclass(frozen=True)
class ComparedTable:
    """One of the two tables whose rows a `Drift` compares.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> draw = np.random.default_rng(0)
    >>> old = pd.DataFrame({"age": draw.normal(40, 5, 80)})
    >>> new = pd.DataFrame({"age": draw.normal(60, 5, 90)})
    >>> drift = dshap.mmd_drift(old, new, n_permutations=99)
    >>> type(drift.old).__name__, drift.old.n_rows, drift.new.n_rows
    ('ComparedTable', 80, 90)
    """

    name: str
    """Its path, or its type."""
    n_rows: int
    n_sampled: int
    """Number of rows that were compared: a seeded sample if there are more."""

    def __str__(self) -> str:
        if self.n_sampled == self.n_rows:
            return f"{self.name}, {self.n_rows:,} rows"
        return f"{self.name}, a sample of {self.n_sampled:,} of {self.n_rows:,} rows"


@dataclass(frozen=True, eq=False)
class Drift:
    """The drift of rows between two tables, attributed to columns.

    Printed, it is a screen of text; a notebook shows it as tables.  `to_frame` returns the columns
    and `row_frame` the rows as data frames, `to_dict` plain values.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> draw = np.random.default_rng(0)
    >>> old = pd.DataFrame({"age": draw.normal(40, 5, 80), "income": draw.normal(30, 4, 80)})
    >>> new = pd.DataFrame({"age": draw.normal(40, 5, 80), "income": draw.normal(50, 4, 80)})
    >>> drift = dshap.mmd_drift(old, new, n_permutations=99)
    >>> type(drift).__name__, drift.p_value, drift.to_frame().shape[0]
    ('Drift', 0.01, 2)
    """

    old: ComparedTable
    new: ComparedTable
    mmd2: float
    """Maximum mean discrepancy squared, the biased estimate."""
    std_error: float
    """Standard error of MMD², with the rows as samples; without any drift it is too small."""
    expected: float
    """Mean MMD² without drift, over the permutations."""
    p_value: float
    """(1 + permutations whose MMD² is as large) / (1 + permutations)."""
    n_permutations: int
    cell_rows: int
    """Number of rows that a permutation moves together."""
    absent: str
    """The value of `absent` in `dshap.mmd_drift`: how absent columns were treated."""
    kernel: Mapping[str, str]
    """Column -> its kernel, such as "rbf 0.31"."""
    columns: tuple[ColumnDrift, ...]
    """The largest attribution first."""
    rows: tuple[DriftingRow, ...]
    """The rows with the largest parts of MMD²."""
    warnings: tuple[str, ...]
    """Lines about columns that seem to name rows."""
    names: tuple[str, ...]
    """The columns, in the order of the arrays."""
    positions: NDArray[np.int64]
    """(m + n,): positions of the compared rows in their tables, the old ones first."""
    witness: FloatArray
    """(m + n,): the witness function at these rows."""
    attributions: FloatArray
    """(m + n, columns): attributions of the witness at each row, which sum to it."""

    def __str__(self) -> str:
        return "\n".join(drift_lines(self))

    def __repr__(self) -> str:
        return f"Drift(mmd2={self.mmd2:.4g}, p_value={self.p_value:.4g}, {len(self.names)} columns)"

    def _repr_html_(self) -> str:
        return drift_html(self)

    def is_seen(self, level: float = LEVEL) -> bool:
        """Whether the p-value is at most `level`.

        Raises
        ------
        InputError
            The level is no number between 0 and 1, or so low that no p-value reaches it.
        """
        return self.p_value <= checked_level(level, self.n_permutations)

    def to_frame(self) -> pd.DataFrame:
        """The columns as a data frame, the largest attribution first."""
        return pd.DataFrame([vars(each) for each in self.columns])

    def row_frame(self) -> pd.DataFrame:
        """The compared rows as a data frame: table, position, witness, and attributions by column."""
        n_old = self.old.n_sampled
        head = {
            ("", "table"): np.repeat(["old", "new"], [n_old, len(self.witness) - n_old]),
            ("", "row"): self.positions,
            ("", "witness"): self.witness,
        }
        of_columns = {
            ("attribution", name): self.attributions[:, j] for j, name in enumerate(self.names)
        }
        frame = pd.DataFrame({**head, **of_columns})
        frame.columns = pd.MultiIndex.from_tuples(frame.columns)
        return frame

    def to_dict(self) -> dict[str, JSON]:
        """Everything but the arrays of rows, as plain values for JSON."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)[:-4]}
        return {
            **plain,
            "old": vars(self.old),
            "new": vars(self.new),
            "kernel": dict(self.kernel),
            "columns": [vars(each) for each in self.columns],
            "rows": [{**vars(each), "key": dict(each.key)} for each in self.rows],
        }


def checked_level(level: float, n_permutations: int) -> float:
    """A level from 0 to 1 that p-values of so many permutations can reach, or an `InputError`.

    Examples
    --------
    >>> import dshap
    >>> dshap.report.checked_level(0.05, n_permutations=999)
    0.05
    """
    level = float(Number(0.0, 1.0)("level", level))
    least = 1.0 / (1 + max(n_permutations, 0))
    if least > level:
        advice = "give a level above 0"
        if level > 0.0:
            advice = f"take {math.ceil(1.0 / level) - 1:,} permutations or more, or a higher level"
        raise InputError(
            f"level is {level:g}, and {n_permutations:,} permutations give no p-value below "
            f"{least:.4g}: {advice}"
        )
    return level


def seen_line(found: Drift) -> str:
    """Whether the tables differ, in one line.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> draw = np.random.default_rng(0)
    >>> old = pd.DataFrame({"age": draw.normal(40, 5, 80)})
    >>> new = pd.DataFrame({"age": draw.normal(60, 5, 90)})
    >>> drift = dshap.mmd_drift(old, new, n_permutations=99)
    >>> dshap.report.seen_line(drift).partition(":")[0]
    'the rows have drifted'
    """
    if found.p_value <= LEVEL:
        seen = "the rows have drifted"
    else:
        seen = "no drift is seen"
    decimals = decimals_of([found.mmd2])
    return (
        f"{seen}: MMD² {number(found.mmd2, decimals)}, {number(found.expected, decimals)} without "
        f"drift; p = {found.p_value:.4g} by {found.n_permutations:,} permutations"
    )


COLUMN_HEADS = (
    "column",
    "attribution",
    "± s.e.",
    "without drift",
    "p adjusted",
    "p by itself",
    "PSI",
)
ROW_HEADS = ("table", "row", "most by", "part of MMD²", "witness")


def _column_cells(found: Drift) -> list[tuple[str, ...]]:
    decimals = decimals_of([found.mmd2, *(each.attribution for each in found.columns)])
    return [
        (
            label(each.column),
            number(each.attribution, decimals),
            number(each.std_error, decimals),
            number(each.expected, decimals),
            f"{each.adjusted:.4g}",
            f"{each.marginal_p_value:.2g}",
            f"{each.psi:.3f}",
        )
        for each in found.columns[:SHOWN_COLUMNS]
    ]


def _row_cells(found: Drift) -> list[tuple[str, ...]]:
    decimals = decimals_of([each.witness for each in found.rows])
    return [
        (
            each.table,
            label(key_words(each.key)),
            label(each.column),
            _share(each.carried, found.mmd2),
            number(each.witness, decimals, sign=True),
        )
        for each in found.rows
    ]


def _share(part: float, whole: float) -> str:
    if whole <= 0.0:
        return "—"
    return f"{part / whole:.2%}"


def _others(found: Drift) -> list[str]:
    n_others = len(found.columns) - SHOWN_COLUMNS
    if n_others > 0:
        return [f"and {n_others:,} columns with less"]
    return []


def drift_lines(found: Drift) -> list[str]:
    """A drift as lines of text, the most important first."""
    lines = [f"old: {found.old}", f"new: {found.new}", *found.warnings, "", seen_line(found), ""]
    lines += [*text_table(COLUMN_HEADS, _column_cells(found)), *_others(found)]
    if found.rows:
        lines += ["", "rows that contribute most:"]
        lines += text_table(ROW_HEADS, _row_cells(found), n_texts=3)
    return lines


def drift_html(found: Drift) -> str:
    """A drift as tables of HTML, the most important first."""
    sides = [("old", str(found.old)), ("new", str(found.new))]
    warned = list(found.warnings)
    parts = [
        table_html("Drift of rows", (), sides, warned, n_texts=2),
        table_html(seen_line(found), COLUMN_HEADS, _column_cells(found), _others(found)),
    ]
    if found.rows:
        title = "rows that contribute most"
        parts.append(table_html(title, ROW_HEADS, _row_cells(found), n_texts=3))
    return "".join(parts)
