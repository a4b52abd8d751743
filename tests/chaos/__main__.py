"""Faults at random moments of jobs, each of which is then finished by the same command.

    python -m tests.chaos [--faults 20] [--table FILE.csv] [--seed 0] [--kind NAME] [--fault NAME]

For each fault a job of one of eleven kinds is begun in a folder of its own, and after a part of its
undisturbed seconds it is killed, stopped, interrupted, loses its scheduler, or its disk is full.
Then the same command is given again, at most three times, until it exits with 0.  Held against the
undisturbed job: all values of all cubes and the lines of the sink, bit for bit; every piece that was
finished at the fault is the same file afterwards; `dshap verify` finds nothing; and no command
hangs.  A bucket is that of a service in this process, which fails now and then.

`--table` appends a line for each fault, and a later call goes on after the last one, so that
`--faults 300` is 300 of all calls together.  Exit status 1 where a promise was not kept; the folder
of that job is left.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np

from tests.buckets import running_s3
from tests.chaos.faults import FAULTS, Running, Wrong, small_disk
from tests.chaos.jobs import KINDS, Kind

HEADS = ("number", "kind", "fault", "after", "pieces", "status", "commands", "seconds", "found")
DISK_BYTES = 48 << 20
TRIES = 3
BUCKET_FAULTS = 0.03
"""The share of requests to the bucket that are answered by an error, or late."""
LATE_S = 1.0
"""How late."""


class Chaos:
    """Kinds of job with what each gives undisturbed, made when they are first asked for."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.seed = seed
        self.calm: dict[str, tuple[dict[str, set[str]], float]] = {}

    def undisturbed(self, name: str) -> tuple[dict[str, set[str]], float]:
        """What a kind of job gives, and its seconds."""
        if name not in self.calm:
            folder = self.folder / f"calm {name}"
            kind = KINDS[name]
            kind.make(folder)
            started = time.monotonic()
            job = Running.start(kind.command(folder), folder, np.random.default_rng(0))
            if status := job.end():
                sys.exit(f"{name} ends with {status} undisturbed: {folder / 'output.txt'}")
            self.calm[name] = kind.digests(folder), time.monotonic() - started
        return self.calm[name]

    def disturbed(self, number: int, name: str, fault: str) -> dict[str, object]:
        """One fault of one job; gives the line of the table."""
        draws = np.random.default_rng([self.seed, number])
        wanted, seconds = self.undisturbed(name)
        kind = KINDS[name]
        folder = self.folder / f"{number}"
        shutil.rmtree(folder, ignore_errors=True)
        kind.make(folder)
        after = float(draws.uniform(0.3, 1.0)) * seconds
        started = time.monotonic()
        line: dict[str, object] = {"number": number, "kind": name, "fault": fault}
        line |= {"after": f"{after:.1f}", "found": "ok"}
        is_filled = fault == "full disk"
        disk = small_disk(folder / "place", DISK_BYTES) if is_filled else contextlib.nullcontext()
        try:
            with disk:
                line |= self._with_fault(kind, folder, fault, after, wanted, draws)
        except Wrong as wrong:
            line["found"] = str(wrong)
        line["seconds"] = f"{time.monotonic() - started:.0f}"
        if line["found"] == "ok":
            shutil.rmtree(folder)
        return line

    def _with_fault(
        self,
        kind: Kind,
        folder: Path,
        fault: str,
        after: float,
        wanted: dict[str, set[str]],
        draws: np.random.Generator,
    ) -> dict[str, object]:
        job = Running.start(kind.command(folder), folder, draws)
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.process.wait(after)
        allowed = {0}
        if not job.is_over():
            allowed |= FAULTS[fault](job)
        status = job.end()
        if status not in allowed and not kind.is_several:
            raise Wrong(f"exit status {status} after the fault")
        before = kind.pieces(folder)
        last = status
        n_commands = 0
        while n_commands == 0 or (last and n_commands < TRIES):
            last = Running.start(kind.command(folder), folder, draws).end()
            n_commands += 1
        if last:
            raise Wrong(f"exit status {last} of the last command")
        now = kind.pieces(folder)
        changed = [name for name, mark in before.items() if now.get(name) != mark]
        if changed:
            raise Wrong(f"{len(changed)} of {len(before)} pieces made again: {changed[:3]}")
        if (found := kind.digests(folder)) != wanted:
            raise Wrong(f"other values: {sorted(found)} {found != wanted}")
        verified = subprocess.run(
            [sys.executable, "-m", "dshap", "verify", kind.store(folder)],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        if verified.returncode:
            raise Wrong(f"verify: {verified.stdout} {verified.stderr}")
        return {"pieces": len(before), "status": status, "commands": n_commands}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--fault", choices=FAULTS)
    options = parser.parse_args()
    done = 0
    if options.table and options.table.exists():
        with open(options.table, newline="") as file:
            done = sum(1 for _ in csv.DictReader(file))
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    with running_s3() as service, mock.patch.dict(os.environ, service.environment):
        service.rate, service.delay_s = BUCKET_FAULTS, LATE_S
        n_wrong = disturb(Chaos(folder, options.seed), options, done)
        print(f"{service.n_requests} requests to the bucket, {service.n_faults} late or failed")
    print(f"{options.faults - done} faults, {n_wrong} promises not kept")
    if n_wrong:
        sys.exit(1)
    shutil.rmtree(folder)


def disturb(chaos: Chaos, options: argparse.Namespace, done: int) -> int:
    """Make the faults that are not done yet, told line by line; gives how many broke a promise."""
    pairs = list(itertools.product(KINDS, FAULTS))
    n_wrong = 0
    for number in range(done, options.faults):
        drawn = np.random.default_rng([options.seed, number // len(pairs)]).permutation(len(pairs))
        name, fault = pairs[drawn[number % len(pairs)]]
        line = chaos.disturbed(number, options.kind or name, options.fault or fault)
        n_wrong += line["found"] != "ok"
        print(", ".join(f"{head} {line.get(head, '')}" for head in HEADS), flush=True)
        if options.table:
            is_new = not options.table.exists()
            with open(options.table, "a", newline="") as file:
                writer = csv.DictWriter(file, HEADS)
                if is_new:
                    writer.writeheader()
                writer.writerow(line)
    return n_wrong


if __name__ == "__main__":
    main()
