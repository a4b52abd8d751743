"""A background chosen from all rows of a table, on any executor: `choose_background`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from dshap.api import executor_for, temporary_store
from dshap.checks import Choice
from dshap.cube import Workspace
from dshap.errors import InputError
from dshap.options import MISSING_POLICIES
from dshap.session import Session
from dshap.tables import ArraySource, ParquetSource, open_rows, said_left_out, take_census
from dshap.tables.background import background_of
from dshap.values import Background

__all__ = ["choose_background"]


def choose_background(
    rows: Any,
    n_background: int = 100,
    *,
    method: str = "thinning",
    features: Sequence[str] | None = None,
    client: Any = None,
    missing: str = "refuse",
    seed: int = 0,
) -> Background:
    """Few rows, with weights, that stand for all rows of a table: a background for `dshap.values.Marginal`.

    Parameters
    ----------
    rows, client : as in `dshap.explain`; every row counts, read by spans
    n_background : int
        Rows to choose; repeated ones are merged and their weights added.
    method : {"thinning", "kmeans", "stratified", "random"}
        Kernel herding towards the mean embedding of all rows, equal weights; the rows nearest to k-means centres, with
        the share of the table nearest to each; one row of each cell of a partition by halving, with the cell's share;
        or rows drawn at random.  All choose among 10,000 rows drawn with the seed.
    features : columns, in order; None: all number columns (give them where the table holds a target)
    missing : "refuse" or "skip" rows with NaN or infinity
    seed : int

    Returns
    -------
    Background
        `rows`, `weights`, and `discrepancy`: the maximum mean discrepancy between them and *all* rows, beside that of
        as many random rows.

    Raises
    ------
    InputError
        Bad rows or options.

    Examples
    --------
    >>> background = dshap.choose_background("data/adult.parquet", 100, features=model.feature_names_in_)
    >>> value = dshap.values.Marginal(model.predict_proba, background)
    """
    if Choice(MISSING_POLICIES)("missing", missing) == "pass":
        raise InputError('missing = "pass" leaves NaN in the rows, and distances need numbers: use "refuse" or "skip"')
    executor = executor_for(client)
    with temporary_store() as path, Workspace(path) as workspace:
        session = Session(executor, workspace)
        reader = open_rows(rows, session, features=features, missing=missing)
        if isinstance(reader, ArraySource | ParquetSource) and reader.left_out:
            warnings.warn(
                f"choose_background takes columns of numbers and leaves out {said_left_out(reader.left_out)}: a model "
                "that takes them needs rows with them, Marginal(predict, frame.sample(100))",
                RuntimeWarning,
                stacklevel=2,
            )
        take_census(reader, session, takes_nan=False)
        return background_of(reader, session.each_span, n_background, method, seed)
