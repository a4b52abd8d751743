"""Forget many keys in a store of many rows and nights: seconds, and a search of every file.

    python -m tests.benchmarks.forgetting [--rows N] [--nights K] [--keys M] [--folder F] [--tiny]

A table of N rows with M canaries (a unique key, text and number each) is explained on K nights; 1 % of
the rows change each night.  Then the keys are forgotten.  A search that decodes every file of the
store must find all canaries before and none after; the values of all other rows must keep their
bits, and `dshap verify` must find nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from dshap.core.places import place_of
from dshap.cube.blocks import CubeArrays
from dshap.erasure.forgetting import forget_keys
from dshap.erasure.stored_cubes import all_cubes_in
from dshap.jobs.verification import verify_job_store
from tests.erasure.canaries import found_in
from tests.erasure.shops import NIGHTLY, Shop, canaries, has_canary, table

TINY = {"rows": 400, "nights": 2, "keys": 20}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--nights", type=int, default=5)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--tiny", action="store_true")
    given = parser.parse_args()
    if given.tiny:
        vars(given).update(TINY)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        measure(Path(folder), given.rows, given.nights, given.keys)


def measure(folder: Path, n_rows: int, n_nights: int, n_keys: int) -> None:
    """Print what was found, and the seconds of each part."""
    tile = max(n_rows // 50, 5)
    more = NIGHTLY.replace("[incremental]", "[worker]\ncores = 1\n[incremental]")
    shop = Shop(folder, more, n_rows=n_rows, tile=tile, background=20)
    started = time.perf_counter()
    for night in range(n_nights):
        frame = table(n_rows, every=n_rows // n_keys)
        changed = np.arange(night, n_rows, 100)
        frame.loc[changed, "b"] += night
        shop.night(frame)
    print(
        f"{n_nights} nights of {n_rows:,} rows: {time.perf_counter() - started:.1f} s", flush=True
    )
    wanted = canaries(frame)
    before = found_in(shop.store, wanted)
    seen = set().union(*before.values())
    print(f"before: {len(before)} files have canaries, {len(seen):,} different ones", flush=True)
    assert seen >= wanted.keys | wanted.texts | wanted.numbers
    values = values_of(shop.store)
    keys = frame[has_canary(frame)].id.tolist()
    file = folder / "keys.txt"
    file.write_text("\n".join(keys))
    started = time.perf_counter()
    done = forget_keys(shop.store, file=str(file))
    print(done)
    print(f"{len(keys):,} keys forgotten in {time.perf_counter() - started:.1f} s", flush=True)
    after = found_in(shop.store, wanted)
    assert after == {}, after
    assert not any(verify_job_store(place_of(shop.store)).values())
    for name, now in values_of(shop.store).items():
        is_gone = np.isin(values[name]["id"].tolist(), keys)
        for variable, old in values[name].items():
            assert _bits(old[~is_gone]) == _bits(now[variable][~is_gone]), (name, variable)
    print("after: no file has one; verify finds nothing; all other rows have their bits")
    left = frame[~has_canary(frame)]
    started = time.perf_counter()
    shop.night(left)
    print(f"the next night, by a new method: {time.perf_counter() - started:.1f} s")


def values_of(store: Path) -> dict[str, dict[str, Any]]:
    """Cube -> variable -> the values of all rows."""
    found = {}
    for name, path in all_cubes_in(place_of(store)).items():
        cube = CubeArrays(path)
        rows = slice(0, cube.n_rows)
        names = ("attribution", "prediction", "status")
        values = {each: cube.read_rows(each, rows) for each in names}
        found[name] = values | cube.rows(cube.keys, rows) | cube.rows(cube.columns, rows)
    return found


def _bits(values: Any) -> Any:
    if values.dtype.kind == "T":
        return values.tolist()
    return values.tobytes()


if __name__ == "__main__":
    main()
