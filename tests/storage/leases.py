"""A process that holds a lease until it is killed: no tests."""

from __future__ import annotations

import time
from pathlib import Path

from dshap.storage.folder import Folder
from dshap.storage.lease import Lease


def hold_and_write(path: str, go: str, written: str) -> None:
    """Hold a lease; once the file `go` is there, write a file, if the lease is still held."""
    with Lease(Folder(path), "run", "a test", renew_s=0.4, dead_s=0.8) as lease:
        while not Path(go).exists():
            time.sleep(0.001)
        lease.check()
        Path(written).touch()


def hold(path: str, name: str) -> None:
    with Lease(Folder(path), name, "a test"):
        time.sleep(600)
