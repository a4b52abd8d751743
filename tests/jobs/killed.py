"""Runs of a job that are killed, or kill their own process: no tests."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from dshap.cli import cli
from dshap.engine import SilentProgress
from dshap.jobs import Command, load_job, run_recorded


def run_command(folder: str, job: str, *options: str) -> None:
    """The command `dshap run JOB` in a folder."""
    os.chdir(folder)
    cli(["run", job, *options], prog_name="dshap")


def run_command_with(environment: dict[str, str], folder: str, job: str, *options: str) -> None:
    """The same with these variables: a forked process has those of the first test."""
    os.environ.update(environment)
    run_command(folder, job, *options)


def killed_command(folder: str, job: str, place: str, number: int, *options: str) -> None:
    """The command, and SIGKILL as it opens, links or renames the n-th file whose path has a word."""
    _kill_at(place, number)
    run_command(folder, job, *options)


def killed_night(job: str, place: str, number: int) -> None:
    """Run a job, and SIGKILL as it opens, links or renames the n-th file whose path has a word."""
    _kill_at(place, number)
    run_recorded(load_job(job), SilentProgress(), Command(job))


def _kill_at(place: str, number: int) -> None:
    """SIGKILL of this process as it comes to the n-th file whose path has a word."""
    calls = 0

    def count(event: str, given: tuple[Any, ...]) -> None:
        nonlocal calls
        is_opened = event == "open" and place in str(given[0])
        is_put = event in ("os.rename", "os.link") and place in str(given[1])
        if is_opened or is_put:
            calls += 1
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def killed_in_bucket(environment: dict[str, str], job: str, word: str, number: int) -> None:
    """Run a job, and SIGKILL before it writes, copies or removes the n-th object with a word."""
    os.environ.update(environment)
    import obstore

    calls = 0

    def counted(name: str) -> Any:
        plain = getattr(obstore, name)

        def call(store: Any, keys: Any, *given: Any, **options: Any) -> Any:
            nonlocal calls
            if word in f"{keys} {given if name == 'copy' else ''}":
                calls += 1
                if calls == number:
                    os.kill(os.getpid(), signal.SIGKILL)
            return plain(store, keys, *given, **options)

        return call

    for name in ("put", "put_async", "copy", "delete"):
        setattr(obstore, name, counted(name))
    run_recorded(load_job(job), SilentProgress(), Command(job))
