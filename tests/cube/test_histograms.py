"""Histograms that are kept beside a cube: what was put is got, until a value of the cube changes."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.core.histograms import histogram_of
from dshap.core.records import Moments
from dshap.cube import histograms, is_finished, mark_finished, repair, verify_cube
from dshap.cube.histograms import KeptHistograms
from dshap.cube.reference_copy import histograms_of
from dshap.storage.sealed_files import StateFolder
from tests.cube.cubes import block_of, make_cube


@pytest.fixture
def cube(tmp_path, monkeypatch):
    monkeypatch.setattr(histograms, "LEAST_ROWS", 21)
    monkeypatch.setattr(histograms, "SHARE", 100.0)
    make_cube(tmp_path / "cube")
    return tmp_path / "cube"


def some(n: int = 500) -> Moments:
    rng = np.random.default_rng(n)
    return histogram_of(rng.normal(size=n) ** 5, rng.integers(0, 65, n), 65)


@pytest.mark.parametrize("n", [0, 1, 500])
def test_what_was_kept_is_read(cube, n):
    histogram = some(n)
    KeptHistograms.of(cube, 21).put({"a": histogram})
    found = KeptHistograms.of(cube, 21).get("a")
    assert found.digest() == histogram.digest()  # names, dtypes, shapes and values
    assert KeptHistograms.of(cube, 21).get("b") is None
    assert verify_cube(cube) == []


def test_small_and_unfinished_cubes_keep_none(cube, tmp_path):
    assert KeptHistograms.of(cube, 20) is None
    _, writer = make_cube(tmp_path / "part", tiles=(0, 1))
    assert KeptHistograms.of(tmp_path / "part", 21) is None
    writer.write(2, *block_of(writer.layout, 2))
    mark_finished(tmp_path / "part")
    assert KeptHistograms.of(tmp_path / "part", 21) is not None


def test_those_of_other_values_are_thrown_away(cube):
    """A block is computed anew with other numbers: the same file name would hold the old ones."""
    KeptHistograms.of(cube, 21).put({"a": some()})
    _, writer = make_cube(cube.parent / "other")  # a writer of the same layout
    writer.path = cube
    block, attribution = block_of(writer.layout, 1)
    (cube / "state/receipts/block-00000001.json").unlink()
    writer.write(1, block, attribution)
    assert KeptHistograms.of(cube, 21).get("a") is not None  # the same values again
    (cube / "state/receipts/block-00000001.json").unlink()
    attribution.phi[2, 1, 0] += 1.0
    writer.write(1, block, attribution)
    kept = KeptHistograms.of(cube, 21)
    assert kept.get("a") is None
    kept.put({"b": some()})
    assert list(histograms_of(cube).names()) == [f"{kept.values}-b"]


def test_a_damaged_one_is_made_again_and_nothing_needs_it(cube):
    kept = KeptHistograms.of(cube, 21)
    kept.put({"a": some()})
    (file,) = (cube / "state/histograms").iterdir()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert kept.get("a") is None
    (damage,) = verify_cube(cube)
    assert "histogram" in damage.place
    repair(cube)
    assert not file.exists()
    assert is_finished(cube)
    assert verify_cube(cube) == []
    file.write_bytes(content)
    kept.put({"a": some()})
    assert kept.get("a").digest() == some().digest()


def test_none_is_kept_beyond_its_share_or_without_the_right_to_write(cube, monkeypatch):
    monkeypatch.setattr(histograms, "SHARE", 0.0)
    KeptHistograms.of(cube, 21).put({"a": some()})
    assert KeptHistograms.of(cube, 21).get("a") is None
    monkeypatch.setattr(histograms, "SHARE", 100.0)

    def refused(*_):
        raise PermissionError("read-only file system")

    monkeypatch.setattr(StateFolder, "put", refused)
    KeptHistograms.of(cube, 21).put({"a": some()})
    assert KeptHistograms.of(cube, 21).get("a") is None
