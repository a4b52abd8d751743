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
    """Load a finished cube into a sink, such as a table of a database.

    In a database, one transaction writes the lines and the line of the run in `_dshap_runs`: a load
    that fails leaves the table unchanged.  If a load was killed, the same call again finishes it; a
    run that was loaded is not loaded again.

    Parameters
    ----------
    sink : Sink
        The table or folder, and the form of its lines.
    cube_path : path
        The path of the cube; all of its blocks are finished.
    history : RowHistory
        The runs that computed the rows of the cube, such as ``SingleRun("1", "abc")``.
    job_name : str
        The name of the job; from its first load on, the table belongs to this job.
    say : callable, optional
        Receives each line of progress.
    as_of : date, optional
        The date of the run, for its line in `_dshap_runs`.
    is_backfill : bool, default False
        Whether the run is for an earlier date than the last load.  Later loads then still write
        what changed since that load, not since the backfill.
    about : LoadAbout, optional
        The model, the versions and the checks of the run, for its line in `_dshap_runs`.

    Returns
    -------
    SinkResult

    Raises
    ------
    InputError
        The cube or the table does not fit the sink; nothing was written.
    DatabaseError
        The database failed, or refused the load; nothing was written.

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
