"""How long the page of a store takes, how much memory, and how large it is, on made-up cubes.

    python -m tests.benchmarks.pages [--rows 1000000] [--columns 40] [--explanations 2] [--outputs 1]
        [--runs 1] [--all-rows] [--tiny]

The cubes have attributions of known functions of normal columns, which are kept; no model runs.
Making them is not counted; with `--store` they stay, and a second call measures the page in a fresh
process.  `--runs` writes so many runs of a job, of which the last is shown.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from dshap.core.blocks import Attribution, RowBlock, Status
from dshap.cube import CubeLayout, CubeWriter, create_cube, mark_finished, set_current
from dshap.report import page

TILE = 16_384
SCALES = {1: "log-odds", 3: "score"}


def make_cube(path: Path, n_rows: int, n_columns: int, n_outputs: int, seed: int) -> None:
    """A finished cube whose columns are normal numbers, whole numbers, and codes of categories."""
    names = tuple(f"column_{place:02}" for place in range(n_columns))
    scale = SCALES.get(n_outputs, "score")
    layout = CubeLayout(
        n_rows=n_rows,
        players=names,
        outputs=tuple(f"{scale} of class {place}" for place in range(n_outputs)),
        tile=TILE,
        chunk=TILE // 4,
        units="1",
        scale=scale,
        keys={"id": "int64"},
        columns=dict.fromkeys(names, "float32"),
        run={
            "digest": f"d{seed}",
            "fingerprint": {
                "value": {"value": "trees", "absent": "path-dependent"},
                "design": {"design": "closed_form"},
                "rows": {"digest": "rows"},
                "predicted": [f"{scale} of class {place}" for place in range(n_outputs)],
            },
        },
    )
    create_cube(path, layout)
    writer = CubeWriter(path, layout, layout.run["digest"])
    base = np.linspace(-1.0, 1.0, n_outputs)
    writer.write_base(base)
    for tile in range(layout.n_blocks):
        start, stop = tile * TILE, min((tile + 1) * TILE, n_rows)
        phi, x = _rows(stop - start, n_columns, n_outputs, [seed, tile])
        keys = {"id": np.arange(start, stop, dtype=np.int64) + 1_000_000}
        columns = {name: x[:, place].astype(np.float32) for place, name in enumerate(names)}
        block = RowBlock(start, x, np.ones(stop - start, bool), keys, columns=columns)
        status = np.full(stop - start, Status.OK, np.int8)
        writer.write(tile, block, Attribution(phi, base, phi.sum(axis=1) + base, status))
    mark_finished(path)


def _rows(
    n_rows: int, n_columns: int, n_outputs: int, seed: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Attributions (n, d, k), smaller from column to column, and the columns (n, d)."""
    x = np.random.default_rng(seed[1]).normal(size=(n_rows, n_columns))
    x[:, 1::3] = np.round(2.0 * x[:, 1::3])
    shapes = (np.tanh, np.sin, lambda column: column**2 - 1.0, lambda column: column)
    phi = np.empty((n_rows, n_columns, n_outputs))
    noise = np.random.default_rng(seed).normal(size=(n_rows, n_columns))
    for place in range(n_columns):
        effect = shapes[place % len(shapes)](x[:, place]) + 0.1 * noise[:, place]
        for output in range(n_outputs):
            sign = np.cos(1.0 + place + 2.0 * output)
            phi[:, place, output] = effect * sign / (1.0 + 0.4 * place)
    return phi, x


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=40)
    parser.add_argument("--explanations", type=int, default=2)
    parser.add_argument("--outputs", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--all-rows", action="store_true")
    parser.add_argument("--store", type=Path, help="a folder to keep the cubes in, or to use again")
    parser.add_argument("-o", type=Path, help="where the page is written")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args(given)
    if options.tiny:
        options.rows = 3_000
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or Path(folder) / "store"
        if not store.exists():
            _make_store(store, options)
        target = options.o or Path(folder) / "report.html"
        for which in ("first", "again"):  # sums over the rows are kept beside a finished cube
            began = time.process_time(), time.perf_counter()
            page(store, target, all_rows=options.all_rows)
            ended = time.process_time(), time.perf_counter()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(
                f"{which}: {options.rows:,} rows x {options.columns} columns, "
                f"{options.explanations} explanations, {options.outputs} outputs: "
                f"{ended[0] - began[0]:.1f} processor seconds, {ended[1] - began[1]:.1f} s, peak "
                f"{peak:.2f} GiB, {target.stat().st_size:,} bytes"
            )


def _make_store(store: Path, options: argparse.Namespace) -> None:
    for place in range(options.explanations):
        folder = store / f"explanation_{place}"
        if options.runs == 1:
            make_cube(folder, options.rows, options.columns, options.outputs, place)
            continue
        runs = [f"202601{day:02}T020000Z" for day in range(1, options.runs + 1)]
        for at, run in enumerate(runs):
            make_cube(
                folder / run, options.rows, options.columns, options.outputs, 100 * at + place
            )
        set_current(folder, runs[-1])


if __name__ == "__main__":
    main()
