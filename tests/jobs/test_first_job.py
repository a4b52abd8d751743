"""`dshap init`: files and answers in, a job file out that `dshap check`, `plan` and `run` take."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import duckdb
import lightgbm
import pytest
from click.testing import CliRunner

from dshap import cli as commands
from dshap.cli import cli
from dshap.history.run_record import read_records
from dshap.jobs import load_job
from tests.jobs.job_files import small_table

NAMES = ["hr", "temp", 'größe "b"']


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = small_table(200).rename(columns={"hum": NAMES[2], "id": "lift_id"})
    with duckdb.connect("shop.duckdb") as shop:
        shop.register("frame", table)
        shop.execute("create table lifts as select * from frame")
        shop.execute("create view seen as select * from lifts")
    table.to_csv("lifts.csv", index=False)
    table.to_parquet("lifts.parquet")
    booster = lightgbm.train(
        {"verbose": -1, "num_leaves": 4},
        lightgbm.Dataset(table[NAMES].to_numpy(), table["y"], feature_name=["hr", "temp", "x"]),
        3,
    )
    booster.save_model("other.txt")
    lightgbm.LGBMRegressor(n_estimators=3, num_leaves=4, verbose=-1).fit(
        table[["hr", "temp"]], table["y"]
    ).booster_.save_model("model.txt")
    (tmp_path / "my_init_model.py").write_text("def predict(x):\n    return x[:, 0] - x[:, 1]\n")
    yield tmp_path
    sys.modules.pop("my_init_model", None)


def called(*words, status=0, given=None):
    done = CliRunner().invoke(cli, list(map(str, words)), input=given)
    assert done.exit_code == status, done.output
    return done


def test_a_database_and_a_model_are_enough(folder):
    """The commands that it prints run as they are, on dev and on prod."""
    done = called("init", "--source", "shop.duckdb", "--table", "lifts", "--model", "model.txt")
    assert "key lift_id; 2 features: hr, temp" in done.stdout
    commands_next = [line.split()[1:] for line in done.stdout.splitlines() if "    dshap" in line]
    assert [words[0] for words in commands_next] == ["check", "plan", "run", "run"]
    for words in commands_next:
        called(*words)
    called("run", "job.toml", "--target", "dev", "-q")
    for words in (["check", "job.toml", "--target", "dev"], ["run", "job.toml", "-q"]):
        called(*words)
    with duckdb.connect("shop.duckdb") as shop:
        for table in ("lifts_reasons", "lifts_reasons_dev"):
            found = shop.execute(f"select count(distinct lift_id) from {table}").fetchone()
            assert found == (200,)
    assert len(read_records(folder / "build" / "lifts")) == 2
    assert (folder / "build" / "lifts_dev.html").exists()
    text = (folder / "job.toml").read_text(encoding="utf-8")
    assert str(folder) not in text  # the folder may be moved


@pytest.mark.parametrize("source", ["lifts.csv", "lifts.parquet"])
def test_files_and_a_function(folder, source):
    done = called(
        *("init", "jobs.toml", "--source", source, "--model", "my_init_model:predict", "--json"),
        *("--features", f"hr, temp,{NAMES[2]}", "--name", "Ümläut 🙂"),
    )
    content = json.loads(done.stdout)
    assert (content["key"], content["features"]) == (["lift_id"], NAMES)
    job = load_job("jobs.toml")
    assert job.explain[0].value == "marginal"
    assert job.sink[0].path == str(folder / "build" / "Ümläut 🙂_reasons")
    called("check", "jobs.toml")
    called("run", "jobs.toml", "-q")
    assert list((folder / "build" / "Ümläut 🙂_reasons").rglob("*.parquet"))


def test_questions_on_a_terminal(folder, monkeypatch):
    """Each question has a proposal that Enter takes; what an option gives is not asked."""
    monkeypatch.setattr(commands, "is_terminal", lambda: True)
    answers = "shop.duckdb\nseen\nmodel.txt\n\nmine\nnone\n"
    done = called("init", given=answers)
    assert "Table or view, one of lifts, seen:" in done.output
    assert "[lift_id]" in done.output
    job = load_job("job.toml")
    assert (job.job.name, job.source.table, job.sink) == ("mine", "seen", [])
    assert job.incremental.strategy == "digest"
    done = called("init", "b.toml", "--yes", "--source", "lifts.csv", "--model", "model.txt")
    assert "Table" not in done.stderr


def test_the_classes_of_a_classifier_wait_for_names(folder):
    """The file numbers them; the line that is proposed names them as soon as it is no comment."""
    table = small_table(200)[["hr", "temp"]]
    classifier = lightgbm.LGBMClassifier(n_estimators=3, num_leaves=4, verbose=-1)
    classifier.fit(table, table["hr"] > 12).booster_.save_model("classifier.txt")
    called("init", "--source", "shop.duckdb", "--table", "lifts", "--model", "classifier.txt")
    path = folder / "job.toml"
    text = path.read_text(encoding="utf-8")
    assert '\n# classes = ["0", "1"]  # the names of the classes, in this order' in text
    assert load_job("job.toml").model.classes is None
    path.write_text(text.replace('# classes = ["0", "1"]', 'classes = ["early", "late"]'))
    called("check", "job.toml")
    called("init", "--force", "--source", "shop.duckdb", "--table", "lifts", "--model", "model.txt")
    assert "classes" not in path.read_text(encoding="utf-8")


def test_a_query(folder):
    query = "select lift_id, hr, temp from lifts where {as_of} > date '2000-01-01'"
    called("init", "--source", "shop.duckdb", "--query", query, "--model", "model.txt")
    job = load_job("job.toml")
    assert (job.source.query, job.job.name) == (query, "job")
    called("run", "job.toml", "-q")


SOURCE = ("--source", "shop.duckdb")
TABLE = (*SOURCE, "--table", "lifts")
MODEL = ("--model", "model.txt")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "init: give --source: Database (an address)"),
        (SOURCE, "init: give --table: Table or view, one of lifts, seen"),
        ((*SOURCE, "--table", "lift", *MODEL), "unknown table 'lift'; did you mean 'lifts'"),
        (TABLE, "init: give --model"),
        (
            (*TABLE, "--model", "none.json"),
            "none.json: there is no such file: give a file of XGBoost",
        ),
        ((*TABLE, "--model", "shop.duckdb"), "shop.duckdb is of no known kind: give a file of"),
        ((*TABLE, "--model", "other.txt"), "the rows lack a column that"),
        ((*TABLE, *MODEL, "--key", "lift"), "key: unknown column 'lift'; did you mean 'lift_id'"),
        ((*TABLE, *MODEL, "--key", "hr"), "key 'hr' is a column that the model was fitted on"),
        ((*TABLE, *MODEL, "--key", "none", "--sink", "s"), "a sink needs rows with a key"),
        ((*TABLE, *MODEL, "--query", "select 1"), "--table and --query: give one of them"),
        (
            ("--source", "lifts.csv", "--table", "x", *MODEL),
            "--table and --query belong to a database",
        ),
        (("--source", "none.parquet", *MODEL), "none.parquet"),
        (("--source", "oracle://host/x", *MODEL), "source begins with oracle://: give an address"),
        (
            ("--source", "postgresql://me:secret@127.0.0.1:9/db?connect_timeout=1", *MODEL),
            "postgresql://me:***@127.0.0.1:9/db",
        ),
    ],
)
def test_wrong_answers(folder, words, said):
    done = called("init", *words, status=2)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "secret" not in done.stderr
    assert not (folder / "job.toml").exists()


def test_a_file_that_is_there(folder):
    Path("job.toml").write_text("mine")
    done = called("init", *TABLE, *MODEL, status=2)
    assert "job.toml exists: give another name, or --force to replace it" in done.stderr
    assert Path("job.toml").read_text() == "mine"
    called("init", *TABLE, *MODEL, "--force")
    load_job("job.toml")
    done = called("init", "no/such/job.toml", *TABLE, *MODEL, status=2)
    assert "there is no folder" in done.stderr
    os.mkdir("jobs")
    assert "is a folder" in called("init", "jobs", *TABLE, *MODEL, "--force", status=2).stderr


@pytest.mark.slow
def test_a_view_of_postgresql(folder, postgresql, monkeypatch):
    """The password of the address is not written; the job runs with it in the environment."""
    import tests.databases as databases

    with postgresql.database.connect() as connection:
        with connection.cursor() as cursor:
            cursor.execute("create table all_lifts (lift_id bigint, hr float8, temp float8)")
            cursor.execute(
                "insert into all_lifts select i, i % 24, i % 7 from generate_series(1, 60) i"
            )
            cursor.execute("create view lifts as select * from all_lifts where lift_id > 10")
        connection.commit()
    done = called("init", "--source", postgresql.uri(), "--table", "lifts", *MODEL)
    assert "set PGPASSWORD" in done.stdout
    text = Path("job.toml").read_text()
    assert "postgresql://dshap@127.0.0.1" in text
    assert databases.PASSWORD.split()[1] not in text
    monkeypatch.setenv("PGPASSWORD", databases.PASSWORD)
    called("check", "job.toml")
    called("run", "job.toml", "--sample", "20", "-q")
    called("run", "job.toml", "-q")
    called("run", "job.toml", "--target", "dev", "-q")
    with postgresql.database.connect() as connection, connection.cursor() as cursor:
        for table in ("lifts_reasons", "lifts_reasons_dev"):
            cursor.execute(f"select count(distinct lift_id) from {table}")
            assert cursor.fetchall() == [(50,)]
