"""Mean |attribution| of every feature over the runs of a job: the record behind `over_runs`."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.rankings import Ranking, output_ranking
from dshap.analysis.view import attribution_words, output_of
from dshap.core.annotations import PathLike
from dshap.core.errors import InputError, unknown_name
from dshap.core.places import Place
from dshap.core.records import FloatArray
from dshap.core.rules import as_place
from dshap.core.run_ids import started_at
from dshap.cube import is_finished, named_cubes, open_cube, runs_of, stored_importance
from dshap.cube.current import has_nights
from dshap.storage.folder import Folder

"""The form of the ids of runs: the time in UTC at which they began."""


@dataclass(frozen=True)
class ImportanceHistory:
    """Mean |attribution| of every feature in each run, for one output.

    Arrays are (t, d): runs × features.
    """

    explain: str
    """The name of the explanation."""
    runs: tuple[str, ...]
    """The ids of the finished runs, in the order of the days that they are for."""
    days: tuple[date | None, ...]
    """The day that each run is for (`--as-of`); None if its record lacks it."""
    rows: NDArray[np.int64]
    """(t,): the rows that each explains."""
    features: tuple[str, ...]
    """By the mean over the runs, largest first."""
    magnitude: FloatArray
    """Mean |attribution|; NaN if a run has no such feature."""
    std_error: FloatArray
    """Its standard error from sampled coalitions; 0 if all coalitions count."""
    output: str
    words: str
    """The words of the axis of mean |attribution|."""

    @property
    def times(self) -> FloatArray:
        """(t,): the times of the runs in days since 1970; their numbers if ids are no times.

        A run for an earlier day has the time of day at which it began, on that day.
        """
        times = _times_in(self.runs, self.days)
        if not times:
            return np.arange(float(len(self.runs)))
        return np.asarray(np.array(times, "datetime64[s]").astype(np.float64) / 86_400)

    @property
    def names(self) -> list[str]:
        """The names of the runs: their days, with the time if two are of one day."""
        times = _times_in(self.runs, self.days)
        days = [f"{time:%Y-%m-%d}" for time in times]
        if not times:
            return list(self.runs)
        if len(set(days)) == len(days):
            return days
        return [f"{time:%Y-%m-%d %H:%M}" for time in times]


def _times_in(runs: Sequence[str], days: Sequence[date | None]) -> list[datetime]:
    """The times of these runs, each on the day that it is for; none if an id is no time."""
    try:
        began = [started_at(run).replace(tzinfo=None) for run in runs]  # numpy knows no zones
    except ValueError:
        return []
    return [
        at if day is None else datetime.combine(day, at.time())
        for at, day in zip(began, days, strict=True)
    ]


def _day_of(store: Place, run: str) -> date | None:
    """The day that a run is for, from its record in the store of a job; None without a record."""
    content = Folder(store).get(f"runs/{run}/run_results.json")
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return date.fromisoformat(json.loads(content or b"")["args"]["dshap"]["as_of"])
    return None


def _by_day(store: Place, runs: Sequence[str]) -> dict[str, date | None]:
    """Run -> its day, in the order of the days; runs for one day in the order in which they began."""
    days = {run: _day_of(store, run) for run in runs}
    times = _times_in(list(days), list(days.values()))
    if not times:
        return days
    order = sorted(zip(times, days, strict=True))
    return {run: days[run] for _, run in order}


def importance_history(
    store: PathLike, explain: str = "", output: str | int | None = None
) -> ImportanceHistory:
    """Mean |attribution| of every feature in each finished run of a job.

    It is read from the summaries of blocks, milliseconds for each run.  Runs that are not finished
    are left out, with a warning.

    Parameters
    ----------
    store, explain, output : as in `over_runs`

    Raises
    ------
    InputError
        As `over_runs`.
    """
    name, folder = _nights_of(as_place("store", store), explain)
    return history_of(name, folder, output)


def history_of(
    name: str,
    folder: Place,
    output: str | int | None = None,
    last: int | None = None,
    until: str = "",
) -> ImportanceHistory:
    """Mean |attribution| of every feature in the finished runs of one explanation.

    Parameters
    ----------
    name, folder : the name of the explanation, and its folder with a cube for each run
    output : as in `over_runs`
    last : the most runs, of which the last ones by their days are read; None for all
    until : the last run; "" for the newest

    Raises
    ------
    InputError
        No run is finished.
    """
    known = [run for run in runs_of(folder) if not until or run <= until]
    finished = [run for run in known if is_finished(folder / run)]
    days = _by_day(folder.parent, finished)
    runs = list(days)
    if last is not None:
        runs = runs[-last:]
    left = [run for run in known if run not in days]
    if not runs:
        raise InputError(f"{folder} contains no finished run yet")
    if left:
        warnings.warn(
            f"{len(left)} runs of {folder} are not finished and left out: {', '.join(left[:4])}",
            stacklevel=4,
        )
    tables = [stored_importance(folder / run).dataset() for run in runs]
    rankings = [
        output_ranking(run, table, output_of(table, output))
        for run, table in zip(runs, tables, strict=True)
    ]
    cube = open_cube(folder / runs[-1])
    place = output_of(cube, output)
    features = _sorted_features(rankings)
    return ImportanceHistory(
        explain=name,
        runs=tuple(runs),
        days=tuple(days[run] for run in runs),
        rows=np.array([each.rows for each in rankings]),
        features=tuple(features),
        magnitude=_table([each.magnitude for each in rankings], features),
        std_error=_table([each.magnitude_error for each in rankings], features),
        output=str(cube["output"].values[place]),
        words=attribution_words("mean |attribution|", cube, place),
    )


def _nights_of(store: Place, explain: str) -> tuple[str, Place]:
    """The name and the folder of the explanation with a cube for each run."""
    cubes = named_cubes(store)
    nights = {name: path.parent for name, path in cubes.items() if has_nights(path.parent)}
    if not nights:
        raise InputError(
            f"{store} has no cube for each run, which a job with [incremental] writes: give its store"
        )
    if explain and explain not in nights:
        raise InputError(f"{store}: {unknown_name('explain', explain, nights)}")
    if not explain and len(nights) > 1:
        raise InputError(
            f"{store} contains {len(nights)} explanations: give explain, one of {', '.join(nights)}"
        )
    name = explain or next(iter(nights))
    return name, nights[name]


def _sorted_features(rankings: Sequence[Ranking]) -> list[str]:
    """Every feature, by the sum over the runs."""
    names = dict.fromkeys(name for each in rankings for name in each.magnitude)
    sums = {name: sum(each.magnitude.get(name, 0.0) for each in rankings) for name in names}
    return sorted(names, key=lambda name: -sums[name])


def _table(values: Sequence[Any], features: Sequence[str]) -> FloatArray:
    """(t, d): the values of each run by feature; NaN if it has none."""
    return np.array([[each.get(name, np.nan) for name in features] for each in values])
