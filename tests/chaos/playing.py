"""Games of a seed, one after the other, with a table of their faults."""

from __future__ import annotations

import argparse
import contextlib
import csv
import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from unittest import mock

import numpy as np

from tests.buckets import Service, running_s3
from tests.chaos.games import ALL_FAULTS, Calm, Game, Line, drawn_plan, undisturbed
from tests.chaos.jobs import KINDS, Kind
from tests.chaos.nights import nights
from tests.databases import PASSWORD, Server, programs, running_postgresql

HEADS = tuple(each.name for each in fields(Line))
BUCKET_FAULTS = 0.03
"""The share of requests to the bucket that are answered by an error, or late."""
LATE_S = 0.5
"""How late."""


class Chaos:
    """Kinds of job with what each gives undisturbed, made when they are first asked for."""

    def __init__(self, folder: Path, seed: int, service: Service, kinds: dict[str, Kind]) -> None:
        self.folder = folder
        self.seed = seed
        self.service = service
        self.kinds = kinds
        self.calms: dict[str, list[Calm]] = {}

    def undisturbed(self, name: str) -> list[Calm]:
        if name not in self.calms:
            folder = self.folder / f"calm {name}"
            self.calms[name] = undisturbed(self.kinds[name], folder, self.service)
        return self.calms[name]

    def played(self, number: int, name: str, fault: str) -> Iterator[Line]:
        """One game; gives the lines of the table."""
        kind = self.kinds[name]
        draws = np.random.default_rng([self.seed, number])
        plan = drawn_plan(kind, fault, draws, [each for each in ALL_FAULTS if fits(each, kind)])
        folder = self.folder / f"game ü {number}"
        shutil.rmtree(folder, ignore_errors=True)
        game = Game(kind, folder, self.service, draws, self.undisturbed(name))
        yield from game.play(number, name, plan)


def fits(fault: str, kind: Kind) -> bool:
    return not ALL_FAULTS[fault].unfit(kind)


def main(description: str) -> None:
    """Play as many games as the options ask for."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", action="append", help="a kind of job, or several")
    parser.add_argument("--fault", choices=ALL_FAULTS)
    parser.add_argument("--game", type=int)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    with (
        _server() as server,
        running_s3() as service,
        mock.patch.dict(os.environ, service.environment),
    ):
        service.rate, service.delay_s = BUCKET_FAULTS, LATE_S
        kinds = {**KINDS, **nights(server)}
        for name in options.kind or ():
            if name not in kinds:
                parser.error(f"--kind {name}: give one of {', '.join(kinds)}")
        n_faults, n_wrong = disturb(Chaos(folder, options.seed, service, kinds), options)
        print(f"{service.n_requests} requests to the bucket, {service.n_faults} late or failed")
    print(f"{n_faults} faults, {n_wrong} promises not kept")
    if n_wrong:
        sys.exit(1)
    shutil.rmtree(folder)


@contextlib.contextmanager
def _server() -> Iterator[Server | None]:
    """A PostgreSQL for the kinds of job that need one; None where its programs are missing."""
    if programs() is None:
        print("kinds on PostgreSQL are skipped: needs its initdb")
        yield None
        return
    with running_postgresql() as server, mock.patch.dict(os.environ, {"PGPASSWORD": PASSWORD}):
        yield server


def disturb(chaos: Chaos, options: argparse.Namespace) -> tuple[int, int]:
    """Play the games that are left, told fault by fault; gives faults and broken promises."""
    pairs = [
        (name, fault)
        for name, fault in itertools.product(chaos.kinds, ALL_FAULTS)
        if fits(fault, chaos.kinds[name])
        and (not options.kind or name in options.kind)
        and options.fault in (None, fault)
    ]
    if not pairs:
        sys.exit(f"{options.fault} befalls no such kind of job")
    for name in sorted({f"{fault}: {kind}" for fault, kind in _never(chaos)}):
        print(f"skipped: {name}")
    n_before, first = _done(options.table)
    n_faults = n_before
    n_wrong = 0
    games = itertools.count(first) if options.game is None else [options.game]
    for number in games:
        if n_faults >= options.faults:
            break
        drawn = np.random.default_rng([chaos.seed, number // len(pairs)]).permutation(len(pairs))
        for line in chaos.played(number, *pairs[drawn[number % len(pairs)]]):
            n_faults += 1
            n_wrong += line.found != "ok"
            print(", ".join(f"{head} {each}" for head, each in _told(line).items()), flush=True)
            if options.table:
                _append(options.table, line)
    return n_faults - n_before, n_wrong


def _never(chaos: Chaos) -> Iterator[tuple[str, str]]:
    """(fault, reason) of faults that fit no kind here."""
    for name, fault in ALL_FAULTS.items():
        reasons = {fault.unfit(kind) for kind in chaos.kinds.values()}
        if "" not in reasons:
            yield name, ", ".join(sorted(reasons))


def _told(line: Line) -> dict[str, str]:
    return {**asdict(line), "seconds": f"{line.seconds:.0f}"}


def _done(table: Path | None) -> tuple[int, int]:
    """(faults in a table so far, number of the next game)."""
    if table is None or not table.exists():
        return 0, 0
    with open(table, newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    return len(lines), max((int(line["game"]) for line in lines), default=-1) + 1


def _append(table: Path, line: Line) -> None:
    is_new = not table.exists()
    with open(table, "a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, HEADS)
        if is_new:
            writer.writeheader()
        writer.writerow(_told(line))
