"""A lease: a name in a folder that belongs to one process for as long as it gives signs of life.

It needs a folder alone (`Folder`), of any kind, no clock that machines share, and no lock
of a file system.  The file `NAME-000007.json` names the holder; its holder alone rewrites
it, every half minute, with a counter.  The file with the highest number counts, and a process
acquires a name by creating the next number, which one process alone can do.

A holder is dead when an observer has seen no sign of life for three minutes of its own clock, or at
once when both are on one machine and the holder's process is gone.

A holder may have slept, with its process stopped or its machine suspended, and another may have
acquired the name meanwhile.  `Lease.check` compares the age of the last sign of life by a clock
that counts sleep, and reads the files again if that age is near the three minutes.
`Lease.confirm` reads them always: call it before a step that destroys the work of another holder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dshap.core.errors import DshapError, LockedError
from dshap.core.places import Place
from dshap.storage.clocks import seconds_with_sleep
from dshap.storage.folder import Folder

RENEW_S = 30.0
"""Seconds between two signs of life."""
DEAD_S = 180.0
"""Seconds without a sign of life, six in a row, after which a holder on another machine is dead."""
SILENT_S = 600.0
"""Age of a sign of life, by two clocks that may differ, from which a holder elsewhere counts as
dead."""
SEEN = "%Y-%m-%dT%H:%M:%SZ"
"""The form of the time of a sign of life."""
LOOKS = 100
"""Number of times that an observer reads the file of a holder while `DEAD_S` pass."""
ATTEMPTS = 20
"""Number of tries to acquire a name that others acquire and release at the same time."""
NAME = re.compile(r"[A-Za-z0-9_]+(-[A-Za-z0-9_]+)*")
ENDED = ("Z", "X", "x")
"""States of a process that is over, though its parent has not asked for its exit status."""


@dataclass(frozen=True)
class Holder:
    """The process that owns a name, and its sign of life."""

    token: str
    """A random name of this hold."""
    what: str
    """The work of the process in words: "shard 3 of 8"."""
    host: str
    pid: int
    started: str
    """The start of the process in ticks since boot; empty if the system does not report it."""
    machine: str
    """The boot of the machine and the room that process numbers count in; empty if unknown."""
    count: int = 0
    """The number of signs of life so far."""
    seen: str = ""
    """The time of the last of them by the holder's own clock, in UTC, for people."""
    since: str = ""
    """The time at which it acquired the name, by the same clock."""
    progress: dict[str, Any] = field(default_factory=dict)
    """Plain values on the progress of its work, a few hundred bytes."""

    @classmethod
    def here(cls, what: str) -> Holder:
        """Return this process as a holder."""
        pid = os.getpid()
        now = _now()
        return cls(
            uuid.uuid4().hex,
            what,
            socket.gethostname(),
            pid,
            _start_of(pid) or "",
            _machine(),
            seen=now,
            since=now,
        )

    def renewed(self, progress: Mapping[str, Any]) -> Holder:
        """The holder with one more sign of life, which includes the progress of its work."""
        return replace(self, count=self.count + 1, seen=_now(), progress=dict(progress))

    @classmethod
    def read(cls, content: bytes) -> Holder:
        """The holder that a file describes; a damaged file gives one without known properties."""
        try:
            return cls(**json.loads(content))
        except (ValueError, TypeError):
            digest = hashlib.blake2b(content, digest_size=16).hexdigest()
            return cls(digest, "an unknown process", "an unknown machine", 0, "", "")

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode()

    @property
    def is_on_this_machine(self) -> bool:
        """Whether its process number means the same here: one boot, and no container between."""
        return bool(self.started and self.machine) and self.machine == _machine()

    @property
    def is_gone(self) -> bool:
        """Whether its process is over, as far as that can be found out at once."""
        return self.is_on_this_machine and _start_of(self.pid) != self.started

    @property
    def is_silent(self) -> bool:
        """Whether it is elsewhere, and has given no sign of life for so long that it is dead.

        Clocks may differ: a process that wants a lease watches its holder instead.
        """
        if self.is_on_this_machine:
            return False
        seen = time_of(self.seen)
        return seen is not None and datetime.now(UTC).timestamp() - seen > SILENT_S

    def __str__(self) -> str:
        return f"{self.what} (process {self.pid} on {self.host})"


@dataclass(frozen=True)
class _Hold:
    """A file of a name: its number, and its content when it was read."""

    number: int
    content: bytes

    @property
    def holder(self) -> Holder:
        return Holder.read(self.content)

    def is_of(self, holder: Holder) -> bool:
        """Whether it is of this hold, with any sign of life."""
        return self.holder.token == holder.token


class Lease:
    """A name in a folder that one process of all machines owns in a `with` block.

    Parameters
    ----------
    folder : folder of the file; it need not exist
    name : letters, digits and hyphens
    what : what this process does, in words, for processes that find the name in use
    place : what the name locks, in messages; the folder if it is not given
    waits : whether to watch a holder on another machine until it gives a sign of life or is dead;
        False: any holder that is not known to be dead refuses at once
    say : called once, with a line, when a holder is watched
    renew_s, dead_s : seconds between signs of life, and without one until a holder is dead
    clock : function that returns seconds, and counts the time in which the machine is suspended

    Raises
    ------
    LockedError
        Another process owns the name.
    """

    def __init__(
        self,
        folder: Folder,
        name: str,
        what: str,
        *,
        place: str | Place | None = None,
        waits: bool = True,
        say: Callable[[str], None] | None = None,
        renew_s: float = RENEW_S,
        dead_s: float = DEAD_S,
        clock: Callable[[], float] = seconds_with_sleep,
    ) -> None:
        if NAME.fullmatch(name) is None:
            raise DshapError(f"a lease has no name {name!r}: letters, digits and hyphens")
        self.folder = folder
        self.name = name
        self.place = str(place or folder.path)
        self._what = what
        self._waits = waits
        self._say = say
        self._renew_s = renew_s
        self._dead_s = dead_s
        self._clock = clock
        self._last = 0.0
        """The time of the last sign of life by `clock`, taken before it was given."""
        self._renewal = threading.Lock()
        """Locked while a sign of life is given, because two threads do that."""
        self._mine: _Hold | None = None
        self._loss = ""
        """How the lease was lost, in words; empty while it is valid."""
        self._progress: Mapping[str, Any] = {}
        self._is_ending = False
        self._due = threading.Event()
        """Set if the next sign of life is due without delay, or the block ends."""
        self._renewing: threading.Thread | None = None

    def __enter__(self) -> Self:
        for _ in range(ATTEMPTS):
            if self._take():
                break
        else:
            raise LockedError(f"{self.place} is being locked by others: run the same command again")
        self._loss = ""
        self._is_ending = False
        self._due.clear()
        self._renewing = threading.Thread(
            target=self._renew_until_the_end, name=f"lease {self.name}", daemon=True
        )
        self._renewing.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_ending = True
        self._due.set()
        if self._renewing is not None:
            self._renewing.join()
        mine = self._mine
        self._mine = None
        # only if the file is still ours: after a suspension it may be that of another process
        if mine is not None:
            content = _content_of(self.folder, self.name, mine.number)
            if content is not None and _Hold(mine.number, content).is_of(mine.holder):
                self.folder.delete(_file(self.name, mine.number))

    def check(self) -> None:
        """Raise a `LockedError` if the lease was lost: by silence, or to another process.

        It reads the files only if the last sign of life is so old that another process may have
        acquired the name, as after a suspension of this machine.
        """
        if self._mine is not None and self._is_late:
            self._renew()
        if self._loss:
            raise LockedError(f"{self.place} is no longer locked by this process: {self._loss}")

    def confirm(self) -> None:
        """Read now whether this process still owns the name, and raise a `LockedError` if not.

        Call it before a removal, a record or a pointer, which could destroy the work of a process
        that owns the name by now.
        """
        if self._mine is not None:
            self._renew()
        self.check()

    def tell(self, progress: Mapping[str, Any], at_once: bool = False) -> None:
        """Report the progress with the next sign of life, which with `at_once` follows now."""
        self._progress = progress
        if at_once:
            self._due.set()

    def _take(self) -> bool:
        """Acquire the name if it is free; False if it changed meanwhile."""
        began = self._clock()
        before = _newest(self.folder, self.name)
        number = 1
        if before is not None:
            number = before.number + 1
            self._refuse_living(before)
            began = self._clock()
        mine = _Hold(number, Holder.here(self._what).to_bytes())
        if not _put(self.folder, self.name, mine):
            return False
        # a slow observer may create a number whose predecessor was left by others meanwhile
        is_mine = _newest(self.folder, self.name) == mine
        was_there = (
            before is None or _content_of(self.folder, self.name, before.number) == before.content
        )
        if not (is_mine and was_there):
            self.folder.delete(_file(self.name, number))
            return False
        for old in _numbers(self.folder, self.name):
            if old < number:
                self.folder.delete(_file(self.name, old))
        self._mine = mine
        # the moment before the file was created: others count their three minutes from a later one
        self._last = began
        return True

    def _refuse_living(self, hold: _Hold) -> None:
        if self._waits:
            holder = _watched(self.folder, {self.name: hold}, self._dead_s, self._say)
        elif hold.holder.is_gone:
            holder = None
        else:
            holder = hold.holder
        if holder is not None:
            raise LockedError(f"{self.place} is locked by {holder}: wait for it")

    @property
    def _silent_s(self) -> float:
        """The seconds since the last sign of life."""
        return self._clock() - self._last

    @property
    def _is_late(self) -> bool:
        """Whether the last sign of life is so old that another process may soon get the name."""
        return self._silent_s > self._dead_s - self._renew_s

    def _renew_until_the_end(self) -> None:
        """Give signs of life until the block ends or the lease is lost."""
        while not self._loss:
            self._due.wait(self._renew_s)
            self._due.clear()
            if self._is_ending:
                return
            self._renew()

    def _renew(self) -> None:
        """Give a sign of life, unless the lease is lost or another process has acquired the name.

        A failure is a loss only if the last sign is old: no other process can have the name
        before.
        """
        with self._renewal:
            if self._loss:
                return
            began = self._clock()
            try:
                self._loss = self._sign_of_life()
            except (
                Exception
            ) as error:  # refused credentials may be renewed, as any other fault ends
                if self._is_late:
                    self._loss = (
                        f"no sign of life could be given for {self._silent_s:.0f} s ({error})"
                    )
            else:
                self._last = began

    def _sign_of_life(self) -> str:
        """Write a sign of life; returns the reason if the lease is lost, else an empty text."""
        mine = self._mine
        assert mine is not None, "a lease is renewed while it is held"
        was_late = self._is_late
        newest = _newest(self.folder, self.name)
        if newest is None or not newest.is_of(mine.holder):
            return _taken_by(newest)
        # a sign whose answer was lost on the way may be there
        renewed = _Hold(mine.number, newest.holder.renewed(self._progress).to_bytes())
        name = _file(self.name, mine.number)
        is_given = self.folder.exchange(name, newest.content, renewed.content)
        if was_late or not is_given:  # another process may be taking the name at this moment
            newest = _newest(self.folder, self.name)
            if newest is None or not newest.is_of(mine.holder):
                return _taken_by(newest)
        self._mine = renewed
        return ""


def _taken_by(newest: _Hold | None) -> str:
    """The loss of a lease in words: the file that counts is of another holder, or missing."""
    taker = "nobody" if newest is None else newest.holder
    return f"it gave no sign of life in time, and {taker} has it"


def holder_of(folder: Folder, name: str) -> Holder | None:
    """The process that owns a name, seen at once; None if it is free or the holder is gone.

    One on another machine may be dead without a sign: `living_holder` watches it.
    """
    hold = _newest(folder, name)
    if hold is None or hold.holder.is_gone:
        return None
    return hold.holder


def living_holder(
    folder: Folder,
    *names: str,
    dead_s: float = DEAD_S,
    say: Callable[[str], None] | None = None,
) -> Holder | None:
    """A process that owns one of these names and lives; None if there is none.

    Those on other machines are watched, all at once, until the file of one changes or `dead_s` have
    passed.  Then the files of all of them are removed.
    """
    found = {name: _newest(folder, name) for name in names}
    holds = {name: hold for name, hold in found.items() if hold is not None}
    holder = _watched(folder, holds, dead_s, say)
    if holder is None:
        for name, hold in holds.items():
            if _content_of(folder, name, hold.number) == hold.content:
                folder.delete(_file(name, hold.number))
    return holder


def clear_gone(folder: Folder) -> None:
    """Remove the files of holders that are known to be gone; no holder is watched."""
    for name in held_names(folder):
        hold = _newest(folder, name)
        if hold is not None and hold.holder.is_gone:
            folder.delete(_file(name, hold.number))


def held_names(folder: Folder) -> list[str]:
    """The sorted names that have a file in a folder, of living or dead processes."""
    found = (_parsed(file) for file in folder.list())
    return sorted({name for name, _ in filter(None, found)})


def _watched(
    folder: Folder,
    holds: Mapping[str, _Hold],
    dead_s: float,
    say: Callable[[str], None] | None,
) -> Holder | None:
    """A holder that lives; None if all are dead, or left while they were watched."""
    watched = {}
    for name, hold in holds.items():
        if not hold.holder.is_on_this_machine:
            watched[name] = hold
        elif not hold.holder.is_gone:
            return hold.holder
    if watched and say is not None:
        first = next(iter(watched.values())).holder
        others = f" and {len(watched) - 1} more" if len(watched) > 1 else ""
        say(f"{first}{others} may be running: waiting up to {dead_s:.0f} s for a sign of life")
    # by the own clock alone: clocks of two machines may differ by more than the three minutes
    end = time.monotonic() + dead_s
    while watched and time.monotonic() < end:
        time.sleep(dead_s / LOOKS)
        for name, hold in list(watched.items()):
            content = _content_of(folder, name, hold.number)
            if content is None:
                del watched[name]
            elif content != hold.content:
                return Holder.read(content)
    return None


def _file(name: str, number: int) -> str:
    return f"{name}-{number:06d}.json"


def _parsed(file: str) -> tuple[str, int] | None:
    """(name, number) of a file of a lease; None of any other file."""
    found = re.fullmatch(rf"({NAME.pattern})-(\d{{6,}})\.json", file)
    if found is None:
        return None
    return found[1], int(found[found.lastindex or 0])


def _numbers(folder: Folder, name: str) -> list[int]:
    """The sorted numbers of the files of a name."""
    found = (_parsed(file) for file in folder.list())
    return sorted(number for known, number in filter(None, found) if known == name)


def _newest(folder: Folder, name: str) -> _Hold | None:
    """The file of a name that counts; None if there is none."""
    for number in reversed(_numbers(folder, name)):
        content = _content_of(folder, name, number)
        if content is not None:
            return _Hold(number, content)
    return None


def _content_of(folder: Folder, name: str, number: int) -> bytes | None:
    return folder.get(_file(name, number))


def _put(folder: Folder, name: str, hold: _Hold) -> bool:
    """Create a file of a name; False if it is there, or the folder is being removed."""
    try:
        return folder.put_new(_file(name, hold.number), hold.content)
    except FileNotFoundError:
        return False


def time_of(text: str) -> float | None:
    """Seconds since 1970 of a time as holders write it; None if the text is no time."""
    try:
        return datetime.strptime(text, SEEN).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _now() -> str:
    return datetime.now(UTC).strftime(SEEN)


@cache
def _machine() -> str:
    """The boot of this machine and the namespace of its process numbers; empty if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _start_of(pid: int) -> str | None:
    """The start of a running process in ticks since boot; None if there is none, or it is over."""
    try:
        told = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # the name of the program, in brackets, may hold anything
    fields = told.rpartition(b")")[2].decode("ascii").split()
    if fields[0] in ENDED:
        return None
    return str(fields[19])
