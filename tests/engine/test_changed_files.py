"""Files that are replaced while a run goes: no cube holds rows of two tables, on any executor."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap import designs
from dshap.core.errors import FailedBlocksError, InputError, StoreMismatchError
from dshap.values import ConditionalRegression, Marginal

N_FILES, FILE_ROWS = 6, 100
"""More files than a thread keeps open, a block each."""
FIRST_SIGN = 70
"""Row behind those that a model is known by: it holds the sign by which the first block is told."""
SIGN = 1000.0
BACKGROUND = np.random.default_rng(5).normal(size=(4, 3))


def of_numbers(folder: Path, number: int, scale: float) -> Path:
    """A file of the table, or one of other numbers to put in its place: of as many bytes, written
    at the same time."""
    x = np.random.default_rng(number).normal(size=(FILE_ROWS, 3)).round(2)
    if number == 0:
        x[FIRST_SIGN, 0] = SIGN
    folder.mkdir(exist_ok=True)
    path = folder / f"{number}.parquet"
    frame = pd.DataFrame(scale * x, columns=["a", "b", "c"]).assign(
        id=np.arange(FILE_ROWS) + FILE_ROWS * number
    )
    frame.to_parquet(path, compression=None)
    os.utime(path, (10**9, 10**9))
    return path


@pytest.fixture
def table(tmp_path) -> Path:
    for number in range(N_FILES):
        of_numbers(tmp_path / "table", number, 1.0)
    return tmp_path / "table"


def replacing(old: Path, new: Path):
    """A model that has one file put in the place of another when it sees the first block."""
    old, new = str(old), str(new)

    def predict(rows):
        if (rows == SIGN).any() and os.path.exists(new):
            os.replace(new, old)
        return rows[:, 0] * rows[:, 1] + rows[:, 2]

    return predict


def explained(value, table, tmp_path, client):
    options = {"instance_tile": FILE_ROWS, "design": designs.exact(3), "progress": False}
    return dshap.explain(
        value, table, key="id", store=tmp_path / "cube.zarr", client=client, **options
    )


@pytest.mark.slow
@pytest.mark.parametrize("on_cluster", [False, pytest.param(True, marks=pytest.mark.cluster)])
@pytest.mark.parametrize(
    ("replaced", "when"),
    [(0, "between its read and its receipt"), (N_FILES - 1, "between the census and its read")],
)
def test_a_block_of_a_replaced_file_fails(
    table, tmp_path, request, in_this_process, on_cluster, replaced, when
):
    client = request.getfixturevalue("client") if on_cluster else None
    new = of_numbers(tmp_path / "new", replaced, -1.0)
    old = table / f"{replaced}.parquet"
    assert new.stat().st_size == old.stat().st_size
    value = Marginal(replacing(old, new), BACKGROUND, feature_names=["a", "b", "c"])
    with pytest.raises(
        FailedBlocksError,
        match=rf"/{replaced}\.parquet changed during the run \(another file of",
    ):
        explained(value, table, tmp_path, client)
    cube = dshap.open_cube(tmp_path / "cube.zarr")
    of_block = cube.status.values.reshape(N_FILES, FILE_ROWS)
    is_failed = (of_block == dshap.core.blocks.Status.FAILED).all(axis=1)
    assert is_failed[replaced], when
    assert not is_failed.all(), when
    assert (of_block[~is_failed] == dshap.core.blocks.Status.OK).all(), when
    assert np.isnan(cube.attribution.values.reshape(N_FILES, -1)[is_failed]).all()
    with pytest.raises(StoreMismatchError):  # the census judges what stands there now
        explained(value, table, tmp_path, client)


def test_data_that_are_replaced_are_not_learned_from(table, tmp_path, in_this_process):
    """The value function reads its data again and again: a pass over another table ends the run,
    without a store."""
    new = of_numbers(tmp_path / "new", N_FILES - 1, -1.0)
    predict = replacing(table / f"{N_FILES - 1}.parquet", new)
    value = ConditionalRegression(
        predict,
        table,
        dshap.kernels.RBF(1.0),
        dshap.kernels.Nystrom(8),
        feature_names=["a", "b", "c"],
    )
    rows = pd.DataFrame(BACKGROUND, columns=["a", "b", "c"])
    with pytest.raises(
        InputError, match=r"changed during the run \(another file of the same size and time"
    ):
        dshap.explain(value, rows, store=tmp_path / "cube.zarr", progress=False)
    assert not (tmp_path / "cube.zarr").exists()


def test_a_background_that_is_read_for_every_row_fails_its_blocks(table, tmp_path, in_this_process):
    new = of_numbers(tmp_path / "new", N_FILES - 1, -1.0)
    predict = replacing(table / f"{N_FILES - 1}.parquet", new)
    value = Marginal(predict, table, feature_names=["a", "b", "c"])
    rows = pd.DataFrame(np.full((2, 3), SIGN), columns=["a", "b", "c"])
    with pytest.raises(
        (FailedBlocksError, InputError),
        match=r"changed during the run \(another file of the same",
    ):
        dshap.explain(value, rows, store=tmp_path / "cube.zarr", progress=False)
