"""Blocks of a table of 10⁹ rows that a black box explains, and what a block costs beside its
values.

    python -m tests.benchmarks.blocks [--rows 4096] [--repeats 5] [--tiny]

First the tiles that a plan cuts, for designs and backgrounds of a table of 40 columns, and the
seconds of work in one at a microsecond a prediction.  Then the same run in one block and in many,
in turns: the least difference, for each block, in wall and in processor time, and its files.  On a
machine that others use too, processor time is the one to read.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path

import numpy as np

import dshap
from dshap import designs
from dshap.core.capabilities import Work
from dshap.core.options import RunOptions
from dshap.engine.plan import PREDICTION_SECONDS
from dshap.engine.tiles import cut_tiles
from dshap.values import Marginal

ROWS, COLUMNS, SMALL_TILE = 10**9, 40, 64
DESIGNS = {
    "kernelshap, 512": designs.kernelshap(COLUMNS, 512),
    "kriging, 2,048": designs.kriging(COLUMNS, 2_048),
    "permutation, 774": designs.permutation(COLUMNS, 20),
}


def total(x):
    return x.sum(axis=1)


def print_tiles() -> None:
    """The tiles of each design and background."""
    print(f"{'coalitions':<20}{'background':>12}{'tile':>8}{'blocks':>12}{'work of a tile':>16}")
    for name, design in DESIGNS.items():
        for b in (1, 10, 100):
            value = Marginal(total, np.zeros((b, COLUMNS)))
            tiles = cut_tiles(
                Work.of(value, design), ROWS, b, design.info.n_replicates, RunOptions()
            )
            tile = tiles["instance_tile"]
            seconds = tile * b * design.info.n_coalitions * PREDICTION_SECONDS
            print(f"{name:<20}{b:>12,}{tile:>8,}{math.ceil(ROWS / tile):>12,}{seconds:>14.1f} s")


def taken(n_rows: int, tile: int) -> tuple[float, float, int]:
    """Wall seconds, processor seconds and files of a run with this tile."""
    x = np.random.default_rng(0).normal(size=(n_rows, COLUMNS))
    value, design = Marginal(total, x[:1]), designs.kernelshap(COLUMNS, 410)
    with tempfile.TemporaryDirectory() as folder:
        wall, processor = time.perf_counter(), time.process_time()
        dshap.explain(value, x, design=design, store=Path(folder) / "cube.zarr", instance_tile=tile)
        seconds = time.perf_counter() - wall, time.process_time() - processor
        return *seconds, sum(path.is_file() for path in Path(folder).rglob("*"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=4_096)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    n_rows, repeats = (256, 1) if args.tiny else (args.rows, args.repeats)
    print_tiles()
    taken(n_rows, n_rows)  # compiles what there is to compile
    whole, cut = (
        np.min([taken(n_rows, tile) for _ in range(repeats)], axis=0)
        for tile in (n_rows, min(n_rows, SMALL_TILE))
    )
    wall, processor, files = (cut - whole) / (n_rows / SMALL_TILE - 1)
    print(
        f"a block beside its values: {1e3 * wall:.0f} ms, {1e3 * processor:.0f} ms of a core, "
        f"{files:.0f} files"
    )


if __name__ == "__main__":
    main()
