"""The notebook runs from its text, in a kernel of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_first_explanation():
    pytest.importorskip("jupytext")
    pytest.importorskip("nbmake")
    notebook = ROOT / "build" / "notebooks" / "first_explanation.ipynb"  # a notebook runs in its own folder
    notebook.parent.mkdir(parents=True, exist_ok=True)
    source = ROOT / "notebooks" / "first_explanation.py"
    convert = ["jupytext", "--to", "notebook", "--set-kernel", "python3", "-o", str(notebook), str(source)]
    check = ["pytest", "-q", "--nbmake", str(notebook)]
    for command in (convert, check):
        done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
