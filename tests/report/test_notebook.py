"""Each notebook runs from its text, in a kernel of its own; its outputs are put into the cache of the site."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.py"))
HEAD = "# ---\n# jupyter:\n#   kernelspec:\n#     display_name: P\n#     name: python3\n# ---\n"
GOOD = f"{HEAD}\n# %% [markdown]\n# # Good\n\n# %%\nprint(6 * 7)\n"
BAD = f"{HEAD}\n# %%\nx = 1\n\n# %% [markdown]\n# text\n\n# %%\ny = x\nraise ValueError('no such row')\n"


@pytest.fixture
def notebooks(tmp_path, monkeypatch):
    """The module that runs notebooks, with an empty cache."""
    pytest.importorskip("jupytext")
    pytest.importorskip("nbclient")
    from website import notebooks

    monkeypatch.setattr(notebooks, "CACHE", tmp_path / "cache")
    return notebooks


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_runs(name):
    pytest.importorskip("jupytext")
    pytest.importorskip("nbclient")
    from website.notebooks import run

    notebook = run(ROOT / "notebooks" / f"{name}.py")
    assert any(cell.outputs for cell in notebook.cells if cell.cell_type == "code")


def test_a_cell_that_fails_is_named_and_the_others_are_run_once(notebooks, tmp_path, capsys):
    good = tmp_path / "good.py"
    bad = tmp_path / "bad.py"
    good.write_text(GOOD)
    bad.write_text(BAD)
    with pytest.raises(notebooks.FailedNotebooksError) as failed:
        notebooks.executed([bad, good])
    assert str(failed.value) == (
        "bad.py, code cell 2, which begins with 'y = x': ValueError: no such row"
    )
    assert "2 of 2 notebooks were run" in capsys.readouterr().out
    (notebook,) = notebooks.executed([good])
    assert notebook.cells[1].outputs[0].text == "42\n"
    assert capsys.readouterr().out == ""


def test_an_interrupt_ends_the_run_and_its_kernels(notebooks, tmp_path):
    """As Ctrl-C does; a cell sends it to the process that started its kernel, once: the other kernel
    sleeps meanwhile, and the third notebook does not begin."""
    interrupting, sleeping, later = (tmp_path / f"{name}.py" for name in ("a", "b", "later"))
    interrupting.write_text(
        f"{HEAD}\n# %%\nimport os, signal, time\nos.kill(os.getppid(), signal.SIGINT)\ntime.sleep(60)\n"
    )
    sleeping.write_text(f"{HEAD}\n# %%\nimport time\ntime.sleep(60)\n")
    later.write_text(GOOD)
    with pytest.raises(KeyboardInterrupt):
        notebooks.executed([interrupting, sleeping, later])
    assert not notebooks.CACHE.joinpath("later.ipynb").exists()


def test_a_notebook_is_run_again_if_its_text_or_the_package_has_changed(
    notebooks, tmp_path, monkeypatch
):
    path = tmp_path / "one.py"
    path.write_text(GOOD)
    first = notebooks.digest_of(path)
    assert notebooks.digest_of(path) == first
    path.write_text(GOOD.replace("6 * 7", "6 * 8"))
    assert notebooks.digest_of(path) != first
    path.write_text(GOOD)
    monkeypatch.setattr(notebooks, "materials", lambda: "another version of the package")
    assert notebooks.digest_of(path) != first


def test_outputs_depend_on_the_package_its_versions_and_its_data(notebooks):
    files = {file.relative_to(ROOT).as_posix() for file in notebooks.material_files()}
    assert {"dshap/api.py", "constraints.txt", "workflows/data/bike_hour.parquet"} <= files
    assert not any(name.endswith((".pyc", ".nbi", ".nbc")) for name in files)


def test_readme_names_every_notebook():
    assert NOTEBOOKS
    assert all(f"notebooks/{name}.py" in (ROOT / "README.md").read_text() for name in NOTEBOOKS)
