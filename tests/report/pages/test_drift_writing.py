"""The page of a drift: its sentences and numbers, its rows, and names that are shown and never run."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dshap
from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.report import drift_page
from dshap.report.pages.figures import BAR_PERCENT, bar_scale

pytest.importorskip("jinja2", reason="jinja2 is not installed")
HOSTILE = "<script>pwned()</script>"


def table(shift: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({HOSTILE: rng.normal(shift, 1.0, 200), "age": rng.normal(size=200)})
    return frame.assign(id=np.arange(200) + 1_000 * seed)


def test_a_drift_is_told_plainly(tmp_path):
    found = dshap.mmd_drift(table(0, 1), table(1.5, 2), key="id", n_permutations=99, n_rows=4)
    text = drift_page(found, tmp_path / "deep" / "page.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;pwned()" in text
    assert "The rows of the two tables differ" in text
    assert "“&lt;script&gt;pwned()&lt;/script&gt;” differ beyond chance" in text
    assert "It does not show whether predictions are worse" in text
    values = {float(each) for each in re.findall(r'<data value="([^"]+)"', text)}
    for column in found.columns:
        assert {column.attribution, column.expected, column.adjusted, column.psi} <= values
    assert text.count('<details class="row"') == 4
    place = int(np.abs(found.witness - found.rows[0].witness).argmin())
    largest = np.abs(found.attributions[place]).max()
    assert f"{largest:.4f}"[:6] in text


def test_no_drift_and_another_file(tmp_path):
    found = dshap.mmd_drift(table(0, 1), table(0, 2), key="id", n_permutations=99, n_rows=0)
    text = drift_page(found, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "No difference was found" in text
    assert "differ beyond chance" not in text
    (tmp_path / "notes.html").write_text("notes")
    with pytest.raises(InputError, match="a file that dshap did not make exists there"):
        drift_page(found, tmp_path / "notes.html")


def test_the_longest_bar_fits_whatever_its_sign():
    """The part of a column in the distance can be below 0."""
    assert bar_scale([-4.0, 1.0]) * 4.0 == BAR_PERCENT
    assert bar_scale([]) == bar_scale([0.0]) == BAR_PERCENT


def test_the_command_writes_a_page(tmp_path):
    table(0, 1).to_parquet(tmp_path / "old.parquet")
    table(1, 2).to_parquet(tmp_path / "new.parquet")
    given = ["drift", str(tmp_path / "old.parquet"), str(tmp_path / "new.parquet"), "--key", "id"]
    given += ["--permutations", "19", "-o", str(tmp_path / "p.html"), "-q"]
    assert CliRunner().invoke(cli, given).exit_code == 0
    assert "Do the rows of two tables differ?" in (tmp_path / "p.html").read_text()
    (tmp_path / "p.html").write_text("notes")
    assert CliRunner().invoke(cli, given).exit_code == 2
    assert CliRunner().invoke(cli, [*given, "--force"]).exit_code == 0
