"""Progress below a notebook cell: one output that is rewritten, so that its last state is saved."""

from __future__ import annotations

import sys
from typing import Any

from dshap.core.printing import printable
from dshap.engine.progress import LineProgress

INTERVAL_S = 0.5
"""Seconds between two updates of the line: more than on a terminal, as each update is a message to
the browser."""


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook; IPython is not imported to find out.

    Examples
    --------
    >>> import dshap
    >>> dshap.engine.is_notebook()
    False
    """
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class NotebookProgress(LineProgress):
    """Show progress below a notebook cell: the current stage, in one line that is replaced.

    Messages of the run are shown above this line, each after the stage that ended before it.  No
    widgets are needed: the cell's output has an id, and each update replaces its content.

    Examples
    --------
    >>> from dshap.engine import NotebookProgress
    >>> display = NotebookProgress()
    >>> callable(display)  # called with each event of a run
    True
    """

    def __init__(self) -> None:
        super().__init__(interval=INTERVAL_S)
        self.renews = True
        self._said: list[str] = []
        self._ended: list[str] = []
        self._output: Any = None

    def _say(self, text: str) -> None:
        self._said += [*self._ended, printable(text)]
        self._ended = []
        self._show(self._said)

    def _write(self, text: str, renew: bool = False) -> None:
        line = printable(text)
        self._show([*self._said, line])
        self._ended = [line] * (not renew)

    def _show(self, lines: list[str]) -> None:
        from IPython import display

        content = {"text/plain": "\n".join(lines)}
        if self._output is None:
            self._output = display.display(content, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._output.update(content, raw=True)
