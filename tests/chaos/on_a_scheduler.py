"""A command beside a scheduler and two workers, each of which is started again when it ends.

    python -m tests.chaos.on_a_scheduler PORT COMMAND ...

The second worker comes late.  Signals that ask for an end are handed on to the command, whose exit
status is that of this program.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

LATE_S = 6.0
"""Seconds after the start at which the second worker comes."""
POLL_S = 0.2


def main(port: str, command: Sequence[str]) -> int:
    job = subprocess.Popen(command)
    for notice in (signal.SIGTERM, signal.SIGINT):
        signal.signal(notice, lambda number, frame: job.send_signal(number))
    dask = [sys.executable, "-m", "dask"]
    worker = [*dask, "worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-dashboard"]
    worker += ["--memory-limit", "1GiB", "--death-timeout", "30", "--no-nanny"]
    commands = {
        "scheduler": [*dask, "scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"],
        "worker": worker,
        "late worker": worker,
    }
    running: dict[str, subprocess.Popen[bytes]] = {}
    begun = time.monotonic()
    try:
        while job.poll() is None:
            for name, line in commands.items():
                is_up = name in running and running[name].poll() is None
                if not is_up and (name != "late worker" or time.monotonic() > begun + LATE_S):
                    running[name] = subprocess.Popen(line)
            time.sleep(POLL_S)
    finally:
        for each in running.values():
            each.terminate()
        for each in running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.wait(10)
            each.kill()
    return job.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
