"""The last runs on a page: shares of each run, those of the last 30, and no history of one run."""

from __future__ import annotations

import json

import numpy as np

from dshap.cube import set_current
from dshap.report.pages import run_history as history_module
from dshap.report.pages.run_history import histories_of
from tests.cube.cubes import make_cube, phi_of
from tests.report.pages.page_names import plain_texts


def nights(folder, n: int) -> list[str]:
    runs = [f"202601{day:02}T020000Z" for day in range(1, n + 1)]
    for run in runs:
        make_cube(folder / run, outputs=("y",))
    set_current(folder, runs[-1])
    return runs


def test_shares_are_those_of_the_summaries(tmp_path, monkeypatch):
    folder = tmp_path / "s" / "one"
    runs = nights(folder, 4)
    monkeypatch.setattr(history_module, "LAST_RUNS", 3)
    texts = plain_texts("abc", c={"label": "<c>"})
    (found,) = histories_of({"one": folder / runs[-1]}, "y", texts)
    from tests.cube.cubes import layout_of

    phi = np.abs(phi_of(layout_of(outputs=("y",)))[:, :, 0]).mean(axis=0)
    order = np.argsort(-phi)
    expected = (phi / phi.sum())[order]
    assert len(found.shares) == 3
    for shares in found.shares:
        np.testing.assert_allclose(shares, expected, rtol=1e-6)
    assert [line.feature for line in found.lines] == np.array(["a", "b", "<c>"])[order].tolist()
    assert found.runs[0] == "2026-01-02, 21 rows"
    assert "no share changed" in found.sentence
    data = json.loads(str(found.json))
    assert data["largest"] == round(expected[0], 5)
    assert found.lines[0].path.count("L") == 2
    (before,) = histories_of({"one": folder / runs[2]}, "y", texts)
    assert before.runs[-1].startswith("2026-01-03")  # nothing later than the run of the page


def test_one_run_is_no_history(tmp_path):
    folder = tmp_path / "s" / "one"
    (run,) = nights(folder, 1)
    assert histories_of({"one": folder / run}, "y", plain_texts("abc")) == ()
    make_cube(tmp_path / "alone")
    assert histories_of({"alone": tmp_path / "alone"}, "y", plain_texts("abc")) == ()
