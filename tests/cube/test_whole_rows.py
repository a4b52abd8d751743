"""The rows of a cube that may be copied, after damage to each kind of file."""

from __future__ import annotations

import numpy as np
import pytest

import dshap
from dshap.core.blocks import Status
from dshap.core.errors import UnreachableError
from dshap.cube import statuses_of_whole_blocks
from dshap.values import Marginal

N_ROWS = 40
TILE = 16
OK = int(Status.OK)
PENDING = int(Status.PENDING)
ALL = range(N_ROWS)
OF_BLOCK_1 = range(16, 32)
FILES = {
    "attribution/c.1*": OF_BLOCK_1,
    "prediction/c.1*": OF_BLOCK_1,
    "status/c.1": OF_BLOCK_1,
    "blocks/residual/c.1*": OF_BLOCK_1,
    "state/receipts/*1.json": OF_BLOCK_1,
    "base_value/c/*": ALL,
    "attribution/zarr.json": ALL,
    "state/created/*": ALL,
    "state/finished.json": (),
}
"""Pattern of files of a cube -> the rows that are lost with the first of them."""


@pytest.fixture
def cube(tmp_path):
    x = np.random.default_rng(0).normal(size=(N_ROWS, 2))
    value = Marginal(lambda rows: rows[:, 0] * rows[:, 1], x[:5], feature_names=["a", "b"])
    path = tmp_path / "c.zarr"
    dshap.explain(value, x, store=path, instance_tile=TILE, progress=False)
    return path


def test_a_whole_cube_has_all_its_statuses(cube):
    assert statuses_of_whole_blocks(cube, N_ROWS).tolist() == [OK] * N_ROWS


@pytest.mark.parametrize("how", ["flipped", "cut", "lost"])
@pytest.mark.parametrize("files", FILES)
def test_rows_of_damaged_blocks_are_pending(cube, files, how):
    file = next(each for each in sorted(cube.glob(files)) if each.is_file())
    content = bytearray(file.read_bytes())
    file.unlink()
    if how == "flipped":
        content[len(content) // 2] ^= 4
        file.write_bytes(content)
    if how == "cut":
        file.write_bytes(content[: len(content) // 2])
    lost = set(FILES[files])
    expected = [PENDING if row in lost else OK for row in range(N_ROWS)]
    assert statuses_of_whole_blocks(cube, N_ROWS).tolist() == expected


def test_what_cannot_be_reached_is_no_damage(cube, monkeypatch):
    def unreachable(*_):
        raise UnreachableError("the bucket does not answer")

    monkeypatch.setattr("dshap.cube.verify.has_digest", unreachable)
    with pytest.raises(UnreachableError):
        statuses_of_whole_blocks(cube, N_ROWS)
