"""Create-only files beside the arrays: receipts and prepared states.

A file is written privately and then linked under its name, so that it is whole or not there, whoever dies when; the
second writer of a name finds it taken and leaves it as it is.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dshap.types import Record

__all__ = ["ReceiptFolder", "StateFolder", "write_new"]


def write_new(path: Path, data: bytes) -> bool:
    """Create `path` with this content, in one step; False where it was there already (it is left as it is)."""
    private = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(private, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(private, path)
    except FileExistsError:
        return False
    finally:
        private.unlink(missing_ok=True)
    return True


class CreateOnlyFolder:
    """Files of one kind by name, each written once."""

    suffix: str

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def file(self, name: str) -> Path:
        return self.path / f"{name}{self.suffix}"

    def has(self, name: str) -> bool:
        return self.file(name).exists()

    def names(self) -> Iterator[str]:
        """Names of the whole files; what a crash left half-written begins with a dot and is none."""
        if self.path.is_dir():
            for entry in sorted(os.scandir(self.path), key=lambda entry: entry.name):
                if entry.name.endswith(self.suffix) and not entry.name.startswith("."):
                    yield entry.name[: -len(self.suffix)]

    def remove(self, name: str) -> None:
        self.file(name).unlink(missing_ok=True)


class ReceiptFolder(CreateOnlyFolder):
    """Small records of text and numbers, as JSON."""

    suffix = ".json"

    def put(self, name: str, content: dict[str, Any]) -> bool:
        """False where there is one of this name: it is left as it is."""
        return write_new(self.file(name), json.dumps(content, sort_keys=True).encode())

    def get(self, name: str) -> dict[str, Any]:
        return dict(json.loads(self.file(name).read_bytes()))


class StateFolder(CreateOnlyFolder):
    """Records of arrays by name, as .npz files that `numpy.load` opens without pickle.

    Parameters
    ----------
    path : folder that is written
    prepared : a second folder, which is looked in first and never written
    """

    suffix = ".npz"

    def __init__(self, path: str | Path, prepared: str | Path | None = None) -> None:
        super().__init__(path)
        self.prepared = None if prepared is None else Path(prepared)

    def file(self, name: str) -> Path:
        own = self.path / f"{name}{self.suffix}"
        if self.prepared is not None and (self.prepared / own.name).exists():
            return self.prepared / own.name
        return own

    def remove(self, name: str) -> None:
        (self.path / f"{name}{self.suffix}").unlink(missing_ok=True)

    def put(self, name: str, record: Record) -> None:
        write_new(self.file(name), record.to_bytes())

    def get(self, name: str, kind: type[Record]) -> Any:
        return kind.load(self.file(name))
