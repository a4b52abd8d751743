"""Planned bytes beside the peak of a worker, on a table of 2,000 columns: every road of the engine,
two spans.

    python -m tests.benchmarks.wide_tables [--rows 4200] [--only NAME] [--tiny]

A new worker process for each job.  `ratio` is planned / measured: below 1 a worker may be killed
where the plan said that it fits, above 3 a run is refused that would fit.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from tests.engine.memory import COLUMNS, WIDE, planned_and_measured, warm_worker

MIB = 2.0**20
TINY = ("linear", "interventional")


def measured(name: str, n_rows: int, row_span: int | None) -> tuple[int, int]:
    """Planned and measured bytes of a job on so many rows of data."""
    x = np.random.default_rng(3).normal(size=(n_rows, COLUMNS))
    value, n_explained, options = WIDE[name](x)
    with warm_worker("16GiB") as worker, tempfile.TemporaryDirectory() as folder:
        options = {**options, "row_span": row_span}
        return planned_and_measured(
            value, x[:n_explained], options, worker, Path(folder) / "cube.zarr"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=4_200)
    parser.add_argument("--only", choices=WIDE)
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    n_rows = 600 if args.tiny else args.rows
    names = [args.only] if args.only else TINY if args.tiny else WIDE
    print(f"{'':<36}{'row_span':>10}{'planned':>12}{'measured':>12}{'ratio':>8}")
    for name in names:
        for row_span in (2_048,) if args.tiny else (None, 2_048):
            planned, taken = measured(name, n_rows, row_span)
            sizes = f"{planned / MIB:>8.0f} MiB{taken / MIB:>8.0f} MiB{planned / taken:>8.2f}"
            print(f"{name:<36}{row_span or 'default':>10}{sizes}", flush=True)


if __name__ == "__main__":
    main()
