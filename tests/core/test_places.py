"""Places in buckets: names that are joined, taken apart and sent, and nothing more."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from dshap.core.places import BucketPath, is_in_bucket, place_of

CUBE = BucketPath("s3", "bucket", "team/cube.zarr")


def test_parts_of_a_place_are_joined_as_those_of_a_path():
    assert str(CUBE) == "s3://bucket/team/cube.zarr"
    assert CUBE.name == "cube.zarr"
    assert str(CUBE / "state/plan.json") == "s3://bucket/team/cube.zarr/state/plan.json"
    assert str(CUBE.parent) == "s3://bucket/team"
    assert CUBE.with_name("b").key == "team/b"
    assert CUBE / "" == CUBE
    assert BucketPath("gs", "bucket") / "a" == BucketPath("gs", "bucket", "a")
    assert BucketPath("az", "box").name == "box"
    assert BucketPath("az", "box").parent.key == ""
    assert CUBE.parents == [CUBE.parent, BucketPath("s3", "bucket")]
    assert CUBE.resolve() == CUBE


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("s3://bucket/team/cube.zarr", "team/cube.zarr"),
        ("S3://bucket/team//cube.zarr/", "team/cube.zarr"),
        ("s3://bucket/./team/cube.zarr", "team/cube.zarr"),
    ],
)
def test_an_address_is_a_place_in_one_form(text, key):
    assert is_in_bucket(text)
    assert place_of(text) == BucketPath("s3", "bucket", key)


def test_paths_stay_paths_and_places_are_sent_by_their_names():
    assert place_of("/data/cube.zarr") == Path("/data/cube.zarr")
    assert place_of(CUBE) is CUBE
    assert pickle.loads(pickle.dumps(CUBE)) == CUBE
    assert {CUBE: 1}[place_of(str(CUBE))] == 1
    assert not is_in_bucket("/s3/bucket")
