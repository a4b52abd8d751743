"""Jobs of texts: the same numbers as `dshap.explain`; what does not go together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dshap
from dshap.core.errors import InputError
from dshap.core.rows import sample_positions
from dshap.cube import verify_cube
from dshap.engine import SilentProgress
from dshap.jobs import parse_job, plan_job, run_job
from dshap.report import breakdown, breakdown_lines, ranking_lines, rankings
from dshap.values import Tokens
from tests.attributors.texts import N_TOKENS, texts_of, two_outputs

pytestmark = pytest.mark.usefixtures("in_this_process")

WORDS = [f"w{j}" for j in range(N_TOKENS)]
TEXTS = texts_of([4, 1, 6, 2, 4, 5, 3, 6])
JOB: dict[str, Any] = {
    "job": {"name": "words", "store": "out.zarr", "seed": 3},
    "source": {"kind": "texts", "path": "texts.parquet", "column": "ids", "key": "id"},
    "model": {"kind": "import", "function": "tests.attributors.texts:two_outputs"},
    "explain": [{"name": "a", "value": "tokens", "vocabulary": "words.txt", "longest": 9}],
    "design": {"kind": "permutation", "n_permutations": 100},
    "run": {"instance_tile": 3},
}


def cut(text: str) -> list[int]:
    """A tokenizer."""
    return [WORDS.index(word) for word in text.split()]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working directory with the texts, as ids and as strings, and the words."""
    monkeypatch.chdir(tmp_path)
    strings = [" ".join(WORDS[token] for token in text) for text in TEXTS]
    pd.DataFrame({"id": np.arange(8) + 5, "ids": TEXTS, "text": strings}).to_parquet(
        "texts.parquet"
    )
    (tmp_path / "words.txt").write_text("\n".join(WORDS) + "\n")
    return tmp_path


def job_of(**changes: Any) -> Any:
    """A job with other keys in its tables."""
    tables = {name: {**JOB[name], **given} for name, given in changes.items() if name != "explain"}
    explain = [{**JOB["explain"][0], **changes.get("explain", {})}]
    return parse_job({**JOB, **tables, "explain": explain})


def ran(**changes: Any) -> Any:
    result = run_job(job_of(**changes), SilentProgress())
    result.raise_on_failed()
    return result


def explained(**given: Any) -> Any:
    value = Tokens(two_outputs, **{"vocabulary": WORDS, "longest": 9, **given})
    design = dshap.designs.permutation(6, 100, seed=3)
    return dshap.explain(value, TEXTS, design=design, instance_tile=3, progress=False)


@pytest.mark.slow
def test_a_job_of_texts():
    """As `explain`; run again, nothing is left, and the store is whole."""
    result = ran()
    cube = dshap.open_cube(result.paths["a"]).load()
    wanted = explained()
    for name in ("attribution", "std_error", "length", "token", "prediction", "base_value"):
        assert_array_equal(cube[name], wanted[name], err_msg=name)
    assert cube.id.values.tolist() == list(range(5, 13))
    assert verify_cube(result.paths["a"]) == []
    assert ran().was_complete


@pytest.mark.slow
@pytest.mark.parametrize("graph", [{}, {"graph": "chain"}])
def test_a_design_of_neighbours_has_the_chain_of_each_text(graph):
    """Without a graph too; the job is the same one, and nothing is left."""
    of_words = {**JOB, "design": {"kind": "local", "order": 1, **graph}}
    result = run_job(parse_job(of_words), SilentProgress())
    wanted = dshap.explain(
        Tokens(two_outputs, WORDS, longest=9),
        TEXTS,
        design=dshap.designs.local(order=1),
        progress=False,
    )
    assert_allclose(dshap.open_cube(result.paths["a"]).attribution, wanted.attribution, atol=1e-13)
    assert run_job(
        parse_job({**JOB, "design": {"kind": "local", "order": 1}}), SilentProgress()
    ).was_complete


def test_what_a_design_of_neighbours_lacks_beside_its_graph_is_told():
    with pytest.raises(InputError, match=r'\[design\] kind = "local" needs order'):
        parse_job({**JOB, "design": {"kind": "local"}})
    of_grid = parse_job({**JOB, "design": {"kind": "myerson", "graph": {"grid": [2, 3]}}})
    with pytest.raises(
        InputError,
        match="has a graph of 6 players that is not a chain, and the graph of a text is the chain of its",
    ):
        plan_job(of_grid)


def test_texts_of_strings():
    of_strings = {"column": "text", "tokenizer": "tests.jobfile.test_text_tables:cut"}
    cube = dshap.open_cube(ran(source=of_strings).paths["a"])
    assert_array_equal(cube.attribution, explained().attribution)


@pytest.mark.slow
def test_a_background_is_a_sample_of_the_texts():
    cube = dshap.open_cube(ran(explain={"background": 3}).paths["a"])
    sample = [TEXTS[row] for row in sample_positions(8, 3, 3)]
    assert_array_equal(cube.attribution, explained(background=sample).attribution)


def test_the_number_of_ids_is_a_vocabulary_too():
    cube = dshap.open_cube(ran(explain={"vocabulary": N_TOKENS}).paths["a"])
    assert cube.token[1].values.tolist() == [TEXTS[1][0], -1, -1, -1, -1, -1]


def test_the_plan_is_of_the_longest_text():
    plan = str(plan_job(job_of()))
    assert "8 texts of up to 6 tokens" in plan
    assert "8 rows × 6 players × 2 outputs" in plan
    of_longest = dshap.designs.permutation(6, 100, seed=3).info.n_coalitions
    assert f"{of_longest} coalitions" in plan


def test_a_row_is_shown_by_its_tokens():
    cubes = ran().paths
    row = breakdown(cubes, [6])
    assert list(row.parts[0].attribution) == [f"0 {WORDS[TEXTS[1][0]]}"]
    lines = breakdown_lines(breakdown(cubes, [7]))
    assert all(
        any(line.startswith(f"{j} {WORDS[token]} ") for line in lines)
        for j, token in enumerate(TEXTS[2])
    )
    assert "—" not in "\n".join([*lines, *ranking_lines(rankings(cubes))])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": {"column": "no"}}, "'no'"),
        (
            {"source": {"tokenizer": "tests.jobfile.test_text_tables:none", "column": "text"}},
            "has no function 'none'",
        ),
        ({"source": {"column": "text"}}, "row 0: it is a string, and there is no tokenizer"),
        ({"source": {"path": "none.parquet"}}, "no Parquet file"),
        ({"explain": {"vocabulary": 5}}, "is outside the vocabulary: ids are 0 to 4"),
        (
            {"explain": {"vocabulary": "none.txt"}},
            r"\[\[explain\]\] vocabulary = '.*none.txt': No such file",
        ),
        ({"explain": {"vocabulary": 0}}, "give the number of token ids, or the path of a file"),
        ({"explain": {"longest": 5}}, "row 2: the text has 6 tokens, and predict takes 5"),
        ({"explain": {"value": "marginal", "vocabulary": None, "longest": None}}, "vocabulary"),
        ({"model": {"kind": "kernel_ridge"}}, "function"),
        (
            {"design": {"kind": "kriging", "n_permutations": None, "n_coalitions": 40}},
            "kriging|n_permutations",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(changes, message, tmp_path):
    with pytest.raises(InputError, match=message):
        ran(**changes)
    assert not (tmp_path / "out.zarr" / "a").exists()


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            {"explain": [{"name": "a", "value": "marginal"}]},
            'explains [source] kind = "texts", and nothing else does',
        ),
        ({"source": {"kind": "parquet", "path": "texts.parquet"}}, "give both or neither"),
        ({"model": {"kind": "kernel_ridge"}}, 'give [model] kind = "import"'),
    ],
)
def test_texts_and_tokens_belong_together(tables, message):
    with pytest.raises(InputError) as raised:
        parse_job({**JOB, **tables})
    assert message in str(raised.value)
