"""The rows of a page: which are there, and what their JSON says."""

from __future__ import annotations

import json

import numpy as np

import dshap
from dshap.report.pages.page_rows import page_rows
from dshap.report.pages.row_tables import json_text, row_texts, tables_of
from tests.cube.cubes import N_ROWS, make_cube, phi_of
from tests.report.pages.test_codes import ALPHABET, read

ODD = ("a", "</script><b>", "\u2028\x1b")


def parts_of(text: str, width: int = 1) -> tuple[float, dict[int, float]]:
    """The small ones' sum, and place of a feature -> its number."""
    found = {}
    for start in range(5, len(text), width + 5):
        place = sum(ALPHABET.index(text[start + i]) * 64**i for i in range(width))
        found[place] = read(text[start + width : start + width + 5].encode())
    return read(text[:5].encode()), found


def test_the_json_of_a_row_holds_what_the_cube_holds(tmp_path):
    layout, _ = make_cube(tmp_path / "s", columns={"a": "float64"}, players=ODD, skipped=(3,))
    table, others = tables_of({"one": tmp_path / "s"})
    assert others == []
    assert [part.output for part in table.parts] == ["y", "z"]
    rows = [json.loads(text) for text in page_rows(table, ODD).texts]
    phi = phi_of(layout, skipped=(3,))
    there = [row for row in range(N_ROWS) if row % 8 != 3]
    assert [row[0] for row in rows] == [str(3 * row + 5) for row in there]
    for row, content in zip(there, rows, strict=True):
        for place in range(2):
            prediction = phi[row, :, place].sum() + place + 1
            np.testing.assert_allclose(content[1 + place], prediction, rtol=1e-8)
            small, found = parts_of(content[3 + place])
            assert small == 0.0
            np.testing.assert_allclose([found[j] for j in range(3)], phi[row, :, place], rtol=5e-6)
        assert parts_of("AAAAA" + content[5])[1][0] == row


def test_of_many_features_the_largest_are_written_and_the_others_added_up(tmp_path):
    names = tuple(f"x{j}" for j in range(70))
    layout, _ = make_cube(tmp_path / "s", players=names, outputs=("y",))
    table, _ = tables_of({"one": tmp_path / "s"})
    phi = phi_of(layout)[:, :, 0]
    batch = table.batch(slice(0, N_ROWS))
    for row, text in enumerate(row_texts(table, batch)):
        small, found = parts_of(json.loads(text)[2], width=2)
        order = np.argsort(-np.abs(phi[row]))
        assert set(found) == set(order[:11].tolist())
        np.testing.assert_allclose(small, phi[row, order[11:]].sum(), rtol=5e-6)


def test_cubes_of_other_rows_are_told_apart(tmp_path):
    run = {"digest": "d1", "fingerprint": {"rows": {"digest": "r"}}}
    make_cube(tmp_path / "a", run=run)
    make_cube(tmp_path / "b", run=run)
    make_cube(tmp_path / "c", run={"digest": "d1", "fingerprint": {"rows": {"digest": "other"}}})
    make_cube(tmp_path / "d", n_rows=30, run=run)
    table, others = tables_of({name: tmp_path / name for name in "abcd"})
    assert list(table.cubes) == ["a", "b"]
    assert others == ["c", "d"]


def test_texts_have_their_tokens(tmp_path):
    effect = np.array([0.0, 0.5, -1.0, 2.0])

    def predict(ids):
        return effect[ids].sum(axis=1)

    value = dshap.values.Tokens(predict, ["", "a", "</b>", "c"], longest=3)
    texts = [["a", "</b>", "c"], ["c"]]
    dshap.explain(value, texts, store=tmp_path / "s", progress=False)
    table, _ = tables_of({"one": tmp_path / "s"})
    long, short = (json.loads(text) for text in page_rows(table, []).texts)
    assert long[5] == {"0": "a", "1": "</b>", "2": "c"}
    assert short[5] == {"0": "c"}
    np.testing.assert_allclose([parts_of(long[3])[1][j] for j in range(3)], effect[1:])
    assert parts_of(short[3])[1] == {0: 2.0, 1: 0.0, 2: 0.0}


def test_json_is_text_wherever_it_stands():
    text = json_text({"<script>": "a & b --> \u2028 é"})
    assert json.loads(text) == {"<script>": "a & b --> \u2028 é"}
    assert text.isascii()
    assert not set("<>&") & set(text)
