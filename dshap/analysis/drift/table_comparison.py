"""Comparing the rows of two tables by the witness function of a kernel: `dshap.mmd_drift`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dshap.analysis.drift.drift_record import ColumnDrift, ComparedTable, Drift, DriftingRow
from dshap.core.addresses import masked
from dshap.core.places import BucketPath
from dshap.core.printing import one_line
from dshap.core.records import FloatArray
from dshap.core.rules import Choice, Whole, checked, of_kind
from dshap.discrepancy.attribution import Discrepancy, discrepancy
from dshap.discrepancy.margins import margin
from dshap.discrepancy.samples import ABSENT, TwoSamples, compared_rows
from dshap.kernels.unbound import Kernel
from dshap.run.session import open_session
from dshap.warehouse.paired_samples import PairedSamples, SampledTable, paired_samples

MAX_ROWS = 10_000
"""The default number of rows of each table that are compared: 20 columns take a quarter of a
minute of one core, and time grows with its square."""
NAMED_ROWS = 30
"""The fewest rows of a table in which a column of different values is taken to name rows."""
SHARED_NAMES = 0.02
"""The largest share of the shorter table's names that both tables have, where a column is warned of."""


def mmd_drift(
    old: Any,
    new: Any,
    *,
    features: Sequence[str] | None = None,
    key: Any = (),
    kernel: Kernel | None = None,
    absent: str = "pooled",
    max_rows: int | None = MAX_ROWS,
    n_permutations: int = 999,
    n_rows: int = 10,
    client: Any = None,
    seed: int = 0,
) -> Drift:
    """Find how the rows of two tables differ, in all columns together, and whose doing it is.

    The maximum mean discrepancy (MMD) between the tables, with a product kernel, sees any change of
    the joint distribution, such as a correlation that turns while each column stays as it was.  Its
    Shapley values over columns are exact, for all rows and for each row.

    Parameters
    ----------
    old, new : tables as in `dshap.explain`, or paths of CSV files, which are read into memory
        Columns of numbers, text and times; a missing value is a value of its own.
    features : columns to compare; None: all but the key
    key : key columns, which name the rows that carry most
    kernel : one of dshap.kernels; None: `RBF()`, with median length-scales
        Columns of text take `Categorical` with ρ = exp(−1/columns), unless a `Product` names theirs.
    absent : "pooled" or "omitted"
        The factor of a column outside of a coalition.  "pooled": its mean over both tables, as if
        it were drawn from both; a column that has not changed and is independent of the others gets
        0.  "omitted": 1, the MMD in the columns of the coalition alone; columns that have not
        changed get less than 0, because each factor makes the others' discrepancy smaller.
    max_rows : the most rows of each table that are compared, a seeded sample; None: all
        It takes about (m + n)²·d/2 steps.
    n_permutations : int
        The p-value is (1 + those with at least as much) / (1 + n_permutations).
    n_rows : how many of the rows that carry most are listed
    client : as in `dshap.explain`; rows are read there, and compared in this process
    seed : int

    Returns
    -------
    Drift
        Prints as a screen of text, shows as tables in a notebook; `to_frame` has the columns.

    Raises
    ------
    InputError
        The tables have other columns, or other kinds of values in one; a table has no rows, infinite
        numbers or too many categories; bad options.

    Notes
    -----
    Permutations suppose that rows are exchangeable: repeated measurements of a few customers, or
    hours of a few days, show drift too often.  Length-scales are those of both tables together.

    References
    ----------
    Gretton et al., A Kernel Two-Sample Test (2012); Mohammadi, Chau and Muandet, Computing Exact
    Shapley Values in Polynomial Time for Product-Kernel Methods (2025), whose game is "omitted".
    """
    (features, n_permutations, seed) = checked(
        features=features, n_permutations=n_permutations, seed=seed
    )
    absent = Choice(ABSENT)("absent", absent)
    n_shown = Whole(0)("n_rows", n_rows)
    if max_rows is not None:
        max_rows = Whole(1)("max_rows", max_rows)
    if kernel is not None:
        of_kind("kernel", kernel, Kernel, "one of dshap.kernels, such as RBF()")
    with open_session(None, client, False, {}) as (_, session):
        read = paired_samples(
            old, new, session, features=features, key=key, max_rows=max_rows, seed=seed
        )
        samples = TwoSamples(read.old.x, read.new.x, read.names, read.is_categorical)
        compared = compared_rows(samples, kernel, absent, seed)
        found = discrepancy(compared, n_permutations, seed)
        rows = drifting_rows(found, read, n_shown)
    # of the columns and, last, of all of them together
    *_, std_error = found.std_errors.tolist()
    *_, expected = found.null.expected.tolist()
    *_, p_value = found.null.p_values.tolist()
    return Drift(
        old=_compared_table(old, read.old),
        new=_compared_table(new, read.new),
        mmd2=found.mmd2,
        std_error=std_error,
        expected=expected,
        p_value=p_value,
        n_permutations=n_permutations,
        cell_rows=found.cell_rows,
        absent=absent,
        kernel=compared.described(),
        columns=column_drifts(found, samples),
        rows=rows,
        warnings=name_warnings(samples),
        names=read.names,
        positions=np.concatenate([read.old.positions, read.new.positions]),
        witness=found.sums.witness,
        attributions=found.sums.attributions,
    )


def _compared_table(given: Any, sample: SampledTable) -> ComparedTable:
    return ComparedTable(_name_of(given), sample.reader.n_rows, len(sample.x))


def _name_of(rows: Any) -> str:
    """The path of a table, on one line without secrets, or its type."""
    match rows:
        case str() | Path() | BucketPath():
            return masked(one_line(str(rows)))
    return type(rows).__name__


def name_warnings(samples: TwoSamples) -> tuple[str, ...]:
    """A line for each column that seems to name rows: it alone makes all rows of a table new."""
    columns = zip(samples.names, samples.old.T, samples.new.T, strict=True)
    named = [one_line(name) for name, old, new in columns if _names_rows(old, new)]
    return tuple(
        f"warning: column {name!r} has another value in each row and hardly one in both "
        "tables: if it names rows, give it as the key (--key on the command line)"
        for name in named
    )


def _names_rows(old: FloatArray, new: FloatArray) -> bool:
    """Whether whole numbers, or categories, are all different and hardly shared."""
    fewest = min(len(old), len(new))
    if fewest < NAMED_ROWS:
        return False
    both = np.concatenate([old, new])
    if (both != np.floor(both)).any():
        return False
    n_names = len(np.unique(old)) + len(np.unique(new))
    if n_names < len(both):  # a value is repeated
        return False
    n_shared = n_names - len(np.unique(both))
    return n_shared <= SHARED_NAMES * fewest


def column_drifts(found: Discrepancy, samples: TwoSamples) -> tuple[ColumnDrift, ...]:
    """The part of each column, the largest first."""
    of_columns = [_column_drift(found, samples, j) for j in range(len(samples.names))]
    of_columns.sort(key=lambda each: each.attribution, reverse=True)
    return tuple(of_columns)


def _column_drift(found: Discrepancy, samples: TwoSamples, j: int) -> ColumnDrift:
    """The part of column j."""
    null = found.null
    is_categorical = bool(samples.is_categorical[j])
    by_itself = margin(samples.old[:, j], samples.new[:, j], is_categorical)
    return ColumnDrift(
        column=samples.names[j],
        attribution=float(found.attributions[j]),
        std_error=float(found.std_errors[j]),
        expected=float(null.expected[j]),
        p_value=float(null.p_values[j]),
        adjusted=float(null.adjusted[j]),
        marginal_p_value=by_itself.p_value,
        psi=by_itself.psi,
    )


def drifting_rows(found: Discrepancy, read: PairedSamples, n_shown: int) -> tuple[DriftingRow, ...]:
    """The rows that carry most of MMD²."""
    order = np.argsort(-found.carried, kind="stable")
    shown = order[:n_shown].tolist()
    return tuple(_drifting_row(found, read, row) for row in shown)


def _drifting_row(found: Discrepancy, read: PairedSamples, row: int) -> DriftingRow:
    n_old = found.rows.n_old
    if row < n_old:
        side = "old"
        key = read.old.key_of(row)
    else:
        side = "new"
        key = read.new.key_of(row - n_old)
    witness = float(found.sums.witness[row])
    attributions = found.sums.attributions[row]
    most = int(np.argmax(attributions * np.sign(witness)))
    return DriftingRow(
        table=side,
        key=key,
        carried=float(found.carried[row]),
        witness=witness,
        column=read.names[most],
        attribution=float(attributions[most]),
    )
