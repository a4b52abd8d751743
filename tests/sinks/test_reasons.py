"""Lines of reasons, from cubes with and without errors, and what a sink of them refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dshap
from dshap.core.errors import InputError
from dshap.sinks import SingleRun, Sink, load_sink
from dshap.sinks.code_books import CodeBook
from dshap.sinks.reasons import TIED
from dshap.sinks.shapes import batches_of
from dshap.values import Marginal
from dshap.warehouse.databases import Database

NAMES = ["debt", "loans", "income", "years", "age"]
BOOK = CodeBook(
    {"R1": ["debt", "loans"], "R2": ["income"], "R3": ["years"], "R4": ["age"]},
    {"text_en": ["Debt", "Income", "Employment", "Age"], "text_de": ["Schuld", "Lohn", "Job", "Ä"]},
)
RUN = SingleRun("20261130T100000Z", "m1")
DATABASE = Database("duckdb:///w.duckdb")


def sink_of(**changes):
    given = {"table": "t", "shape": "reasons", "codes": BOOK, "against": "higher"}
    return Sink("reasons", DATABASE, **given | changes)


def cube_of(folder, rows, predict=lambda x: x.sum(1), **options):
    """A cube of rows against a background of zeros; a sum gives each column its own value."""
    rows = np.asarray(rows, float)
    value = Marginal(predict, np.zeros((1, rows.shape[1])), feature_names=NAMES)
    frame = {name: rows[:, j] for j, name in enumerate(NAMES)}
    table = pd.DataFrame(frame).assign(id=np.arange(len(rows)))
    dshap.explain(value, table, key="id", store=folder, progress=False, **options)
    return folder


def lines_of(sink, path):
    table = pa.Table.from_batches(batches_of(sink, path, RUN))
    return table.to_pylist()


def shown(lines):
    return [(each["id"], each["rank"], each["code"], each["certainty"]) for each in lines]


pytestmark = pytest.mark.usefixtures("in_this_process")


def test_only_what_counts_against_the_row_in_order_and_four_at_most(tmp_path):
    rows = [[3, -1, 5, -2, 1], [-1, -1, -1, -1, -1], [1, 1, 2, 0, 0.5], [0, 0, 0, 0, 0]]
    path = cube_of(tmp_path / "cube", rows)
    lines = lines_of(sink_of(), path)
    certain = "certain"
    assert shown(lines) == [
        (0, 1, "R2", certain),
        (0, 2, "R1", certain),
        (0, 3, "R4", certain),
        (1, 0, None, None),
        (2, 1, "R1", TIED),  # 1 + 1 is 2
        (2, 2, "R2", TIED),
        (2, 3, "R4", certain),
        (3, 0, None, None),
    ]
    first = lines[0]
    assert (first["text_en"], first["text_de"]) == ("Income", "Lohn")
    assert first["attribution"] == 5.0
    assert first["std_error"] is None
    assert (lines[4]["first_place"], lines[4]["last_place"]) == (1, 2)
    assert (lines[3]["status"], lines[3]["prediction"]) == ("ok", -5.0)


def test_where_lower_predictions_count_against_a_row(tmp_path):
    path = cube_of(tmp_path / "cube", [[3, -1, -5, -2, 1]])
    lines = lines_of(sink_of(against="lower"), path)
    assert shown(lines) == [(0, 1, "R2", "certain"), (0, 2, "R3", "certain")]
    assert [each["attribution"] for each in lines] == [-5.0, -2.0]


def test_at_most_four_reasons(tmp_path):
    book = CodeBook({name: [name] for name in NAMES}, {"text": list("abcde")})
    lines = lines_of(sink_of(codes=book), cube_of(tmp_path / "cube", [[1, 2, 3, 4, 5]]))
    assert [(each["rank"], each["text"]) for each in lines] == [
        (1, "e"), (2, "d"), (3, "c"), (4, "b")
    ]  # fmt: skip
    assert {each["certainty"] for each in lines} == {"certain"}


def test_rounding_to_float32_is_a_tie(tmp_path):
    rows = [[0.1, 0.2, 0.3, -1, -1]]
    path = cube_of(tmp_path / "cube", rows, dtype="float32")
    assert shown(lines_of(sink_of(), path)) == [(0, 1, "R1", TIED), (0, 2, "R2", TIED)]


def test_a_reason_that_undoing_contradicts_is_not_stated(tmp_path):
    """debt · income − loans: debt and loans alone add up to a reason, without them it is higher."""

    def predict(x):
        return x[:, 0] * x[:, 2] - 1.5 * x[:, 1] + x[:, 3]

    rows = [[2, 1, 2, 1, 0], [2, 3, 4, 1, 0]]
    codes = {name: list(players) for name, players in BOOK.players.items()}
    path = cube_of(tmp_path / "cube", rows, predict, codes=codes, undo_codes=True)
    plain = lines_of(sink_of(), path)
    undone = lines_of(sink_of(undo=True), path)
    assert [each["code"] for each in plain if each["id"] == 1] == ["R2", "R3"]
    cube = dshap.open_cube(path)
    stored = cube["reason_code_undone"].values[:, :, 0]
    wanted = [[4 - 1.5, 4, 1, 0], [8 - 4.5, 8, 1, 0]]
    np.testing.assert_allclose(stored, wanted, atol=1e-12)
    of_rows = {(each["id"], each["code"]): each["undone"] for each in undone}
    for (row, code), value in of_rows.items():
        assert value == pytest.approx(wanted[row][list(codes).index(code)])
    # φ of R1 in row 1 is 8/2 − 4.5 < 0: it is no reason, although undoing it lowers the prediction
    assert [each["code"] for each in undone if each["id"] == 1] == ["R2", "R3"]


def test_undoing_with_another_sign_leaves_a_reason_out(tmp_path):
    """φ of debt is above 0 by its meeting with income, and taking it away alone raises nothing."""

    def predict(x):
        debt, income, years = x[:, 0], x[:, 2], x[:, 3]
        return 3 * debt * (1 - income) * (1 - years) + debt * income * years * -1 + 0.1 * x[:, 4]

    codes = {name: list(players) for name, players in BOOK.players.items()}
    path = cube_of(tmp_path / "cube", [[1, 0, 1, 1, 1]], predict, codes=codes, undo_codes=True)
    attribution = dshap.open_cube(path)["attribution"].values[0, 0, 0]
    assert attribution > 0 > dshap.open_cube(path)["reason_code_undone"].values[0, 0, 0]
    assert "R1" in [each["code"] for each in lines_of(sink_of(), path)]
    undone = lines_of(sink_of(undo=True), path)
    assert [(each["code"], each["certainty"]) for each in undone] == [("R4", "certain")]


def test_errors_leave_close_codes_untold_apart(tmp_path):
    """Sampled coalitions: the two largest codes differ by less than their error."""
    rng = np.random.default_rng(0)
    d = 12
    names = [f"x{j}" for j in range(d)]
    book = CodeBook({f"R{c}": names[2 * c : 2 * c + 2] for c in range(6)}, {"text": list("abcdef")})

    def predict(x):
        product = np.prod(1 + 0.3 * x, axis=1)
        return product + x[:, 0] * 5

    rows = np.ones((4, d)) + 1e-4 * rng.normal(size=(4, d))
    table = pd.DataFrame(rows, columns=names).assign(id=range(4))
    value = Marginal(predict, rng.normal(size=(5, d)), feature_names=names)
    design = dshap.designs.kernelshap(d, 300)
    path = tmp_path / "cube"
    codes = {name: list(players) for name, players in book.players.items()}
    dshap.explain(value, table, design=design, key="id", store=path, codes=codes, progress=False)
    lines = lines_of(sink_of(codes=book), path)
    of_first = [each for each in lines if each["id"] == 0]
    assert [each["rank"] for each in of_first] == [1, 2, 3, 4]
    assert (of_first[0]["code"], of_first[0]["certainty"]) == ("R0", "certain")
    assert TIED in {each["certainty"] for each in of_first[1:]}
    assert all(each["std_error"] > 0 for each in of_first)
    for each in of_first:
        is_certain = each["first_place"] == each["last_place"] == each["rank"]
        assert (each["certainty"] == "certain") == is_certain
    assert all(each["first_place"] > 1 for each in of_first[1:])
    with pytest.raises(
        InputError, match="these codes, and it has others: explain the rows with codes"
    ):
        other = replace(book, players={"R": names}, texts={"text": ["a"]})
        load_sink(sink_of(codes=other), path, RUN, "job")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"codes": None}, 'shape = "reasons" needs codes: give codes'),
        ({"against": None}, 'give against = "higher" where a higher prediction does'),
        ({"shape": "top_k"}, 'codes, against and undo belong to shape = "reasons"'),
        ({"shape": "wide", "codes": None}, 'belong to shape = "reasons", not to "wide"'),
    ],
)
def test_options_that_do_not_go_together(changes, said):
    with pytest.raises(InputError, match=said):
        sink_of(**changes)


def test_what_a_cube_lacks(tmp_path):
    path = cube_of(tmp_path / "cube", [[1, 2, 3, 4, 5]])
    with pytest.raises(InputError, match=r"undo = true needs the values without each code"):
        load_sink(sink_of(undo=True), path, RUN, "job")
    less = replace(BOOK, players={**BOOK.players, "R4": ["shoes"]})
    with pytest.raises(InputError, match=r"\[\[sink\]\] t: .*code 'R4' has the unknown player"):
        load_sink(sink_of(codes=less), path, RUN, "job")
    without = CodeBook({"R1": ["debt"]}, {"text": ["Debt"]}, "codes.csv")
    with pytest.raises(
        InputError, match=r"codes.csv: 'loans', 'income', 'years' and 1 more have no"
    ):
        load_sink(sink_of(codes=without), path, RUN, "job")
    with pytest.raises(InputError, match=r"outputs: unknown output 'lapses'. Allowed: output"):
        load_sink(sink_of(outputs=("lapses",)), path, RUN, "job")


@pytest.mark.parametrize("shape", ["wide", "long", "top_k", "reasons"])
def test_one_of_two_classes_has_lines(tmp_path, shape):
    def predict(x):
        return np.stack([1 - x[:, 0], x[:, 0]], axis=1)

    table = pd.DataFrame({"p": [0.25, 0.75], "id": [1, 2]})
    value = Marginal(predict, np.full((1, 1), 0.5), feature_names=["p"], output_names=["a", "b"])
    path = tmp_path / "cube"
    dshap.explain(value, table, key="id", store=path, keep_rows=True, progress=False)
    book = CodeBook({"R": ["p"]}, {"text": ["P"]})
    more = {"codes": book, "against": "higher"} if shape == "reasons" else {}
    sink = Sink("e", DATABASE, table="t", shape=shape, outputs=("b",), **more)
    lines = lines_of(sink, path)
    assert [(each["id"], each["class"], each["prediction"]) for each in lines] == [
        (1, "b", 0.25), (2, "b", 0.75)
    ]  # fmt: skip
    assert [each["base_value"] for each in lines] == [0.5, 0.5]
