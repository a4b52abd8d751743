"""Digests of chunks are the same before and after packing, and change with any byte."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import dshap
from dshap.cube.chunk_digests import DIGEST_BYTES, block_digests_of, part_digests_of
from dshap.cube.packing import is_packed, pack_cube, unpack_cube
from dshap.cube.shards import shards_of
from dshap.values import Marginal

X = np.random.default_rng(0).normal(size=(330, 3))


@pytest.fixture
def cube(tmp_path):
    value = Marginal(lambda x: x[:, 0] * x[:, 1], X[:5], feature_names=["a", "b", "ü"])
    dshap.explain(
        value,
        X,
        store=tmp_path / "cube",
        instance_tile=10,
        keep_rows=True,
        progress=False,
        key={"id": [f"k{i}" for i in range(len(X))]},
    )
    return tmp_path / "cube"


def test_packed_or_not(cube):
    assert is_packed(cube)
    packed = (block_digests_of(cube), part_digests_of(cube))
    unpack_cube(cube)
    assert not is_packed(cube)
    assert (block_digests_of(cube), part_digests_of(cube)) == packed
    pack_cube(cube)
    assert (block_digests_of(cube), part_digests_of(cube)) == packed
    blocks, parts = packed
    assert {len(each) for each in blocks.values()} == {33 * DIGEST_BYTES}
    assert {"attribution", "prediction", "status", "rows/a", "receipts"} <= blocks.keys()
    assert {"documents", "plan", "notes", "states", "feature", "output"} <= parts.keys()


def test_by_hand(cube):
    """The digest of a block: its chunks as the file has them, each behind its length."""
    found = block_digests_of(cube)["prediction"]
    unpack_cube(cube)
    shards = shards_of(cube / "prediction")
    content = shards.folder.get(shards.name(7))
    by_hand = hashlib.sha256()
    for chunk in shards.chunks_in(content):
        by_hand.update(len(chunk).to_bytes(8, "little") + bytes(chunk))
    assert found[7 * DIGEST_BYTES : 8 * DIGEST_BYTES] == by_hand.digest()


def test_a_block_that_differs(cube):
    unpack_cube(cube)
    before = block_digests_of(cube)
    shards = shards_of(cube / "attribution")
    values = shards.read(40, 50).copy()
    values[3] = 1.0
    shards.folder.replace(shards.name(4), shards.encoded(values))
    after = block_digests_of(cube)
    assert [name for name in before if before[name] != after[name]] == ["attribution"]
    then, now = before["attribution"], after["attribution"]
    other = [i for i in range(33) if then[32 * i : 32 * i + 32] != now[32 * i : 32 * i + 32]]
    assert other == [4]
