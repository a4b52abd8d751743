"""The importance and damage of stores, as lines of text and as content for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dshap.analysis.accuracy import accuracy
from dshap.analysis.column_texts import texts_of_first
from dshap.analysis.rankings import Ranking, rankings
from dshap.core.annotations import CubesLike
from dshap.core.places import Place
from dshap.core.printing import counted
from dshap.core.rules import as_place
from dshap.cube import (
    Damage,
    cube_status,
    read_job,
    read_run,
    store_parts,
)
from dshap.cube.given_cubes import given_cubes
from dshap.models import FitReport
from dshap.report.attribution_lines import ranking_lines
from dshap.report.notes import accuracy_lines
from dshap.report.store_progress import Summary, status_lines


def importance_summary(
    store: str | Place,
    cubes: CubesLike,
    fitted: FitReport | None,
) -> Summary:
    """Summarize the importance of each feature over the finished rows, with accuracy and progress.

    Parameters
    ----------
    store : str or Path
        The path of the store.
    cubes : mapping of names to cubes; or xarray.Dataset, str or Path
        The explanations, as opened cubes or paths; or one opened cube, or the path of a store with
        all of its cubes.
    fitted : FitReport or None
        The report of the fit of the model, which is printed first; None for a model that dshap did
        not fit.

    Returns
    -------
    Summary
        The lines of text, and the same numbers as content for JSON.

    Raises
    ------
    InputError
        `cubes` is none of these, the store does not exist, or a Dataset differs from its store.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> import dshap
    >>> rows = pd.DataFrame({"rooms": [1.0, 3.0], "age": [10.0, 20.0]})
    >>> value = dshap.values.Marginal(lambda x: 50 * x[:, 0] - x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Path(folder, "cube")
    ...     cube = dshap.explain(value, rows, store=store, progress=False)
    ...     summary = dshap.report.importance_summary(store, {"prices": store}, None)
    >>> for line in summary.lines[2:5]:
    ...     print(line)
    feature    mean |φ|      mean φ
    rooms         50.00       +0.00
    age            5.00       +0.00
    """
    paths = given_cubes(cubes)
    units = (read_job(as_place("store", store)) or {}).get("units", "")
    ranked = rankings(paths)
    texts = texts_of_first(paths)
    found = accuracy(paths)
    lines = [*f"model: {fitted}".splitlines(), ""] if fitted else []
    lines += ranking_lines(ranked, units, texts) if ranked else ["no row is explained yet"]
    lines += ["", *accuracy_lines(found)]
    lines += status_lines({name: cube_status(path) for name, path in paths.items()})
    content: dict[str, Any] = {
        ranking.label: {
            "rows": ranking.rows,
            "scale": ranking.scale,
            "mean_magnitude": dict(ranking.magnitude),
            "mean": dict(ranking.mean),
            "mean_magnitude_std_error": dict(ranking.magnitude_error),
            "mean_std_error": dict(ranking.mean_error),
            "mean_magnitude_interval": _intervals(ranking),
        }
        for ranking in ranked
    }
    return Summary(lines, content | {"accuracy": found})


def _intervals(ranking: Ranking) -> dict[str, list[float]] | None:
    """Feature -> the ends of the 95 % interval of mean |attribution|; None of fewer than ten rows."""
    if ranking.has_too_few_rows:
        return None
    return {feature: [*ranking.interval(feature)] for feature in ranking.magnitude}


def damage_summary(
    store: str | Place,
    found: Mapping[str, Sequence[Damage]],
    mended: Mapping[str, Sequence[Damage]] | None,
) -> Summary:
    """Summarize the damage of each part of a store, as a check found it.

    Parameters
    ----------
    store : str or Path
        The path of the store.
    found : mapping of str to sequence of Damage
        The name of each part of the store -> its damage, as ``dshap verify`` finds it.
    mended : mapping of str to sequence of Damage, or None
        The name of each part -> the damage that a repair has mended; None if no repair was asked
        for.

    Returns
    -------
    Summary
        The lines of text, and the same as content for JSON.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import dshap
    >>> rows = np.array([[1.0, 10.0], [3.0, 20.0]])
    >>> value = dshap.values.Marginal(lambda x: 50 * x[:, 0] - x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Path(folder, "cube")
    ...     cube = dshap.explain(value, rows, store=store, progress=False)
    ...     summary = dshap.report.damage_summary(store, {"cube": []}, None)
    >>> summary.lines
    ['cube: verified: 1 of 1 blocks finished']
    """
    parts = store_parts(as_place("store", store))
    lines = [
        f"{name}: repaired: {damage}"
        for name, damages in (mended or {}).items()
        for damage in damages
    ]
    for name, damages in found.items():
        lines += [f"{name}: {damage}" for damage in damages] or _whole_lines(name, parts[name])
    content: dict[str, Any] = _as_texts(found)
    if mended is not None:
        content["mended"] = _as_texts(mended)
    return Summary(lines, content)


def _as_texts(damages: Mapping[str, Sequence[Damage]]) -> dict[str, list[str]]:
    return {name: [str(damage) for damage in each] for name, each in damages.items()}


def _whole_lines(name: str, path: Place) -> list[str]:
    """The line about a cube without damage; none about the other parts of a store."""
    if read_run(path) is None:
        return []
    status = cube_status(path)
    if not status.is_complete:
        left = "; the same run again computes the others"
    elif status.failed:
        left = f"; the same run again computes {counted(status.failed, 'failed row')}"
    else:
        left = ""
    return [f"{name}: verified: {status.blocks_done} of {status.n_blocks} blocks finished{left}"]
