"""Trees against a whole table: woodelf's headline size, 3 million rows × 127 columns against 5 million.

The published figure of woodelf is 162 s of processor time (pairs 262 s).  Tables are made up in that
shape: normal columns, of which every fourth holds few values, in Parquet files of single precision.
The model has 100 XGBoost trees of depth 6.  With `--peer` both sides get arrays of a tenth of the
size in one process, in turn; else all rows go through two workers of one thread into a store.

Usage: python -m tests.benchmarks.tree_headline [--peer] [--rows N] [--background N] [--tiny]
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import dshap
from dshap.trees.exact import Division, ExactTrees
from dshap.values import Trees
from tests.benchmarks.peers import machine
from tests.benchmarks.tree_engine import timed

D = 127
NAMES = [f"x{j}" for j in range(D)]
ROWS, BACKGROUND = 3_000_000, 5_000_000
FITTED = 50_000
BATCH = 100_000
REPEATS = 3


def made_up(n: int, seed: int) -> Any:
    """Rows (n, 127) in single precision."""
    x = np.random.default_rng(seed).normal(size=(n, D)).astype(np.float32)
    x[:, ::4] = np.round(x[:, ::4])
    return x


def fitted(n: int) -> Any:
    import xgboost

    x = made_up(n, 0)
    y = np.sin(x[:, 0]) * x[:, 1] + x[:, 2] * x[:, 3] + 0.3 * x[:, 4:60].sum(axis=1)
    model = xgboost.XGBRegressor(n_estimators=100, max_depth=6, learning_rate=0.1, n_jobs=1)
    return model.fit(x, y)


def write(path: Path, n: int, seed: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.float32()) for name in NAMES])
    with pq.ParquetWriter(path, schema, compression="none") as file:
        for start in range(0, n, BATCH):
            x = made_up(min(BATCH, n - start), seed + start)
            file.write_table(pa.table([x[:, j] for j in range(D)], schema=schema))


def whole(n: int, n_background: int, n_fitted: int) -> None:
    """All rows into a store, by two workers; seconds, processor seconds and peaks."""
    from dshap.engine import DaskExecutor, local_client, shut_down
    from dshap.engine.peaks import PeakMeter, on_workers

    folder = Path(tempfile.mkdtemp())
    model = fitted(n_fitted)
    write(folder / "rows.parquet", n, 1)
    write(folder / "background.parquet", n_background, 2)
    client = local_client(2, memory_limit="2GiB")
    try:
        executor = DaskExecutor(client)
        meter = PeakMeter()
        meter.reset(executor)
        before = sum(on_workers(executor, time.process_time)) + time.process_time()
        start = time.perf_counter()
        cube = dshap.explain(
            Trees(model, folder / "background.parquet", feature_names=NAMES),
            folder / "rows.parquet",
            store=folder / "store",
            client=client,
        )
        seconds = time.perf_counter() - start
        used = sum(on_workers(executor, time.process_time)) + time.process_time() - before
        print(f"{n:,} rows against {n_background:,}: {seconds:,.1f} s, {used:,.1f} s of a core")
        peaks = [(peak or 0) >> 20 for peak in (meter.worker(executor), meter.client())]
        print("peak of the larger worker {:,} MiB, of the client {:,} MiB".format(*peaks))
        print(f"rows that are not ok: {int((cube.status != 1).sum())}")
        x = made_up(min(BATCH, n), 1)[:1000]
        total = cube.attribution[: len(x)].sum("feature") + cube.base_value
        off = np.abs(total.values[:, 0] - model.predict(x)).max()
        print(f"largest difference of Σφ + base from predict, 1,000 rows: {off:.1e}")
    finally:
        shut_down(client)
        shutil.rmtree(folder)


def beside(n: int, n_background: int, n_fitted: int) -> None:
    """Both sides in one process, in turn, with everything: counts, tables, rows."""
    import pandas as pd
    from woodelf import WoodelfExplainer

    model = fitted(n_fitted)
    rows, background = made_up(n, 1), made_up(n_background, 2)

    def ours() -> Any:
        trees = Trees(model).model.trees
        division = Division.of(trees, np.arange(D), is_counted=True)
        counted = division.counted(background, np.ones(n_background, np.int64))
        return ExactTrees.of(trees, np.arange(D), counted).values(rows)[..., 0]

    def theirs() -> Any:
        frame = pd.DataFrame(background, columns=NAMES)
        explained = pd.DataFrame(rows, columns=NAMES)
        return np.asarray(WoodelfExplainer(model, frame).shap_values(explained))

    found, wanted = ours(), theirs()
    off = np.abs(found - wanted).max() / np.abs(wanted).max()
    seconds = [(timed(ours), timed(theirs)) for _ in range(REPEATS)]
    own, other = (median(each) for each in zip(*seconds, strict=True))
    print(
        f"{n:,} rows against {n_background:,}, seconds of a core: dshap {own:.1f}, woodelf {other:.1f}"
    )
    print(f"ratio {own / other:.3f}; largest difference {off:.1e} of the largest value")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", action="store_true", help="a tenth of the size, beside woodelf")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--background", type=int, default=BACKGROUND)
    parser.add_argument("--tiny", action="store_true", help="thousands of rows")
    given = parser.parse_args()
    print(machine())
    scale = 1_000 if given.tiny else 1
    n, n_background = given.rows // scale, given.background // scale
    n_fitted = min(FITTED, n)
    if given.peer:
        beside(n // 10, n_background // 10, n_fitted)
    else:
        whole(n, n_background, n_fitted)


if __name__ == "__main__":
    main()
