"""Shared fixtures: one local cluster of two worker processes for the whole session, and small
kernel models."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from dshap.engine import local_client, shut_down
from dshap.kernels import RBF, Categorical, Laplacian, Matern, Product
from dshap.models import KernelExpansion
from tests.buckets import Service, running_azure, running_s3
from tests.databases import Server, running_postgresql
from tests.pages import ROOT
from tests.processes import fork_workers

# Workers of clusters that a test starts in its own process.  Those of commands and scripts that
# tests run are new processes, as they are for users.
fork_workers()


@pytest.fixture(scope="session")
def client() -> Iterator[object]:
    """Two worker processes of one thread, ended with the session."""
    # tests say which client they mean
    with contextlib.chdir(ROOT):  # workers outlive the folder of the test that starts them
        started = local_client(2, memory_limit="2GiB", set_as_default=False)
    yield started
    shut_down(started)


@pytest.fixture(scope="session")
def open_client() -> Iterator[object]:
    """One worker process, without certificates: others may connect by the address of its
    scheduler."""
    with contextlib.chdir(ROOT):
        started = local_client(1, memory_limit="2GiB", set_as_default=False, is_open=True)
    yield started
    shut_down(started)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Server]:
    """One PostgreSQL for all tests of this process."""
    with running_postgresql() as started:
        yield started


@pytest.fixture(scope="module")
def postgresql(postgresql_server: Server) -> Server:
    """A database of the module's own on that server."""
    return postgresql_server.with_new_database()


@pytest.fixture(autouse=True)
def allocator_of_the_system() -> None:
    """Processes that a test starts allocate as they would alone: dask leaves this in the
    environment when it starts workers, and with it every large array is new pages (a second program
    on the demo's cubes took 6 times as long)."""
    os.environ.pop("MALLOC_TRIM_THRESHOLD_", None)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """`explain` and its like not on a cluster that another test may have left as the current
    one."""
    monkeypatch.setattr("dshap.run.session.current_client", lambda: None)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def expansion(rng: np.random.Generator) -> KernelExpansion:
    """A kernel model of five columns, every family among its factors, two outputs."""
    kernel = Product(
        [RBF(1.1), Matern(1.5, 0.9), Laplacian(1.4), Matern(2.5, 1.2), Categorical(0.3)]
    ).bind(5)
    landmarks = np.column_stack([rng.normal(size=(20, 4)), rng.integers(0, 3, 20)])
    return KernelExpansion(kernel, landmarks, rng.normal(size=(20, 2)), np.array([0.5, -1.0]))


@pytest.fixture
def table(rng: np.random.Generator) -> np.ndarray:
    """(300, 5): four numeric columns and a category."""
    return np.column_stack([rng.normal(size=(300, 4)), rng.integers(0, 3, 300)])


@pytest.fixture
def keyed_table() -> pd.DataFrame:
    """400 rows with a key, of which the first are no others of the table: a black box is known by
    their predictions."""
    x = np.random.default_rng(0).normal(size=(400, 3))
    return pd.DataFrame(x, columns=["a", "b", "c"]).assign(id=np.arange(400) + 10)


@pytest.fixture(scope="module")
def s3_service() -> Iterator[Service]:
    """One S3 for the tests of a module."""
    with running_s3() as started:
        yield started


@pytest.fixture(scope="module")
def azure_environment() -> Iterator[dict[str, str]]:
    """One Azure for the tests of a module, by the variables that lead to it."""
    with running_azure() as environment:
        yield environment


@pytest.fixture
def azure(azure_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """That Azure, reached by the environment of this process."""
    for name, given in azure_environment.items():
        monkeypatch.setenv(name, given)


@pytest.fixture
def s3(s3_service: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """That S3 without faults, reached by the environment of this process."""
    for name, given in s3_service.environment.items():
        monkeypatch.setenv(name, given)
    s3_service.rate = 0.0
    s3_service.is_conditional = True
    s3_service.compares = True
    s3_service.is_closed = False
    s3_service.asked.clear()
    return s3_service


@pytest.fixture(autouse=True)
def without_own_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No command that runs in the process of the tests starts others, however slow the machine is."""
    monkeypatch.setattr("dshap.engine.own_processes.LOOK_S", float("inf"))
