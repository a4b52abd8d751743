"""Two million string keys: opening the cube does not read them."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from dshap.core.blocks import Attribution, RowBlock
from dshap.cube import CubeLayout, CubeWriter, create_cube

N_ROWS, TILE = 2_000_000, 262_144
LIMIT_MB = 100
"""As an index the same keys took 413 MB; the opened cube alone is far below."""

MEASURE = """
    import sys
    import dask.array, xarray, zarr
    from dshap import open_cube
    def megabytes(what):
        lines = open("/proc/self/status").read().splitlines()
        return int(next(line for line in lines if line.startswith(what)).split()[1]) / 1024
    before = megabytes("VmRSS")  # not VmHWM: a peak while importing would hide as much of what follows
    cube = open_cube(sys.argv[1])
    after = megabytes("VmHWM")
    assert cube.sizes["instance"] == 2_000_000 and "id" in cube.coords
    row = cube.isel(instance=1_234_567)
    assert str(row.id.values) == "customer-0001234567" and float(row.attribution[1, 0]) == 1_234_567.0
    print(after - before)
"""


@pytest.mark.slow
def test_opening_two_million_string_keys_costs_little(tmp_path):
    path = tmp_path / "cube.zarr"
    layout = CubeLayout(
        N_ROWS, ("a", "b"), ("y",), TILE, TILE // 8, keys={"id": "string"}, run={"digest": "d"}
    )
    create_cube(path, layout)
    writer = CubeWriter(path, layout, "d")
    writer.write_base(np.zeros(1))
    for tile in range(layout.n_blocks):
        rows = np.arange(tile * TILE, min((tile + 1) * TILE, N_ROWS))
        keys = np.char.mod("customer-%010d", rows).astype(np.dtypes.StringDType())
        phi = np.stack([np.ones(len(rows)), rows.astype(float)], axis=1)[..., None]
        block = RowBlock(int(rows[0]), phi[..., 0], np.ones(len(rows), dtype=bool), {"id": keys})
        writer.write(
            tile, block, Attribution(phi, np.zeros(1), phi.sum(axis=1), np.ones(len(rows), np.int8))
        )
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(MEASURE), str(path)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    print(f"open_cube of 2,000,000 string keys: {float(run.stdout):.1f} MB")
    assert float(run.stdout) < LIMIT_MB
