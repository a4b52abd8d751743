"""Rankings as a picture in a file."""

from __future__ import annotations

import sys
import warnings

import pytest

from dshap.analysis.shown_features import ShownFeatures
from dshap.core.errors import InputError
from dshap.report import (
    Ranking,
    ranking_picture,
)
from dshap.report.pictures.ranking_picture import draw_bars
from tests.report.pictures.test_words_and_pixels import ODD_NAMES
from tests.report.test_attribution_lines import RANKINGS, of_names


@pytest.mark.slow
def test_names_of_all_kinds_are_drawn_as_they_are_written(tmp_path):
    """Warnings are errors: an explanation whose name begins with an underscore stands in the legend
    too."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        picture = ranking_picture(
            of_names(ODD_NAMES)[::3], tmp_path / "a.png", r"$\frac{1$: title", r"$\q$"
        )
    assert picture.stat().st_size > 10_000


def test_the_legend_names_every_explanation():
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    draw_bars(axes, of_names(["_x", "$\\frac{1$", ""]), ShownFeatures(("a",), ()))
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["_x", "$\\frac{1$", ""]
    assert not any(text.get_parse_math() for text in axes.get_legend().get_texts())


@pytest.mark.slow
def test_picture(tmp_path):
    path = ranking_picture(RANKINGS, tmp_path / "deep" / "a.png", "title", "m")
    assert path.read_bytes()[:4] == b"\x89PNG"
    many = {f"feature {j}": float(j) for j in range(40)}
    assert (
        ranking_picture([Ranking("many", 1, many, many)], tmp_path / "b.png", "title")
        .stat()
        .st_size
        > 10_000
    )
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        ranking_picture(RANKINGS, tmp_path / "file" / "a.png", "title")


def test_matplotlib_is_named_where_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r'pip install "dshap\[report\]"'):
        ranking_picture(RANKINGS, tmp_path / "a.png", "title")
