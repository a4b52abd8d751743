"""The notebooks with their outputs: each is run once for the same content, two at a time."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, CellExecutionError, DeadKernelError
from traitlets.config import Config

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "notebooks"
CACHE = ROOT / "build" / "notebooks"
"""The folder of the notebooks with their outputs, in which their kernels run."""
MATERIALS = ("constraints.txt", "workflows/data/*.parquet")
"""Files beside the package that outputs depend on."""
AT_ONCE = 2
"""The notebooks that run at the same time."""
CELL_S = 600
"""The most seconds of a cell."""
START_S = 300
"""The most seconds until a kernel answers, on a busy machine."""
OTHERS = {".pyc", ".nbi", ".nbc"}
"""Suffixes of compiled files, which a folder of sources may have."""


class FailedNotebooksError(Exception):
    """Cells failed; the text has a line for each, with its notebook and the error."""


def executed(paths: Sequence[Path]) -> list[nbformat.NotebookNode]:
    """The notebooks with their outputs; those that are not in the cache are run and put there.

    All of them are run, also after a cell that failed; then a `FailedNotebooksError` is raised.
    """
    missing = [path for path in paths if cached(path) is None]
    started = time.perf_counter()
    failed = asyncio.run(_run_all(missing))
    if missing:
        seconds = time.perf_counter() - started
        print(f"{len(missing)} of {len(paths)} notebooks were run in {seconds:.0f} s", flush=True)
    if failed:
        raise FailedNotebooksError("\n".join(map(str, failed)))
    return [nbformat.read(_kept(path), as_version=4) for path in paths]


def cached(path: Path) -> nbformat.NotebookNode | None:
    """The notebook with its outputs, if it was run with this content."""
    if not _kept(path).exists():
        return None
    found = nbformat.read(_kept(path), as_version=4)
    return found if found.metadata.get("content") == digest_of(path) else None


def run(path: Path) -> nbformat.NotebookNode:
    """Run a notebook and put it into the cache.

    A cell that fails raises a `FailedNotebooksError`.
    """
    return asyncio.run(_run(path))


async def _run_all(paths: Sequence[Path]) -> list[FailedNotebooksError]:
    """Run notebooks, so many at once; return the failures."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(path: Path) -> None:
        async with places:
            started = time.perf_counter()
            await _run(path)
            print(f"{path.name}: {time.perf_counter() - started:.1f} s", flush=True)

    ended = await asyncio.gather(*map(one, paths), return_exceptions=True)
    for each in ended:
        if isinstance(each, BaseException) and not isinstance(each, FailedNotebooksError):
            raise each
    return [each for each in ended if isinstance(each, FailedNotebooksError)]


async def _run(path: Path) -> nbformat.NotebookNode:
    CACHE.mkdir(parents=True, exist_ok=True)
    notebook = jupytext.read(path)
    content = digest_of(path)
    begun = []
    client = NotebookClient(
        notebook,
        timeout=CELL_S,
        resources={"metadata": {"path": str(CACHE)}},
        startup_timeout=START_S,
        config=Config({"KernelManager": {"transport_encryption": "auto"}}),
        on_notebook_start=end_by_signals,
        on_cell_start=lambda cell, cell_index: begun.append(cell_index),
    )
    threads = str(max(1, (os.cpu_count() or 1) // AT_ONCE))
    try:
        await client.async_execute(env={**os.environ, "OMP_NUM_THREADS": threads})
    except (CellControlSignal, DeadKernelError) as error:
        raise FailedNotebooksError(
            _failure(path, notebook, max(begun, default=0), error)
        ) from error
    notebook.metadata["content"] = content
    nbformat.write(notebook, _kept(path))
    return notebook


def end_by_signals(notebook: nbformat.NotebookNode) -> None:
    """Let Ctrl-C end the run: by nbclient it ends one kernel, and the next notebook begins."""
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.remove_signal_handler(each)


def _failure(path: Path, notebook: nbformat.NotebookNode, index: int, error: Exception) -> str:
    """The notebook, the number and the first line of its cell, and the error, in one line."""
    source = notebook.cells[index].source
    before = [cell for cell in notebook.cells[:index] if cell.cell_type == "code"]
    text = str(error).strip().splitlines()
    what = text[-1] if text else type(error).__name__
    if isinstance(error, CellExecutionError):
        what = f"{error.ename}: {error.evalue}"
    first = source.splitlines()[0]
    return f"{path.name}, code cell {len(before) + 1}, which begins with {first!r}: {what}"


def _kept(path: Path) -> Path:
    return CACHE / f"{path.stem}.ipynb"


def digest_of(path: Path) -> str:
    """The digest of all that the outputs of a notebook depend on."""
    made = hashlib.blake2b(materials().encode(), digest_size=16)
    made.update(path.read_bytes())
    return made.hexdigest()


@cache
def materials() -> str:
    """The digest of what all notebooks share: Python, the package, versions and data."""
    made = hashlib.blake2b(f"{platform.python_implementation()} {sys.version}".encode())
    for file in material_files():
        made.update(file.relative_to(ROOT).as_posix().encode())
        made.update(hashlib.blake2b(file.read_bytes()).digest())
    return made.hexdigest()


def material_files() -> Iterator[Path]:
    """The files that the outputs of all notebooks depend on."""
    for path in sorted((ROOT / "dshap").rglob("*")):
        if path.is_file() and path.suffix not in OTHERS:
            yield path
    for pattern in MATERIALS:
        yield from sorted(ROOT.glob(pattern))
