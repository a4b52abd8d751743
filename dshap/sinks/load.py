"""Loading a finished cube into a sink of any kind."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date

from dshap.attributors.choice import why_no_order_of
from dshap.core.places import Place
from dshap.core.rules import as_place
from dshap.cube.blocks import CubeArrays
from dshap.cube.current import cube_at
from dshap.sinks.checks import check_order, check_sink
from dshap.sinks.cube_words import version_in_card
from dshap.sinks.records import CubeFacts, LoadAbout, RowHistory, RunDay, Sink, SinkResult


def load_sink(
    sink: Sink,
    cube_path: str | Place,
    history: RowHistory,
    job_name: str,
    say: Callable[[str], None] = lambda line: None,
    *,
    as_of: date | None = None,
    is_backfill: bool = False,
    about: LoadAbout | None = None,
) -> SinkResult:
    """Load a finished cube into a sink; a load that was killed is finished by the same call.

    In a database everything happens in one transaction, which the line of the run in `_dshap_runs`
    belongs to: the table is as before, or as the load leaves it.  A run that was loaded is not
    loaded again.

    Parameters
    ----------
    sink : where to, and in which form
    cube_path : path of the cube, all of whose blocks are finished
    history : the nights that its rows come from
    job_name : the name of the job, which the table belongs to from its first load on
    say : function that shows a line of progress
    as_of : the date of the run, which its line in `_dshap_runs` states
    is_backfill : whether the run is for an earlier date than the last load, which stays the last
    about : the model, the checks and the words for columns that the load states

    Raises
    ------
    InputError
        The cube or the table does not fit the sink; nothing was written.
    DatabaseError
        The database failed, or refused; nothing of the load is in it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> import dshap
    >>> from dshap.sinks import SingleRun, Sink, load_sink
    >>> houses = pd.DataFrame({"rooms": [2.0, 3.0]}, index=pd.Index([7, 8], name="id"))
    >>> value = dshap.values.Marginal(lambda x: 100 * x[:, 0], houses)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cube = dshap.explain(value, houses, store=f"{folder}/cube", progress=False)
    ...     sink = Sink("price", path=Path(folder, "table"), rows="all", write="replace")
    ...     result = load_sink(sink, f"{folder}/cube", SingleRun("1", "abc"), "prices")
    ...     table = pd.read_parquet(f"{folder}/table/current")
    >>> result.n_lines, table["phi_rooms"].tolist()
    (2, [-50.0, 50.0])
    """
    started = time.perf_counter()
    cube = CubeArrays(cube_at(as_place("cube_path", cube_path)))
    check_sink(sink, CubeFacts.of_cube(cube))
    if sink.codes is not None and not cube.has("std_error"):
        check_order(sink, why_no_order_of(cube.design))
    if not sink.model_version:
        sink = replace(sink, model_version=version_in_card(cube.path) or history.method)
    day = RunDay(as_of, is_backfill, about or LoadAbout())
    result = sink.load(cube, history, job_name, say, day)
    return replace(result, seconds=time.perf_counter() - started)
