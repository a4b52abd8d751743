"""Each notebook runs from its text, in a kernel of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.py"))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_runs(name):
    pytest.importorskip("jupytext")
    pytest.importorskip("nbmake")
    notebook = ROOT / "build" / "notebooks" / f"{name}.ipynb"  # a notebook runs in its own folder
    notebook.parent.mkdir(parents=True, exist_ok=True)
    source = ROOT / "notebooks" / f"{name}.py"
    convert = ["jupytext", "--to", "notebook", "--set-kernel", "python3", "-o", str(notebook), str(source)]
    check = ["pytest", "-q", "--nbmake", str(notebook)]
    for command in (convert, check):
        done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_readme_names_every_notebook():
    assert NOTEBOOKS
    assert all(f"notebooks/{name}.py" in (ROOT / "README.md").read_text() for name in NOTEBOOKS)
