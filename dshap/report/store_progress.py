"""The progress of stores, as lines of text and as content for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple

from dshap.core.annotations import CubesLike
from dshap.core.records import JSON
from dshap.cube import CubeStatus, awaits_shards, cube_status
from dshap.cube.given_cubes import given_cubes
from dshap.report.going_on import holder_content, holder_line, view_of_run
from dshap.storage.lease import Holder


class Summary(NamedTuple):
    """The answer of a command: its lines, and the same as content for JSON.

    Examples
    --------
    >>> from dshap.report import Summary
    >>> summary = Summary(["2 of 2 rows"], {"rows": 2})
    >>> summary.lines, summary.content["rows"]
    (['2 of 2 rows'], 2)
    """

    lines: list[str]
    content: dict[str, JSON]


def progress_summary(
    cubes: CubesLike,
    is_running: bool,
    holders: Sequence[Holder] = (),
) -> Summary:
    """Summarize how far each cube is: rows and blocks done, failed and left, and running processes.

    Parameters
    ----------
    cubes : mapping of names to cubes; or xarray.Dataset, str or Path
        The explanations, as opened cubes or paths; or one opened cube, or the path of a store with
        all of its cubes.
    is_running : bool
        Whether a run is going on.
    holders : sequence of Holder
        The processes that run on the store, by their leases.

    Returns
    -------
    Summary
        The lines that ``dshap status`` prints, and the content that it writes as JSON.

    Raises
    ------
    InputError
        `cubes` is none of these, the store does not exist, or a Dataset differs from its store.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import dshap
    >>> from dshap.report import progress_summary
    >>> rows = np.array([[1.0, 10.0], [3.0, 20.0]])
    >>> value = dshap.values.Marginal(lambda x: 50 * x[:, 0] - x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Path(folder, "cube")
    ...     cube = dshap.explain(value, rows, store=store, progress=False)
    ...     summary = progress_summary({"prices": store}, is_running=False)
    >>> for line in summary.lines:
    ...     print(line)
    prices: 2 rows: 2 ok, 0 pending; 1 of 1 blocks done
    no run is going on
    """
    paths = given_cubes(cubes)
    statuses = {name: cube_status(path) for name, path in paths.items()}
    learned = [name for name, path in paths.items() if awaits_shards(path)]
    views = {name: view_of_run(name, path, holders) for name, path in paths.items()}
    content = {
        name: {**asdict(status), "awaits_shards": name in learned, **views[name].to_dict()}
        for name, status in statuses.items()
    }
    lines = []
    for name, status in statuses.items():
        lines += status_lines({name: status})
        lines += [f"{name}: {line}" for line in views[name].lines(is_running)]
    lines += [f"{name}: learning is done, shards can explain the rows" for name in learned]
    lines += map(holder_line, holders)
    lines.append("a run is going on" if is_running else "no run is going on")
    running = [holder_content(each) for each in holders]
    return Summary(lines, {"cubes": content, "is_running": is_running, "running": running})


def status_lines(statuses: Mapping[str, CubeStatus]) -> list[str]:
    """The progress of each cube; and if rows failed, the count and first row of each reason."""
    lines = []
    for name, status in statuses.items():
        lines.append(f"{name}: {_progress_line(status)}")
        lines += [
            f"{name}: {each.rows:,} failed, first {each.first}: {each.reason}"
            for each in status.failures
        ]
    return lines


def _progress_line(status: CubeStatus) -> str:
    rows = {
        "ok": status.ok,
        "skipped": status.skipped,
        "erased": status.erased,
        "failed": status.failed,
        "pending": status.pending,
    }
    shown = ", ".join(
        f"{count:,} {name}" for name, count in rows.items() if count or name in ("ok", "pending")
    )
    return f"{status.n_rows:,} rows: {shown}; {status.blocks_done} of {status.n_blocks} blocks done"
