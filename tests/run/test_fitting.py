"""Fits of several passes, and of Fourier features, on a cluster: the bits of the plain loop."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dshap
from dshap.core.errors import DoesNotFitError, InputError
from dshap.engine import LoopExecutor
from dshap.kernels import RBF, Fourier, Nystrom
from dshap.models import KernelLogistic, KernelRidge
from dshap.run.fitting import fit_models
from dshap.run.session import Session
from dshap.storage.running import alone
from dshap.tables import ArraySource


@pytest.fixture(scope="module")
def table():
    """Two spans of rows, and a number that targets are made of."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(70_000, 3))
    return x, np.sin(x[:, 0]) * x[:, 1] + x[:, 2] + rng.normal(size=len(x))


def models():
    """model, target of a number."""
    return {
        "ridge, Fourier": (KernelRidge(RBF("median"), Fourier(40), "validate", holdout=0.1), lambda f: f),
        "two classes": (KernelLogistic(RBF("median"), Nystrom(20), "validate", holdout=0.1, sample_size=2000),
                        lambda f: 1.0 * (f > 0)),
        "three classes, Fourier": (KernelLogistic(RBF(1.5), Fourier(30), 1e-4, sample_size=2000),
                                   lambda f: 1.0 * np.digitize(f, [-1, 1])),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("name", models())
def test_a_cluster_gives_the_bits_of_fit(name, table, client):
    x, number = table
    model, target = models()[name]
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    one = model.unfitted().fit(frame, target(number))
    two = dshap.fit(model, frame, target(number), client=client)
    assert one.expansion_.digest() == two.expansion_.digest()
    assert str(one.report_) == str(two.report_)
    if name != "ridge, Fourier":
        assert one.report_.convergence.n_passes == two.report_.convergence.n_passes > 1
        np.testing.assert_array_equal(one.classes_, two.classes_)


@pytest.mark.cluster
def test_a_worker_says_what_is_wrong_with_the_classes(table, client):
    x, number = table
    y = 1.0 * (number > 0)
    y[65_000] = 2.0
    with pytest.raises(InputError, match=r"class 2 occurs in the data .* raise sample_size"):
        dshap.fit(KernelLogistic(RBF(1.0), Nystrom(5), sample_size=500), x, y, client=client)
    with pytest.raises(InputError, match="more than 256 distinct values"):
        dshap.fit(KernelLogistic(RBF(1.0), Nystrom(5), sample_size=500), x, number, client=client)


@pytest.mark.slow
def test_sums_that_no_worker_can_hold_are_refused_at_once(table, tmp_path):
    """25 classes of 600 features: 300 blocks of 601², 0.8 GiB in a sum, and a system of 14,424
    rows."""

    class Small(LoopExecutor):
        memory_limit = 1 << 30

    x, number = table
    y = np.floor(np.clip(8 * number, -12, 12))
    model = KernelLogistic(RBF(1.0), Nystrom(5), 1e-3, sample_size=2000)
    session = Session(Small(), alone(tmp_path / "x", "a run"))
    (fitted,) = fit_models(session, model, ArraySource(x, target=y))
    assert len(fitted.classes_) == 25
    model.set_params(embedding=Fourier(600))
    with pytest.raises(
        DoesNotFitError,
        match=r"stage \w+ needs .* but workers have 1.0 GiB: ask for fewer landmarks",
    ):
        fit_models(session, model, ArraySource(x, target=y))
