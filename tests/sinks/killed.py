"""Loads that kill their own process at a step: no tests."""

from __future__ import annotations

import os
import signal
from typing import Any

from dshap.sinks import Sink, load_sink
from dshap.sinks import loading as steps
from tests.sinks.nights import Night


def killed_load(sink: Sink, night: Night, step: str, job: str) -> None:
    """Load a sink, and SIGKILL after a step, or before it commits."""
    step_itself = getattr(steps, step)

    def killing(*given: Any) -> None:
        if step != "commit":
            step_itself(*given)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(steps, step, killing)
    load_sink(sink, night.path, night, job)
