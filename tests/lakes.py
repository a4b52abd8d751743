"""Small tables of Delta Lake and Apache Iceberg for tests, as other programs leave them."""

from __future__ import annotations

import base64
import json
import os
import struct
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq


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

    catalog = InMemoryCatalog(
        uuid.uuid4().hex,
        **{"s3.endpoint": os.environ.get("AWS_ENDPOINT_URL", "")},
        warehouse=str(folder) if "://" in str(folder) else f"file://{folder}",
    )
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


def with_deletes(
    path: str, deletes: dict[str, list[int]], kind: str = "positions", form: str = "PARQUET"
) -> str:
    """A new metadata file beside one of Iceberg, with a snapshot that deletes rows of data files.

    pyiceberg writes no files of deletes: delete file, manifest and list are made by its own writers.
    """
    from pyiceberg import manifest as m
    from pyiceberg.table import StaticTable
    from pyiceberg.typedef import Record

    table = StaticTable.from_metadata(path)
    metadata, folder = table.metadata, Path(path).parent
    parent = metadata.current_snapshot()
    snapshot = parent.snapshot_id + 1
    sequence = metadata.last_sequence_number + 1
    file = folder.parent / "data" / f"deletes-{snapshot}.parquet"
    pairs = sorted((name, pos) for name, positions in deletes.items() for pos in positions)
    content = m.DataFileContent.POSITION_DELETES
    held = pa.table(
        {"file_path": [name for name, _ in pairs], "pos": pa.array([pos for _, pos in pairs])}
    )
    if kind == "equality":
        content = m.DataFileContent.EQUALITY_DELETES
        held = pa.table({"id": [pos for _, pos in pairs]})
    pq.write_table(held, file)

    class Deletes(m.ManifestWriterV2):
        def content(self) -> m.ManifestContent:
            return m.ManifestContent.DELETES

    spec = metadata.spec()
    output = table.io.new_output(f"file://{folder}/deletes-{snapshot}.avro")
    with Deletes(spec, metadata.schema(), output, snapshot, "null") as writer:
        data_file = m.DataFile.from_args(
            content=content,
            file_path=f"file://{file}",
            file_format=m.FileFormat[form],
            partition=Record(),
            record_count=len(pairs),
            file_size_in_bytes=file.stat().st_size,
            equality_ids=[1] if kind == "equality" else None,
        )
        writer.add_entry(
            m.ManifestEntry.from_args(
                status=m.ManifestEntryStatus.ADDED, snapshot_id=snapshot, data_file=data_file
            )
        )
    added = writer.to_manifest_file()
    listed = table.io.new_output(f"file://{folder}/snap-{snapshot}.avro")
    with m.write_manifest_list(2, listed, snapshot, parent.snapshot_id, sequence, "null") as whole:
        whole.add_manifests([*parent.manifests(table.io), added])
    content_of = json.loads(Path(path).read_text())
    content_of["snapshots"].append(
        {
            "snapshot-id": snapshot,
            "parent-snapshot-id": parent.snapshot_id,
            "sequence-number": sequence,
            "timestamp-ms": metadata.last_updated_ms + 1,
            "manifest-list": f"file://{folder}/snap-{snapshot}.avro",
            "summary": {"operation": "delete"},
            "schema-id": metadata.current_schema_id,
        }
    )
    content_of["current-snapshot-id"] = snapshot
    content_of["last-sequence-number"] = sequence
    content_of["last-updated-ms"] = metadata.last_updated_ms + 1
    content_of["refs"]["main"]["snapshot-id"] = snapshot
    new = folder / f"00099-{uuid.uuid4()}.metadata.json"
    new.write_text(json.dumps(content_of))
    return str(new)


def data_files(path: str) -> list[str]:
    """The locations of the data files of a metadata file's current snapshot, by their paths."""
    from pyiceberg.table import StaticTable

    tasks = StaticTable.from_metadata(path).scan().plan_files()
    return sorted(task.file.file_path for task in tasks)
