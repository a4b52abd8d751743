"""Files of the user's that are imported: what they raise is told in one line, with the place."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import dshap
from dshap.core.errors import DamagedError, InputError
from dshap.core.user_code import import_module, make_importable, raised_by_import, told_by_workers
from dshap.values import Marginal


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder of a job, first in `sys.path`; what is imported from it is forgotten at the end."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr("dshap.core.user_code.JOB_FOLDERS", [])
    known = set(sys.modules)
    make_importable(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_a_module_beside_the_job(folder):
    (folder / "my_own_model.py").write_text("import my_own_helper\n")
    (folder / "my_own_helper.py").write_text("weight = 3\n")
    assert import_module("my_own_model").my_own_helper.weight == 3
    make_importable(folder)
    assert sys.path.count(str(folder)) == 1
    assert sys.path[0] == str(folder)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\nraise ValueError('weights are gone\\n  in a stack of 40 lines')\n",
         "own_broken.py raised while it was imported: ValueError: weights are gone, in "
         "{folder}/own_broken.py:2"),
        ("import no_such_package\n",
         "own_broken.py raised while it was imported: ModuleNotFoundError: No module named "
         "'no_such_package', in "
         "{folder}/own_broken.py:1"),
        ("import own_broken_part\n",
         "own_broken.py raised while it was imported: KeyError: 'k', in "
         "{folder}/own_broken_part.py:2"),
        ("import json\n\njson.loads('{')\n",
         "own_broken.py raised while it was imported: JSONDecodeError: Expecting property name "
         "enclosed in double "
         "quotes: line 1 column 2 (char 1), in {folder}/own_broken.py:3"),
        ("def f(:\n", "own_broken.py is not valid Python: invalid syntax, in {folder}/own_broken.py:1"),
        ("raise SystemExit(3)\n",
         "own_broken.py raised while it was imported: SystemExit: 3, in {folder}/own_broken.py:1"),
        (f"raise ValueError('{'x' * 2000}')\n",
         f"own_broken.py raised while it was imported: ValueError: {'x' * 299}…, in "
         f"{{folder}}/own_broken.py:1"),
    ],
)  # fmt: skip
def test_a_module_that_raises(folder, text, said):
    (folder / "own_broken.py").write_text(text)
    (folder / "own_broken_part.py").write_text("table = {}\ntable['k']\n")
    with pytest.raises(InputError) as caught:
        import_module("own_broken")
    assert str(caught.value) == said.format(folder=folder)


def test_a_module_that_there_is_not(folder, monkeypatch):
    said = (
        f"there is no module no_such_one: looked in {folder} (the folder of the job file), on "
        "PYTHONPATH and in the installed "
    )
    with pytest.raises(InputError) as caught:
        import_module("no_such_one")
    assert str(caught.value).startswith(said)
    with pytest.raises(InputError, match="there is no module no_such_one: "):
        import_module("no_such_one.part")
    monkeypatch.setattr("dshap.core.user_code.JOB_FOLDERS", [])
    with pytest.raises(InputError, match="there is no module no_such_one: looked on PYTHONPATH"):
        import_module("no_such_one")


def test_two_jobs_with_modules_of_one_name(folder, tmp_path_factory):
    """The second would be explained with the model of the first."""
    (folder / "own_twin.py").write_text("weight = 1\n")
    assert import_module("own_twin").weight == 1
    other = tmp_path_factory.mktemp("other")
    (other / "own_twin.py").write_text("weight = 2\n")
    make_importable(other)
    with pytest.raises(
        InputError,
        match=r"module own_twin is .*own_twin.py in this process, not .*two processes",
    ):
        import_module("own_twin")
    (other / "json.py").write_text("")  # which Python has imported long ago
    with pytest.raises(InputError, match=r"module json is .*rename the file"):
        import_module("json")


def test_an_error_of_the_library_is_no_error_of_the_users(folder):
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018
    assert raised_by_import(caught.value) == ""


def test_what_workers_lack_is_told():
    error = Exception("ModuleNotFoundError(\"No module named 'my_model'\")")
    assert told_by_workers(error).startswith(
        "there is no module my_model there; workers that dshap did not start"
    )
    assert told_by_workers(ValueError("a\nb")) == "ValueError: a"


def test_a_file_in_the_way_of_a_package_is_no_damage_of_a_store(
    folder, in_this_process, monkeypatch
):
    """xarray imports a package `sparse` where there is one."""
    rows = np.random.default_rng(0).normal(size=(20, 3))
    dshap.explain(Marginal(lambda x: x[:, 0], rows[:5]), rows, store=folder / "a.zarr")
    (folder / "sparse.py").write_text("raise ValueError('my own file')\n")

    def opens(*_, **__):
        import_module_of_xarray("sparse")

    def import_module_of_xarray(name):
        import importlib

        importlib.import_module(name)

    monkeypatch.setattr("dshap.cube.reader.xr.open_zarr", opens)
    with pytest.raises(
        InputError, match=r"sparse.py raised while it was imported: ValueError: my own file"
    ) as caught:
        dshap.open_cube(folder / "a.zarr")
    assert not isinstance(caught.value, DamagedError)
    assert "rename it" in str(caught.value)
