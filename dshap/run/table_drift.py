"""The drift between two tables, `dshap.mmd_drift`: reads a sample of each, and compares them."""

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
"""The default number of rows of each table that are compared: with 20 columns they take a quarter of
a minute of one core, and the time grows with the square of the number of rows."""


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
    """Test whether the rows of two tables differ in distribution, and which columns cause it.

    It compares all columns together: the maximum mean discrepancy (MMD) with a product kernel
    detects any change of the joint distribution, such as a correlation that changes its sign while
    each column alone is distributed as before.  The MMD is then split among the columns by exact
    Shapley values, for all rows and for each row.

    Parameters
    ----------
    old, new : table or path
        As the rows of `dshap.explain`, or paths of CSV files, which are read into memory.  Columns
        may contain numbers, text and times; missing values count as one more value.
    features : sequence of str, optional
        The columns to compare.  None: all columns except the key.
    key : str or sequence of str, optional
        The key columns, by which the result names the rows that contribute most.
    kernel : kernel of `dshap.kernels`, optional
        None: ``RBF()``, whose length-scales are medians over both tables.  Columns of text get
        `Categorical` with ρ = exp(−1/columns), unless you give a `Product` with their kernels.
    absent : {"pooled", "omitted"}, default "pooled"
        What replaces the kernel of a column outside of a coalition.  "pooled": the mean of its
        kernel over both tables, as if the value were drawn from both; a column that has not changed
        and is independent of the others gets 0.  "omitted": the number 1, so that a coalition has
        the MMD of its columns alone; columns that have not changed then get less than 0, because
        each factor makes the discrepancy of the other columns smaller.
    max_rows : int, optional, default 10,000
        The most rows of each table that are compared, drawn with the seed.  None: all rows.  With m
        and n rows and d columns the comparison needs about (m + n)²·d/2 steps.
    n_permutations : int, default 999
        The number of random permutations of the rows between the tables.  The p-value is
        (1 + the number of permutations whose MMD is at least as large) / (1 + n_permutations).
    n_rows : int, default 10
        How many of the rows that contribute most are listed.
    client : distributed.Client or address, optional
        As in `dshap.explain`.  The workers read the rows, and this process compares them.
    seed : int, default 0

    Returns
    -------
    Drift
        Print it for a summary; a notebook shows tables.  `to_frame` returns the columns.

    Raises
    ------
    InputError
        The tables differ in their columns or in the types of a column; a table has no rows,
        infinite numbers or too many categories; or an option is not valid.

    Notes
    -----
    The p-value assumes that rows are independent draws.  With repeated measurements of a few
    customers, or the hours of a few days, the test reports drift too often.

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
