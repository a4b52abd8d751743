"""Segments, compared explanations and drift: their tables hold the numbers of the cubes."""

from __future__ import annotations

import numpy as np
from scipy.stats import spearmanr

from dshap.analysis.agreement import ndcg
from dshap.analysis.rankings import Ranking
from dshap.cube import open_cube, set_current
from dshap.report.pages.relations import comparison_of, drift_of, segment_tables_of
from dshap.report.pages.row_tables import tables_of
from tests.cube.cubes import make_cube, phi_of
from tests.report.pages.page_names import plain_texts


def test_segments_are_means_over_their_rows(tmp_path):
    layout, _ = make_cube(tmp_path / "s", columns={"a": "int64"}, outputs=("y",))
    table, _ = tables_of({"one": tmp_path / "s"})
    texts = plain_texts("abc", a={"label": "Age"})
    (figure,), (refused,) = segment_tables_of(table, ["one"], "y", ["a:3", "a:900"], texts, 4)
    assert figure.heading == "Age:3"
    assert figure.tab == 4
    (drawn,) = figure.tables
    phi = np.abs(phi_of(layout)[:, :, 0])
    order = np.argsort(-phi.mean(axis=0))
    assert drawn.heads == ("segment", "rows", *np.array(["Age", "b", "c"])[order])
    for rows, (_, (count, *cells)) in zip(np.split(phi, [7, 14]), drawn.lines, strict=True):
        assert count.value == 7
        found = [cell.value for cell in cells]
        np.testing.assert_allclose(found, rows.mean(axis=0)[order], rtol=1e-9)
    levels = [cell.level for _, (_, *cells) in drawn.lines for cell in cells]
    assert max(levels) == 8
    assert min(levels) >= 0
    assert "give from 2 to 200 bins" in refused.sentences[0]
    assert refused.tables == ()


def ranking(name: str, values: dict[str, float]) -> Ranking:
    return Ranking(name, 10, values, values)


def test_rankings_are_compared_with_the_first():
    first = {"a": 3.0, "b": 2.0, "c": 1.0, "<i>": 0.5}
    other = {"a": 0.1, "b": 2.0, "c": 1.0, "<i>": 0.5}
    given = {"one": {"y": ranking("one", first)}, "two": {"y": ranking("two", other)}}
    figure = comparison_of(given, "y", plain_texts([*first]), 0)
    one, two = (np.array([*values.values()]) for values in (first, other))
    agreed = f"nDCG {ndcg(one, two):.4f} and Spearman {spearmanr(one, two).statistic:.4f}"
    assert agreed in figure.sentences[0]
    assert "the place of “a” differs most, 1 and 4" in figure.sentences[0]
    (drawn,) = figure.tables
    cells = {name: [cell.value for cell in cells] for name, cells in drawn.lines}
    assert cells["a"] == [1, 3.0, 4, 0.1]
    assert cells["<i>"] == [4, 0.5, 3, 0.5]
    assert comparison_of({"one": given["one"]}, "y", plain_texts([*first]), 0) is None
    same = comparison_of(
        {"one": given["one"], "two": {"y": ranking("two", first)}}, "y", plain_texts([*first]), 0
    )
    assert same.sentences[0].endswith("Spearman 1.0000 (1: the same order).")


def test_drift_is_the_difference_from_the_run_before(tmp_path):
    nights = tmp_path / "s" / "one"
    for run, players in (("R1", "abc"), ("R2", "abc"), ("R3", "abd")):
        make_cube(nights / run, players=tuple(players), outputs=("y",))
    set_current(nights, "R2")
    texts = plain_texts("abc")
    assert drift_of("one", nights / "R1", texts) == []
    assert drift_of("one", tmp_path / "s", texts) == []
    (told,) = drift_of("one", nights / "R2", texts, ["x", "y"])
    assert told.tab == 1
    assert told.sentences[0].startswith("Compared with run R1: 21 rows are in both, and 0 of them")
    assert "The influence of every column is the same as before." in told.sentences
    magnitude = np.abs(open_cube(nights / "R2")["attribution"].values[:, :, 0]).mean(axis=0)
    cells = dict(told.tables[0].lines)
    for name, value in zip("abc", magnitude, strict=True):
        np.testing.assert_allclose(cells[name][4].value, value, rtol=1e-9)
        assert cells[name][0].value == 0.0
    assert (
        drift_of("one", nights / "R3", texts)[0]
        .sentences[0]
        .startswith("Not compared with run R2: ")
    )
