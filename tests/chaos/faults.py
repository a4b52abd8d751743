"""What happens to a running job: kills, stops, interrupts, full disks, a second command."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

LONGEST_S = 600
"""Seconds after which a command that has not ended hangs."""


class Wrong(AssertionError):
    """A promise that a job did not keep."""


@dataclass
class Running:
    """A command that runs in a session of its own, with its output in a file."""

    process: subprocess.Popen[bytes]
    folder: Path
    command: list[str]
    draws: np.random.Generator

    @classmethod
    def start(cls, command: list[str], folder: Path, draws: np.random.Generator) -> Running:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
        with open(folder / "output.txt", "ab") as output:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return cls(process, folder, command, draws)

    def below(self) -> list[psutil.Process]:
        """The processes that it has started, and these in turn."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).children(recursive=True)
        return []

    def workers(self) -> list[psutil.Process]:
        """The processes that compute: those that no other was started by, and that are not small."""
        found = []
        for child in self.below():
            with contextlib.suppress(psutil.NoSuchProcess):
                if not child.children() and child.memory_info().rss > 100 << 20:
                    found.append(child)
        return found

    def end(self) -> int:
        """Wait for its end; gives the exit status, negative for a signal."""
        try:
            return self.process.wait(LONGEST_S)
        except subprocess.TimeoutExpired:
            self.kill_all()
            raise Wrong(f"it had not ended after {LONGEST_S} s") from None

    def kill_all(self) -> None:
        """SIGKILL of all of its processes, those of the nanny too."""
        for each in [*self.below(), psutil.Process(self.process.pid)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        self.process.wait()

    def is_over(self) -> bool:
        return self.process.poll() is not None


Fault = Callable[[Running], set[int]]
"""A fault: gives the exit statuses that the command may end with."""
KILLED = {-signal.SIGKILL}


def kill_client(job: Running) -> set[int]:
    """Only the first process: its workers see it later."""
    left = job.below()
    job.process.kill()
    time.sleep(job.draws.uniform(0.0, 2.0))
    for each in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    return KILLED


def kill_all(job: Running) -> set[int]:
    job.kill_all()
    return KILLED


def kill_worker(job: Running) -> set[int]:
    workers = job.workers()
    if not workers:
        return kill_all(job)
    with contextlib.suppress(psutil.NoSuchProcess):
        workers[job.draws.integers(len(workers))].kill()
    return {0}


def kill_scheduler(job: Running) -> set[int]:
    """Of a job on a scheduler of its own that process, which is started again; else all."""
    for each in job.below():
        with contextlib.suppress(psutil.NoSuchProcess):
            if "scheduler" in each.cmdline():
                each.kill()
                return {0, 130}
    return kill_all(job)


def stop_worker(job: Running) -> set[int]:
    workers = job.workers() or [psutil.Process(job.process.pid)]
    return _stopped(job, [workers[job.draws.integers(len(workers))]])


def stop_all(job: Running) -> set[int]:
    return _stopped(job, [psutil.Process(job.process.pid), *job.below()])


def _stopped(job: Running, processes: list[psutil.Process]) -> set[int]:
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.suspend()
    time.sleep(job.draws.uniform(0.5, 6.0))
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.resume()
    return {0}


def interrupt(job: Running) -> set[int]:
    """Ctrl-C in a terminal reaches every process."""
    os.killpg(job.process.pid, signal.SIGINT)
    return {0, 130, -signal.SIGINT}


def terminate(job: Running) -> set[int]:
    """The notice that a machine will be gone, and its end soon after."""
    left = job.below()
    job.process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        job.process.wait(job.draws.uniform(0.5, 30.0))
    if not job.is_over():
        job.kill_all()
    for each in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    return {0, 130, 143, -signal.SIGTERM, *KILLED}


def second_command(job: Running) -> set[int]:
    """The same command beside it is refused, or has nothing to do once the first is over."""
    other = Running.start(job.command, job.folder, job.draws)
    status = other.end()
    if status not in (0, 6):
        raise Wrong(f"a second command ended with {status}")
    return {0, 6}


def full_disk(job: Running) -> set[int]:
    """The folder of the store takes no more bytes for a while; a small file system holds it."""
    filler = job.folder / "place" / "filler"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
    with contextlib.suppress(subprocess.TimeoutExpired):
        job.process.wait(job.draws.uniform(1.0, 20.0))
    filler.unlink(missing_ok=True)
    return {0, 1, 2, 5, 10, 130}


FAULTS: dict[str, Fault] = {
    function.__name__.replace("_", " "): function
    for function in (
        kill_client,
        kill_all,
        kill_worker,
        kill_scheduler,
        stop_worker,
        stop_all,
        interrupt,
        terminate,
        second_command,
        full_disk,
    )
}


@contextlib.contextmanager
def small_disk(place: Path, n_bytes: int) -> Iterator[None]:
    """A file system of so many bytes in the place of an empty folder; only root can make one."""
    options = ["-t", "tmpfs", "-o", f"size={n_bytes}", "tmpfs", str(place)]
    if subprocess.run(["mount", *options], capture_output=True).returncode:
        raise OSError(errno.EPERM, "no file system can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
