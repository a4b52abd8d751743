"""The page of a difference: its numbers, and names that are shown and never run."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.report import diff, difference_page
from tests.analysis.difference.test_difference_record import IDS, NEW, OLD, cube_of
from tests.cube.cubes import make_cube

pytest.importorskip("jinja2", reason="jinja2 is not installed")
HOSTILE = ["<script>pwned()</script>", "$x$", "tenure\x1b[31m", "{{ 7 * 7 }}", "e"]


def test_a_page_holds_the_numbers_of_the_difference_and_nothing_runs(tmp_path):
    found = diff(cube_of(OLD, HOSTILE, id=IDS), cube_of(NEW, HOSTILE, id=IDS))
    text = difference_page(found, tmp_path / "deep" / "page.html").read_text(encoding="utf-8")
    (output,) = found.outputs
    first = output.features[0]
    assert re.findall(r"<script|\x1b|pwned\(\)</script>|https?:", text) == []
    assert "&lt;script&gt;pwned()" in text
    assert "{{ 7 * 7 }}" in text
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    values = [float(each) for each in re.findall(r'<data value="([^"]+)"', text)]
    assert {first.psi, first.wasserstein, first.magnitude_new} <= set(values)
    assert text.count('<details class="row"') == len(output.rows)
    assert "301 changed (50.2%)" in text
    assert r"“tenure\x1b[31m” changed most" in text


def test_a_page_of_several_outputs_and_of_no_difference(tmp_path):
    make_cube(tmp_path / "old")
    make_cube(tmp_path / "new", tiles=[0, 1])
    found = CliRunner().invoke(
        cli, ["diff", str(tmp_path / "old"), str(tmp_path / "new"), "-o", str(tmp_path / "p.html")]
    )
    text = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert found.exit_code == 0
    assert "Prediction of “y”" in found.stdout + text
    assert "new: 5 pending, the first is row 16" in text
    assert "Prediction of “z”" in text
    (tmp_path / "p.html").write_text("notes")
    given = ["diff", str(tmp_path / "old"), str(tmp_path / "new"), "-o", str(tmp_path / "p.html")]
    refused = CliRunner().invoke(cli, given)
    assert refused.exit_code == 2
    assert "a file that dshap did not make exists there" in refused.stderr
    assert (tmp_path / "p.html").read_text() == "notes"
    assert CliRunner().invoke(cli, [*given, "--force"]).exit_code == 0
    same = diff(tmp_path / "old", tmp_path / "old")
    text = difference_page(same, tmp_path / "same.html").read_text(encoding="utf-8")
    assert text.count('class="fill') == 0
    assert "The influence of every column is the same as before." in text
    with pytest.raises(InputError, match="cannot be written: it is a folder"):
        difference_page(same, tmp_path)
