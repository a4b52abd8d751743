"""The workspace of a running job: a lock, and room for what is thrown away at its end."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from dshap.errors import InputError, LockedError

__all__ = ["Workspace", "is_running"]


class Workspace:
    """A hidden folder beside the store, locked while a run goes on and removed at its end.

    The lock is the operating system's, so it ends with its process, however that dies; what a killed run left is
    cleared by the next one.

    Parameters
    ----------
    store : path of the store that the run writes

    Raises
    ------
    LockedError
        Another process runs on this store.
    InputError
        The folder of the store cannot be written.
    """

    def __init__(self, store: Path) -> None:
        self.path = store.parent / f".{store.name}.running"
        self._file: IO[bytes] | None = None
        self._made = [parent for parent in store.parents if not parent.exists()]
        self._number = itertools.count()

    def folder(self, name: str) -> Path:
        """A fresh folder in it."""
        path = self.path / f"{name}-{next(self._number)}"
        path.mkdir(parents=True)
        return path

    def __enter__(self) -> Self:
        try:
            self._lock()
        except BlockingIOError as error:
            raise LockedError(
                f"{self.path.parent / self.path.name[1:-8]} is locked by a running job: wait for it"
            ) from error
        except OSError as error:
            raise InputError(f"cannot write {self.path.parent}: {error.strerror}; choose another store") from error
        for left in self.path.iterdir():
            if left.name != "lock":
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        return self

    def _lock(self) -> None:
        while True:
            self.path.mkdir(parents=True, exist_ok=True)
            file = open(self.path / "lock", "ab")  # noqa: SIM115 (closed with the run)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                raise
            with contextlib.suppress(FileNotFoundError):
                if os.stat(self.path / "lock").st_ino == os.fstat(file.fileno()).st_ino:
                    self._file = file
                    return
            file.close()  # the run before us was just removing it

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        for parent in self._made:  # deepest first; those that now hold a store stay
            with contextlib.suppress(OSError):
                parent.rmdir()
        if self._file:
            self._file.close()


def is_running(store: Path) -> bool:
    """A run holds the lock of this store now."""
    try:
        with open(store.parent / f".{store.name}.running" / "lock", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
