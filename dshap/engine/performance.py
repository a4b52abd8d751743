"""The performance report of Dask: what every worker did and when, as one HTML page."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dshap.core.errors import InputError
from dshap.core.late import distributed

OPTION = "--performance-report"
SUFFIX = ".html"
WRITE_S = 120.0
"""Time limit of the scheduler for the page, in seconds; it does so after the run, or an
interrupt."""


def report_path(given: Path) -> Path:
    """The path of a performance report, if a page can be written there.

    Raises
    ------
    InputError
        It is no name of a page, or its folder is not there.
    """
    if given.suffix.lower() != SUFFIX:
        raise InputError(f"{OPTION} {given}: give the name of an HTML page, like report.html")
    if given.is_dir() or not given.parent.is_dir():
        raise InputError(f"{OPTION} {given}: give a file in a folder that exists")
    return given


class PerformanceReport:
    """A performance report of a cluster, from `begin` to `end`.

    Parameters
    ----------
    path : the page that is written; one that is there is replaced
    say : called with a line on its result
    """

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self._path = path
        self._say = say
        self._report: Any = None

    def begin(self, client: Any) -> None:
        """Begin to record what this cluster does.

        Raises
        ------
        InputError
            The scheduler has no bokeh, which draws the page.
        """
        if not client.run_on_scheduler(has_bokeh):
            raise InputError(
                f"{OPTION} needs the package bokeh where the scheduler runs, and it is not "
                "installed there: pip install 'dshap[performance]'"
            )
        # a page with all that it shows: it asks no other server
        self._report = distributed.performance_report(filename=str(self._path), mode="inline")
        with client.as_current():
            client.sync(self._report.__aenter__)

    def end(self, client: Any) -> None:
        """Write the page; if that is not possible, report it and go on."""
        if self._report is None:
            return
        writing = self._report.__aexit__
        self._report = None
        try:
            with client.as_current():
                client.sync(writing, None, None, None, code="", callback_timeout=WRITE_S)
        except TimeoutError:
            self._say(
                f"the performance report {self._path} is not written: the scheduler took more than "
                f"{WRITE_S:.0f} s to make it"
            )
        # whatever the scheduler answers, the run itself is over
        except Exception as error:
            self._say(f"the performance report {self._path} is not written: {error!r}")
        else:
            self._say(f"performance report: {self._path}")

    def without_cluster(self) -> None:
        """Report that nothing was recorded, as no cluster was needed."""
        self._say(f"no cluster was started: the performance report {self._path} is not written")


def has_bokeh() -> bool:
    """Whether this process can import bokeh; it is not imported."""
    with contextlib.suppress(ValueError):
        return importlib.util.find_spec("bokeh") is not None
    return False
