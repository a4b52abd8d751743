"""The files of a store by their names: put once, read, listed and deleted, safe against crashes.

All of `cube/` but Zarr's own reading and writing of arrays goes through a `Folder`.  A name is a
text such as "state/plan.json", never a path.  The content of a visible name survives a power cut:
first the content is synced, then the name is given, then the folder of the name is synced.
Unfinished files of a killed process are recognised by their names, and removed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from dshap.core.places import Place, of_place, place_of
from dshap.storage.disk_files import DiskFiles
from dshap.storage.objects import ObjectFiles


class Folder:
    """The files of a store, or of one of its rooms, on a disk or in a bucket.

    Parameters
    ----------
    path : place of the folder, which need not exist
    """

    def __init__(self, path: str | Place) -> None:
        self.path = place_of(path)
        self._files = of_place(self.path, DiskFiles, ObjectFiles)

    def place(self, name: str) -> str:
        """The place of a file in messages."""
        return str(self.path / name)

    def put_new(self, name: str, *data: bytes | memoryview) -> bool:
        """Create a file in one step; return False, changing nothing, if the name is in use.

        A file or a link in the place of the folder is removed.
        """
        return self._files.put_new(name, *data)

    def clear_way(self, name: str) -> None:
        """Remove the file or folder of this name, and any file where a room above it should be."""
        self._files.clear_way(name)

    def replace(self, name: str, content: bytes) -> None:
        """Put this content under a name in one step, over any entry there or above it."""
        self._files.replace(name, content)

    def replace_all(self, contents: Mapping[str, bytes]) -> None:
        """Put each content under its name in one step, and return once all of them are stored.

        On a disk, each file appears after those before it.  In a bucket the files appear in any
        order, except the last, which appears after all others.
        """
        self._files.replace_all(contents)

    def writing(self, name: str) -> AbstractContextManager[Path]:
        """A path of this machine for a large file, which is written part by part.

        It is put under the name in one step, over an earlier one, once the block ends.
        """
        return self._files.writing(name)

    def exchange(self, name: str, before: bytes | None, content: bytes) -> bool:
        """Replace the content of a file if it is still `before`; None: if there is no file.

        Return False, changing nothing, if the content differs or the file is gone.  In a bucket no
        other process can write in between.  On a disk the comparison and the change are two steps,
        and the lock of the store excludes other processes.
        """
        return self._files.exchange(name, before, content)

    def get(self, name: str) -> bytes | None:
        """The content of a file; None if there is none, or a folder or broken link in its place."""
        return self._files.get(name)

    def open(self, name: str) -> BinaryIO:
        """A file opened to be read from its beginning to its end; an object is fetched whole.

        Raises
        ------
        FileNotFoundError
            There is no file of this name.
        """
        return self._files.open(name)

    def reader(self, name: str) -> BinaryIO:
        """A file opened to read parts of it.

        Raises
        ------
        FileNotFoundError
            There is no file of this name.
        """
        return self._files.reader(name)

    def part(self, name: str, start: int, stop: int) -> bytes:
        """The bytes start..stop of a file, or up to its end.

        Raises
        ------
        FileNotFoundError
            There is no file of this name.
        """
        return self._files.part(name, start, stop)

    def delete(self, name: str) -> None:
        """Remove the entry of this name: the file, a link, or a folder in its place."""
        self._files.delete(name)

    def delete_all(self, names: Iterable[str]) -> None:
        """Remove files of these names; those that are not there are passed over."""
        self._files.delete_all(names)

    def discard_room(self, name: str) -> None:
        """Remove a room of this name with all in it, as far as that can be done."""
        self._files.discard_room(name)

    def remove_empty(self) -> None:
        """Remove this folder if it is there and empty."""
        self._files.remove_empty()

    def copy(self, name: str, to: Place) -> None:
        """Give the content of a file a second place in the same bucket or file system.

        The file is never changed: on a disk both names may refer to one file.
        """
        self._files.copy(name, to)

    def put_file(self, name: str, file: Path) -> None:
        """Put a file of this machine under a name, over an earlier one."""
        self._files.put_file(name, file)

    def folder_to_fill(self, elsewhere: Callable[[], Path]) -> Path:
        """A path of this machine where files of this folder are made; in a bucket it is `elsewhere`."""
        return self._files.folder_to_fill(elsewhere)

    def has(self, name: str) -> bool:
        """Whether an entry of this name exists, even a link that leads nowhere."""
        return self._files.has(name)

    def has_file(self, name: str) -> bool:
        """Whether a file can be read under this name."""
        return self._files.has_file(name)

    def has_room(self, name: str = "") -> bool:
        """Whether a room of this name is there; without a name, whether this folder is."""
        return self._files.has_room(name)

    def size(self, name: str) -> int:
        """The bytes of a file; 0 if there is no regular file."""
        return self._files.size(name)

    def sizes(self, n_files: int) -> Callable[[str], int]:
        """A function that returns the `size` of a file, for about this many calls.

        For many files in a bucket, all are listed once, now, in place of a request for each.
        """
        return self._files.sizes(n_files)

    def version(self, name: str) -> str | None:
        """A text that changes whenever a file is written; None if there is none."""
        return self._files.version(name)

    def times(self) -> dict[str, float]:
        """Name -> time at which it was written, of the files right here, in seconds since 1970.

        Unfinished and hidden ones are left out.
        """
        return self._files.times()

    def list(self) -> list[str]:
        """The sorted names of the files and rooms right here; unfinished and hidden ones are left out."""
        return self._files.list()

    def tree(self) -> Iterator[str]:
        """The sorted names of all files, in rooms too."""
        return self._files.tree()

    def sync(self, names: Iterable[str]) -> None:
        """Return once these files, and the names of the rooms above them, are on disk."""
        self._files.sync(names)

    def sync_names(self) -> None:
        """Return once the names in this folder are on disk, those that were removed too."""
        self._files.sync_names()

    def map[Item, Answer](
        self, function: Callable[[Item], Answer], items: Iterable[Item]
    ) -> Iterator[Answer]:
        """The results of function(item), in the order of the items.

        In a bucket several are computed at once, as a request is waited for longer than it takes.
        """
        return self._files.map(function, items)

    def free_bytes(self) -> int | None:
        """The bytes that are free for files here; None if there is no bound."""
        return self._files.free_bytes()

    def full_disk_path(self, error: OSError) -> Path | None:
        """The path on a disk that an error about a full disk is about; None if no disk is known."""
        return self._files.full_disk_path(error)

    def fault(self) -> str | None:
        """The reason why this process cannot read the folder, perhaps empty; None if it can."""
        return self._files.fault()

    def is_there(self) -> bool:
        """Whether a file or a folder exists at this place."""
        return self._files.is_there()

    def true_place(self) -> Place:
        """The place itself, or the target of a symbolic link.

        Raises
        ------
        InputError
            The link leads nowhere.
        """
        return self._files.true_place()

    def unfinished(self, older_s: float = 0.0) -> Iterator[str]:
        """The names of unfinished files of this user, in rooms too; links are not followed.

        Files that were written less than `older_s` ago are left out.
        """
        return self._files.unfinished(older_s)

    def clear_private_rooms(self) -> tuple[str, ...]:
        """Remove rooms that a killed process left before they had their name; return those inside."""
        return self._files.clear_private_rooms()
