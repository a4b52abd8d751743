"""What happens to a running command: kills, stops, interrupts, full disks, a second command.

Each fault is a line of `FAULTS`.  It carries out the command of the night once, does its harm, and
says which exit statuses the command may end with.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tests.chaos.commands import DEAD_S, Running, Wrong

if TYPE_CHECKING:
    from tests.chaos.games import Game
    from tests.chaos.jobs import Kind

PAGE = 4096
MOST_FREE_PAGES = 24
"""The most pages that a full disk has left: a few writes go well before one fails."""
PATIENCE_S = 45.0
"""Seconds that a game waits for a run that another one holds up, such as by a lock of a database."""
POLL_S = 0.05
ANOTHER = "another machine"
KILLED = frozenset({-signal.SIGKILL, 128 + signal.SIGKILL})
FINISHED = frozenset({0})
INTERRUPTED = frozenset({0, 130, -signal.SIGINT, 128 + signal.SIGINT})
TERMINATED = INTERRUPTED | KILLED | {143, -signal.SIGTERM}
LOCKED = frozenset({0, 6})
FULL = frozenset({0, 2, 5, 10, 130})


@dataclass(frozen=True)
class Ended:
    """How a command with a fault ended, and how it may end."""

    status: int | None = None
    """The exit status; None where no command ran."""
    allowed: frozenset[int] = FINISHED
    words: tuple[str, ...] = ()
    """Words of which the output has one where the status is not 0; empty for any."""
    moment: str = ""
    """When or where it happened, for the table."""
    said: str = ""
    """The output of the command."""
    has_struck: bool = True
    """Whether there was anything to harm: else the command was over before, and no fault is counted."""

    def refuse(self) -> None:
        """Raise a `Wrong` unless the command ended as it may."""
        if self.status is None:
            return
        if self.status not in self.allowed:
            raise Wrong(f"exit status {self.status} after the fault: {last_line(self.said)}")
        if self.status and self.words and not any(word in self.said for word in self.words):
            raise Wrong(f"status {self.status} without a reason: {last_line(self.said)}")


def last_line(text: str) -> str:
    """The last line of an output that is not empty."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


@dataclass(frozen=True)
class Fault:
    """A kind of fault."""

    strike: Callable[[Game], Ended]
    unfit: Callable[[Kind], str] = lambda kind: ""
    """The reason why it cannot befall a kind of job; empty where it can."""
    needs_small_disk: bool = False
    """Whether the store lies on a small file system of its own."""
    alters: bool = False
    """Whether it damages what runs have written, which then may be refused and made again."""


Harm = Callable[["Game", Running], frozenset[int]]
"""Harm to a running command: gives the exit statuses that it may end with."""


def at_a_moment(harm: Harm, game: Game) -> Ended:
    """Carry out the command, with a harm after a part of its undisturbed seconds."""
    after = float(game.draws.uniform(0.0, 1.0)) * game.calm.seconds
    job = game.start()
    allowed = FINISHED
    has_struck = not job.wait(after)
    if has_struck:
        allowed = harm(game, job)
    status = job.end()
    if game.kind.is_several:
        allowed = frozenset({status})
    return Ended(status, allowed, moment=f"{after:.2f} s", said=job.said, has_struck=has_struck)


def kill_client(game: Game, job: Running) -> frozenset[int]:
    """Only the first process: its workers see it later."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(job.pid, signal.SIGKILL)
    job.wait(0.5)
    game.sleep(0.0, 1.0)
    return KILLED | FINISHED


def kill_all(game: Game, job: Running) -> frozenset[int]:
    job.kill_all()
    return KILLED | FINISHED


def kill_worker(game: Game, job: Running) -> frozenset[int]:
    workers = job.workers()
    if not workers:
        return kill_all(game, job)
    with contextlib.suppress(psutil.NoSuchProcess):
        workers[game.draws.integers(len(workers))].kill()
    return FINISHED


def kill_scheduler(game: Game, job: Running) -> frozenset[int]:
    """Of a job on a scheduler of its own that process, which is started again; else all."""
    for each in job.below():
        with contextlib.suppress(psutil.NoSuchProcess):
            if "scheduler" in each.cmdline():
                each.kill()
                return INTERRUPTED
    return kill_all(game, job)


def stop_worker(game: Game, job: Running) -> frozenset[int]:
    workers = job.workers()
    if not workers:
        return stop_all(game, job)
    each = workers[game.draws.integers(len(workers))]
    with contextlib.suppress(psutil.NoSuchProcess):
        each.suspend()
        game.sleep(0.3, 4.0)
        each.resume()
    return FINISHED


def stop_all(game: Game, job: Running) -> frozenset[int]:
    job.signal_all(signal.SIGSTOP)
    game.sleep(0.3, 4.0)
    job.signal_all(signal.SIGCONT)
    return FINISHED


def interrupt(game: Game, job: Running) -> frozenset[int]:
    """Ctrl-C in a terminal reaches every process."""
    job.signal_all(signal.SIGINT)
    return INTERRUPTED


def terminate(game: Game, job: Running) -> frozenset[int]:
    """The notice that a machine will be gone, and its end soon after."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(job.pid, signal.SIGTERM)
    job.wait(game.draws.uniform(0.05, 10.0))
    job.kill_all()
    return TERMINATED


def second_command(game: Game, job: Running) -> frozenset[int]:
    """The same command beside it is refused, or has nothing to do once the first is over."""
    other = game.start()
    status = other.end()
    if status not in LOCKED and not game.kind.is_several:
        raise Wrong(f"a second command ended with {status}: {last_line(other.said)}")
    return LOCKED


def full_disk(game: Game, job: Running) -> frozenset[int]:
    """The folder of the store takes no more than a few pages for a while."""
    filler = game.folder / "place" / "filler"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(bytes(PAGE))
    free = int(game.draws.integers(MOST_FREE_PAGES)) * PAGE
    with contextlib.suppress(OSError):
        os.truncate(filler, max(filler.stat().st_size - free, 0))
    job.wait(game.draws.uniform(1.0, 15.0))
    filler.unlink(missing_ok=True)
    return FULL


def of_full_disk(game: Game) -> Ended:
    """A disk that is full at a moment, which the message says."""
    ended = at_a_moment(full_disk, game)
    if ended.status == 5 or game.kind.is_several:  # of failed blocks the record tells why
        return ended
    return replace(ended, words=("space", "full", "interrupted"))


def kill_at_a_change(game: Game) -> Ended:
    """SIGKILL of the process that was started, as it changes a file, or as a bucket is asked to."""
    number = game.number_of_a_change()
    if game.kind.is_in_bucket:
        job, _ = at_a_request(game, number, lambda job: os.kill(job.pid, signal.SIGKILL))
    else:
        job = game.start(kills_at=number)
    status = job.end()
    return Ended(
        status,
        KILLED | FINISHED,
        moment=_of_changes(game, number),
        said=job.said,
        has_struck=status != 0,
    )


def replaced_at_a_change(game: Game) -> Ended:
    """The holder of the store is stopped as it changes an object, and another machine goes on."""
    number = game.number_of_a_change()
    moment = _of_changes(game, number)
    job, is_stopped = at_a_request(game, number, lambda job: job.signal_all(signal.SIGSTOP))
    allowed = replaced_holder(game, job) if is_stopped else FINISHED
    return Ended(job.end(), allowed, moment=moment, said=job.said, has_struck=is_stopped)


def _of_changes(game: Game, number: int) -> str:
    return f"change {number} of {game.calm.n_changes}"


def at_a_request(game: Game, number: int, act: Callable[[Running], None]) -> tuple[Running, bool]:
    """Start the command, and act as its bucket is asked for the n-th change, which is done or not.

    Gives the command, and whether it came so far.
    """
    running: list[Running] = []
    is_undone = bool(game.draws.integers(2))
    first = game.service.n_changes
    has_acted = threading.Event()

    def strike() -> bool:
        if game.service.n_changes - first != number or not running:
            return False
        with contextlib.suppress(ProcessLookupError):
            act(running[0])
        has_acted.set()
        return is_undone

    with game.service.striking(strike):
        running.append(game.start())
        while not has_acted.wait(POLL_S) and not running[0].is_over():
            pass
    return running[0], has_acted.is_set()


def replaced_holder(game: Game, job: Running) -> frozenset[int]:
    """It is stopped for longer than its lease, and another machine goes on, at times by a night."""
    job.signal_all(signal.SIGSTOP)
    other = game.start(machine=ANOTHER)
    is_over = other.wait(
        PATIENCE_S
    )  # else it waits, such as for rows that the stopped one has locked
    if is_over and game.has_next_night and game.draws.integers(2):
        game.begin(game.night + 1)
        other = game.start(machine=ANOTHER)
        is_over = other.wait(PATIENCE_S)
    if is_over:
        game.sleep(0.0, DEAD_S / 2)
    job.signal_all(signal.SIGCONT)
    job.wait(PATIENCE_S)
    status = other.end()
    if status and is_over:
        raise Wrong(f"another machine ended with {status}: {last_line(other.said)}")
    return frozenset({0, 6, 10})


@cache
def can_mount() -> bool:
    """Whether a small file system can be mounted here, which only root may."""
    done = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"])
    return os.geteuid() == 0 and done.returncode == 0


def unfit_for_small_disk(kind: Kind) -> str:
    if kind.is_in_bucket:
        return "its store is on no disk"
    return "" if can_mount() else "no small file system can be mounted here"


def unless_in_bucket(kind: Kind) -> str:
    if not kind.is_in_bucket:
        return "its store is on one machine"
    return ""


def unless_one_process(kind: Kind) -> str:
    if kind.is_several:
        return "it is several processes"
    return ""


def moment_of(harm: Harm, **given: bool) -> Fault:
    return Fault(partial(at_a_moment, harm), **given)


FAULTS: dict[str, Fault] = {
    "kill client": moment_of(kill_client),
    "kill all": moment_of(kill_all),
    "kill worker": moment_of(kill_worker),
    "kill scheduler": moment_of(kill_scheduler),
    "stop worker": moment_of(stop_worker),
    "stop all": moment_of(stop_all),
    "interrupt": moment_of(interrupt),
    "terminate": moment_of(terminate),
    "second command": moment_of(second_command),
    "full disk": Fault(of_full_disk, unfit_for_small_disk, needs_small_disk=True),
    "kill at a change": Fault(kill_at_a_change, unless_one_process),
    "replaced holder": Fault(partial(at_a_moment, replaced_holder), unless_in_bucket),
    "replaced at a change": Fault(replaced_at_a_change, unless_in_bucket),
}
"""Faults of a running command."""


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
