"""The command of [notify], started at the end of a run, with the facts of the run as JSON."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dshap.core.printing import one_line
from dshap.jobs.run_endings import RunEnding

TIMEOUT_S = 60.0
"""The seconds after which the command is ended if it still runs."""


@dataclass(frozen=True)
class Notifier:
    """Starts a command, in the folder of the job file, without a shell."""

    command: str
    folder: Path
    is_for_problems: bool
    """Whether it is started only if the exit status is not 0."""
    say: Callable[[str, str], None]
    """Receives a line and its level."""

    def __call__(self, ending: RunEnding) -> None:
        if self.is_for_problems and not ending.exit_status:
            return
        if not self.is_for_problems and ending.is_part and not ending.exit_status:
            return
        if fault := self._fault(ending):
            self.say(f"[notify] command = {self.command!r} {fault}", "warning")

    def _fault(self, ending: RunEnding) -> str:
        """Start the command; return its error in words, or an empty text."""
        facts = ending.to_dict()
        variables = {
            "DSHAP_JOB": facts["job"],
            "DSHAP_STORE": facts["store"],
            "DSHAP_RUN_ID": facts.get("run_id", ""),
            "DSHAP_EXIT_STATUS": str(ending.exit_status),
            "DSHAP_MESSAGE": ending.message,
        }
        try:
            ended = subprocess.run(
                shlex.split(self.command),
                input=json.dumps(facts, default=str),
                text=True,
                cwd=self.folder,
                env={**os.environ, **variables},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=TIMEOUT_S,
                check=False,
            )
        except ValueError as error:
            return f"is not a command: {error}"
        except OSError as error:
            return f"cannot be started in {self.folder}: {error.strerror}"
        except subprocess.TimeoutExpired:
            return f"was ended after {TIMEOUT_S:g} s"
        if ended.returncode:
            return f"ended with exit status {ended.returncode}: {one_line(ended.stderr)[:300]}"
        return ""
