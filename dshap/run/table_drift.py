"""The drift of rows between two tables: both are read in a session, and then compared."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from dshap.analysis.drift.drift_record import ComparedTable, Drift
from dshap.analysis.drift.table_comparison import drift_between
from dshap.core.addresses import masked
from dshap.core.annotations import ClientLike, TableLike
from dshap.core.places import BucketPath
from dshap.core.printing import one_line
from dshap.core.rules import Choice, Whole, checked, of_kind
from dshap.discrepancy.samples import ABSENT, TwoSamples
from dshap.kernels.unbound import Kernel
from dshap.run.session import open_session
from dshap.warehouse.paired_samples import PairedSamples, SampledTable, paired_samples

MAX_ROWS = 10_000
"""The default number of rows of each table that are compared: 20 columns need a quarter of a
minute of one core, and time grows with its square."""


def mmd_drift(
    old: TableLike,
    new: TableLike,
    *,
    features: Sequence[str] | None = None,
    key: str | Sequence[str] = (),
    kernel: Kernel | None = None,
    absent: Literal["pooled", "omitted"] = "pooled",
    max_rows: int | None = MAX_ROWS,
    n_permutations: int = 999,
    n_rows: int = 10,
    client: ClientLike | None = None,
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
        Columns of text get `Categorical` with ρ = exp(−1/columns), unless a `Product` names theirs.
    absent : "pooled" or "omitted"
        The factor of a column outside of a coalition.  "pooled": its mean over both tables, as if
        it were drawn from both; a column that has not changed and is independent of the others gets
        0.  "omitted": 1, the MMD in the columns of the coalition alone; columns that have not
        changed get less than 0, because each factor makes the others' discrepancy smaller.
    max_rows : the most rows of each table that are compared, a seeded sample; None: all
        It needs about (m + n)²·d/2 steps.
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

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import dshap
    >>> draw = np.random.default_rng(0)
    >>> old = pd.DataFrame({"age": draw.normal(40, 5, 80), "income": draw.normal(30, 4, 80)})
    >>> new = pd.DataFrame({"age": draw.normal(40, 5, 80), "income": draw.normal(50, 4, 80)})
    >>> drift = dshap.mmd_drift(old, new, n_permutations=99)
    >>> drift.is_seen(), drift.columns[0].column
    (True, 'income')
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
        return drift_between(
            (_compared_table(old, read.old), _compared_table(new, read.new)),
            TwoSamples(read.old.x, read.new.x, read.names, read.is_categorical),
            np.concatenate([read.old.positions, read.new.positions]),
            partial(_key_of, read),
            kernel=kernel,
            absent=absent,
            n_permutations=n_permutations,
            n_rows=n_shown,
            seed=seed,
        )


def _compared_table(given: Any, sample: SampledTable) -> ComparedTable:
    return ComparedTable(_name_of(given), sample.reader.n_rows, len(sample.x))


def _key_of(read: PairedSamples, row: int) -> dict[str, str]:
    """Key column -> the key of a row of both samples, the old ones first."""
    n_old = len(read.old.x)
    if row < n_old:
        return read.old.key_of(row)
    return read.new.key_of(row - n_old)


def _name_of(rows: Any) -> str:
    """The path of a table, on one line without secrets, or its type."""
    match rows:
        case str() | os.PathLike():
            return masked(one_line(os.fsdecode(rows)))
        case BucketPath():
            return masked(one_line(str(rows)))
    return type(rows).__name__
