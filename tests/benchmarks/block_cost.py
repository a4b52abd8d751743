"""The cost of a block that computes nothing: wall and processor time, syncs and files.

    python -m tests.benchmarks.block_cost [--rows 1024] [--blocks 300] [--store FOLDER] [--tiny]

A cube of 20 columns in float32 with a key, without standard errors.  `--store` is a folder on the
disk that is asked about; left out, a temporary one.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from dshap.core.blocks import Attribution, RowBlock, Status
from dshap.cube import CubeLayout, CubeWriter, create_cube

COLUMNS = 20


def written(path: Path, n_rows: int, n_blocks: int) -> tuple[float, float]:
    """(wall, processor) milliseconds of a block, the first three left out."""
    layout = CubeLayout(
        n_rows=n_rows * n_blocks,
        players=tuple(f"f{j}" for j in range(COLUMNS)),
        outputs=("y",),
        tile=n_rows,
        chunk=min(n_rows, 1_024),
        dtype="float32",
        keys={"id": "int64"},
        run={"digest": "benchmark"},
    )
    create_cube(path, layout, "{}")
    writer = CubeWriter(path, layout, "benchmark")
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(n_rows, COLUMNS, 1))
    rows = rng.normal(size=(n_rows, COLUMNS))
    wall = cpu = 0.0
    for tile in range(n_blocks):
        if tile == min(3, n_blocks - 1):
            wall, cpu = time.perf_counter(), time.process_time()
        start = tile * n_rows
        block = RowBlock(
            start,
            rows,
            np.ones(n_rows, bool),
            keys={"id": np.arange(start, start + n_rows, dtype=np.int64)},
        )
        attribution = Attribution(
            phi, np.zeros(1), phi.sum(axis=1), np.full(n_rows, Status.OK, np.int8)
        )
        writer.write(tile, block, attribution)
    counted = max(1, n_blocks - 3)
    return (
        (time.perf_counter() - wall) / counted * 1e3,
        (time.process_time() - cpu) / counted * 1e3,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_024)
    parser.add_argument("--blocks", type=int, default=300)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    n_blocks = 5 if given.tiny else given.blocks
    syncs = 0
    whole_sync = os.fsync

    def counted(descriptor: int) -> None:
        nonlocal syncs
        syncs += 1
        whole_sync(descriptor)

    with tempfile.TemporaryDirectory(dir=given.store) as name:
        for turn in range(3):
            wall, cpu = written(Path(name) / f"cube-{turn}", given.rows, n_blocks)
            print(f"{wall:6.2f} ms, {cpu:6.2f} ms of a processor, a block of {given.rows:,} rows")
        few, many = (Path(name) / each for each in ("few", "many"))
        os.fsync = counted
        try:
            written(few, given.rows, 4)
            before = syncs
            written(many, given.rows, 5)
        finally:
            os.fsync = whole_sync
        files = [sum(path.is_file() for path in each.rglob("*")) for each in (few, many)]
        print(f"{syncs - 2 * before} syncs, {files[1] - files[0]} files a block")


if __name__ == "__main__":
    main()
