"""Write golden.json anew."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import dshap
from tests.golden.cases import CASES, FILE, found, processor

client = dshap.engine.local_client(2, memory_limit="2GiB", set_as_default=False)
try:
    with tempfile.TemporaryDirectory() as folder:
        cases = {
            name: found(name, Path(folder) / f"{i}.zarr", client) for i, name in enumerate(CASES)
        }
finally:
    dshap.engine.shut_down(client)
FILE.write_text(
    json.dumps({"processor": processor(), "cases": cases}, indent=1, sort_keys=True) + "\n"
)
