"""The steps of a run: sums of a coalition tile that are stored while it is learned."""

from __future__ import annotations

import numpy as np
import pytest

import dshap
from dshap import designs
from dshap.core.records import CHAIN
from dshap.cube import verify_cube
from dshap.kernels import RBF, Nystrom
from dshap.run.identity import stored_plan
from dshap.values import KernelObservational

N, SPAN = 2_000, 20
OPTIONS = {"row_span": SPAN, "coalition_tile": 6, "progress": False, "client": None}


class Killed(Exception):
    """The end of a run in the midst of its moments."""


class Watched(KernelObservational):
    """A value function that counts the spans that it sums over, and may stop at one of them."""

    spans, last = 0, np.inf

    def moments(self, masks, rows, predictions=None):
        if self.spans >= self.last:
            raise Killed
        type(self).spans += 1
        return super().moments(masks, rows, predictions)


@pytest.fixture
def job(monkeypatch):
    monkeypatch.setattr("dshap.engine.tiles.KEPT_SUM_SECONDS", 0.0)
    x = np.random.default_rng(0).normal(size=(N, 4))
    model = dshap.models.KernelRidge(RBF(1.0), embedding=Nystrom(30), penalty=1e-4)
    model.fit(x, x[:, 0] * x[:, 1] + x[:, 2])

    def explain(store, last=np.inf):
        Watched.spans, Watched.last = 0, last
        value = Watched(model, x, Nystrom(20), penalty=1e-3)
        cube = dshap.explain(value, x[:50], design=designs.exact(4), store=store, **OPTIONS)
        return cube.attribution.values

    return explain


def states(store):
    return sorted(path.name.partition("-")[0] for path in (store / "state").glob("*.npz"))


@pytest.mark.parametrize("last", [1, CHAIN, CHAIN + 1, 99, 100, 140, 299])
def test_a_run_that_was_stopped_goes_on_from_its_sums(job, tmp_path, last):
    """The values are the same bits; no span of a stored sum is summed again; nothing is left over,
    and what a stopped run has is whole."""
    whole = job(tmp_path / "whole.zarr")
    n_spans = N // SPAN
    assert Watched.spans == 3 * n_spans
    store = tmp_path / "stopped.zarr"
    with pytest.raises(Killed):
        job(store, last)
    assert verify_cube(store) == []
    n_tiles, rest = divmod(last, n_spans)
    n_kept = n_tiles * n_spans + rest // CHAIN * CHAIN
    assert states(store).count("moments") == n_tiles
    assert ("sums" in states(store)) == (rest >= CHAIN)
    again = job(store)
    assert Watched.spans == 3 * n_spans - n_kept
    assert again.tobytes() == whole.tobytes()
    assert "sums" not in states(store)
    assert verify_cube(store) == []


def test_a_damaged_sum_is_summed_again(job, tmp_path):
    whole = job(tmp_path / "whole.zarr")
    store = tmp_path / "stopped.zarr"
    with pytest.raises(Killed):
        job(store, CHAIN)
    (damaged,) = (store / "state").glob("sums-*.npz")
    damaged.write_bytes(damaged.read_bytes()[:-9] + b"\0" * 9)
    assert [damage.place for damage in verify_cube(store)] == [f"state {damaged.stem}"]
    assert job(store).tobytes() == whole.tobytes()
    assert Watched.spans == 3 * N // SPAN


def test_the_plan_says_what_a_crash_costs(job, tmp_path):
    job(tmp_path / "whole.zarr")
    assert f"{CHAIN} spans of a coalition tile" in str(stored_plan(tmp_path / "whole.zarr"))
