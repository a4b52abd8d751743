"""What a Shapley penalty costs beyond the plain fit: seconds, processor seconds and peaks of two
workers.

A kernel ridge of the deadlift, with the sex of the lifter as the player, interventional and
observational, along a path of strengths.  Peaks are resident bytes of a whole process (VmHWM), an
idle worker's included.  Usage: python -m tests.benchmarks.regulariser --data powerlifting.parquet
[--rows 1810580] [--landmarks 256]
       [--values interventional observational] [--strengths 0 0.1 1 10 100] [--json OUT] [--tiny]
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

import dshap
from dshap.engine import DaskExecutor, local_client, shut_down
from dshap.engine.peaks import PeakMeter
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge, ShapleyPenalty
from dshap.tables import ParquetSource, SyntheticTable
from tests.benchmarks.scaling import FEATURES, TARGET

PLAYER = "sex_male"


def processor_seconds(client: Any) -> float:
    """Of all workers since they started."""
    return float(sum(client.run(time.process_time).values()))


class Bench:
    """Two workers, and what each fit took."""

    def __init__(self) -> None:
        self.client = local_client(2, "3GiB", set_as_default=False)
        self.executor, self.meter, self.found = DaskExecutor(self.client), PeakMeter(), []

    def measured(self, name: str, rows: int, fit: Callable[[], Any]) -> Any:
        self.meter.reset(self.executor)
        before, started = processor_seconds(self.client), time.perf_counter()
        result = fit()
        seconds, used = time.perf_counter() - started, processor_seconds(self.client) - before
        peak = (self.meter.worker(self.executor) or math.nan) / 2**20
        self.found.append(
            {"fit": name, "rows": rows, "seconds": seconds, "processor": used, "worker_mib": peak}
        )
        print(
            f"{name:<16}{rows:>12,}{seconds:>10.1f} s{used:>12.1f} s{peak:>12,.0f} MiB", flush=True
        )
        return result


def shown(models: list[KernelRidge]) -> list[dict[str, float]]:
    """A line of the path each: strength, held-out R², mean squares of the player's attribution."""
    lines = []
    for model in models:
        report = model.report_.shapley
        numbers = (report.strength, model.r2_[0], report.train[0], report.held_out[0])
        lines.append(
            dict(zip(("strength", "r2", "train", "held_out"), map(float, numbers), strict=True))
        )
        print(
            "    strength {strength:<8g}R² {r2:.4f}   mean φ² {train:.4g}, held out {held_out:.4g}".format(
                **lines[-1]
            )
        )
    return lines


def source_of(given: argparse.Namespace, folder: Path) -> Any:
    """The table, or as many of its rows as are wanted, drawn at random."""
    options: dict[str, Any] = {"features": FEATURES, "target": TARGET}
    if given.data is None:
        return SyntheticTable("powerlifting", 3_000 if given.tiny else given.rows, **options)
    whole = ParquetSource(given.data, **options)
    if given.rows >= whole.n_rows:
        return whole
    rows = pd.read_parquet(given.data, columns=[*FEATURES, TARGET]).sample(
        given.rows, random_state=0
    )
    rows.to_parquet(folder / "rows.parquet", index=False)
    return ParquetSource(folder / "rows.parquet", **options)


def main(given: argparse.Namespace) -> None:
    landmarks = 30 if given.tiny else given.landmarks
    with tempfile.TemporaryDirectory() as folder:
        source, bench = source_of(given, Path(folder)), Bench()
        build = {
            "kernel": RBF("median"),
            "embedding": Nystrom(landmarks),
            "penalty": 1e-6,
            "holdout": 0.1,
        }
        print(f"{'':<16}{'rows':>12}{'wall':>12}{'processor':>14}{'worker peak':>16}")
        try:
            for name in ("warm", "plain"):
                plain = bench.measured(name, source.n_rows, lambda: dshap.fit(
                    KernelRidge(**build), source, None, client=bench.client))  # fmt: skip
            print(f"    R² {plain.r2_[0]:.4f}")
            paths = {}
            for value in given.values:
                model = KernelRidge(**build, shapley=ShapleyPenalty(PLAYER, 0.0, value))
                models = bench.measured(value, source.n_rows, lambda model=model: dshap.fit_path(
                    model, source, None, given.strengths, client=bench.client))  # fmt: skip
                paths[value] = shown(models)
        finally:
            shut_down(bench.client)
    if given.json:
        Path(given.json).write_text(json.dumps({"fits": bench.found, "paths": paths}, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="Parquet file of lifts; synthetic ones without")
    parser.add_argument("--rows", type=int, default=1_810_580)
    parser.add_argument("--landmarks", type=int, default=256)
    parser.add_argument("--values", nargs="+", default=["interventional", "observational"])
    parser.add_argument("--strengths", type=float, nargs="+", default=[0.0, 0.1, 1.0, 10.0, 100.0])
    parser.add_argument("--json")
    parser.add_argument("--tiny", action="store_true", help="seconds instead of half an hour")
    main(parser.parse_args())
