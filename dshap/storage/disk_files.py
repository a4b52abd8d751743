"""Files of a store in a folder of a file system: synced, then named, safe against crashes."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.storage.disk import free_bytes, make_folder, sync, sync_opened, whole_file
from dshap.storage.links import true_path
from dshap.storage.private_folders import clear_private_rooms

ORPHAN = re.compile(
    r"\.([\w.-]+\.(npz|npy|json|parquet|made)|c(\.\d+)*|\d+|current)\.[0-9a-f]{12}"
    r"|\.[\w.-]+\.[0-9a-f]{32}\.tmp"
    r"|[\w-]+(\.\d+)*\.[0-9a-f]{32}\.partial"
)
"""The names of unfinished files: those of `DiskFiles.put_new` and `DiskFiles.replace`, those of
`dshap.storage.disk.whole_file`, and Zarr's of a chunk or document."""


NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""The error numbers of file systems that have no hard links, such as vfat and some of SMB and FUSE."""


class DiskFiles:
    """The files of a store, or of one of its rooms, in a folder of this file system.

    Parameters
    ----------
    path : path of the folder, which need not exist
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def put_new(self, name: str, *data: bytes | memoryview) -> bool:
        """Create a file in one step; return False, changing nothing, if the name is in use.

        A file or a link in the place of the folder is removed.

        Raises
        ------
        InputError
            The file system has no hard links.
        """
        path = self.path / name
        _make_way_for_folder(self.path)
        with _private_file(path, *data) as private:
            try:
                # not a rename, which would replace a file of this name
                os.link(private, path)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno in NO_LINKS:
                    raise InputError(
                        f"{path.parent} is on a file system without hard links ({error.strerror}), "
                        "which a store needs to mark finished work and running processes: put the "
                        "store on another file system (ext4, XFS, NFS, Lustre), or into a bucket"
                    ) from error
                raise
        sync([path.parent])
        return True

    def clear_way(self, name: str) -> None:
        """Remove the file or folder of this name, and any file where a room above it should be."""
        path = self.path / name
        for parent in reversed(path.parents):
            if parent.is_relative_to(self.path):
                _make_way_for_folder(parent)
        _remove(path)

    def replace(self, name: str, content: bytes) -> None:
        """Put this content under a name in one step, over any entry there or above it."""
        if not self.has_file(name):
            self.clear_way(name)
        path = self.path / name
        with _private_file(path, content) as private:
            os.replace(private, path)
        sync([path.parent])

    def replace_all(self, contents: Mapping[str, bytes]) -> None:
        """Put each content under its name, one after the other; all are synced at once."""
        paths = {name: os.path.join(self.path, name) for name in contents}
        rooms = dict.fromkeys(map(os.path.dirname, paths.values()))
        for name, path in paths.items():
            if not os.path.isdir(os.path.dirname(path)) or os.path.isdir(path):
                self.clear_way(name)
                make_folder(Path(path).parent)
        privates = dict[str, str]()
        try:
            with contextlib.ExitStack() as opened:
                files = []
                for name, content in contents.items():
                    privates[paths[name]] = private = private_path(paths[name])
                    files.append(opened.enter_context(open(private, "xb")))
                    files[-1].write(content)
                    files[-1].flush()
                # all contents before the first name: no name ever leads to bytes that are not on
                # disk
                sync_opened(files)
            for path in list(privates):
                os.replace(privates[path], path)
                del privates[path]
        finally:
            for private in privates.values():
                Path(private).unlink(missing_ok=True)
        sync(map(Path, rooms))

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """A path for a file that gets the name once the block ends."""
        if not self.has_file(name):
            self.clear_way(name)
        with whole_file(self.path / name, synced=True) as private:
            yield private

    def exchange(self, name: str, before: bytes | None, content: bytes) -> bool:
        """Put this content under a name that has the content `before`; None: that is free."""
        if before is None:
            return self.put_new(name, content)
        if self.get(name) != before:
            return False
        self.replace(name, content)
        return True

    def get(self, name: str) -> bytes | None:
        """The content of a file; None if there is none, or a folder or broken link in its place."""
        try:
            return (self.path / name).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None

    def open(self, name: str) -> BinaryIO:
        """A file opened to be read in pieces."""
        try:
            return open(self.path / name, "rb")
        except (IsADirectoryError, NotADirectoryError) as error:
            raise FileNotFoundError(error.errno, error.strerror, error.filename) from None

    def reader(self, name: str) -> BinaryIO:
        """A file opened to read parts of it."""
        return self.open(name)

    def part(self, name: str, start: int, stop: int) -> bytes:
        """The bytes start..stop of a file, or up to its end."""
        with self.open(name) as opened:
            opened.seek(start)
            return opened.read(stop - start)

    def delete(self, name: str) -> None:
        """Remove the entry of this name: the file, a link, or a folder in its place."""
        _remove(self.path / name)

    def delete_all(self, names: Iterable[str]) -> None:
        """Remove files of these names."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self.path, name))

    def discard_room(self, name: str) -> None:
        """Remove a room with all in it, as far as that can be done."""
        shutil.rmtree(self.path / name, ignore_errors=True)

    def remove_empty(self) -> None:
        """Remove this folder if it is there and empty."""
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def copy(self, name: str, to: Place) -> None:
        """Give a file another name, as it is never changed; a copy if there are no hard links."""
        target = Path(str(to))
        make_folder(target.parent)
        try:
            os.link(self.path / name, target)
        except OSError:
            with whole_file(target, synced=True) as private:
                shutil.copy2(self.path / name, private)
        sync([target.parent])

    def put_file(self, name: str, file: Path) -> None:
        """Copy a file to a name."""
        with self.writing(name) as private:
            shutil.copyfile(file, private)

    def folder_to_fill(self, elsewhere: Callable[[], Path]) -> Path:
        """Return this folder."""
        return self.path

    def has(self, name: str) -> bool:
        """Whether an entry of this name exists, even a link that leads nowhere."""
        return os.path.lexists(self.path / name)

    def has_file(self, name: str) -> bool:
        """Whether a file can be read under this name."""
        return (self.path / name).is_file()

    def has_room(self, name: str = "") -> bool:
        """Whether a room of this name is there; without a name, whether this folder is."""
        return (self.path / name).is_dir()

    def size(self, name: str) -> int:
        """The bytes of a file; 0 if there is no regular file."""
        try:
            found = os.stat(os.path.join(self.path, name))
        except (FileNotFoundError, NotADirectoryError):
            return 0
        if stat.S_ISREG(found.st_mode):
            return found.st_size
        return 0

    def sizes(self, n_files: int) -> Callable[[str], int]:
        """A function that returns the bytes of a file, which it reads for each call."""
        return self.size

    def version(self, name: str) -> str | None:
        """A text that changes whenever a file is written; None if there is none."""
        try:
            return str(os.stat(os.path.join(self.path, name)).st_mtime_ns)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def times(self) -> dict[str, float]:
        """Name -> time at which it was written, of the files right here."""
        found = {}
        for name in self.list():
            # a file may be removed meanwhile
            with contextlib.suppress(FileNotFoundError):
                file = os.stat(self.path / name)
                if stat.S_ISREG(file.st_mode):
                    found[name] = file.st_mtime
        return found

    def list(self) -> list[str]:
        """The sorted names of the files and rooms right here; unfinished and hidden ones are left out."""
        if not self.has_room():
            return []
        return sorted(name for name in os.listdir(self.path) if not name.startswith("."))

    def tree(self) -> Iterator[str]:
        """The sorted names of all files, in rooms too."""
        for file in sorted(self.path.rglob("*")):
            if file.is_file():
                yield str(file.relative_to(self.path))

    def sync(self, names: Iterable[str]) -> None:
        """Return once these files, and the names of the rooms above them, are on disk."""
        files = [self.path / name for name in names]
        rooms = [room for file in files for room in file.parents if self.path in room.parents]
        sync([*files, *rooms])

    def sync_names(self) -> None:
        """Return once the names in this folder are on disk, those that were removed too."""
        sync([self.path])

    def map[Item, Answer](
        self, function: Callable[[Item], Answer], items: Iterable[Item]
    ) -> Iterator[Answer]:
        """The results of function(item), one after the other."""
        return map(function, items)

    def free_bytes(self) -> int | None:
        """The bytes that are free on the disk."""
        return free_bytes(self.path)

    def full_disk_path(self, error: OSError) -> Path | None:
        """The path that could not be written to a full disk: that of the error, or this folder."""
        return Path(str(error.filename or self.path))

    def fault(self) -> str | None:
        """The reason why this process does not see the place; None if it does."""
        if os.path.exists(self.path):
            return None
        return ""

    def is_there(self) -> bool:
        """Whether a file or a folder exists here."""
        return self.path.exists()

    def true_place(self) -> Path:
        """The folder itself, or the target of a symbolic link."""
        return true_path(self.path)

    def unfinished(self, older_s: float = 0.0) -> Iterator[str]:
        """The names of unfinished files of this user, in rooms too; links are not followed.

        Files that were written less than `older_s` ago are left out.
        """
        newest = time.time() - older_s
        for room, _, files in os.walk(self.path):
            for name in filter(ORPHAN.fullmatch, files):
                file = Path(room, name)
                found = file.lstat()
                is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
                if is_own and (not older_s or found.st_mtime < newest):
                    yield str(file.relative_to(self.path))

    def clear_private_rooms(self) -> tuple[str, ...]:
        """Remove the private folders beside this one, in it and in its rooms; return those inside."""
        return clear_private_rooms(self.path)


@contextlib.contextmanager
def _private_file(path: Path, *data: bytes | memoryview) -> Iterator[Path]:
    """A synced file with this content beside `path`, under a random name; removed afterwards."""
    private = Path(private_path(str(path)))
    make_folder(path.parent)
    try:
        with open(private, "xb") as file:
            for part in data:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())  # before it gets its name, which then leads to whole bytes
        yield private
    finally:
        private.unlink(missing_ok=True)


def private_path(path: str) -> str:
    """A random name beside a file, which `ORPHAN` knows."""
    room, name = os.path.split(path)
    return os.path.join(room, f".{name}.{uuid.uuid4().hex[:12]}")


def _make_way_for_folder(path: Path) -> None:
    """Remove a file or link where a folder should be.

    A folder is left, also one that is made meanwhile: it may contain the files of another thread.
    """
    if os.path.lexists(path) and not path.is_dir():
        try:
            path.unlink(missing_ok=True)
        # the error of unlinking a folder: EISDIR on Linux, EPERM by POSIX
        except (IsADirectoryError, PermissionError):
            if not path.is_dir():
                raise


def _remove(path: Path) -> None:
    """Remove the entry with the name of a file: the file, a link, or a folder in its place."""
    try:
        path.unlink(missing_ok=True)
    # a folder, as in `_make_way_for_folder`
    except (IsADirectoryError, PermissionError):
        if not path.is_dir() or path.is_symlink():
            raise
        shutil.rmtree(path)
