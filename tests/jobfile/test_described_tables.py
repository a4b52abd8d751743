"""The tables [columns] and [card] of a job file."""

from __future__ import annotations

import tomllib

import pytest

from dshap.core.errors import InputError
from dshap.jobfile.json_schema import json_schema
from dshap.jobfile.listing import as_toml, keys_of
from dshap.jobfile.reading import parse_job, read_job_file
from tests.jobs.job_files import changed

HEAD = """
[job]
name = "small"
store = "out"
[source]
kind = "parquet"
path = "table.parquet"
target = "y"
[model]
kind = "kernel_ridge"
[[explain]]
name = "e"
value = "kernel_interventional"
"""


def test_tables_in_the_job_file():
    columns = {"hr": {"label": "Stunde", "unit": "h"}, "über uns": {"direction": "lower is better"}}
    job = parse_job(changed(("columns", columns), ("card", {"purpose": "Test", "version": 2})))
    assert job.description.columns.to_dict() == columns
    assert job.description.card == {"purpose": "Test", "version": "2"}


def test_a_job_without_them_describes_nothing():
    description = parse_job(changed()).description
    assert (len(description.columns), description.card) == (0, {})


@pytest.mark.parametrize("table", ["[hr]", "[columns.hr]"])
def test_a_file_beside_the_job_file(tmp_path, monkeypatch, table):
    (tmp_path / "job.toml").write_text(f'columns = "words.toml"\n{HEAD}')
    (tmp_path / "words.toml").write_text(f'{table}\nlabel = "Stünde"\n', "utf-8")
    monkeypatch.chdir("/")
    job = read_job_file(tmp_path / "job.toml")
    assert job.description.columns.label_of("hr") == "Stünde"


def test_only_a_file_may_be_shared_by_jobs(tmp_path):
    (tmp_path / "words.toml").write_text("[hr]\n")
    job = parse_job(changed(("columns", str(tmp_path / "words.toml"))))
    assert job.description.is_shared
    assert not parse_job(changed(("columns", {"hr": {}}))).description.is_shared


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"columns": {"hr": {"labl": "x"}}}, r"\[columns\] hr: unknown field 'labl'; did you mean"),
        (
            {"columns": {"hr": {"format": "€"}}},
            r"\[columns\] hr format = '€': give a format of Python",
        ),
        ({"columns": {"hr": 3}}, r"\[columns\] hr is 3: give a mapping of fields"),
        ({"columns": 3}, r"\[columns\] give a table for each column, like \[columns.debt_ratio\]"),
        (
            {"columns": "none.toml"},
            r"\[columns\] .*none.toml: No such file or directory; give the path",
        ),
        (
            {"sentences": {"language": "fr"}},
            r"\[sentences\] unknown language 'fr'. Allowed: de, en",
        ),
        (
            {"sentences": {"reason": "{lable}"}},
            r"\[sentences\] reason: unknown field 'lable'; did you mean 'label'\?",
        ),
        ({"sentences": 3}, r"\[sentences\] = 3: give a mapping"),
        ({"card": {"purpos": "x"}}, r"\[card\] unknown key 'purpos'; did you mean 'purpose'\?"),
        ({"card": {"purpose": True}}, r"\[card\] purpose = true: give a text, a number, a date"),
        ({"card": {"purpose": {"a": 1}}}, r"\[card\] purpose = .*: give a text, a number, a date"),
    ],
)
def test_a_bad_table_is_one_clear_line(tables, message):
    with pytest.raises(InputError, match=message) as caught:
        parse_job({**changed(), **tables})
    assert "\n" not in str(caught.value)


def test_what_is_no_toml(tmp_path):
    (tmp_path / "job.toml").write_text(f'columns = "words.toml"\n{HEAD}')
    (tmp_path / "words.toml").write_text("[hr\n")
    with pytest.raises(InputError, match=r"words\.toml is not valid TOML"):
        read_job_file(tmp_path / "job.toml")


def test_sentences_of_a_job():
    given = {"language": "de", "reason": "{label} war {value}", "k": 2}
    job = parse_job(changed(("sentences", given)))
    assert job.description.sentences.to_dict() == given


def test_the_listing_of_a_job_is_toml_again():
    columns = {"hr": {"label": 'a "b"'}, "über uns": {"values": {"1": "x"}}}
    job = parse_job(changed(("columns", columns), ("card", {"owner": ["a", "b"]})))
    read = tomllib.loads(as_toml([*keys_of(job)], with_defaults=False))
    assert read["columns"] == columns
    assert parse_job(read).description == job.description


@pytest.mark.parametrize(
    ("tables", "is_right"),
    [
        ({"columns": "words.toml"}, True),
        ({"columns": {"hr": {"label": "x", "order": ["a"], "values": {"1": "b"}}}}, True),
        ({"columns": {"hr": {"labl": "x"}}}, False),
        ({"columns": {"hr": {"direction": "up"}}}, False),
        ({"card": {"owner": ["a", "b"], "version": 2}}, True),
        ({"card": {"ownr": "a"}}, False),
        ({"sentences": {"language": "de", "k": 2, "reason": "x"}}, True),
        ({"sentences": {"language": "fr"}}, False),
        ({"sentences": {"reson": "x"}}, False),
    ],
)
def test_editors_know_the_tables(tables, is_right):
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    found = jsonschema.Draft202012Validator(json_schema()).is_valid({**changed(), **tables})
    assert found is is_right
