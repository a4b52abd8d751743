"""[retention] days: old cubes, parts and keys go; the current run, baselines and unloaded runs stay."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta

import pytest

from dshap.core.run_ids import run_id_at, started_at
from dshap.jobfile.reading import read_job_file
from tests.erasure.shops import NIGHTLY, Shop, importable, table

RETENTION = "[retention]\ndays = 30\n"


def names(shop: Shop, room: str) -> list[str]:
    folder = shop.store / room
    return sorted(each.name for each in folder.iterdir() if each.is_dir())


def make_older(shop: Shop, run_id: str, days: int) -> str:
    """Let a run of a store have begun days before; gives its new id."""
    older = run_id_at(started_at(run_id) - timedelta(days=days))
    for room in ("parts", "keys", "runs", "reasons", "prepared/rows"):
        folder = shop.store / room / run_id
        if folder.exists():
            shutil.copytree(folder, folder.with_name(older))
    return older


def test_runs_older_than_the_days_go_with_their_rows_and_records_stay(tmp_path):
    shop = Shop(tmp_path, NIGHTLY + RETENTION)
    first = shop.night(table(shop.n_rows, 0))
    old = make_older(shop, first, 31)
    young = make_older(shop, first, 29)
    unloaded = make_older(shop, first, 60)
    record = shop.store / "runs" / unloaded / "run_results.json"
    os.remove(record)  # it was never over
    last = shop.night(table(shop.n_rows, 1))
    assert names(shop, "reasons") == sorted([unloaded, young, first, last])
    assert names(shop, "parts") == sorted([unloaded, young, first, last])
    assert names(shop, "keys") == sorted([unloaded, young, first, last])
    assert old in names(shop, "runs")


def test_the_cube_that_is_read_stays_however_old(tmp_path):
    shop = Shop(tmp_path, NIGHTLY + RETENTION)
    first = shop.night(table(shop.n_rows, 0))
    idle = shop.night(table(shop.n_rows, 0))  # nothing has changed
    assert idle != first
    assert names(shop, "reasons") == [first]


def test_a_method_from_old_rows_is_learned_anew(tmp_path):
    shop = Shop(tmp_path, NIGHTLY + RETENTION)
    shop.night(table(shop.n_rows, 0))
    with importable(tmp_path):
        job = read_job_file(shop.job)
    assert job.retention.span == timedelta(days=30)
    shop.job.write_text(shop.job.read_text().replace("days = 30", "days = 1"))
    about = shop.store / "prepared" / "reasons.json"
    before = about.read_text()
    run_id = before.split('"run_id": "')[1][:16]
    older = make_older(shop, run_id, 2)
    about.write_text(before.replace(run_id, older).split(', "seal"')[0] + "}")
    last = shop.night(table(shop.n_rows, 1))
    assert last in about.read_text()
    assert not (shop.store / "prepared" / "rows" / older).exists()


def test_a_job_with_one_cube_has_no_retention(tmp_path):
    shop = Shop(tmp_path, RETENTION)
    with pytest.raises(Exception, match=r"\[retention\] days removes the cubes of earlier runs"):
        read_job_file(shop.job)
