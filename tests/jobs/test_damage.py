"""Damage between two nights: the next night ends well, explains anew what is lost, and says so."""

from __future__ import annotations

import json

import pytest

from dshap.cube import current_of
from dshap.engine import SilentProgress
from dshap.jobs import Command, run_recorded
from dshap.jobs.run_record import exit_status
from dshap.jobs.runs import closing_lines
from tests.jobs.test_nights import Shop, counts, flip, rows_of
from tests.jobs.test_nights import model as model  # the fixture


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
    said = []
    progress = SilentProgress()
    progress.say = said.append
    return run_recorded(shop.job(), progress, Command("job.toml")), said


def change_row(shop, key):
    shop.table.loc[shop.table["id"] == key, "a"] += 1
    shop.put()


DAMAGES = (
    ("attribution/c/1/0/0", 32, False),
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
    assert f"{before.name}" in message and "damaged" in message, message
    assert message in json.loads(ended.record.read_text())["results"][0]["message"]
    assert any(message in line for line in said)
    counted = ended.facts.explanations[0].keys.damaged
    assert n_lost - 1 <= counted <= n_lost
    closing = "\n".join(closing_lines(ended.facts, ended.result.store))
    assert f"{counted} of them as their earlier blocks are damaged" in closing
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
    said = []
    progress = SilentProgress()
    progress.say = said.append
    ended = run_recorded(shop.job(sink=sink), progress, Command("job.toml"))
    assert exit_status(ended.facts) == 0
    shop.check()
    assert any(f"all rows are explained: the digests that run {made} left" in x for x in said)
    assert exit_status(shop.night(sink=sink).facts) == 0
