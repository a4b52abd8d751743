"""A background chosen from all rows of a table, on any executor: `choose_background`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dshap.api import executor_for, temporary_store
from dshap.checks import Choice
from dshap.cube import Workspace
from dshap.engine import Executor, map_spans
from dshap.engine.run import read_sample
from dshap.errors import InputError
from dshap.inputs import open_rows, take_census
from dshap.options import MISSING_POLICIES
from dshap.tables import SPAN_ROWS, ArraySource, ParquetSource, said_left_out
from dshap.types import FloatArray, Moments, Record, RowReader, tree_sum
from dshap.values.background import CANDIDATES, Background, selected_background

__all__ = ["background_of", "choose_background"]


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
        reader = open_rows(rows, executor, lambda: workspace.folder("rows"), features=features, missing=missing)
        if isinstance(reader, ArraySource | ParquetSource) and reader.left_out:
            warnings.warn(
                f"choose_background takes columns of numbers and leaves out {said_left_out(reader.left_out)}: a model "
                "that takes them needs rows with them, Marginal(predict, frame.sample(100))",
                RuntimeWarning,
                stacklevel=2,
            )
        take_census(reader, executor, lambda: workspace.folder("keys"), takes_nan=False)
        return background_of(reader, executor, n_background, method, seed)


def background_of(reader: RowReader, executor: Executor, size: int, method: str, seed: int) -> Background:
    """`choose_background` of a table that is open."""

    def passes(function: Callable[[FloatArray], Moments]) -> Moments:
        return tree_sum(map_spans(executor, None, _sums, reader.n_rows, SPAN_ROWS, reader, function))

    sample: Record = map_spans(executor, None, partial(_sample, seed=seed), 1, 1, reader)[0]
    return selected_background(sample["x"], passes, size, method, seed, reader.feature_names)


def _sample(_: Any, start: int, stop: int, reader: RowReader, *, seed: int) -> Record:
    return read_sample(reader, CANDIDATES, seed, SPAN_ROWS)


def _sums(_: Any, start: int, stop: int, reader: RowReader, function: Callable[[FloatArray], Moments]) -> Moments:
    block = reader.read(start, stop)
    return function(block.x[block.is_ok])
