"""Plans of 10⁶ to 10⁹ rows, and a run of 10⁹ rows whose tasks only sleep.

    python -m tests.benchmarks.billions [--rows 1000000000] [--shorter 1000] [--workers 2]
                                        [--flat 20000000] [--tiny]

First the plan of one explanation of `workflows/million_rows_synthetic.toml`: 8 columns, 254 proper
coalitions, 256 landmarks.  Reads are passes over the table to learn its moments.  Then all tasks of
moments and evaluation of the largest table, through the executor and the learning of a real run, on
workers in processes of their own: each sleeps as long as its share of the plan, divided by
`--shorter`, and nothing else.  Resident bytes of client, scheduler and workers are told after a
tenth of the run, and at its end; seconds beside those that the sleeping alone would take.

Last a real run of `--flat` rows, with 16 landmarks: resident bytes of the same processes, sampled
each second and told for each tenth of the time, and the largest of a worker beside its plan.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from distributed import Client
from distributed.deploy.subprocess import SubprocessCluster

import dshap
from dshap import designs
from dshap.core.blocks import RowBlock
from dshap.core.options import RunOptions
from dshap.core.printing import format_bytes
from dshap.core.records import Moments, Record
from dshap.core.rows import SPAN_ROWS, spans
from dshap.engine import DaskExecutor
from dshap.engine.graph import Call, Reduction
from dshap.engine.learn import Learning, learn
from dshap.engine.plan import OPERATIONS_PER_SECOND, Plan
from dshap.run.identity import settle, stored_plan
from dshap.tables import SyntheticTable

D, LANDMARKS = 8, 256
SIZES = (10**6, 10**7, 10**8, 10**9)


class Nothing(SyntheticTable):
    """A table of any length whose rows are not made."""

    def __init__(self, n_rows: int) -> None:
        super().__init__("powerlifting", n_rows)

    def read(self, start, stop, **options):
        empty = np.zeros((0, D))
        return RowBlock(start, stop, empty, np.zeros(0, bool))


def planned(n_rows: int) -> Plan:
    """The plan of explaining so many rows of a made-up table."""
    x = np.random.default_rng(0).normal(size=(2_000, D))
    model = dshap.models.KernelRidge(
        dshap.kernels.RBF(1.0), embedding=dshap.kernels.Nystrom(200), penalty=1e-6
    ).fit(x, x[:, 0])
    value = dshap.values.ConditionalRegression(
        model.predict, x, dshap.kernels.RBF(1.0), dshap.kernels.Nystrom(LANDMARKS), penalty=1e-4
    )
    rows = SyntheticTable("powerlifting", n_rows)
    return settle(value, RunOptions(), designs.exact(D), 0, n_rows).plan(rows, rows)


def print_plans() -> None:
    heads = f"{'rows':>14}{'moments':>10}{'evaluation':>12}{'together':>10}{'reads':>7}"
    print(f"{heads}{'stored sums':>22}{'a worker':>11}{'core hours':>12}{'planned in':>12}")
    for n_rows in SIZES:
        started = time.perf_counter()
        plan = planned(n_rows)
        seconds = time.perf_counter() - started
        stages = {stage.name: stage for stage in plan.stages}
        moments = stages["moments"].n_tasks
        evaluation = stages["evaluation"].n_tasks
        kept = f"of {plan.kept_spans} spans" if plan.kept_spans else "none"
        hours = sum(stage.operations for stage in plan.stages) / OPERATIONS_PER_SECOND / 3_600
        print(
            f"{n_rows:>14,}{moments:>10,}{evaluation:>12,}{moments + evaluation:>10,}"
            f"{len(plan.coalition_spans):>7}{kept:>22}{format_bytes(plan.process_bytes):>11}"
            f"{hours:>12,.1f}{seconds:>10.2f} s"
        )


@dataclass(frozen=True)
class Asleep:
    """A pass whose spans take so many seconds."""

    seconds: float
    wants = ()

    def partial(self, block: RowBlock) -> Moments:
        time.sleep(self.seconds)
        return Moments({"n": np.array(1.0)})

    def finish(self, total: Moments) -> Record:
        return Record(total.arrays)


@dataclass(frozen=True)
class Files:
    """A store of records on the disk, with nothing around them."""

    folder: Path

    def has(self, name):
        return (self.folder / name).exists()

    def put(self, name, record):
        np.savez(self.folder / f"{name}.part.npz", **record.arrays)
        os.replace(self.folder / f"{name}.part.npz", self.folder / name)

    def get(self, name, kind):
        with np.load(self.folder / name) as found:
            return kind(dict(found))

    def remove(self, name):
        (self.folder / name).unlink(missing_ok=True)


def asleep(seconds: float, total: None) -> None:
    time.sleep(seconds)


def resident(pid: int) -> int:
    """The resident bytes of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))


class Watch:
    """Resident bytes of client, scheduler and workers, as the tasks of a run are done."""

    def __init__(self, client: Client, n_tasks: int) -> None:
        self.pids = processes(client)
        self.n_tasks = n_tasks
        self.n_done = 0
        self.seen: dict[int, dict[str, int]] = {}

    def done(self, n_tasks: int) -> None:
        self.n_done += n_tasks
        tenth = 10 * self.n_done // self.n_tasks
        if tenth not in self.seen:
            self.seen[tenth] = {name: resident(pid) for name, pid in self.pids.items()}

    def report(self) -> None:
        for tenth, found in sorted(self.seen.items()):
            told = ", ".join(f"{name} {format_bytes(size)}" for name, size in found.items())
            print(f"  after {tenth}0 %: {told}")


class Sampler(threading.Thread):
    """A thread that notes the resident bytes of processes each second, until it is told to end."""

    def __init__(self, pids: dict[str, int]) -> None:
        super().__init__(daemon=True)
        self.pids = pids
        self.idle = {name: resident(pid) for name, pid in pids.items()}
        self.ends = threading.Event()
        self.seen: list[dict[str, int]] = []

    def run(self) -> None:
        while not self.ends.wait(1.0):
            self.seen.append({name: resident(pid) for name, pid in self.pids.items()})

    def report(self) -> None:
        """Print the largest bytes of each tenth of the time."""
        for tenth in range(10):
            part = self.seen[len(self.seen) * tenth // 10 : len(self.seen) * (tenth + 1) // 10]
            most = {name: max(each[name] for each in part) for name in self.pids} if part else {}
            told = ", ".join(f"{name} {format_bytes(size)}" for name, size in most.items())
            print(f"  {tenth}0 to {tenth + 1}0 %: {told}")


def run_for_real(n_rows: int, n_workers: int, folder: Path) -> None:
    """Explain so many rows of a made-up table; what a process holds before counts as idle."""
    rows = SyntheticTable("powerlifting", n_rows)
    few = rows.read(0, 2_000).good
    scales = few.std(axis=0) + 1e-9
    model = dshap.models.KernelRidge(
        dshap.kernels.RBF(3.0 * scales), embedding=dshap.kernels.Nystrom(50), penalty=1e-6
    ).fit(few, few[:, 0])
    value, small = (
        dshap.values.ConditionalRegression(
            model.predict, data, dshap.kernels.RBF(3.0 * scales), dshap.kernels.Nystrom(16), 1e-4
        )
        for data in (rows, few)
    )
    with (
        SubprocessCluster(n_workers=n_workers, worker_kwargs={"nthreads": 1}) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(n_workers)
        dshap.explain(small, few, design=designs.exact(D), client=client, progress=False)
        sampler = Sampler(processes(client))
        sampler.start()
        started = time.perf_counter()
        store = folder / "cube.zarr"
        dshap.explain(
            value, rows, design=designs.exact(D), store=store, client=client, progress=False
        )
        seconds = time.perf_counter() - started
        sampler.ends.set()
        sampler.join()
    plan = stored_plan(store)
    most = max(
        max(each[name] for each in sampler.seen) - sampler.idle[name]
        for name in sampler.pids
        if name.startswith("worker")
    )
    print(
        f"{n_rows:,} rows on {n_workers} workers: {seconds:.0f} s; a worker took "
        f"{format_bytes(most)} beyond its idle size, planned {format_bytes(plan.process_bytes)}"
    )
    sampler.report()


def processes(client: Client) -> dict[str, int]:
    """The process ids of client, scheduler and workers."""
    found = client.run(os.getpid)
    pids = {"client": os.getpid(), "scheduler": client.run_on_scheduler(os.getpid)}
    return pids | {f"worker {i}": pid for i, pid in enumerate(found.values())}


def simulate(n_rows: int, n_workers: int, folder: Path, *, shorter: float) -> None:
    plan = planned(n_rows)
    stages = {stage.name: stage for stage in plan.stages}
    data_spans = spans(0, n_rows, SPAN_ROWS)
    n_tiles = len(plan.coalition_spans)
    span_seconds = (
        stages["moments"].operations / OPERATIONS_PER_SECOND / (n_tiles * len(data_spans))
    )
    tile_seconds = stages["evaluation"].operations / OPERATIONS_PER_SECOND / plan.n_instance_tiles
    n_tasks = stages["moments"].n_tasks + stages["evaluation"].n_tasks
    slept = stages["moments"].operations + stages["evaluation"].operations
    slept /= OPERATIONS_PER_SECOND * shorter * n_workers
    with (
        SubprocessCluster(n_workers=n_workers, worker_kwargs={"nthreads": 1}) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(n_workers)
        executor = DaskExecutor(client)
        watch = Watch(client, n_tasks)
        learning = Learning(
            [Asleep(span_seconds / shorter)] * n_tiles,
            [f"moments-{tile}" for tile in range(n_tiles)],
            Files(folder),
            Nothing(n_rows),
            None,
            plan.kept_spans,
        )
        started = time.perf_counter()
        learn(executor, learning, data_spans, range(n_tiles), lambda: watch.done(len(data_spans)))
        between = time.perf_counter()
        work = (
            Reduction(f"tile {tile}", (), Call(asleep)) for tile in range(plan.n_instance_tiles)
        )
        executor.run(tile_seconds / shorter, work, lambda *_: watch.done(1))
        ended = time.perf_counter()
    print(
        f"{n_rows:,} rows, {n_tasks:,} tasks on {n_workers} workers, {shorter:g} times shorter: "
        f"moments {between - started:.0f} s, evaluation {ended - between:.0f} s; sleeping alone "
        f"{slept:.0f} s: {slept / (ended - started):.2f} busy, "
        f"{1e3 * (ended - started - slept) / n_tasks:.2f} ms a task beside it"
    )
    watch.report()
    print(f"  files left: {sorted(path.name for path in folder.iterdir())}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10**9)
    parser.add_argument("--shorter", type=float, default=1_000.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--flat", type=int, default=20_000_000)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    print_plans()
    n_rows = 10**7 if options.tiny else options.rows
    shorter = 10_000.0 if options.tiny else options.shorter
    flat = 200_000 if options.tiny else options.flat
    for n, task in ((n_rows, partial(simulate, shorter=shorter)), (flat, run_for_real)):
        if n:
            with tempfile.TemporaryDirectory() as folder:
                task(n, options.workers, Path(folder))


if __name__ == "__main__":
    main()
