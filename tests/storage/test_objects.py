"""Stores in a bucket: the same bytes as on a disk, one winner of a name, and what is refused."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import numpy as np
import pytest

import dshap
from dshap.core.errors import InputError, LockedError, UnreachableError
from dshap.core.places import BucketPath
from dshap.core.records import Record
from dshap.cube import CubeWriter, drop_lost_blocks, open_cube, packing, read_notes
from dshap.cube.reference_copy import mark_prepared, states_of
from dshap.cube.verify import repair_store, verify_cube, verify_store
from dshap.storage.buckets import AT_ONCE, connection
from dshap.storage.folder import Folder
from dshap.storage.lease import Holder, Lease
from dshap.storage.running import is_running
from dshap.storage.sealed_files import NO_FILE, StateFolder
from tests.buckets import BUCKET, SECRET
from tests.cube.cubes import TILE, layout_of, make_cube

ROWS = np.random.default_rng(0).normal(size=(600, 4))


def predict(x):
    return x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + x[:, 3]


VALUE = dshap.values.Marginal(predict, ROWS[:20])


def place(name: str) -> str:
    return f"s3://{BUCKET}/{name}"


def explain(store, **options):
    return dshap.explain(VALUE, ROWS, store=store, instance_tile=200, progress=False, **options)


def bytes_in(store) -> dict[str, bytes | None]:
    folder = Folder(store)
    return {name: folder.get(name) for name in folder.tree()}


def test_a_cube_in_a_bucket_is_the_one_on_a_disk_byte_for_byte(s3, tmp_path):
    here = explain(tmp_path / "cube.zarr", keep_rows=True)
    there = explain(place("same/cube.zarr"), keep_rows=True)
    assert bytes_in(place("same/cube.zarr")) == bytes_in(tmp_path / "cube.zarr")
    np.testing.assert_array_equal(there["attribution"].values, here["attribution"].values)
    assert Folder(place("same")).list() == ["cube.zarr"]  # neither lock nor probe is left
    np.testing.assert_array_equal(
        there.dshap.to_frame(shape="wide").to_numpy(),
        here.dshap.to_frame(shape="wide").to_numpy(),
    )
    opened = open_cube(place("same/cube.zarr"))
    assert opened.encoding["source"] == place("same/cube.zarr")
    again = pickle.dumps(opened)
    assert SECRET.encode() not in again
    np.testing.assert_array_equal(pickle.loads(again)["attribution"].values, here["attribution"])


def test_a_packed_cube_is_opened_by_three_requests_in_two_rounds(s3, tmp_path, monkeypatch):
    """Its documents and small files lie in two objects; a note that is written later is read."""
    monkeypatch.setattr(packing, "LEAST_BLOCKS", 2)
    there = explain(place("packed.zarr"), keep_rows=True)
    explain(tmp_path / "packed.zarr", keep_rows=True)
    assert bytes_in(place("packed.zarr")) == bytes_in(tmp_path / "packed.zarr")
    s3.asked.clear()
    opened = open_cube(place("packed.zarr"))
    assert s3.asked == {
        "GET packed.zarr/zarr.json": 2,
        "GET packed.zarr/state/packed.json": 1,
    }
    np.testing.assert_array_equal(opened["row_x1"].values, ROWS[:, 1])
    np.testing.assert_array_equal(opened["attribution"].values, there["attribution"].values)
    assert verify_cube(Folder(place("packed.zarr")).path) == []
    CubeWriter(Folder(place("packed.zarr")).path, layout_of(), "").write_note("mse_v", {"rows": 3})
    assert open_cube(place("packed.zarr")).attrs["mse_v"] == '{"rows": 3}'


def test_xarray_alone_reads_it(s3):
    import obstore
    import xarray as xr
    from zarr.storage import ObjectStore

    cube = explain(place("plain.zarr"))
    store = ObjectStore(obstore.store.from_url(place("plain.zarr")))
    read = xr.open_zarr(store, consolidated=False)
    np.testing.assert_array_equal(read["attribution"].values, cube["attribution"].values)


def test_damage_is_found_and_repaired(s3):
    store = place("damaged.zarr")
    cube = explain(store)
    folder = Folder(store)
    folder.replace("attribution/c.1.0.0", b"nonsense")
    folder.delete("feature/zarr.json")
    found = {damage.place for damage in verify_store(folder.path)["damaged.zarr"]}
    assert "feature/zarr.json" in found
    repaired = repair_store(folder.path)["damaged.zarr"]
    assert any("block 1" in damage.place for damage in repaired)
    np.testing.assert_array_equal(explain(store)["attribution"].values, cube["attribution"].values)
    assert not any(verify_store(folder.path).values())


@pytest.mark.slow
def test_marks_are_listed_and_not_asked_for_one_by_one(s3, tmp_path):
    """Requests for each further block: its receipt and its values, and no look at each file."""
    counts = {}
    for n_blocks in (20, 40):
        make_cube(tmp_path / f"{n_blocks}", n_rows=TILE * n_blocks)
        copied(tmp_path / f"{n_blocks}", place(f"{n_blocks}.zarr"))
        store = Folder(place(f"{n_blocks}.zarr")).path
        writer = CubeWriter(store, layout_of(TILE * n_blocks), "d1")
        for name, look in (
            ("done", lambda cube=writer: len(cube.done())),
            ("ended", lambda cube=writer: len(cube.endings())),
            ("lost", lambda path=store: drop_lost_blocks(path)),
            ("verified", lambda path=store: verify_store(path)[path.name]),
        ):
            s3.n_requests = 0
            assert look() in (n_blocks, [])
            counts[name, n_blocks] = s3.n_requests
    more = {name: counts[name, 40] - counts[name, 20] for name in ("done", "ended", "lost")}
    assert more == {"done": 20, "ended": 20, "lost": 20}  # a receipt each
    # a receipt, and the values of eight arrays
    assert counts["verified", 40] - counts["verified", 20] <= 20 * 9


def test_a_state_is_asked_for_once(s3):
    """A read of a state, or a look for its damage, is one request; with two folders one each."""
    states = StateFolder(place("asked/state"))
    states.put("moments", Record({"sums": np.arange(5.0)}))
    s3.asked.clear()
    np.testing.assert_array_equal(states.get("moments", Record).arrays["sums"], np.arange(5.0))
    assert s3.asked == {"GET asked/state/moments.npz": 1}
    s3.asked.clear()
    assert states.is_whole("moments")
    assert states.damage("other") == NO_FILE
    assert s3.asked == {"GET asked/state/moments.npz": 1, "GET asked/state/other.npz": 1}
    s3.asked.clear()
    second = StateFolder(place("asked/second"), place("asked/state"))
    assert second.is_whole("moments")
    assert not second.is_whole("other")
    assert s3.asked == {
        "GET asked/state/moments.npz": 1,
        "GET asked/state/other.npz": 1,
        "GET asked/second/other.npz": 1,
    }


def test_a_note_is_read_once(s3):
    store = place("noted.zarr")
    explain(store)
    s3.asked.clear()
    notes = read_notes(Folder(store).path)
    assert notes.keys() == {"additivity"}
    of_notes = {name: n for name, n in s3.asked.items() if "notes" in name}
    assert of_notes == {
        "LIST noted.zarr/state/notes/": 1,
        "GET noted.zarr/state/notes/additivity.json": 1,
    }


def test_receipts_are_read_once_by_a_check(s3):
    """What is there is told by listings: nothing is asked for that is not read."""
    store = place("checked.zarr")
    explain(store)
    s3.asked.clear()
    assert verify_store(Folder(store).path) == {"checked.zarr": []}
    of_receipts = {name for name in s3.asked if re.fullmatch("GET .*receipts/.*", name)}
    assert len(of_receipts) == 3
    assert {s3.asked[name] for name in of_receipts} == {1}
    assert not any(name.startswith("HEAD") for name in s3.asked)


def test_states_are_read_once_by_a_check(s3):
    store = Folder(place("prepared")).path
    states_of(store).put("moments", Record({"sums": np.arange(5.0)}))
    mark_prepared(store, {"data": {}})
    s3.asked.clear()
    assert verify_cube(store) == []
    of_states = {name: n for name, n in s3.asked.items() if "moments" in name}
    assert of_states == {"GET prepared/state/moments.npz": 1}
    for room in ("failures", "histograms"):  # the listing of `state` has none
        assert s3.asked[f"LIST prepared/state/{room}/"] == 0


def copied(here, there: str) -> None:
    """Put the files of a folder into a bucket."""
    target = Folder(there)
    for name in Folder(here).tree():
        target.replace(name, (here / name).read_bytes())


def test_results_come_in_order_however_long_each_takes(s3):
    """Of a bucket several at a time, and no more results are held than are on their way."""
    held: list[int] = []

    def slow(number: int) -> int:
        held.append(number)
        time.sleep(0.02 * (number % 3))
        return number

    bucket = Folder(place("a"))
    found = bucket.map(slow, iter(range(100)))
    assert next(found) == 0
    assert len(held) <= AT_ONCE + 1
    assert [*found] == [*range(1, 100)]
    with pytest.raises(ZeroDivisionError):
        [*bucket.map(lambda number: 1 // number, range(5))]
    assert [*Folder("a").map(slow, [3, 4])] == [3, 4]


def test_a_store_is_locked_by_a_lease(s3):
    store = Folder(place("locked.zarr")).path
    leases = Folder(store.with_name(".locked.zarr.running"))
    with Lease(leases, "run", "another run"):
        assert is_running(store)
        with pytest.raises(LockedError, match=r"locked\.zarr is locked by another run"):
            explain(str(store))
    assert not is_running(store)
    explain(str(store))
    assert leases.list() == []


def test_a_cube_in_azure_is_the_one_on_a_disk(azure, tmp_path, monkeypatch):
    here = explain(tmp_path / "cube.zarr")
    store = f"az://{BUCKET}/team/cube.zarr"
    there = explain(store)
    assert bytes_in(store) == bytes_in(tmp_path / "cube.zarr")
    np.testing.assert_array_equal(there["attribution"].values, here["attribution"].values)
    assert not any(verify_store(Folder(store).path).values())
    with pytest.raises(InputError, match="there is no bucket 'none'"):
        explain("az://none/cube.zarr")
    other = f"AAAA{os.environ['AZURE_STORAGE_ACCOUNT_KEY'][4:]}"
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", other)
    with pytest.raises(InputError, match="refuses the credentials") as caught:
        explain(store)
    assert other not in str(caught.value)


@pytest.mark.slow
def test_runs_that_are_killed_lose_nothing(s3, tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys, time
            sys.path.insert(0, {os.getcwd()!r})
            from tests.storage.test_objects import ROWS, predict
            import dshap

            def slow(x):
                time.sleep(0.01)
                return predict(x)

            print("begun", flush=True)
            value = dshap.values.Marginal(slow, ROWS[:20])
            dshap.explain(value, ROWS, store=sys.argv[1], instance_tile=20, progress=False)
            """
        )
    )
    store = place("killed.zarr")
    for turn in range(4):
        run = subprocess.Popen([sys.executable, script, store], stdout=subprocess.PIPE)
        assert run.stdout is not None
        run.stdout.readline()
        time.sleep(0.3 * (turn + 1))
        run.send_signal(signal.SIGKILL)
        run.wait(60)
    subprocess.run([sys.executable, script, store], check=True, timeout=300)
    found = open_cube(store)
    whole = dshap.explain(VALUE, ROWS, instance_tile=20, progress=False)
    np.testing.assert_array_equal(found["attribution"].values, whole["attribution"].values)
    assert not any(verify_store(Folder(store).path).values())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("s3://no-such-bucket/a.zarr", "there is no bucket 'no-such-bucket': make it"),
        (f"s3://id:{SECRET}@bucket/a.zarr", r"store 's3://\*\*\*@bucket/a.zarr': .*environment"),
        (f"s3://{BUCKET}/a.zarr?AWS_SECRET_ACCESS_KEY={SECRET}", "leave credentials"),
        (f"s3://{BUCKET}", "it names no store in a bucket: give s3://BUCKET/NAME"),
        ("hdfs://bucket/a.zarr", "stores on hdfs are not supported: give a folder, or an address"),
        (f"s3://{BUCKET}/{'n' * 240}", "takes 240 bytes, at most 237 allowed"),
    ],
)
def test_addresses_that_are_refused(s3, given, said):
    with pytest.raises(InputError, match=said) as caught:
        explain(given)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_credentials_that_are_refused_or_missing_are_named_and_not_shown(s3, monkeypatch):
    s3.is_closed = True
    with pytest.raises(InputError, match="refuses the credentials of the environment") as refused:
        explain(place("a.zarr"))
    s3.is_closed = False
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(InputError, match="no credentials were found: set AWS_ACCESS") as missing:
        explain(place("a.zarr"))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(InputError, match="set AZURE_STORAGE_ACCOUNT_NAME"):
        explain("az://container/a.zarr")
    for caught in (refused, missing):
        assert SECRET not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_the_extra_that_is_not_installed_is_named(s3, monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")  # another environment, another connection
    with pytest.raises(InputError, match=r"pip install 'dshap\[cloud\]'"):
        explain(place("a.zarr"))


def test_where_only_a_path_is_taken_an_address_is_refused(s3, tmp_path):
    explain(place("paths.zarr"))
    with pytest.raises(InputError, match="give a path of a file system"):
        dshap.report.page(place("paths.zarr"), place("page.html"))
    page = dshap.report.page(place("paths.zarr"), tmp_path / "page.html")
    assert "600 rows" in page.read_text()


@pytest.mark.parametrize(
    ("lacks", "header"), [("is_conditional", "If-None-Match"), ("compares", "If-Match")]
)
def test_a_service_without_conditional_puts_is_refused(s3, lacks, header):
    setattr(s3, lacks, False)
    with pytest.raises(InputError, match=rf"no conditional puts \({header}\)"):
        explain(place("a.zarr"))
    assert Folder(place("a.zarr")).list() == []


def test_objects_by_which_killed_processes_tried_a_bucket_are_removed(s3):
    """That of a process that is trying it at this moment stays."""
    here = Holder.here("a probe")
    gone = replace(here, started="1")
    silent = replace(here, machine="another", seen="2026-01-01T00:00:00Z")
    room = Folder(place(".a.zarr.running"))
    for name, holder in {"here": here, "gone": gone, "silent": silent}.items():
        room.put_new(f"probe.{name}", holder.to_bytes())
    explain(place("a.zarr"))
    assert [name for name in room.list() if name.startswith("probe.")] == ["probe.here"]


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        (
            "AWS_CONDITIONAL_PUT",
            "nonsense",
            "does not accept AWS_CONDITIONAL_PUT of the environment",
        ),
        ("AWS_CONDITIONAL_PUT", "disabled", "take AWS_CONDITIONAL_PUT out of the environment, or"),
        ("AWS_SKIP_SIGNATURE", "nonsense", "does not accept AWS_SKIP_SIGNATURE of the environment"),
        ("AWS_CHECKSUM_ALGORITHM", "x y", "does not accept AWS_CHECKSUM_ALGORITHM of the environm"),
        ("AWS_ENDPOINT_URL", "nonsense", "AWS_ENDPOINT_URL of the environment is not the address"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:900000", "of the environment is not the address"),
        ("AWS_REGION", "eu west 1", "AWS_REGION of the environment contains a space, the end of a"),
        (
            "AWS_REGION",
            "eu-west-1\n",
            "AWS_REGION of the environment contains a space, the end of a",
        ),
        ("AWS_ACCESS_KEY_ID", "key\n", "AWS_ACCESS_KEY_ID of the environment contains a space"),
        ("AWS_SECRET_ACCESS_KEY", "ä", "AWS_SECRET_ACCESS_KEY of the environment contains a space"),
        ("AWS_SESSION_TOKEN", "token\n", "AWS_SESSION_TOKEN of the environment contains a space"),
    ],
)
def test_a_setting_that_is_none_is_named(s3, monkeypatch, name, given, said):
    """By the name of its variable, never by its value, which may be what another one should be."""
    monkeypatch.setenv(name, given)
    with pytest.raises(InputError, match=said) as caught:
        explain(place("a.zarr"))
    assert given not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_status == 2


@pytest.mark.parametrize("given", ["", "eu-west-1", "us-gov_1.x"])
def test_regions_that_are_taken(s3, monkeypatch, given):
    monkeypatch.setenv("AWS_REGION", given)
    connection(BucketPath("s3", BUCKET))


def test_an_azure_account_with_the_end_of_a_line_is_named(monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account\n")
    with pytest.raises(InputError, match="AZURE_STORAGE_ACCOUNT_NAME of the environment contains"):
        connection(BucketPath("az", "bucket"))


def test_a_setting_that_nothing_reads_does_no_harm(s3, monkeypatch):
    monkeypatch.setenv("AWS_REQUEST_TIMEOUT", "x")
    explain(place("a.zarr"))


@pytest.mark.slow
def test_a_service_that_never_answers(s3, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(
        UnreachableError,
        match=r"cannot be reached at http://127\.0\.0\.1:9, which AWS_ENDPOINT_URL of",
    ) as caught:
        explain(place("a.zarr"))
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_errors_and_delays_change_nothing(s3, tmp_path):
    here = explain(tmp_path / "cube.zarr")
    s3.rate = 0.1
    s3.n_faults = 0
    there = explain(place("faulty.zarr"))
    np.testing.assert_array_equal(there["attribution"].values, here["attribution"].values)
    s3.rate = 0.0
    assert s3.n_faults >= 20
    assert bytes_in(place("faulty.zarr")) == bytes_in(tmp_path / "cube.zarr")
