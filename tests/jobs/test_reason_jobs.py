"""Jobs whose sinks state reasons: codes go from the file of a sink into the cube of its explanation."""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dshap
from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.sinks import SingleRun, Sink, load_sink
from dshap.sinks.code_books import read_code_book
from dshap.warehouse.databases import Database

D = 12
MODEL = """
import numpy as np

def predict(rows):
    x = np.asarray(rows, float)
    z = x[:, 0] * x[:, 1] + x[:, 2] + np.abs(x[:, 3]) + 0.2 * x[:, 4:].sum(axis=1)
    p = 1 / (1 + np.exp(-z))
    return np.column_stack([1 - p, p])
"""
JOB = """
[job]
name = "credit"
store = "build/credit"
[source]
kind = "parquet"
path = "rows.parquet"
key = ["id"]
[model]
kind = "import"
function = "my_credit_model:predict"
classes = ["repays", "defaults"]
[[explain]]
name = "reasons"
value = "marginal"
background = 5
[design]
kind = "kernelshap"
n_coalitions = 300
[[sink]]
uri = "duckdb:///shop.duckdb"
table = "notices"
shape = "reasons"
codes = "codes.csv"
against = "higher"
outputs = ["defaults"]
undo = true
text = true
[card]
version = "2026.3"
"""
CODES = "code,players,text_en,text_de\n" + "\n".join(
    f"R{c},{players},Reason {c},Grund {c}"
    for c, players in enumerate(["x0; x1", "x2", "x3", ";".join(f"x{j}" for j in range(4, D))])
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("my_credit_model", None)
    Path("my_credit_model.py").write_text(MODEL)
    Path("codes.csv").write_text(CODES)
    rows = np.random.default_rng(0).normal(size=(30, D))
    frame = pd.DataFrame(rows, columns=[f"x{j}" for j in range(D)]).assign(id=range(30))
    frame.to_parquet("rows.parquet")
    return tmp_path


def run(text):
    Path("job.toml").write_text(text)
    return CliRunner().invoke(cli, ["run", "job.toml"])


def select(query):
    with duckdb.connect("shop.duckdb", read_only=True) as connection:
        return connection.execute(query).fetchall()


def test_a_sink_of_reasons_gets_what_it_needs_into_the_cube(folder):
    result = run(JOB)
    assert result.exit_code == 0, result.output
    cube = dshap.open_cube("build/credit/reasons")
    assert list(cube["reason_code"].values) == ["R0", "R1", "R2", "R3"]
    assert {"reason_code_error", "reason_code_undone"} <= set(cube.data_vars)
    assert select("SELECT DISTINCT class, scale, model_version FROM notices") == [
        ("defaults", "probability", "2026.3")
    ]
    found = select("SELECT rank, attribution, undone, text_de FROM notices WHERE rank > 0")
    assert found
    assert all(phi > 0 and undone > 0 for _, phi, undone, _ in found)
    assert select("SELECT count(DISTINCT id) FROM notices") == [(30,)]
    assert select("SELECT count(*) FROM notices_text") == [(30,)]
    ledger = select("SELECT model, library, model_version FROM _dshap_runs")
    assert ledger == [("import my_credit_model:predict", f"dshap {dshap.__version__}", "2026.3")]


def test_a_source_that_names_its_features(folder):
    """The players are known before a row is read; the cube gets what undo needs all the same."""
    features = ", ".join(f'"x{j}"' for j in range(D))
    result = run(JOB.replace('key = ["id"]', f'key = ["id"]\nfeatures = [{features}]'))
    assert result.exit_code == 0, result.output
    assert select("SELECT count(undone) > 0 FROM notices") == [(True,)]


def test_texts_may_change_and_the_cube_stays(folder):
    assert run(JOB).exit_code == 0
    Path("codes.csv").write_text(CODES.replace("Reason", "Ground"))
    result = run(JOB)
    assert result.exit_code == 0, result.output
    texts = {text for (text,) in select("SELECT DISTINCT text_en FROM notices WHERE rank > 0")}
    assert all(text.startswith("Ground") for text in texts)


def test_exact_attributions_need_no_other_cube_for_other_codes(folder):
    exact = JOB.replace('kind = "kernelshap"\nn_coalitions = 300', 'kind = "exact"')
    exact = exact.replace("undo = true\n", "").replace("background = 5", 'background = "all"')
    assert run(exact).exit_code == 0
    other = CODES.replace("R0,x0; x1", "R0,x0; x1; x2").replace("R1,x2,", "R1,x3,")
    Path("codes.csv").write_text(other.replace("R2,x3,Reason 2,Grund 2\n", ""))
    result = run(exact)
    assert result.exit_code == 0, result.output
    assert {code for (code,) in select("SELECT DISTINCT code FROM notices")} <= {
        None, "R0", "R1", "R3"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("codes.csv", "none.csv"), "codes: there is no file"),
        (('against = "higher"\n', ""), 'give against = "higher"'),
        (('outputs = ["defaults"]', 'outputs = ["lapses"]'), "unknown output 'lapses'"),
        (('shape = "reasons"', 'shape = "top_k"'), 'belong to shape = "reasons"'),
    ],
)
def test_mistakes_are_one_line_before_a_row_is_explained(folder, change, said):
    result = run(JOB.replace(*change))
    assert result.exit_code == 2, result.output
    message = result.output.strip().splitlines()[-1]
    assert said in message
    assert not Path("build/credit/reasons").exists()


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        (CODES.replace("R1,x2,", "R1,x2;x9,"), "player 'x9' is in 'R1', 'R3'"),
        (CODES.replace(";x9", ""), "'x9' has no code"),
        (CODES.replace("Grund 2", ""), "code 'R2' has no text_de"),
        (CODES.replace("code,players", "code,columns"), "has the columns code, columns"),
        (CODES.replace("R1,x2,", "R1,shoes,"), "code 'R1' has the unknown player 'shoes'"),
    ],
)
def test_a_book_that_does_not_fit(folder, codes, said):
    Path("codes.csv").write_text(codes)
    result = run(JOB)
    assert result.exit_code == 2, result.output
    assert said in result.output.strip().splitlines()[-1]


def test_two_books_of_one_explanation_are_refused(folder):
    Path("more.csv").write_text(
        "code,players,text\nA," + ";".join(f"x{j}" for j in range(D)) + ",a\n"
    )
    more = JOB.replace("[card]", '[[sink]]\nuri = "duckdb:///shop.duckdb"\ntable = "more"\n'
                       'shape = "reasons"\ncodes = "more.csv"\nagainst = "higher"\n[card]')  # fmt: skip
    result = run(more)
    assert result.exit_code == 2
    assert "group the players of explanation reasons in two ways" in result.output


SAMPLED = 'kind = "kernelshap"\nn_coalitions = 300'
WITHOUT_ERRORS = {
    "too few coalitions": (SAMPLED, 'kind = "kernelshap"\nn_coalitions = 60', "give 120"),
    "no replicates": (SAMPLED, f"{SAMPLED}\nn_replicates = 0", "give n_replicates = 20"),
    "too few orders": (
        SAMPLED, 'kind = "permutation"\nn_permutations = 20', "too few for standard errors"
    ),
    "auto": (SAMPLED, 'kind = "auto"\nmax_coalitions = 40', "too few"),
    "a single draw": ("background = 5", "background = 1", "a single draw"),
}  # fmt: skip
ONLY_PLANNED = ("auto", "a single draw")
"""Which of these depend on the value function, which `dshap check` does not make."""


@pytest.mark.parametrize("name", WITHOUT_ERRORS)
def test_estimates_without_errors_are_refused_before_the_night(folder, name):
    """No place would be stated, or each of them as if the attributions were exact."""
    *change, remedy = WITHOUT_ERRORS[name]
    result = run(JOB.replace(*change))
    assert result.exit_code == 2, result.output
    assert not list(Path("build").glob("credit/reasons/attribution/c/*"))
    outputs = [result.output, CliRunner().invoke(cli, ["plan", "job.toml"]).output]
    if name not in ONLY_PLANNED:
        outputs.append(CliRunner().invoke(cli, ["check", "job.toml"]).output)
    for output in outputs:
        (line,) = (each for each in output.splitlines() if "no place of a reason" in each)
        assert "[[sink]] shop.duckdb" in line or "notices" in line
        assert "explanation 'reasons'" in line
        assert remedy in line


def test_designs_that_list_every_coalition_need_no_errors(folder):
    whole = JOB.replace(SAMPLED, f'kind = "kernelshap"\nn_coalitions = {1 << D}\nn_replicates = 0')
    whole = whole.replace("background = 5", 'background = "all"')
    Path("job.toml").write_text(whole)
    result = CliRunner().invoke(cli, ["plan", "job.toml"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(("n_replicates", "fits"), [(0, False), (20, True)])
def test_a_cube_of_a_design_without_errors_is_refused_by_a_load(folder, n_replicates, fits):
    """From Python: its places would be stated as if the attributions were exact."""
    rows = pd.read_parquet("rows.parquet").set_index("id")
    value = dshap.values.Marginal(lambda x: x[:, 0] * x[:, 1] + x[:, 2:].sum(axis=1), rows)
    book = read_code_book("codes.csv")
    design = dshap.designs.kernelshap(D, 300, n_replicates=n_replicates)
    options = {"design": design, "codes": book.players, "store": "cube", "progress": False}
    dshap.explain(value, rows, **options)
    database = Database("duckdb:///shop.duckdb")
    sink = Sink("reasons", database, table="t", shape="reasons", codes=book, against="higher")
    if fits:
        assert load_sink(sink, "cube", SingleRun("1", "abc"), "credit").n_rows == 30
        return
    with pytest.raises(InputError, match=r"no place of a reason .* give n_replicates = 20"):
        load_sink(sink, "cube", SingleRun("1", "abc"), "credit")
