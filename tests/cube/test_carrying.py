"""Rows of an earlier cube, read in whole pieces and written as they are, with bounds of their
errors in the block's sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import zarr

from dshap.core.blocks import Status, jackknife_errors
from dshap.core.errors import DshapError
from dshap.cube import CarriedRows, CubeWriter, create_cube, mark_finished, verify_cube
from dshap.cube.carrying import rows_at
from dshap.cube.stored_rows import StoredRows
from dshap.cube.summary import STATISTICS, block_sums, bounded_sums, estimates
from tests.cube.cubes import CHUNK, N_ROWS, TILE, block_of, make_cube, phi_of
from tests.cube.test_summary import attribution_of, noisy

ROWS, SHARD = 48, 12


class Counted(StoredRows):
    """An array that counts its reads."""

    def __init__(self, place):
        super().__init__(place)
        self.__dict__["reads"] = []

    def read(self, start, stop):
        self.reads.append((start, stop))
        return super().read(start, stop)


@pytest.fixture(scope="module")
def array(tmp_path_factory):
    path = tmp_path_factory.mktemp("array") / "a"
    made = zarr.create_array(
        path, shape=(ROWS, 2), chunks=(CHUNK, 2), shards=(SHARD, 2), dtype="f8"
    )
    made[...] = np.arange(2.0 * ROWS).reshape(ROWS, 2)
    return path


@pytest.mark.parametrize(
    ("positions", "n_reads"),
    [
        (np.arange(ROWS), ROWS // SHARD),
        (np.delete(np.arange(ROWS), [1, 17, 40]), ROWS // SHARD),
        (np.arange(ROWS)[::-1], ROWS // SHARD),
        (np.array([3, 3, 2]), 1),
        (np.array([0, 11]), 2),
        (np.array([47]), 1),
        (np.zeros(0, np.int64), 0),
    ],
    ids=["all", "few gone", "reversed", "twice", "chunks apart", "the last", "none"],
)
def test_rows_are_read_in_contiguous_pieces_of_a_shard(array, positions, n_reads):
    counted = Counted(array)
    found = rows_at(counted, positions)
    np.testing.assert_array_equal(found, np.arange(2.0 * ROWS).reshape(ROWS, 2)[positions])
    assert len([each for each in counted.reads if each != (0, 0)]) == n_reads


def carrying(tmp_path, positions, **change):
    """An earlier cube, and a writer of one that carries rows of it."""
    layout, old = make_cube(tmp_path / "old", skipped=(2,), **change)
    np.save(tmp_path / "p.npy", positions)
    create_cube(tmp_path / "new", layout)
    carried = CarriedRows(tmp_path / "old", tmp_path / "p.npy", np.ones((1, 1)))
    writer = CubeWriter(tmp_path / "new", layout, layout.run["digest"], carried)
    writer.write_base(np.arange(1.0, len(layout.outputs) + 1))
    return layout, old, writer


def test_a_block_of_both_kinds_of_rows(tmp_path):
    """Row i takes row 20 − i of the earlier cube where i is even; the others are explained."""
    positions = np.where(np.arange(N_ROWS) % 2, -1, 20 - np.arange(N_ROWS))
    layout, _, writer = carrying(tmp_path, positions)
    for tile in range(layout.n_blocks):
        block, _ = block_of(layout, tile)
        is_carried = writer.is_carried(tile)
        np.testing.assert_array_equal(is_carried, block.positions % 2 == 0)
        narrowed = replace(block, is_ok=block.is_ok & ~is_carried)
        _, attribution = block_of(layout, tile, tuple(np.flatnonzero(is_carried)))
        writer.write(tile, narrowed, attribution)
    found, status, count = (
        np.asarray(zarr.open_array(writer.path / name)[...])
        for name in ("attribution", "status", "blocks/count")
    )
    even = np.arange(N_ROWS) % 2 == 0
    np.testing.assert_array_equal(found[even], phi_of(layout, (2,))[::-1][even])
    was_skipped = (20 - np.arange(N_ROWS)) % TILE == 2
    assert (status == np.where(even & was_skipped, Status.SKIPPED, Status.OK)).all()
    mark_finished(writer.path)
    assert np.isfinite(found[~even]).all()
    assert verify_cube(writer.path) == []
    assert count.sum() == (status == Status.OK).sum()


def test_a_row_that_is_pending_there_is_refused(tmp_path):
    layout, old, writer = carrying(tmp_path, np.arange(N_ROWS))
    zarr.open_array(old.path / "status", mode="r+")[4] = Status.PENDING
    block, _ = block_of(layout, 0)
    with pytest.raises(DshapError, match=r"row 4 of .* is pending: it cannot be carried"):
        writer.write(0, replace(block, is_ok=np.zeros(TILE, bool)), writer.unexplained(0, ""))
    assert writer.done() == set()


@pytest.mark.parametrize("factors", [1, 7, 40])
def test_errors_of_means_are_bounded_and_their_values_are_those_of_the_replicates(factors, rng):
    """Errors that move together, and errors that do not: the bound is met by the first alone."""
    phi, replicates = noisy(
        rng.normal(size=(90, 3)) * [0.0, 0.2, 3.0], np.full((90, 3, factors), 0.4), rng
    )
    attribution = attribution_of(phi, replicates)
    exact = block_sums(attribution)[..., 0] / len(phi)
    parts = np.split(np.arange(len(phi)), [30, 31])
    bounded = sum(
        bounded_sums(attribution.phi[part], attribution.std_error[part], len(replicates))
        for part in parts
    )[..., 0] / len(phi)
    np.testing.assert_allclose(bounded[0], exact[0], rtol=1e-12)
    for j, name in enumerate(STATISTICS):
        errors = [jackknife_errors(each[0, j], each[1:, j]) for each in (exact, bounded)]
        assert (errors[1] >= errors[0] * (1 - 1e-12)).all(), name
    one, other = (
        estimates({name: each[:, j] for j, name in enumerate(STATISTICS)})
        for each in (exact, bounded)
    )
    for name in one:
        np.testing.assert_allclose(other[name].value, one[name].value, rtol=1e-12)
        assert (other[name].std_error >= one[name].std_error * (1 - 1e-12)).all()


def test_sums_without_errors_have_no_bounds(rng):
    phi = rng.normal(size=(5, 3, 2))
    assert bounded_sums(phi, None, 0).shape == (1, len(STATISTICS), 3, 2)
