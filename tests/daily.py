"""Run the parts of `make daily` one after the other, and print how each ended.

    python -m tests.daily daily-slow daily-chaos    # targets of the Makefile; their logs: build/daily/

A part that fails does not keep the others from running.  The exit status is 1 if any failed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

LOGS = Path(__file__).parents[1] / "build" / "daily"
SUMMARY = re.compile(r"\d+ (passed|failed|error)")
"""A line with this is how pytest ends; parts without tests are shown by their last line."""


class Part(NamedTuple):
    """How one part ended."""

    target: str
    status: int
    minutes: float
    closing_line: str

    def __str__(self) -> str:
        ended = "failed" if self.status else "passed"
        return f"{self.target:20} {ended} {self.minutes:6.1f} min   {self.closing_line}"


def closing_line(output: str) -> str:
    """The last line of an output that counts tests, or else its last line with any text."""
    lines = [line.strip("= ") for line in output.splitlines() if line.strip("= ")]
    counts = [line for line in lines if SUMMARY.search(line)]
    return (counts or lines or ["no output"])[-1]


def run(target: str) -> Part:
    """Make one target; its output goes to the terminal and to a log."""
    log = LOGS / f"{target}.log"
    started = time.monotonic()
    with log.open("w") as written:
        process = subprocess.Popen(
            ["make", target], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            written.write(line)
    status = process.wait()
    minutes = (time.monotonic() - started) / 60
    return Part(target, status, minutes, closing_line(log.read_text()))


def main(targets: list[str]) -> int:
    """Run all targets and print a table; return the exit status."""
    LOGS.mkdir(parents=True, exist_ok=True)
    parts = [run(target) for target in targets]
    n_failed = sum(part.status != 0 for part in parts)
    minutes = sum(part.minutes for part in parts)
    print("", *parts, sep="\n")
    print(f"{len(parts) - n_failed} passed, {n_failed} failed in {minutes:.1f} min")
    return int(n_failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
