"""The files of a Parquet table: finding them, noticing changes, and columns in folder names.

A path like table/year=2012/month=5/part.parquet has the columns year and month (Hive partitions).
"""

from __future__ import annotations

import glob
import hashlib
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from dshap.core.errors import InputError
from dshap.core.late import pa
from dshap.core.places import is_in_bucket, of_place
from dshap.core.rules import as_place
from dshap.tables.bucket_files import common_folder, find_objects, head_of_object
from dshap.tables.columns import repeats
from dshap.tables.lakehouse_folders import refuse_tables_on_disk

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""The path of a file, a folder or a glob pattern, or the address of one in a bucket; or a list of
them."""
TICK_NS = 20_000_000
COARSE_NS = 1_000_000_000
COARSE_TICK_NS = 2_000_000_000
"""The resolution of file times: `TICK_NS` covers the system's ticks of 1 to 10 ms.

Times that are whole seconds (`COARSE_NS`) count in steps of two seconds.
"""
FOOTER_END = 8
MAGIC = b"PAR1"
"""The last 8 bytes of a Parquet file are the length of its footer and the letters `MAGIC`.

The length has four bytes, little-endian.
"""
NULL = "__HIVE_DEFAULT_PARTITION__"
LARGEST = 2**31 - 1
"""The largest int32."""
_PUT_BACK = (
    "rows of two tables must not be in one cube; put this file back and run the same command "
    "again, or start a new run into another store, and do not change the files during the run"
)


def find_files(path: Paths) -> tuple[str, tuple[str, ...]]:
    """(absolute folder, file names below it) of a file, a folder, a glob or a list of these.

    Names are sorted, except that the order of a list does not change.
    """
    if isinstance(path, Sequence) and not isinstance(path, str):
        return below_common_folder(
            [os.path.join(root, name) for root, names in map(find_files, path) for name in names]
        )
    place = as_place("path", path, "table")
    return of_place(place, lambda found: _find_on_disk(found, path), find_objects)


def path_in_words(path: Paths) -> str:
    """The text of a path, or of a list of these, as it was given."""
    match path:
        case str() | os.PathLike():
            return os.fsdecode(path)
    return str([os.fsdecode(each) for each in path])


def _find_on_disk(place: Path, path: str | os.PathLike[str]) -> tuple[str, tuple[str, ...]]:
    text = os.path.normpath(place)
    if os.path.isfile(text):
        found = [text]
        root = os.path.dirname(text)
    elif os.path.isdir(text):
        found = [str(each) for each in Path(text).rglob("*.parquet") if each.is_file()]
        root = text
    else:
        found = [each for each in glob.glob(text, recursive=True) if os.path.isfile(each)]
        if found:
            root = os.path.commonpath([os.path.dirname(each) for each in found])
        else:
            root = ""
    refuse_tables_on_disk(text, found)
    if not found:
        raise InputError(
            f"no Parquet file at {path_in_words(path)}: give a file, a folder that contains "
            "*.parquet files, or a "
            "glob"
        )
    return root, tuple(sorted(os.path.relpath(each, root) for each in found))


def below_common_folder(paths: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """(the folder that contains all files, their names below it), in the order of the paths."""
    folders = [os.path.dirname(path) for path in paths]
    if any(map(is_in_bucket, folders)):
        root = common_folder(folders)
        return root, tuple(path[len(root) + 1 :] for path in paths)
    root = os.path.commonpath(folders)
    return root, tuple(os.path.relpath(path, root) for path in paths)


@dataclass(frozen=True)
class FileStamp:
    """The properties by which a file counts as unchanged, without its rows; see `stamp_file`."""

    path: str
    size: int
    written_ns: int
    """Time of the last change of the content, which programs can set (touch -r, cp -p)."""
    changed_ns: int
    """Time of the last change of content, times or name, which only the system sets."""
    inode: int
    footer: str
    """Digest of the footer at the end of the file: offsets, sizes, and bounds of every column."""

    @property
    def tick_ns(self) -> int:
        """Two changes within so many nanoseconds may have the same time."""
        if self.changed_ns % COARSE_NS == 0:
            return COARSE_TICK_NS
        return TICK_NS


def stamp_file(root: str, name: str) -> FileStamp:
    """The stamp of one file, taken before the file is opened.

    A file with the same stamp is trusted to contain the same rows.  Only two things could deceive
    it: pages altered below the file system, or a writer that sets the clock back, to the
    nanosecond, and leaves the same footer.
    """
    path = os.path.join(root, name)
    if is_in_bucket(path):
        return _stamp_object(path)
    told = os.stat(path)
    with open(path, "rb") as file:
        file.seek(-min(FOOTER_END, told.st_size), os.SEEK_END)
        end = file.read(FOOTER_END)
        if end.endswith(MAGIC):
            length = int.from_bytes(end[:4], "little")
        else:
            length = 0
        file.seek(-min(FOOTER_END + length, told.st_size), os.SEEK_END)
        footer = hashlib.blake2b(file.read(), digest_size=16).hexdigest()
    return FileStamp(path, told.st_size, told.st_mtime_ns, told.st_ctime_ns, told.st_ino, footer)


def _stamp_object(path: str) -> FileStamp:
    """The stamp of an object: another content has another ETag, so that no clock is needed."""
    told = head_of_object(path)
    return FileStamp(path, told["size"], told["written_ns"], 0, 0, told["e_tag"])


def _check_same_object(stamp: FileStamp) -> None:
    """Raise an `InputError` if the object is not the one that was stamped."""
    try:
        now = _stamp_object(stamp.path)
    except FileNotFoundError:
        raise InputError(f"{stamp.path} was removed during the run: {_PUT_BACK}") from None
    if (now.size, now.footer) != (stamp.size, stamp.footer):
        raise InputError(f"{stamp.path} changed during the run (its ETag): {_PUT_BACK}")


def check_same_file(stamp: FileStamp, host: str) -> None:
    """Raise if a file is not the one that was stamped on `host`, by size, content time and inode.

    Network file systems may number their inodes on each host separately: on another host a file
    that differs only in its inode is compared by its footer.

    Raises
    ------
    InputError
        States which file, what differs, and what to do.
    """
    if is_in_bucket(stamp.path):
        _check_same_object(stamp)
        return
    try:
        told = os.stat(stamp.path)
    except FileNotFoundError:
        raise InputError(f"{stamp.path} was removed during the run: {_PUT_BACK}") from None
    changed = []
    if told.st_size != stamp.size:
        changed.append(f"it had {stamp.size:,} bytes and has {told.st_size:,} now")
    if told.st_mtime_ns != stamp.written_ns:
        changed.append(
            f"it was written {_said_time(stamp.written_ns)} and again "
            f"{_said_time(told.st_mtime_ns)}"
        )
    if told.st_ino != stamp.inode and not changed and not _has_same_footer(stamp, host):
        changed.append("another file of the same size and time has replaced it")
    if changed:
        raise InputError(f"{stamp.path} changed during the run ({'; '.join(changed)}): {_PUT_BACK}")


def _has_same_footer(stamp: FileStamp, host: str) -> bool:
    """Whether this is another host than `host` and the file has the stamped footer."""
    if platform.node() == host:
        return False
    return stamp_file(*os.path.split(stamp.path)).footer == stamp.footer


def _said_time(time_ns: int) -> str:
    """The time of a file on the clock of this machine, to the microsecond."""
    return datetime.fromtimestamp(time_ns / 1e9).isoformat(" ", "microseconds")


def table_stamp(
    files: Sequence[FileStamp], opened_ns: int, roles: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The stamp of a source with these files and roles: the same stamp means the same rows.

    None if a file was changed so shortly before it was opened that a further change would leave the
    same times.
    """
    if any(opened_ns - stamp.changed_ns < stamp.tick_ns for stamp in files):
        return None
    return {"files": [astuple(stamp) for stamp in files], "roles": roles}


@dataclass(frozen=True)
class Partitions:
    """The columns in the folder names of a table, with their value in each file."""

    fields: tuple[pa.Field, ...] = ()
    values: tuple[Mapping[str, Any], ...] = ()
    """One mapping for each file: column -> value, None for __HIVE_DEFAULT_PARTITION__."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def schema(self, inside: pa.Schema) -> pa.Schema:
        """The schema of a file's columns followed by those of its folders."""
        return pa.schema([*inside, *self.fields])

    def nulls(self, index: int, n_rows: int) -> dict[str, int | None]:
        """column -> number of nulls in a file of so many rows."""
        return {name: n_rows if self.values[index][name] is None else 0 for name in self.names}

    def batch(self, index: int, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """The rows of a file, with the columns in `names` that its folders have appended."""
        for field in self.fields:
            if field.name in names:
                value = pa.scalar(self.values[index][field.name], field.type)
                batch = batch.append_column(field, pa.repeat(value, batch.num_rows))
        return batch


def find_partitions(root: str, files: Sequence[str], inside: pa.Schema) -> Partitions:
    """The partition columns of files (paths below `root`), except those `inside` the files.

    Every folder "key=value" below the folder of the table counts, whichever part of the table
    `root` is.  As in pyarrow's datasets a column is int32 if all its values are such numbers,
    else text; %-escapes are resolved, and ``__HIVE_DEFAULT_PARTITION__`` is null.

    Raises
    ------
    InputError
        Files are below other keys than the first one, or a value is not valid text.
    """
    base = _base(root)
    paths = [os.path.join(root, name) for name in files]
    parts = [_parts(path, base) for path in paths]
    _check_same_keys(paths, [tuple(key for key, _ in folders) for folders in parts])
    columns = {
        name: [folders[j][1] for folders in parts]
        for j, (name, _) in enumerate(parts[0])
        if name not in inside.names
    }
    arrays = {name: _typed(values) for name, values in columns.items()}
    fields = tuple(pa.field(name, array.type) for name, array in arrays.items())
    of_files = zip(*(array.to_pylist() for array in arrays.values()), strict=True)
    return Partitions(fields, tuple(dict(zip(arrays, values, strict=True)) for values in of_files))


def _typed(values: Sequence[str | None]) -> pa.Array:
    """The values of one key as an array: int32 if all values are, else text; None is null."""
    known = [value for value in values if value is not None]
    if known and all(
        # from -2^31 to 2^31 - 1
        re.fullmatch(r"-?[0-9]+", text) and -LARGEST <= int(text) + 1 <= LARGEST + 1
        for text in known
    ):
        return pa.array([None if value is None else int(value) for value in values], pa.int32())
    return pa.array(values, pa.string() if known else pa.null())


def _base(root: str) -> str:
    """The folder of the table, above the partitions that contain `root`."""
    while "=" in os.path.basename(root):
        root = os.path.dirname(root)
    return root


def _parts(path: str, base: str) -> list[tuple[str, str | None]]:
    """(key, value) of each partition folder of a path below `base`, outermost first."""
    folders = [
        part.partition("=")
        for part in os.path.relpath(path, base).split(os.sep)[:-1]
        if part.find("=") > 0
    ]
    try:
        return [
            (
                unquote(key, errors="strict"),
                None if value == NULL else unquote(value, errors="strict"),
            )
            for key, _, value in folders
        ]
    except UnicodeDecodeError:
        raise InputError(
            f"{path} is below a %-escape that is not UTF-8: rename this folder"
        ) from None


def _check_same_keys(paths: Sequence[str], keys: Sequence[tuple[str, ...]]) -> None:
    for path, names in zip(paths, keys, strict=True):
        if names != keys[0]:
            raise InputError(
                f"{path} has {_said(names)}, and {paths[0]} has {_said(keys[0])}: give files below "
                "the same keys, in the same order"
            )
    if twice := repeats(keys[0]):
        raise InputError(
            f"{paths[0]} is below the key {twice[0]!r} twice: rename one of these folders"
        )


def _said(keys: Sequence[str]) -> str:
    if keys:
        return f"the partitions {', '.join(keys)}"
    return "no partition"
