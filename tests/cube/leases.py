"""A process that holds a lease until it is killed: no tests."""

from __future__ import annotations

import time

from dshap.cube.folder import Folder
from dshap.cube.lease import Lease


def hold(path: str, name: str) -> None:
    with Lease(Folder(path), name, "a test"):
        time.sleep(600)
