"""Commands of a game: processes that are forked from one that has dshap imported.

A start takes a hundredth of a second instead of several, so that most of a game is the work of the
job.  Each command is the leader of a session, with its output in a file.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil

from dshap.storage.lease import Lease, living_holder
from tests.processes import PRELOADED

LONGEST_S = 600
"""Seconds after which a command that has not ended hangs."""
RENEW_S = 0.5
"""Seconds between two signs of life of a lease in a game."""
DEAD_S = 3.0
"""Seconds without a sign of life after which a holder on another machine is dead in a game."""
PROCESS_NUMBERS = "/proc/self/ns/pid"
"""The link that tells in which room process numbers count: leases know a machine by it."""
CHANGES = ("os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir", "os.truncate")
"""The events of Python that change a name in a folder."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
Steps = Sequence[Sequence[Sequence[str]]]
"""Steps one after the other, each of one command or of several at once."""


class Wrong(AssertionError):
    """A promise that a job did not keep."""


@dataclass(frozen=True)
class Setting:
    """The surroundings that the processes of a command start in."""

    environment: Mapping[str, str] = field(default_factory=dict)
    machine: str = ""
    """The name of another machine; empty for this one."""
    kills_at: int = 0
    """The number of the change of a file at which the process is killed; 0 for none."""
    tally: str = ""
    """The file that takes the number of changes of files; empty for none."""
    sabotage: str = ""
    """The name of what is broken of dshap on purpose (`tests.chaos.sabotage`); empty for nothing."""


@dataclass
class Running:
    """A command that goes on, in a session of its own."""

    process: BaseProcess
    output: Path

    @classmethod
    def start(cls, steps: Steps, folder: Path, setting: Setting, output: Path) -> Running:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*PRELOADED, "dshap.cli", "duckdb", "xgboost", __name__])
        process = context.Process(target=_carry_out, args=(steps, folder, setting, output))
        process.start()
        return cls(process, output)

    @property
    def pid(self) -> int:
        pid = self.process.pid
        assert pid is not None, "it was started"
        return pid

    @property
    def said(self) -> str:
        """The output of the command so far."""
        if not self.output.exists():
            return ""
        return self.output.read_text(errors="replace")

    def below(self) -> list[psutil.Process]:
        """The processes that it has started, and these in turn."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self.pid).children(recursive=True)
        return []

    def workers(self) -> list[psutil.Process]:
        """The processes that compute: those that no other was started by, and that are not small."""
        found = []
        for child in self.below():
            with contextlib.suppress(psutil.NoSuchProcess):
                if not child.children() and child.memory_info().rss > 100 << 20:
                    found.append(child)
        return found

    def wait(self, seconds: float) -> bool:
        """Wait for its end, at most so long; gives whether it is over."""
        self.process.join(seconds)
        return self.is_over()

    def end(self) -> int:
        """Wait for its end; gives the exit status, negative for a signal."""
        is_over = self.wait(LONGEST_S)
        if not is_over:
            self.kill_all()
            raise Wrong(f"it had not ended after {LONGEST_S} s")
        self.kill_all()
        assert self.process.exitcode is not None, "it is over"
        return self.process.exitcode

    def kill_all(self) -> None:
        """SIGKILL of all of its processes, those of the nanny and those left alone too."""
        for each in [*self.below(), *_of_process(self.pid, self.is_over())]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.join()

    def is_over(self) -> bool:
        return self.process.exitcode is not None

    def signal_all(self, number: int) -> None:
        """Send a signal to all of its processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def _of_process(pid: int, is_over: bool) -> list[psutil.Process]:
    """The process of this number, unless it is over."""
    if is_over:
        return []
    with contextlib.suppress(psutil.NoSuchProcess):
        return [psutil.Process(pid)]
    return []


def _carry_out(steps: Steps, folder: Path, setting: Setting, output: Path) -> None:
    """Carry out the steps in this process, and end it with their exit status.

    A single command that fails ends the steps; of several at once the status does not count.
    """
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let it be ignored behind them
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.chdir(folder)
    os.environ.update(setting.environment)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), str(folder)])
    sys.path.insert(0, str(folder))
    _settle(setting)
    ((first, *_), *others) = steps
    if not others and len(steps[0]) == 1:
        _become(first, setting)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    status = 0
    for step in steps:
        children = [_forked(command, setting) for command in step]
        statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        status = statuses[0]
        if status and len(step) == 1:
            break
    _leave(status)


def _forked(command: Sequence[str], setting: Setting) -> int:
    """Fork a process that is this command; gives its number."""
    child = os.fork()
    if not child:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            _become(command, setting)
        except SystemExit as end:
            _leave(end.code if isinstance(end.code, int) else 1)
        finally:
            os._exit(1)
    return child


def _leave(status: int) -> None:
    """End this process with an exit status, or as a signal ended another one."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if status >= 0 else 128 - status)


def _become(command: Sequence[str], setting: Setting) -> None:
    """Be the command: `dshap` in this process, any other program in its place."""
    if command[0] != "dshap":
        os.execvp(command[0], list(command))
    from dshap.cli import cli

    counter = Counter(setting.kills_at, str(Path.cwd()))
    if setting.kills_at or setting.tally:
        sys.addaudithook(counter.note)
    sys.argv = list(command)
    try:
        cli(list(command[1:]), prog_name="dshap")
    except KeyboardInterrupt:
        os._exit(130)
    finally:
        if setting.tally:
            Path(setting.tally).write_text(str(counter.n_changes))


@dataclass
class Counter:
    """Counts changes of files in a folder, and kills this process at one of them."""

    kills_at: int
    folder: str
    n_changes: int = 0

    def note(self, event: str, given: tuple[Any, ...]) -> None:
        """Take an event of Python's audit hooks."""
        is_change = event in CHANGES or (event == "open" and _writes(given))
        if is_change and self.folder in os.path.abspath(str(given[0])):
            self.n_changes += 1
            if self.n_changes == self.kills_at:
                os.kill(os.getpid(), signal.SIGKILL)


def _writes(given: tuple[Any, ...]) -> bool:
    return isinstance(given[2], int) and bool(given[2] & WRITES)


def _settle(setting: Setting) -> None:
    """Let leases of this process die soon, and let them see another machine."""
    for function in (Lease.__init__, living_holder):
        known: dict[str, Any] = function.__kwdefaults__  # type: ignore[attr-defined]
        known |= (
            {"renew_s": RENEW_S, "dead_s": DEAD_S} if "renew_s" in known else {"dead_s": DEAD_S}
        )
    if setting.sabotage:
        import_module("tests.chaos.sabotage").SABOTAGES[setting.sabotage]()
    if setting.machine:
        os.readlink = partial(_readlink, os.readlink, setting.machine)  # type: ignore[assignment]


def _readlink(plain: Any, machine: str, path: Any, **options: Any) -> Any:
    if path == PROCESS_NUMBERS:
        return f"pid:[{machine}]"
    return plain(path, **options)
