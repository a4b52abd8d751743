"""Damage between two nights: the next night ends well, explains anew what is lost, and says so."""

from __future__ import annotations

import json
import shutil

import pytest

from dshap.core.errors import DamagedError
from dshap.cube import current_of
from dshap.history.run_record import exit_status
from dshap.jobs import Command, run_recorded
from dshap.jobs.runs_in_words import closing_lines
from dshap.jobs.verification import repair_job_store, verify_job_store
from tests.said import Said
from tests.steps.test_nightly_cubes import Shop, counts, flip, rows_of
from tests.steps.test_nightly_cubes import model as model  # the fixture


@pytest.fixture
def shop(tmp_path, model):
    """A shop with one finished night, of 3 blocks."""
    shop = Shop(tmp_path, model)
    shop.table = rows_of(80, seed=0)
    shop.put()
    shop.night()
    return shop


def cube_of(shop):
    """The folder of the cube that is read."""
    place = shop.folder / "store" / "reasons"
    return place / current_of(place)


def night_told(shop):
    """The next night, and the lines that it said."""
    said = Said()
    return run_recorded(shop.job(), said, Command("job.toml")), said


def change_row(shop, key):
    shop.table.loc[shop.table["id"] == key, "a"] += 1
    shop.put()


DAMAGES = (
    ("attribution/c.1.0.0", 32, False),
    ("state/receipts/*1.json", 32, True),
    ("attribution/zarr.json", 80, False),
    pytest.param("base_value/c/0", 80, True, marks=pytest.mark.slow),
    pytest.param("state/created/*", 80, False, marks=pytest.mark.slow),
)
"""Pattern of files of the earlier cube, the rows that one of them is needed for, whether it is lost.

All kinds of files: tests/cube/test_whole_rows.py."""


@pytest.mark.parametrize(("files", "n_lost", "is_lost"), DAMAGES)
def test_rows_of_a_damaged_block_are_explained_anew(shop, files, n_lost, is_lost):
    before = cube_of(shop)
    found = sorted(before.glob(files))
    assert found, sorted(str(each.relative_to(before)) for each in before.rglob("*"))
    if is_lost:
        found[0].unlink()
    else:
        flip(found[0], 40)
    change_row(shop, 3)
    ended, said = night_told(shop)
    assert exit_status(ended.facts) == 0
    shop.check()
    message = ended.facts.explanations[0].message
    assert f"{before.name}" in message, message
    assert "damaged" in message, message
    assert message in json.loads(ended.record.read_text())["results"][0]["message"]
    assert any(message in line for line in said)
    counted = ended.facts.explanations[0].keys.damaged
    assert n_lost - 1 <= counted <= n_lost
    closing = "\n".join(closing_lines(ended.facts, ended.result.store))
    assert f"{counted} of them because their earlier blocks are damaged" in closing
    assert cube_of(shop) != before
    change_row(shop, 4)
    assert counts(shop.night()) == (0, 1, 79, 0)


@pytest.mark.parametrize(
    "files",
    [
        "keys/*/reasons.computed.npy",
        pytest.param("keys/*/reasons.positions.npy", marks=pytest.mark.slow),
        pytest.param("keys/*/reasons.json", marks=pytest.mark.slow),
        pytest.param("keys/*/rows.parquet", marks=pytest.mark.slow),
        pytest.param("keys/*/rows.json", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("is_idle", [True, False])
def test_altered_keys_end_in_a_night_that_explains_all_rows(shop, files, is_idle):
    """Values beyond all runs were an index error, a bug every night."""
    (file,) = (shop.folder / "store").glob(files)
    content = bytearray(file.read_bytes())
    content[-4:] = b"\xff\xff\xff\x7e"
    file.write_bytes(content)
    made = current_of(shop.folder / "store" / "reasons")
    if not is_idle:
        change_row(shop, 3)
    sink = [{"uri": f"duckdb:///{shop.folder}/shop.duckdb", "table": "reasons"}]
    said = Said()
    ended = run_recorded(shop.job(sink=sink), said, Command("job.toml"))
    assert exit_status(ended.facts) == 0
    shop.check()
    assert any(f"all rows are explained: the digests that run {made} left" in x for x in said)
    assert exit_status(shop.night(sink=sink).facts) == 0


def damage_of_learned_rows(files, how):
    """Damage one of the files that the method was learned from."""

    def change(store):
        file = sorted(store.glob(files))[0]
        if how == "lost":
            file.unlink()
        elif how == "cut":
            content = file.read_bytes()
            file.unlink()
            file.write_bytes(content[: len(content) // 2])
        else:
            flip(file, 700)
        return file

    return change


OF_LEARNED = (
    ("prepared/rows/*/part-*.parquet", "lost", "is missing: dshap verify"),
    ("prepared/rows/*/snapshot.json", "flipped", "is damaged"),
    ("prepared/rows/*/snapshot.json", "lost", "is missing: dshap verify"),
    ("prepared/*/prepared.json", "lost", "was lost: a new method is learned"),
    (
        "prepared/*/prepared.json",
        "flipped",
        "removes it, and the same command then learns the method",
    ),
    ("prepared/reasons.json", "flipped", "was lost: a new method is learned"),
)
"""Pattern of files that a method is kept in, what happens to one, and what is told of it."""


@pytest.mark.parametrize(("files", "how", "words"), OF_LEARNED)
def test_damage_to_what_was_learned_is_named(shop, files, how, words):
    """It was told as another method, and the method was learned anew without a word."""
    store = shop.folder / "store"
    file = damage_of_learned_rows(files, how)(store)
    change_row(shop, 3)
    said = Said()
    try:
        run_recorded(shop.job(), said, Command("job.toml"))
    except DamagedError as error:
        said = [str(error)]
        assert "dshap verify" in said[0]
        repair_job_store(store)
        _, again = night_told(shop)
        if "rows" in files:
            assert any("were lost or removed: a new method is learned" in x for x in again)
    assert any(file.name in line and words in line for line in said), said
    shop.check()
    change_row(shop, 4)
    assert counts(shop.night()) == (0, 1, 79, 0)


def test_rows_to_learn_from_that_are_gone_are_named(shop):
    shutil.rmtree(next((shop.folder / "store" / "prepared" / "rows").iterdir()))
    change_row(shop, 3)
    ended, said = night_told(shop)
    assert any("warning" in x and "prepared/rows" in x and "a new method" in x for x in said), said
    assert "prepared/rows" in ended.facts.explanations[0].prepared["reason"]


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", ["lost", "altered"])
def test_a_lost_record_of_an_earlier_night_is_history(shop, number, how):
    """The run was taken for unfinished, and each night ended with 6: the pointer never goes back."""
    for key in (1, 2):
        change_row(shop, key)
        shop.night()
    store = shop.folder / "store"
    records = sorted(store.glob("runs/*/run_results.json"))
    record = records[number]
    if how == "lost":
        record.unlink()
    else:
        record.write_text("{}")
    change_row(shop, 3)
    ended, said = night_told(shop)
    assert exit_status(ended.facts) == 0
    assert counts(ended) == (0, 1, 79, 0)
    assert not any("was not finished" in line for line in said)
    shop.check()
    (damage,) = verify_job_store(store)["runs"]
    assert damage.place == f"runs/{record.parent.name}/run_results.json"
    repair_job_store(store)
    assert not any(verify_job_store(store).values())
    assert len(list(store.glob("runs/*/run_results.json"))) == 3
    change_row(shop, 4)
    assert counts(shop.night()) == (0, 1, 79, 0)
    shop.check()
    assert not any(verify_job_store(store).values())
