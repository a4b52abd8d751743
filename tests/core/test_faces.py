"""Packages whose names are imported when they are used: nothing is lost, nothing heavy is loaded."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dshap
from dshap.core import late
from tests.cube.cubes import make_cube

PACKAGE = Path(dshap.__file__).parent
FACES = sorted(
    ".".join(["dshap", *stub.parent.relative_to(PACKAGE).parts])
    for stub in PACKAGE.rglob("__init__.pyi")
)
HEAVY = ("dask", "distributed", "numba", "pandas", "pyarrow", "scipy.linalg", "xarray", "zarr")


@pytest.mark.parametrize("name", FACES)
def test_every_name_of_a_stub_is_there(name):
    package = importlib.import_module(name)
    assert package.__all__
    for each in package.__all__:
        assert each.isidentifier()
        assert getattr(package, each) is not None
    assert set(dir(package)) == set(package.__all__)
    with pytest.raises(AttributeError, match=rf"'{name}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018


def run(code: str, folder: Path) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_module_never_hides_a_function_of_its_name(tmp_path):
    """`designs.exact` is a module and a function, whichever is imported first."""
    code = """
        import dshap.designs.exact, dshap.designs.kriging.pilot, dshap
        print(dshap.designs.exact.__name__, dshap.designs.kriging.__name__)
        print(callable(dshap.designs.exact), callable(dshap.designs.kriging))
    """
    assert run("\n".join(map(str.strip, code.split("\n"))), tmp_path).split() == [
        "exact", "kriging", "True", "True",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "member"), [("pd", "DataFrame"), ("xr", "Dataset"), ("zarr", "Array"), ("pa", "Table")]
)
def test_a_late_package_is_the_package(name, member):
    package = getattr(late, name)
    assert getattr(package, member) is getattr(importlib.import_module(package.__name__), member)
    with pytest.raises(AttributeError):
        package.nothing_of_this_name  # noqa: B018


LOADED = f"""
import sys
sys.argv = ["dshap", *{{arguments!r}}]
from dshap.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
print("loaded:", *[name for name in {HEAVY!r} if name in sys.modules])
"""


def loaded_by(folder: Path, *arguments: str) -> set[str]:
    """Heavy packages that a command has imported."""
    said = run(LOADED.format(arguments=arguments), folder)
    return set(said.rpartition("loaded:")[2].split())


@pytest.fixture
def store(tmp_path):
    make_cube(tmp_path / "store", tiles=[0, 1], skipped=(2,))
    return tmp_path


@pytest.mark.parametrize("command", ["status", "show"])
def test_commands_that_look_at_a_store_load_no_heavy_package(store, command):
    assert loaded_by(store, command, "store") == set()


def test_a_job_is_shown_without_heavy_packages(tmp_path):
    (tmp_path / "job.toml").write_text(
        '[job]\nname = "j"\nstore = "s"\n[source]\nkind = "parquet"\npath = "rows.parquet"\n'
        'target = "y"\n[model]\nkind = "kernel_ridge"\n'
        '[[explain]]\nname = "e"\nvalue = "kernel_interventional"\n'
    )
    assert loaded_by(tmp_path, "job", "job.toml") <= {"pyarrow"}


@pytest.mark.parametrize("value", ["kernel_interventional", "kernel_observational"])
def test_a_plan_compiles_nothing_and_makes_no_data_frame(tmp_path, value):
    """Rows of numbers are read by Arrow alone, and bytes of loops are counted without them."""
    columns = {name: np.random.default_rng(0).normal(size=50) for name in "abcy"}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    (tmp_path / "job.toml").write_text(
        '[job]\nname = "j"\nstore = "s"\n[source]\nkind = "parquet"\npath = "rows.parquet"\n'
        'target = "y"\n[model]\nkind = "kernel_ridge"\nlandmarks = 10\n'
        f'[[explain]]\nname = "e"\nvalue = "{value}"\n'
    )
    assert loaded_by(tmp_path, "plan", "job.toml") == {"pyarrow"}


def test_the_first_explanation_without_a_client_loads_no_cluster_package(tmp_path):
    code = """
import sys, numpy as np, dshap
x = np.random.default_rng(0).normal(size=(10, 4))
cube = dshap.explain(dshap.values.Marginal(lambda x: x.sum(axis=1), x), x)
print(*[name for name in ("distributed", "dask.array") if name in sys.modules])
"""
    assert run(code, tmp_path).strip() == ""


def test_an_environment_may_ask_for_threads(store, monkeypatch):
    """The one thread of commands that look is a default."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    said = run(
        LOADED.format(arguments=("status", "store"))
        + "import os; print(os.environ['OPENBLAS_NUM_THREADS'])",
        store,
    )
    assert said.split()[-1] == "2"


def test_a_stub_with_a_name_of_another_name(tmp_path, monkeypatch):
    """`from module import name as other`, in brackets and on a line."""
    package = tmp_path / "lazily"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from dshap.core.faces import lazy_face\n"
        "__getattr__, __dir__, __all__ = lazy_face(__name__, {'gone': ': give here'})\n"
    )
    (package / "__init__.pyi").write_text(
        "from lazily.part import (\n    one as first,\n    two,\n)\nfrom numpy import pi as PI\n"
    )
    (package / "part.py").write_text("one = 1\ntwo = 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    lazily = importlib.import_module("lazily")
    assert (lazily.first, lazily.two, lazily.PI) == (1, 2, np.pi)
    assert lazily.__all__ == ["PI", "first", "two"]
    with pytest.raises(AttributeError, match="no attribute 'gone': give here"):
        lazily.gone  # noqa: B018
