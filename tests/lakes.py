"""Small tables of Delta Lake and Apache Iceberg for tests, as other programs leave them."""

from __future__ import annotations

import base64
import json
import struct
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa


def rows(start: int, stop: int, shift: float = 0.0) -> pa.Table:
    """Rows id, x, y, city and at; every seventh city is missing."""
    ids = np.arange(start, stop)
    cities = np.array(["Köln", "Zürich", "Aix – en"])[ids % 3].astype(object)
    cities[ids % 7 == 0] = None
    return pa.table(
        {
            "id": ids,
            "x": np.sin(ids) + shift,
            "y": np.cos(ids) * 2,
            "city": pa.array(cities, pa.string()),
            "at": pa.array(ids * 3_600_000_000, pa.timestamp("us", tz="UTC")),
        }
    )


def write_delta(path: Path, n_rows: int = 300, **options: Any) -> Path:
    """A table of two writes: version 0 has shifted rows, all overwritten by version 1."""
    import deltalake

    deltalake.write_deltalake(path, rows(0, n_rows, shift=1.0), **options)
    deltalake.write_deltalake(path, rows(0, n_rows), mode="overwrite", **options)
    return path


def commit(path: Path, *actions: dict[str, Any]) -> None:
    """Append a version to the log of a Delta table by hand."""
    log = path / "_delta_log"
    version = max(int(each.stem) for each in log.glob("*.json")) + 1
    text = "\n".join(json.dumps(each) for each in actions)
    (log / f"{version:020d}.json").write_text(text + "\n")


def log_of(path: Path, version: int) -> list[dict[str, Any]]:
    text = (path / "_delta_log" / f"{version:020d}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def with_features(path: Path, *features: str, **configuration: str) -> None:
    """Append a version whose protocol asks readers for these features."""
    (meta,) = [each["metaData"] for each in log_of(path, 0) if "metaData" in each]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": list(features),
        "writerFeatures": list(features),
    }
    changed = {**meta, "configuration": {**meta["configuration"], **configuration}}
    commit(path, {"protocol": protocol}, {"metaData": changed})


def delete_by_vector(path: Path, positions: list[int]) -> None:
    """Append a version that deletes rows of the only file of version 1 by an inline vector."""
    (add,) = [each["add"] for each in log_of(path, 1) if "add" in each]
    held = np.array(positions, "<u2")
    # a portable 64-bit Roaring bitmap with one array container, behind the magic of the format
    container = struct.pack("<IIHHI", 12346, 1, 0, len(held) - 1, 16) + held.tobytes()
    content = struct.pack("<IQI", 1681511377, 1, 0) + container
    content += b"\0" * (-len(content) % 4)
    vector = {
        "storageType": "i",
        "pathOrInlineDv": z85(content),
        "sizeInBytes": len(content),
        "cardinality": len(held),
    }
    remove = {"path": add["path"], "deletionTimestamp": 0, "dataChange": True}
    commit(path, {"remove": remove}, {"add": {**add, "deletionVector": vector}})


def z85(content: bytes) -> str:
    """The bytes in Z85, as the log of Delta tables has them."""
    ours = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    z = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    return base64.b85encode(content).decode().translate(str.maketrans(ours, z))


def iceberg(folder: Path, schema: pa.Schema, **options: Any) -> Any:
    """A new, empty Iceberg table below a folder; its metadata file is `metadata_location`."""
    from pyiceberg.catalog.memory import InMemoryCatalog

    catalog = InMemoryCatalog(uuid.uuid4().hex, warehouse=f"file://{folder}")
    catalog.create_namespace("house")
    properties = {"format-version": "2", **options.pop("properties", {})}
    return catalog.create_table("house.table", schema, properties=properties, **options)


def metadata_file(table: Any) -> str:
    """The path of the newest metadata file of an Iceberg table."""
    return str(table.metadata_location).removeprefix("file://")


def write_iceberg(folder: Path, n_rows: int = 300) -> str:
    """A table of two writes, the second over the first; gives its metadata file."""
    table = iceberg(folder, rows(0, 1).schema)
    table.append(rows(0, n_rows, shift=1.0))
    table.overwrite(rows(0, n_rows))
    return metadata_file(table)


def by_id(table: Any) -> pd.DataFrame:
    """A table of any library as a frame of pandas, sorted by id."""
    frame = table if isinstance(table, pd.DataFrame) else pa.table(table).to_pandas()
    return frame.sort_values("id").reset_index(drop=True)
