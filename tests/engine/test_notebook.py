"""Progress in notebooks: a line that is replaced, whatever the number of states, in a kernel as in
its stored output."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import pytest

from dshap.engine import Events, NotebookProgress, is_notebook

SLOW_RUN = """
import time
import numpy as np
import dshap

def slow(x):
    time.sleep(0.2)
    return x[:, 0] * x[:, 1]

rows = np.random.default_rng(0).normal(size=(48, 3))
cube = dshap.explain(dshap.values.Marginal(slow, rows[:4]), rows, instance_tile=4)
"""
ASKED_NOT_TO = (
    "cube = dshap.explain(dshap.values.Marginal(lambda x: x[:, 0], rows[:4]), rows, progress=False)"
)


@pytest.fixture
def shown(monkeypatch) -> list[str]:
    """The states of the output that a notebook would show."""
    module = pytest.importorskip("IPython.display")
    states: list[str] = []

    def update(content, raw):
        assert raw
        states.append(content["text/plain"])

    def display(content, raw, display_id):
        assert display_id
        assert not states
        update(content, raw)
        return SimpleNamespace(update=update)

    monkeypatch.setattr(module, "display", display)
    return states


def test_a_stage_takes_the_place_of_the_last_one(shown):
    display = NotebookProgress()
    display.interval = 0.0
    progress = Events(display)
    progress.begin("moments", 2, "coalition tiles")
    progress.advance()
    progress.end()
    progress.say("constant: a\x1b; the attribution is 0")
    progress.begin("evaluation", 10, "rows", 4)
    progress.advance(6)
    progress.end()
    assert [state.count("\n") for state in shown] == [0, 0, 0, 1, 2, 2, 2]
    assert shown[0] == "moments: 0 of 2 coalition tiles"
    assert shown[1].startswith("moments 1 of 2 coalition tiles, ")
    assert shown[2].startswith("moments: 1 coalition tile in ")
    assert shown[4].splitlines()[-1] == "evaluation: 4 of 10 rows"
    moments, constant, last = shown[-1].splitlines()
    assert moments == shown[2]
    assert constant == r"constant: a\x1b; the attribution is 0"
    assert re.fullmatch(r"evaluation: 10 rows in \d\.\d s, 4 kept from before", last)


def test_this_process_is_no_notebook(monkeypatch):
    assert not is_notebook()
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not is_notebook()
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    assert is_notebook()


@pytest.mark.slow
def test_the_stored_output_of_a_run_is_its_last_stage_and_the_result():
    nbformat, nbclient = (pytest.importorskip(module) for module in ("nbformat", "nbclient"))
    cells = [nbformat.v4.new_code_cell(code) for code in (SLOW_RUN, ASKED_NOT_TO)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=300).execute()
    (output,), without = (cell.outputs for cell in notebook.cells)
    stage, result = output["data"]["text/plain"].splitlines()
    assert re.fullmatch(r"evaluation: 48 rows in \d+\.\d s", stage)
    assert result.startswith("48 rows × 3 features; mean |attribution|: x")
    assert without == []
