"""A game: the nights of one job, with faults in a row, then its promises."""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dshap.core.places import BucketPath, Place
from dshap.storage.folder import Folder
from tests.buckets import Service
from tests.chaos.commands import Running, Setting, Steps, Wrong
from tests.chaos.damage import DAMAGES
from tests.chaos.faults import ANOTHER, FAULTS, Ended, Fault, last_line, small_disk
from tests.chaos.jobs import Kind, Outcome
from tests.chaos.promises import check

ALL_FAULTS: dict[str, Fault] = {**FAULTS, **DAMAGES}
DISK_BYTES = 64 << 20
TRIES = 3
"""The commands after faults, the last of which ends with 0."""
ADVICES = 5
"""The pieces of advice that are followed after damage."""
MORE_FAULTS = (1, 5)
"""The least faults of a game beside the one that it is drawn for, and one above the most."""
GOES_ON_SHARE = 0.7
"""The share of nights after the first whose faults are followed by the same command, not by the next night."""
REMOVE = re.compile(r"remove (?:this folder|it)\b")
QUOTED = re.compile(r"(\S+/\S+?)[:,;)]?\s")


@dataclass(frozen=True)
class Calm:
    """An undisturbed night of a kind of job."""

    outcome: Outcome
    seconds: float
    n_changes: int
    """Changes of files of its process, or of objects of its bucket."""


@dataclass(frozen=True)
class Line:
    """A line of the table: a fault, with the command that met it."""

    game: int
    kind: str
    night: int
    fault: str
    moment: str
    status: str
    commands: int = 0
    """The commands that finished the night after its faults."""
    seconds: float = 0.0
    found: str = "ok"


Plan = tuple[tuple[str, ...], ...]
"""The faults of each night, in a row."""


def drawn_plan(kind: Kind, fault: str, draws: np.random.Generator, names: list[str]) -> Plan:
    """The nights of a game with this fault in one of them, and others that fit the kind anywhere.

    Damage comes after the first command.  The later nights of a job whose table stays the same have
    nothing to do: its commands meet their faults in the first.
    """
    planned: list[list[str]] = [[] for _ in range(kind.n_nights)]
    for each in [fault, *map(str, draws.choice(names, int(draws.integers(*MORE_FAULTS))))]:
        is_idle = kind.rows_of(0) is None and not ALL_FAULTS[each].alters
        night = 0 if is_idle else int(draws.integers(kind.n_nights))
        planned[night].append(each)
    for each_night in planned:
        draws.shuffle(each_night)
    while planned[0] and ALL_FAULTS[planned[0][0]].alters:
        planned[1].insert(0, planned[0].pop(0))
    return tuple(map(tuple, planned))


@dataclass
class Game:
    """The nights of one job in a folder of its own."""

    kind: Kind
    folder: Path
    service: Service
    draws: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    calms: list[Calm] = field(default_factory=list)
    """What each night is undisturbed; empty for the undisturbed game itself."""
    night: int = 0
    damaged: list[str] = field(default_factory=list)
    """What was damaged so far."""
    sabotage: str = ""
    """What is broken of dshap on purpose in every command; empty for nothing."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def calm(self) -> Calm:
        return self.calms[self.night]

    @property
    def steps(self) -> Steps:
        return self.kind.steps(self.folder, self.night)

    @property
    def store(self) -> Place:
        return self.kind.place(self.folder)

    def start(self, machine: str = "", kills_at: int = 0, tally: str = "") -> Running:
        """Give the command of the night."""
        setting = Setting(self.service.environment, machine, kills_at, tally, self.sabotage)
        return Running.start(self.steps, self.folder, setting, self._output())

    def ask(self, *command: str) -> tuple[int, str]:
        """The exit status and the output of another command."""
        setting = Setting(self.service.environment, sabotage=self.sabotage)
        job = Running.start([[["dshap", *command]]], self.folder, setting, self._output())
        return job.end(), job.said

    def _output(self) -> Path:
        return self.folder / f"output-{next(self._numbers):02d}.txt"

    def number_of_a_change(self) -> int:
        """The number of one of the changes of files, or of objects, of the night."""
        return int(self.draws.integers(1, max(self.calm.n_changes, 1) + 1))

    def sleep(self, least_s: float, most_s: float) -> None:
        time.sleep(float(self.draws.uniform(least_s, most_s)))

    def play(self, number: int, name: str, plan: Plan) -> Iterator[Line]:
        """Carry out the nights with their faults; gives a line for each fault.

        What breaks a promise stands in the line of the last fault, and ends the game.
        """
        needs_disk = any(ALL_FAULTS[each].needs_small_disk for night in plan for each in night)
        place = self.folder / "place"
        place.mkdir(parents=True)
        with small_disk(place, DISK_BYTES) if needs_disk else contextlib.nullcontext():
            self.kind.make(self.folder)
            for night, faults in enumerate(plan):
                lines: list[Line] = []
                found = "ok"
                began = time.monotonic()
                n_commands = 0
                try:
                    self.begin(night)
                    for fault in faults:
                        lines.append(Line(number, name, night, fault, "", ""))
                        ended = ALL_FAULTS[fault].strike(self)
                        status = "" if ended.status is None else str(ended.status)
                        lines[-1] = Line(number, name, night, fault, ended.moment, status)
                        if self.damaged:
                            self._refuse_unhelpful(ended)
                        else:
                            ended.refuse()
                        if not ended.has_struck:
                            lines.pop()
                    if self._goes_on(night, plan):
                        n_commands = self.finish()
                except Wrong as wrong:
                    found = str(wrong)
                except Exception as error:
                    found = f"{type(error).__name__}: {error}"
                yield from _closed(lines, n_commands, time.monotonic() - began, found, number, name)
                if found != "ok":
                    return
        shutil.rmtree(self.folder)
        if isinstance(self.store, BucketPath):
            Folder(self.store.parent).delete(self.store.name)

    @property
    def has_next_night(self) -> bool:
        return self.night < self.kind.n_nights - 1

    def begin(self, night: int) -> None:
        """Let the source be that of a night."""
        self.night = night
        self.kind.begin_night(self.folder, night)

    def _goes_on(self, night: int, plan: Plan) -> bool:
        """Whether the night is finished by its own command, and not by that of the next night."""
        if night in (0, len(plan) - 1):
            return True
        return bool(self.draws.random() < GOES_ON_SHARE)

    def _refuse_unhelpful(self, ended: Ended) -> None:
        """Refuse the end of a command on a damaged store that is a bug of dshap."""
        if ended.status == 1:
            raise Wrong(f"exit status 1 on a damaged store: {last_line(ended.said)}")

    def finish(self) -> int:
        """Give the command of the night until it ends with 0, and check the promises.

        Gives the number of commands.
        """
        before = self.kind.pieces(self.folder)
        n_commands = self._damaged_to_end() if self.damaged else self._to_end()
        if not self.damaged:
            now = self.kind.pieces(self.folder)
            changed = [name for name, mark in before.items() if now.get(name) != mark]
            if changed:
                raise Wrong(f"{len(changed)} of {len(before)} pieces made again: {changed[:3]}")
        check(self)
        return n_commands

    def _to_end(self) -> int:
        said = ""
        for number in range(TRIES):
            job = self.start(machine=self._machine(number))
            status = job.end()
            said = job.said
            if not status:
                return number + 1
        raise Wrong(f"exit status {status} of the last of {TRIES} commands: {last_line(said)}")

    def _machine(self, number: int) -> str:
        """Where the command after a fault is given: of a store in a bucket on another machine, often."""
        if self.kind.is_in_bucket and not number and self.draws.random() < 0.3:
            return ANOTHER
        return ""

    def _damaged_to_end(self) -> int:
        """Give the command on a damaged store, and follow the advice of each refusal."""
        for number in range(ADVICES):
            job = self.start()
            status = job.end()
            if status:
                self._follow(job.said, status)
            elif self._is_verified():
                return number + 1
        raise Wrong(f"{ADVICES} pieces of advice were followed: {last_line(job.said)}")

    def _follow(self, said: str, status: int) -> None:
        """Do what a refusal advises.

        Raises
        ------
        Wrong
            It is called a bug, or it advises nothing.
        """
        line = last_line(said)
        if status == 1:
            raise Wrong(f"exit status 1 on a damaged store ({self.damaged}): {line}")
        if "verify" in said:
            repaired, told = self.ask("verify", str(self.store), "--repair")
            if repaired not in (0, 7, 11):
                raise Wrong(f"verify --repair ended with {repaired}: {last_line(told)}")
        elif REMOVE.search(line):
            for place in QUOTED.findall(line):
                self._remove(place)
        elif "run the same" not in said and "same command" not in said:
            raise Wrong(f"status {status} without advice ({self.damaged}): {line}")

    def _remove(self, place: str) -> None:
        """Remove a file or folder that a message names, if it is in the store."""
        base = str(self.store)
        if place.startswith(f"{base}/"):
            Folder(self.store).delete(place.removeprefix(f"{base}/"))

    def _is_verified(self) -> bool:
        """Whether `verify` finds nothing; what it finds is repaired, and the same command follows."""
        status, _ = self.ask("verify", str(self.store))
        if status:
            repaired, told = self.ask("verify", str(self.store), "--repair")
            if repaired not in (0, 7, 11):
                raise Wrong(f"verify --repair ended with {repaired}: {last_line(told)}")
        return not status


def _closed(
    lines: list[Line], n_commands: int, seconds: float, found: str, number: int, name: str
) -> Iterator[Line]:
    """The lines of a night, the last of which says how it ended; one more where it had no fault."""
    if not lines and found == "ok":
        return
    if not lines:
        lines = [Line(number, name, 0, "none", "", "")]
    last = lines.pop()
    yield from lines
    yield Line(
        last.game,
        last.kind,
        last.night,
        last.fault,
        last.moment,
        last.status,
        n_commands,
        seconds,
        found,
    )


def undisturbed(kind: Kind, folder: Path, service: Service) -> list[Calm]:
    """The nights of a kind of job without faults."""
    game = Game(kind, folder, service)
    (folder / "place").mkdir(parents=True)
    kind.make(folder)
    game.ask("--version")  # the process that others are forked from starts once
    calms = []
    for night in range(kind.n_nights):
        game.night = night
        kind.begin_night(folder, night)
        tally = folder / f"tally {night}"
        first = service.n_changes
        began = time.monotonic()
        job = game.start(tally=str(tally))
        if status := job.end():
            raise SystemExit(f"{folder} ends with {status} undisturbed: {job.output}")
        seconds = time.monotonic() - began
        n_changes = service.n_changes - first
        if not kind.is_in_bucket:
            n_changes = int(tally.read_text()) if tally.exists() else 0
        calms.append(Calm(kind.outcome(folder), seconds, n_changes))
    game.calms = calms
    check(game)
    return calms
