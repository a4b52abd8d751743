"""What people wrote beside a cube: it may change when the cube is finished, and nothing else does."""

from __future__ import annotations

import json

from dshap.core.column_dictionary import ColumnDictionary
from dshap.cube import is_finished, mark_finished, open_cube, read_notes, verify_cube
from dshap.cube.described import NOT_DESCRIBED, Description, describe_cube
from tests.cube.cubes import make_cube

FIRST = Description(ColumnDictionary.of({"a": {"label": "Älter"}}), {"purpose": "Test"})


def test_a_description_is_kept_changed_and_taken_back(tmp_path):
    make_cube(tmp_path / "cube")
    path = tmp_path / "cube"
    assert describe_cube(path, FIRST)
    assert not describe_cube(path, FIRST)
    assert read_notes(path)["card"] == {"purpose": "Test"}
    assert json.loads(open_cube(path).attrs["columns"])["entries"] == {"a": {"label": "Älter"}}
    assert describe_cube(path, Description(ColumnDictionary.of({"a": {"label": "b"}})))
    assert read_notes(path)["columns"] == {"entries": {"a": {"label": "b"}}}
    assert read_notes(path)["card"] == {"purpose": "Test"}, "what is not described stays"
    assert not describe_cube(path, NOT_DESCRIBED)
    assert describe_cube(path, Description(ColumnDictionary(), {}))
    assert read_notes(path) == {}
    assert is_finished(path)


def test_a_changed_description_is_no_damage(tmp_path):
    """The list of a finished run has the digest of every note."""
    make_cube(tmp_path / "cube")
    describe_cube(tmp_path / "cube", FIRST)
    mark_finished(tmp_path / "cube")
    assert verify_cube(tmp_path / "cube") == []
    describe_cube(tmp_path / "cube", Description(ColumnDictionary(), {"purpose": "Other"}))
    assert verify_cube(tmp_path / "cube") == []
