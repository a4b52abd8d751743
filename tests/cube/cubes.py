"""Small cubes for tests: a layout, blocks of rows, attributions, all from a seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dshap.core.blocks import Attribution, RowBlock, Status
from dshap.cube import CubeLayout, CubeWriter, create_cube, mark_finished

TILE, CHUNK, N_ROWS = 8, 4, 21
"""Three blocks, the last one of five rows."""
KEYS = {
    "int64": lambda n: np.arange(n, dtype=np.int64) * 3 + 5,
    "string": lambda n: np.array(
        [f"zeile-ü{i}-雪" for i in range(n)], dtype=np.dtypes.StringDType()
    ),
    "datetime64[ns]": lambda n: (
        np.datetime64("2024-02-28T23:00", "ns") + np.arange(n) * np.timedelta64(30, "m")
    ),
}


def layout_of(n_rows: int = N_ROWS, **change) -> CubeLayout:
    given = {
        "n_rows": n_rows,
        "players": ("a", "b", "c"),
        "outputs": ("y", "z"),
        "tile": TILE,
        "chunk": CHUNK,
        "units": "kW",
        "keys": {"id": "int64"},
        "run": {"digest": "d1", "fingerprint": {"value": {"penalty": 0.1}}},
    }
    return CubeLayout(**{**given, **change})


def block_of(
    layout: CubeLayout, tile: int, skipped: tuple[int, ...] = ()
) -> tuple[RowBlock, Attribution]:
    """Rows and attributions of one tile, always the same; `skipped` are positions in the block."""
    rng = np.random.default_rng([9, tile])
    start, stop = tile * layout.tile, min((tile + 1) * layout.tile, layout.n_rows)
    n, d, k = stop - start, len(layout.players), len(layout.outputs)
    is_ok = ~np.isin(np.arange(n), skipped)
    phi = rng.normal(size=(n, d, k))[is_ok]
    base = np.arange(1.0, k + 1)
    keys = {name: KEYS[kind](layout.n_rows)[start:stop] for name, kind in layout.keys.items()}
    columns = {name: np.arange(start, stop).astype(dtype) for name, dtype in layout.columns.items()}
    block = RowBlock(start, rng.normal(size=(n, d)), is_ok, keys, columns=columns)
    return block, Attribution(
        phi, base, phi.sum(axis=1) + base, np.full(len(phi), Status.OK, np.int8)
    )


def make_cube(
    path: Path, *, tiles=None, skipped: tuple[int, ...] = (), **change
) -> tuple[CubeLayout, CubeWriter]:
    """A cube with these tiles written (all where None)."""
    layout = layout_of(**change)
    create_cube(path, layout)
    writer = CubeWriter(path, layout, layout.run["digest"])
    writer.write_base(np.arange(1.0, len(layout.outputs) + 1))
    for tile in range(layout.n_blocks) if tiles is None else tiles:
        writer.write(tile, *block_of(layout, tile, skipped))
    if tiles is None:
        mark_finished(path)
    return layout, writer


def phi_of(layout: CubeLayout, skipped: tuple[int, ...] = ()) -> np.ndarray:
    """(n, d, k) of the whole cube, NaN where skipped."""
    parts = []
    for tile in range(layout.n_blocks):
        block, attribution = block_of(layout, tile, skipped)
        part = np.full((len(block.x), *attribution.phi.shape[1:]), np.nan)
        part[block.is_ok] = attribution.phi
        parts.append(part)
    return np.concatenate(parts)


def bytes_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below a folder: its bytes and its time of change."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
