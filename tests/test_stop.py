"""A model that fails on every block: the run stops after the first few alike, and says so once."""

from __future__ import annotations

import pytest

import dshap
from dshap.core.errors import FailedBlocksError
from dshap.engine import checked_client
from dshap.values import Marginal

ROWS, TILE = 400, 10


@pytest.fixture
def rows(rng):
    return rng.normal(size=(ROWS, 3))


class Counted:
    """Predicts up to 64 rows, which is how a model is tried; the mixes of a block are more."""

    def __init__(self) -> None:
        self.n_failed = 0

    def __call__(self, x):
        if len(x) > 64:
            self.n_failed += 1
            raise KeyError(f"weights of batch {self.n_failed}")
        return x[:, 0] * x[:, 1]


@pytest.mark.slow
def test_a_run_whose_blocks_all_fail_alike_stops(rows, tmp_path):
    """It went through all 782 blocks."""
    model, store = Counted(), tmp_path / "cube.zarr"
    with pytest.raises(FailedBlocksError) as caught:
        dshap.explain(Marginal(model, rows[:20]), rows, store=store, instance_tile=TILE)
    message = str(caught.value)
    assert "the first 8 of 40 blocks failed for the same reason" in message
    assert "KeyError" in message
    assert "\n" not in message
    # each block as a whole, then halved down to single rows
    assert model.n_failed == 8 * (1 + 2 * TILE - 1)
    cube = dshap.open_cube(store)
    assert (cube.status.values == 3).sum() == 8 * TILE
    assert (cube.status.values == 0).sum() == ROWS - 8 * TILE
    cube.close()
    done = dshap.explain(
        Marginal(first_two, rows[:20]), rows, store=tmp_path / "other.zarr", instance_tile=TILE
    )
    assert (done.status.values == 1).all()


def first_two(x):
    return x[:, 0] * x[:, 1]


def test_failures_of_different_kinds_are_all_told(rows, tmp_path):
    """Reasons that differ in more than numbers may end: the others are tried."""

    def predict(x):
        if len(x) > 64:
            raise (KeyError if x[0, 0] > 0 else ValueError)("no")
        return first_two(x)

    with pytest.raises(FailedBlocksError, match="40 of 40 blocks"):
        dshap.explain(
            Marginal(predict, rows[:20]), rows, store=tmp_path / "cube.zarr", instance_tile=TILE
        )


def test_one_good_block_keeps_the_run_going(rows, tmp_path):
    calls = iter(range(10**6))

    def predict(x):
        if len(x) > 64 and next(calls):
            raise KeyError("no")
        return first_two(x)

    with pytest.raises(FailedBlocksError, match="39 of 40 blocks"):
        dshap.explain(
            Marginal(predict, rows[:20]), rows, store=tmp_path / "cube.zarr", instance_tile=TILE
        )


def fails_on_many(x):
    if len(x) > 64:
        raise KeyError("weights")
    return x[:, 0] * x[:, 1]


@pytest.mark.cluster
def test_on_a_cluster_no_worker_prints_a_traceback(client, rows, tmp_path, capfd):
    with pytest.raises(FailedBlocksError, match="failed for the same reason"):
        dshap.explain(
            Marginal(fails_on_many, rows[:20]),
            rows,
            store=tmp_path / "c.zarr",
            instance_tile=TILE,
            client=client,
        )
    captured = capfd.readouterr()
    assert "Traceback" not in captured.err
    assert "Compute Failed" not in captured.err


@pytest.mark.cluster
def test_a_client_by_address(rows, open_client):
    by_address = open_client.scheduler.address
    phi = dshap.explain(Marginal(first_two, rows[:20]), rows[:30], client=by_address)
    assert (phi.status.values == 1).all()
    assert checked_client(by_address) is checked_client(by_address) is not open_client
    checked_client(by_address).close()
