"""Loading a cube into a folder of Parquet files: a new folder, then the link that names it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from dshap.core.addresses import is_of_bucket
from dshap.core.errors import InputError, SinkError
from dshap.core.late import pa
from dshap.core.rules import as_path
from dshap.cube.blocks import CubeArrays
from dshap.cube.creation import is_free
from dshap.sinks.ledger import LoadLine, is_loaded, refuse_later_run
from dshap.sinks.line_digests import digest_of_lines, digest_of_load
from dshap.sinks.line_removal import forget_in_files, keys_in_files
from dshap.sinks.nul import NulTexts
from dshap.sinks.records import (
    CubeFacts,
    LastLoad,
    RowHistory,
    RunDay,
    Sink,
    SinkResult,
    SourceQuery,
    Target,
    all_rows_in_words,
)
from dshap.sinks.shapes import batches_of
from dshap.sinks.table_columns import key_columns, table_schema
from dshap.storage.disk import free_bytes, make_folder, sync, sync_tree
from dshap.storage.full_disk import is_full_disk
from dshap.storage.private_folders import PRIVATE_FOLDER, clear_private_folders, private_folder
from dshap.tables.checksums import open_parquet, parquet_writer
from dshap.tables.stored_parts import count_rows_in

CURRENT = "current"
"""The link to the folder of the run that was loaded last."""
LINE = "_dshap_runs.json"
"""The record of a load, beside its files; readers of Parquet leave out names with a first `_`."""
FILE_LINES = 1_000_000
"""The number of lines after which another file begins."""


@dataclass(frozen=True)
class FolderSink(Sink):
    """A folder with Parquet files in FOLDER/RUN_ID for each load; FOLDER/current links to the last.

    The link changes in one step, so that a reader of FOLDER/current never sees half a load.
    """

    keys = ("path",)
    address = "path of a folder"
    noun = "a folder"
    writes = ("replace",)

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", as_path("path", self.path, "folder"))
        if self.table or self.schema:
            raise InputError("path is the whole address of the folder: leave table out")
        if self.text and self.shape == "reasons":
            raise InputError(
                'text = true with shape = "reasons" makes a view, and a folder of files has '
                "no views: leave text out"
            )
        super().__post_init__()

    @property
    def label(self) -> str:
        """The path of the folder."""
        return str(self.path)

    def fault_of_source(self, path: str) -> str:
        """The words for rows that are in this folder, or that contain it; else empty."""
        if not path or is_of_bucket(path):
            return ""
        home = Path(path).resolve()
        place = self.path.resolve()
        if home in (place, *place.parents) or place in home.parents:
            return (
                f"[[sink]] path = {self.path}: [source] reads its rows from {path}, and a load "
                "would mix lines with them: give the sink a folder of its own"
            )
        return ""

    def look(self, job: str, source: SourceQuery | None = None) -> Target:
        try:
            with _refusals_of_files(self):
                _last(self, job)
                there = next(each for each in (self.path, *self.path.parents) if each.exists())
                # a file is made where the load would make its first one, and removed
                with tempfile.NamedTemporaryFile(prefix=".dshap-", dir=there) as probe:
                    probe.write(b"1")
                    probe.flush()
                n_free = free_bytes(self.path)
        except (InputError, SinkError) as error:
            match error.__cause__:
                case OSError() as cause if is_full_disk(cause):
                    return Target(self, unreachable=str(error))
            return Target(self, faults=(str(error),))
        return Target(self, note=f"{n_free:,} bytes are free")

    def load(
        self,
        cube: CubeArrays,
        history: RowHistory,
        job: str,
        say: Callable[[str], None],
        day: RunDay,
    ) -> SinkResult:
        """Write a cube into FOLDER/RUN_ID, then name it by the link FOLDER/current.

        The folder of the load before stays, because readers may still have its files open; older
        ones are removed.

        Raises
        ------
        InputError
            The folder contains something else, or loads of another job.
        SinkError
            The file system refuses a step.
        """
        with _refusals_of_files(self):
            last = _last(self, job)
            refuse_later_run(self, last, history.run_id)
            alteration = _alteration(self.path, last)
            if is_loaded(last, self.form, history) and not alteration:
                return SinkResult(reason="this run was loaded before", already=True)
            say(f"{self}: loading {all_rows_in_words(alteration)}")
            nul = NulTexts(self, list(key_columns(self.lines, CubeFacts.of_cube(cube)).values()))
            line = _loaded(self, cube, history, job, day, nul, is_altered=bool(alteration))
            if nul.escaped:
                say(f"warning: {self}: {nul.escaped}")
        return SinkResult(line.n_rows, line.n_lines, reason=alteration, escaped=nul.escaped)

    def differences(
        self, cube: CubeArrays, history: RowHistory, job: str, load: LastLoad
    ) -> Iterator[str]:
        with _refusals_of_files(self):
            last = _last(self, job)
            if last is None or last.run_id != history.run_id:
                yield f"{CURRENT} does not name the load of run {history.run_id}"
                return
            digest, n_lines = digest_of_load(self, cube.path, history, as_of=load.as_of)
            schema = table_schema(self.lines, CubeFacts.of_cube(cube))
            # each file before the digest of all lines: the message can then name it
            for file in sorted((self.path / CURRENT).glob("*.parquet")):
                with contextlib.suppress(OSError, ValueError), open_parquet(file) as opened:
                    if opened.schema_arrow.equals(schema):
                        continue
                yield f"{file.name} cannot be read, or has other columns"
                return
            try:
                found = digest_of_lines(schema, _batches_in(self.path / CURRENT))
            except (OSError, ValueError) as error:
                yield f"a file cannot be read ({error})"
                return
            if found != (digest, n_lines):
                yield f"its {found[1]:,} lines are not the {n_lines:,} that were loaded"

    def forget(self, keys: Mapping[str, NDArray[Any]], job: str) -> int:
        """Write the files of each load again, without the lines of these keys.

        Raises
        ------
        SinkError
            The file system refuses a step.
        InputError
            The folder contains something else, or loads of another job.
        """
        with _refusals_of_files(self):
            if _last(self, job) is None:
                return 0
            clear_private_folders(self.path / CURRENT)
            return sum(forget_in_files(run, run / LINE, keys) for run in self._loads())

    def find_keys(self, keys: Mapping[str, NDArray[Any]], job: str) -> set[int]:
        with _refusals_of_files(self):
            if _last(self, job) is None:
                return set()
            return {number for run in self._loads() for number in keys_in_files(run, keys)}

    def _loads(self) -> list[Path]:
        """The folders of the loads that are there."""
        folders = [each for each in self.path.iterdir() if not each.is_symlink()]
        return [each for each in sorted(folders) if (each / LINE).is_file()]


def _batches_in(folder: Path) -> Iterator[pa.RecordBatch]:
    """The lines of the files of a load, in the order in which they were written."""
    for file in sorted(folder.glob("*.parquet")):
        with open_parquet(file) as opened:
            yield from opened.iter_batches()


def _alteration(folder: Path, last: LoadLine | None) -> str:
    """Compare the lines of the files with the last load; return the difference in words, or ""."""
    if last is None:
        return ""
    try:
        n_lines = count_rows_in(folder / CURRENT)
    except (OSError, ValueError):  # errors of Arrow are ValueErrors
        return f"a file cannot be read, and run {last.run_id} left {last.n_lines:,} lines"
    if n_lines == last.n_lines:
        return ""
    return f"the folder has {n_lines:,} lines, and run {last.run_id} left {last.n_lines:,} lines"


@contextlib.contextmanager
def _refusals_of_files(sink: Sink) -> Iterator[None]:
    """Raise errors of the file system as errors of the sink."""
    try:
        yield
    except OSError as error:
        raise SinkError(f"{sink}: the file system refuses: {error}") from error


def _loaded(
    sink: FolderSink,
    cube: CubeArrays,
    history: RowHistory,
    job: str,
    day: RunDay,
    nul: NulTexts,
    *,
    is_altered: bool,
) -> LoadLine:
    """Write the folder of the run, point the link to it, and remove older ones; return its record.

    A folder whose files were altered is not used again.
    """
    folder = sink.path
    make_folder(folder)
    before = _named_by_link(folder)
    run = _folder_of(sink, history)
    if is_altered and run.name == before:
        # not over the altered folder: readers have its files open, and the link still names it
        run = folder / f"{history.run_id}-{uuid.uuid4().hex[:12]}"
    clear_private_folders(run)
    if not (run / LINE).is_file():
        _write_run(sink, run, cube, history, job, day, nul)
    line = _line(run)
    _point(folder, run.name)
    # readers of the load before may be in the middle of its files
    _clear(folder, {run.name, before})
    return line


def _named_by_link(folder: Path) -> str:
    """The name of the folder that readers see now; empty if there is none."""
    link = folder / CURRENT
    if link.is_symlink():
        return os.readlink(link)
    return ""


def _folder_of(sink: FolderSink, history: RowHistory) -> Path:
    """The folder of this load, named by its run, and by its form if the run has another one too."""
    run = sink.path / history.run_id
    if not (run / LINE).is_file() or is_loaded(_line(run), sink.form, history):
        return run
    digest = hashlib.sha256(f"{history.method} {sink.form}".encode()).hexdigest()
    return run.with_name(f"{history.run_id}-{digest[:12]}")


def _last(sink: FolderSink, job: str) -> LoadLine | None:
    """The load that the folder's link names; None if there is none yet."""
    folder = sink.path
    if (folder / CURRENT / LINE).is_file():
        line = _line(folder / CURRENT)
        if (line.job, line.explain) != (job, sink.explain):
            raise InputError(
                f"{sink}: job {line.job!r} loads explanation {line.explain!r} into this folder, "
                f"and job {job!r} would load {sink.explain!r}: give another path"
            )
        return line
    if not is_free(folder) and list(_others(folder)):
        raise InputError(f"{sink}: the folder contains other files: give an empty folder")
    return None


def _others(folder: Path) -> Iterator[str]:
    """Yield the names in a folder that no load has made."""
    if not folder.is_dir():
        yield folder.name
        return
    for each in folder.iterdir():
        if not (each.name.startswith(".") or (each / LINE).is_file()):
            yield each.name


def _line(run: Path) -> LoadLine:
    found = json.loads((run / LINE).read_text())
    return LoadLine(**found | {"loaded_at": datetime.fromisoformat(found["loaded_at"])})


def _write_run(
    sink: Sink,
    run: Path,
    cube: CubeArrays,
    history: RowHistory,
    job: str,
    day: RunDay,
    nul: NulTexts,
) -> None:
    """Write the files of a run, and the record of its load, in a folder that is then named."""
    private = private_folder(run)
    private.mkdir()
    try:
        n_lines = _write_files(sink, private, cube, history, nul, day)
        about = (job, sink.explain, "", history.run_id, history.method, sink.form)
        now = datetime.now(UTC)
        made = LoadLine(*about, cube.n_rows, n_lines, 0, now, cube.scale, day.written)
        line = asdict(made) | day.about.columns(sink.model_version)
        (private / LINE).write_text(json.dumps(line | {"loaded_at": now.isoformat()}))
        sync_tree(private)
        os.rename(private, run)
        sync([run.parent])
    finally:
        shutil.rmtree(private, ignore_errors=True)


def _write_files(
    sink: Sink,
    folder: Path,
    cube: CubeArrays,
    history: RowHistory,
    nul: NulTexts,
    day: RunDay,
) -> int:
    """Write the lines as files of about `FILE_LINES` lines; returns their number."""
    schema = table_schema(sink.lines, CubeFacts.of_cube(cube))
    batches = nul.cleaned(batches_of(sink, cube.path, history, as_of=day.as_of))
    n_lines = 0
    number = 0
    batch = next(batches, None)
    # one file at least: a folder without files has no columns either
    while batch is not None or number == 0:
        with parquet_writer(folder / f"part-{number:05d}.parquet", schema) as writer:
            here = 0
            while batch is not None and here < FILE_LINES:
                writer.write_table(pa.Table.from_batches([batch]))
                here += batch.num_rows
                batch = next(batches, None)
        n_lines += here
        number += 1
    return n_lines


def _point(folder: Path, run_id: str) -> None:
    """Let the link name the folder of this run, in one step."""
    # a link cannot be replaced in one step but by another one that is renamed over it
    link = folder / f".{CURRENT}.{uuid.uuid4().hex[:12]}"
    os.symlink(run_id, link)
    os.replace(link, folder / CURRENT)
    sync([folder])


def _clear(folder: Path, kept: set[str]) -> None:
    """Remove the folders of older loads, and the files of killed loads."""
    for each in folder.iterdir():
        if PRIVATE_FOLDER.fullmatch(each.name) and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
            continue
        if each.is_symlink():
            if each.name.startswith(f".{CURRENT}."):
                each.unlink()
        elif each.name not in kept and (each / LINE).is_file():
            shutil.rmtree(each)
