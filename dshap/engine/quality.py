"""Errors of conditional values against the predictions, coalition by coalition, as sums over rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from dshap.engine.graph import Call, Executor, Reduction
from dshap.engine.progress import Progress
from dshap.engine.tasks import Context
from dshap.types import Moments

__all__ = ["coalition_errors"]


def coalition_errors(executor: Executor, context: Context, progress: Progress) -> Moments:
    """`error2` (m, k) = Σ (f(x) − v_S(x))² over the good rows, m the proper coalitions in their order; `n`.

    With `f` (k,) and `f2` (k,), Σf and Σf².
    """
    results: list[Moments] = []
    leaves = tuple(Call(_leaf, span) for span in context.plan.instance_spans)
    progress.begin("errors of coalitions", 1, "stages")
    executor.run(context, [Reduction("errors", leaves, Call(_total))], lambda _, total: results.append(total))
    progress.advance()
    progress.end()
    return results[0]


def _total(_: Any, total: Moments) -> Moments:
    return total


def _leaf(context: Context, start: int, stop: int) -> Moments:
    block, plan = context.rows.read(start, stop), context.plan
    rows = block.x[block.is_ok]
    f = context.value.model(rows)  # (n, k)
    tiles = list(range(len(plan.coalition_spans)))
    errors = []
    for joined in (tiles[i : i + plan.join_tiles] for i in range(0, len(tiles), plan.join_tiles)):
        state, total = context.state(joined), 0.0
        for first in range(0, max(len(rows), 1), plan.micro_rows):
            micro = slice(first, first + plan.micro_rows)
            values = context.expectations(state, rows[micro])  # (n, m, k)
            total = total + np.square(f[micro, None] - values).sum(axis=0)
        errors.append(total)
    sums = {"f": f.sum(axis=0), "f2": np.square(f).sum(axis=0), "n": np.array(float(len(f)))}
    return Moments({"error2": np.concatenate(errors), **sums})
