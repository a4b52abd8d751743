"""A cube of many blocks before and after it is packed: its files, and the time to open and read it.

    python -m tests.benchmarks.packing [--rows 100] [--blocks 20000] [--store FOLDER] [--tiny]

A cube of 20 columns in float32 with a key, without standard errors.  `files of 10⁹ rows` are those
of a million blocks.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from dshap.cube import cube_status, finished_blocks, is_packed, mark_finished, open_cube, pack_cube
from dshap.cube.packed_documents import BLOCKS_OF_PACK, LEAST_BLOCKS
from tests.benchmarks.block_cost import written

BILLION = 1_000_000
"""The blocks of a cube of 10⁹ rows, with 1,000 rows each."""


def timed(label: str, act: Callable[[], Any], n: int = 3) -> None:
    """Print the median of the seconds of `n` calls, and the processor seconds of that."""
    found = []
    for _ in range(n):
        wall, cpu = time.perf_counter(), time.process_time()
        act()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    wall, cpu = sorted(found)[n // 2]
    print(f"{label:<28} {wall:8.3f} s, {cpu:8.3f} of a processor", flush=True)


def read_all(path: Path, n_rows: int) -> None:
    """Open a cube by xarray with chunks of 512 blocks."""
    xr.open_zarr(path, consolidated=is_packed(path), chunks={"instance": BLOCKS_OF_PACK * n_rows})


def look(path: Path, n_rows: int) -> None:
    open_cube(path)
    timed("open_cube", lambda: open_cube(path))
    timed("xarray.open_zarr, 512 blocks", lambda: read_all(path, n_rows))
    timed(
        "xarray.open_zarr, no chunks",
        lambda: xr.open_zarr(path, consolidated=is_packed(path), chunks=None),
    )
    timed("status", lambda: cube_status(path))
    timed(
        "all attributions, by block",
        lambda: sum(float(np.nansum(each.attribution)) for each in finished_blocks(path)),
        1,
    )


def files_in(path: Path) -> int:
    return sum(each.is_file() for each in path.rglob("*"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--blocks", type=int, default=20_000)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    n_blocks = LEAST_BLOCKS if given.tiny else given.blocks
    with tempfile.TemporaryDirectory(dir=given.store) as name:
        path = Path(name) / "cube"
        written(path, given.rows, n_blocks)
        mark_finished(path)
        n_files = files_in(path)
        each = n_files / n_blocks
        print(f"{n_blocks:,} blocks: {n_files:,} files, of 10⁹ rows {each * BILLION:,.0f}")
        look(path, given.rows)
        timed("pack", lambda: pack_cube(path), 1)
        packs = -(-n_blocks // BLOCKS_OF_PACK)
        of_packs = sum(
            each.is_file() for each in path.rglob("*") if "c" in each.parts or "packs" in each.parts
        )
        print(f"packed: {files_in(path):,} files, {of_packs / packs:.1f} for 512 blocks", end=", ")
        print(f"of 10⁹ rows about {of_packs / packs * -(-BILLION // BLOCKS_OF_PACK):,.0f}")
        look(path, given.rows)


if __name__ == "__main__":
    main()
