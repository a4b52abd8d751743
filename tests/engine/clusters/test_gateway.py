"""A gateway that does not answer is one line; tried by hand on one with its local backend."""

from __future__ import annotations

import pytest

from dshap.core.errors import InputError
from dshap.engine.clusters.gateway import gateway_client


def test_a_gateway_that_does_not_answer():
    pytest.importorskip("dask_gateway", reason="dask-gateway is not installed")
    with pytest.raises(InputError, match=r"no cluster of the gateway http://127\.0\.0\.1:1: "):
        gateway_client(address="http://127.0.0.1:1")
