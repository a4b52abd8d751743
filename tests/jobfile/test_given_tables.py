"""Keys of a job file before it is checked, with the fields that check them."""

from __future__ import annotations

from dshap.jobfile.given_tables import keys_of_tables
from tests.jobs.job_files import changed


def test_every_key_has_its_place_and_field():
    job = changed(("sink", [{"path": "out"}, 3]), ("model.nothing", 1), ("worker", "no table"))
    found = {(each.place, each.key): each for each in keys_of_tables(job)}
    store = found["[job]", "store"]
    assert store.value == "out.zarr"
    assert store.table is job["job"]
    assert store.field.is_required()
    assert found["[[explain]] observational", "landmarks"].value == 20
    assert found["[[sink]] number 1", "path"].value == "out"
    assert found["[model]", "nothing"].field is None
    assert not any(place.startswith("[worker]") for place, _ in found)


def test_a_cluster_whose_kind_its_profile_has():
    job = {"cluster": {"profile": "office", "file": "own.py"}}
    (_, file) = keys_of_tables(job)
    assert file.key == "file"
    assert file.field is not None
