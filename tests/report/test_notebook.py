"""Each notebook runs from its text, in a kernel of its own; what it printed is kept for the site."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.py"))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_runs(name):
    jupytext, nbclient, nbformat = map(pytest.importorskip, ("jupytext", "nbclient", "nbformat"))
    notebook = jupytext.read(ROOT / "notebooks" / f"{name}.py")
    folder = ROOT / "build" / "notebooks"  # a notebook runs in its own folder
    folder.mkdir(parents=True, exist_ok=True)
    nbclient.NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": str(folder)}}
    ).execute()
    nbformat.write(notebook, folder / f"{name}.ipynb")
    assert any(cell.outputs for cell in notebook.cells if cell.cell_type == "code")


def test_readme_names_every_notebook():
    assert NOTEBOOKS
    assert all(f"notebooks/{name}.py" in (ROOT / "README.md").read_text() for name in NOTEBOOKS)
