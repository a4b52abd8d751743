"""Stores altered at random: how many alterations are read in silence, end in a traceback, or are
not mended.

    python -m tests.benchmarks.alterations [--tiny] [--n 1000] [--pairs 300] [--seed 0]

A file of a finished or of a half-finished store (data, keys, names, receipts, states, plan, notes,
metadata; of one explanation, of a job with a fitted model, of a prepared value function) gets a
flipped bit, is cut off, is removed, takes the content of another file of its kind, or gives its
place to a folder or to a link that leads nowhere.  Then: `verify` names something; readers, and the
same run again, end in numbers or in one line; `verify --repair` and the same run leave every file
as the undisturbed run does, byte for byte.  Of a half-finished store an alteration may be harmless:
what was lost is what the run makes anyway.

Then pairs of alterations of one store: one `verify --repair` and one run leave every file as it
was.

At the end the seconds of `verify` on a made-up cube of 1.8 million rows and 8 columns (`--tiny`:
20,000).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shutil
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import dshap
from dshap import designs
from dshap.core.blocks import Attribution, RowBlock, Status
from dshap.core.errors import DshapError
from dshap.cube import (
    CubeLayout,
    CubeWriter,
    create_cube,
    cube_paths,
    mark_finished,
    repair,
    store_parts,
    verify_cube,
)
from dshap.engine import SilentProgress
from dshap.jobs import load_job, run_job
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.values import KernelObservational, Marginal
from tests.jobs.job_files import changed, small_table, write_job

N_ROWS, D, TILE = 120, 4, 40
KINDS = ("bit", "cut", "removed", "swapped", "folder", "link")


@dataclass
class Case:
    """A store, how it is made, and what it holds when it is whole."""

    name: str
    run: Callable[[Path], object]
    source: Path
    """The store to alter, finished or half-finished."""
    whole: dict[str, str] = field(default_factory=dict)
    """file -> digest, of the finished store."""


def table() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(3).normal(size=(N_ROWS, D))
    return x, x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + x[:, 3]


def predict(x: np.ndarray) -> np.ndarray:
    return x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + x[:, 3]


def marginal(store: Path) -> object:
    """Sampled coalitions with a pilot, standard errors, text keys and kept rows."""
    x, _ = table()
    names = np.array([f"row {i}" for i in range(N_ROWS)], dtype=np.dtypes.StringDType())
    options = {"instance_tile": TILE, "coalition_tile": 4, "keep_rows": True, "units": "kW"}
    design = designs.kriging(D, 16, seed=1)
    return dshap.explain(
        Marginal(predict, x[:8]), x, design=design, store=store, key={"name": names}, **options
    )


def observational(store: Path) -> object:
    x, y = table()
    model = KernelRidge(RBF(2.0), Nystrom(20), penalty=1e-6).fit(x, y)
    value = KernelObservational(model, x, Nystrom(16), penalty=1e-3)
    return dshap.explain(
        value,
        x,
        design=designs.exact(D),
        store=store,
        instance_tile=TILE,
        coalition_tile=6,
        row_span=64,
    )


def prepared(store: Path) -> object:
    x, y = table()
    model = KernelRidge(RBF(2.0), Nystrom(20), penalty=1e-6).fit(x, y)
    value = KernelObservational(model, x, Nystrom(16), penalty=1e-3)
    return dshap.prepare(value, None, designs.exact(D), store, coalition_tile=6, row_span=64)


def job(store: Path) -> object:
    """Two explanations of a model that the job fits, MSE_v of one."""
    table = store.parent / "table.parquet"
    if not table.exists():
        small_table().to_parquet(table)
    changes = {
        "job.store": str(store),
        "source.path": str(table),
        "explain.1.quality_rows": 20,
        "model.holdout": 0.2,
    }
    file = write_job(store.parent, changed(*changes.items()))
    return run_job(load_job(file), SilentProgress()).raise_on_failed()


def half_finished(store: Path) -> None:
    """As a kill leaves it: a block without its receipt, a state and the list of the end not
    there."""
    (store / "state" / "finished.json").unlink()
    (store / "state" / "receipts" / "block-00000001.json").unlink()
    for state in sorted((store / "state").glob("moments-*.npz"))[:1]:
        state.unlink()


def digests(store: Path) -> dict[str, str]:
    """file -> digest of its content; a link tells where it leads."""
    found = {}
    for path in sorted(store.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(store))] = f"link to {os.readlink(path)}"
        elif path.is_file():
            found[str(path.relative_to(store))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def cases(folder: Path) -> list[Case]:
    """Finished and half-finished stores of every kind."""
    found = []
    for run in (marginal, observational, prepared, job):
        path = folder / run.__name__
        run(path)
        found.append(Case(run.__name__, run, path, digests(path)))
        if run in (marginal, observational):
            half = folder / f"half-{run.__name__}"
            shutil.copytree(path, half)
            half_finished(half)
            found.append(Case(f"{run.__name__}, half-finished", run, half, found[-1].whole))
    return found


def alter(store: Path, rng: np.random.Generator) -> str:
    """One alteration of one file; says which.  Kinds of files are equally likely, then files."""
    files = [file for file in sorted(store.rglob("*")) if file.is_file() and file.stat().st_size]
    kinds: dict[str, list[Path]] = {}
    for file in files:
        kinds.setdefault(kind_of(file.relative_to(store)), []).append(file)
    of_kind = kinds[sorted(kinds)[rng.integers(len(kinds))]]
    before = digests(store)
    file, kind = of_kind[rng.integers(len(of_kind))], KINDS[rng.integers(len(KINDS))]
    content = bytearray(file.read_bytes())
    position = int(rng.integers(len(content)))
    if kind == "bit":
        content[position] ^= 1 << int(rng.integers(8))
        file.write_bytes(content)
    elif kind == "cut":
        file.write_bytes(content[:position])
    elif kind == "swapped":
        file.write_bytes(of_kind[rng.integers(len(of_kind))].read_bytes())
    else:
        file.unlink()
    if kind == "folder":
        (file / "inside").mkdir(parents=True)
    elif kind == "link":
        file.symlink_to("nowhere")
    if digests(store) == before:
        return alter(store, rng)  # the other file held the same
    return f"{file.relative_to(store)} {kind} {position}"


def kind_of(file: Path) -> str:
    """metadata, receipts, notes, created, a kind of state, or the array whose chunk it is."""
    if file.name == "zarr.json":
        return "metadata"
    if "state" in file.parts:
        inside = file.parts[file.parts.index("state") + 1 :]
        return inside[0] if len(inside) > 1 else file.name.split("-")[0]
    return str(file).split("/c.")[0].split("/c/")[0]


def outcome(case: Case, store: Path) -> list[str]:
    """What happened: "named" or "unseen", then "mended" or "not mended"; a traceback is raised."""
    problems = [own for path in store_parts(store).values() for own in verify_cube(path)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in cube_paths(store):
            reads(path)
        with contextlib.suppress(DshapError):
            case.run(store)
        repaired(store)
        case.run(store)
    return ["named" if problems else "unseen", "mended" if is_whole(case, store) else "not mended"]


def repaired(store: Path) -> None:
    """What `dshap verify --repair` does."""
    for path in store_parts(store).values():
        repair(path)


def is_whole(case: Case, store: Path) -> bool:
    """Every file is as the undisturbed run left it, and nothing is found."""
    left = [own for path in store_parts(store).values() for own in verify_cube(path)]
    return digests(store) == case.whole and not left


def reads(store: Path) -> None:
    """Readers give numbers or one line."""
    for read in (dshap.open_cube, dshap.cube.cube_status, dshap.cube.feature_ranking):
        try:
            read(store)
        except DshapError as error:
            assert "\n" not in f"{error}", error


def sweep(n: int, seed: int, folder: Path, show: Callable[[str], None] = print) -> Counter[str]:
    """Counts of outcomes of n alterations, the same for the same seed."""
    rng, made, counts = np.random.default_rng(seed), cases(folder), Counter[str]()
    for _ in range(n):
        case = made[rng.integers(len(made))]
        store = folder / "altered"
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(case.source, store)
        what = alter(store, rng)
        try:
            ended = outcome(case, store)
        except Exception as error:
            ended = ["traceback" if not isinstance(error, DshapError) else "stopped"]
            show(f"{case.name}: {what}: {type(error).__name__}: {error}")
        is_half = "half" in case.name
        if ended == ["unseen", "mended"] and is_half:
            ended = ["harmless", "mended"]
        if set(ended) & {"unseen", "not mended"}:
            show(f"{case.name}: {what}: {', '.join(ended)}")
        counts.update(ended)
    return counts


def altered_pairs(
    n: int, seed: int, folder: Path, show: Callable[[str], None] = print
) -> Counter[str]:
    """Counts of outcomes of n pairs of alterations, each mended by one repair and one run."""
    rng, made, counts = np.random.default_rng(seed), cases(folder), Counter[str]()
    for _ in range(n):
        case = made[rng.integers(len(made))]
        store = folder / "altered"
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(case.source, store)
        what = [alter(store, rng), alter(store, rng)]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                repaired(store)
                case.run(store)
            ended = "mended" if is_whole(case, store) else "not mended"
        except Exception as error:
            ended = "traceback" if not isinstance(error, DshapError) else "stopped"
            what.append(f"{type(error).__name__}: {error}")
        if ended != "mended":
            show(f"{case.name}: {'; '.join(what)}: {ended}")
        counts[ended] += 1
    return counts


def big_cube(path: Path, n_rows: int, tile: int = 65_536) -> None:
    """A cube of made-up attributions of 8 columns."""
    layout = CubeLayout(n_rows, tuple(f"x{i}" for i in range(8)), ("y",), tile, 8_192, keys={"id": "int64"},
                        n_replicates=8, run={"digest": "made", "fingerprint": {}})  # fmt: skip
    create_cube(path, layout)
    writer, base = CubeWriter(path, layout, "made"), np.zeros(1)
    writer.write_base(base)
    for block in range(layout.n_blocks):
        start, stop = block * tile, min((block + 1) * tile, n_rows)
        rng = np.random.default_rng(block)
        phi = rng.normal(size=(stop - start, 8, 1))
        rows = RowBlock(start, phi[..., 0], np.ones(len(phi), bool), {"id": np.arange(start, stop)})
        replicates = phi + rng.normal(size=(8, *phi.shape))
        status = np.full(len(phi), Status.OK, np.int8)
        writer.write(
            block, rows, Attribution(phi, base, phi.sum(axis=1), status, replicates=replicates)
        )
    mark_finished(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--n", type=int)
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, started = Path(name), time.monotonic()
        n = (20 if given.tiny else 1_000) if given.n is None else given.n
        counts = sweep(n, given.seed, folder / "single")
        print(f"{n} alterations: {dict(counts)} in {time.monotonic() - started:.0f} s")
        started = time.monotonic()
        n = (10 if given.tiny else 300) if given.pairs is None else given.pairs
        pairs = altered_pairs(n, given.seed, folder / "pairs")
        print(f"{n} pairs: {dict(pairs)} in {time.monotonic() - started:.0f} s")
        n_rows = 20_000 if given.tiny else 1_800_000
        big_cube(folder / "big", n_rows)
        started = time.monotonic()
        assert verify_cube(folder / "big") == []
        size = sum(file.stat().st_size for file in (folder / "big").rglob("*") if file.is_file())
        print(
            f"verify of {n_rows:,} rows x 8, {size / 1e6:,.0f} MB: "
            f"{time.monotonic() - started:.1f} s"
        )


if __name__ == "__main__":
    main()
