"""Forget many keys in a store of many rows and nights: seconds, and a search of every file.

    python -m tests.benchmarks.forgetting [--rows N] [--nights K] [--keys M] [--folder F] [--tiny]

A table of N rows with M canaries (a unique key, text and number each) is explained on K nights, whose
cubes and rows are all kept; 1 % of the rows change each night.  Then the keys are forgotten.  A search
that decodes every file of the store must find all canaries before and none after; the values of all
other rows must keep their bits, the counts of blocks must be those of the rows left, and `dshap verify`
must find nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from dshap.core.places import place_of
from dshap.cube.blocks import CubeArrays, finished_blocks
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


class Watch:
    """Seconds and processor seconds since it was made, in words."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.began = _processor_seconds()

    def __str__(self) -> str:
        seconds = time.perf_counter() - self.started
        cores = _processor_seconds() - self.began
        return f"{seconds:.1f} s, {cores:.1f} core s, load average {os.getloadavg()[0]:.1f}"


def _processor_seconds() -> float:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in usages)


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(folder: Path, n_rows: int, n_nights: int, n_keys: int) -> None:
    """Print what was found, and the seconds of each part."""
    tile = max(n_rows // 50, 5)
    more = NIGHTLY.replace("[incremental]", "[worker]\ncores = 1\n[incremental]")
    shop = Shop(folder, more, n_rows=n_rows, tile=tile, background=20)
    kept = shop.job.read_text().replace("[job]", f"[job]\nkeep_runs = {n_nights + 1}", 1)
    shop.job.write_text(kept)
    first = table(n_rows, every=n_rows // n_keys)
    watch = Watch()
    for night in range(n_nights):
        frame = first.copy()
        changed = np.arange(night, n_rows, 100)
        frame.loc[changed, "b"] += night
        shop.night(frame)
        print(f"night {night + 1} of {n_rows:,} rows: {watch} since the first", flush=True)
    print(f"peak {_peak_mib():,.0f} MiB, store {_bytes_in(shop.store) / 2**30:.2f} GiB", flush=True)
    wanted = canaries(frame)
    watch = Watch()
    before = found_in(shop.store, wanted)
    seen = set().union(*before.values())
    print(
        f"before: {len(before)} files have canaries, {len(seen):,} different ones ({watch})",
        flush=True,
    )
    assert seen >= wanted.keys | wanted.texts | wanted.numbers
    keys = frame[has_canary(frame)].id.tolist()
    gone = {name: is_gone(path, keys) for name, path in all_cubes_in(place_of(shop.store)).items()}
    digests = digests_of(shop.store, gone)
    file = folder / "keys.txt"
    file.write_text("\n".join(keys))
    watch = Watch()
    done = forget_keys(shop.store, file=str(file))
    print(f"{len(keys):,} keys forgotten of {len(gone)} cubes: {watch}", flush=True)
    print(f"{done}\npeak {_peak_mib():,.0f} MiB", flush=True)
    watch = Watch()
    after = found_in(shop.store, wanted)
    assert after == {}, after
    assert not any(verify_job_store(place_of(shop.store)).values())
    assert digests_of(shop.store, gone) == digests
    assert_counts(shop.store, gone)
    print(
        "after: no file has one; verify finds nothing; all other rows have their bits, and counts are "
        f"those of the rows left ({watch})"
    )
    left = frame[~has_canary(frame)]
    watch = Watch()
    shop.night(left)
    print(f"the next night, by a new method: {watch}")


def _bytes_in(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def is_gone(path: Any, keys: list[str]) -> Any:
    """(n,): the rows of a cube with one of these keys."""
    cube = CubeArrays(path)
    found = cube.rows(cube.keys, slice(0, cube.n_rows))["id"]
    return np.isin(found.tolist(), keys)


def digests_of(store: Path, gone: dict[str, Any]) -> dict[tuple[str, str], str]:
    """(cube, variable) -> a digest of the values of the rows that are not gone."""
    found = {}
    for name, path in all_cubes_in(place_of(store)).items():
        cube = CubeArrays(path)
        rows = slice(0, cube.n_rows)
        for variable in ("attribution", "prediction", "status"):
            values = cube.read_rows(variable, rows)
            found[name, variable] = _digest(values[~gone[name]])
        others = cube.rows(cube.keys, rows) | cube.rows(cube.columns, rows)
        for variable, values in others.items():
            found[name, variable] = _digest(values[~gone[name]])
    return found


def _digest(values: Any) -> str:
    if values.dtype.kind == "T":
        return hashlib.sha256("\0".join(values.tolist()).encode()).hexdigest()
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def assert_counts(store: Path, gone: dict[str, Any]) -> None:
    """Assert that each block counts the rows that are left in it."""
    for name, path in all_cubes_in(place_of(store)).items():
        for block in finished_blocks(path):
            n_left = int(np.count_nonzero(~gone[name][block.start : block.stop]))
            assert block.summary["count"] == n_left, (name, block.start)


if __name__ == "__main__":
    main()
