"""What is altered after a run was sealed is named: cubes, records, sinks and statements."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from dshap.core.errors import DamagedError, DshapError, InputError, SinkError
from dshap.cube import is_packed, mark_finished, unpack_cube
from dshap.cube.reference_copy import notes_of
from dshap.erasure.forgetting import forget_keys
from dshap.history.run_record import RECORD, document_in
from dshap.jobs.attesting import AttestedSinks, attest_store, statements_of
from dshap.seals.attestations import read_envelope, replace_seal, sealed_runs
from dshap.seals.sealed_loads import loads_of
from dshap.seals.signing_keys import signing_key
from dshap.storage.seals import SEAL, seal_of
from dshap.warehouse.databases import Database
from tests.databases import PASSWORD
from tests.jobs.sealed_jobs import new_key, numbers, of_people, of_reasons, of_trees
from tests.sinks.test_loading import run

SINKS = AttestedSinks()
NIGHTS = {"incremental": {"strategy": "digest"}}


def with_sinks(folder, uri="", **more):
    """Nights of trees, signed, loaded into a table and into a folder."""
    private, public = new_key(folder)
    uri = uri or f"duckdb:///{folder}/shop.duckdb"
    sinks = [
        {"uri": uri, "table": "reasons", "shape": "top_k", "k": 2},
        {"path": str(folder / "lines")},
    ]
    job = of_trees(folder / "job", seal={"key": str(private)}, sink=sinks, **{**NIGHTS, **more})
    return job, public


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """Two nights, sealed and loaded."""
    job, public = with_sinks(tmp_path_factory.mktemp("sealed"))
    job.run()
    job.put(pd.concat([job.table.iloc[4:], numbers(6, 3, 500)]).reset_index(drop=True))
    job.run()
    return job, public


def faults_of(store, key=None, sinks=SINKS):
    return [str(each) for each in attest_store(store, key, "", sinks).seals.faults]


def test_what_is_whole(nights):
    job, public = nights
    found = attest_store(job.store, str(public), "", SINKS)
    found.refuse_faults()
    assert found.seals.faults == []
    assert set(found.seals.signed_by) == set(sealed_runs(job.store))
    assert "all are as sealed" in found.seals.lines[0]
    lines, content = statements_of(job.store)
    assert len(lines) == len(content["statements"]) == 2
    assert all("signed with the key" in line for line in lines)


def test_the_statement(nights):
    """Subjects are few, whatever the number of blocks; materials are named with their digests."""
    job, _ = nights
    last = sealed_runs(job.store)[-1]
    statement = read_envelope(job.store, last).statement
    names = [each["name"] for each in statement["subject"]]
    assert f"reasons/{last}/attribution" in names
    assert {"sink/reasons", f"sink/{job.folder.parent / 'lines'}"} <= set(names)
    assert f"runs/{last}/{RECORD}" in names
    given = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    materials = {each["name"]: each for each in given}
    assert {"source", "model", "job file", "packages", "dshap"} <= materials.keys()
    assert all(each.get("digest") for each in given)
    assert materials["attestation of the run before"]["uri"].split("/")[1] < last
    assert statement["predicate"]["dshap_results"]["sinks"][0]["status"] == "success"
    assert "numpy==" in (job.store / f"runs/{last}/packages.txt").read_text()


@pytest.mark.parametrize("seed", range(2))
def test_altered_bytes_are_named(nights, tmp_path, seed):
    """One bit of any file of the store: each is named.  `test_a_thousand_tamperings` does more."""
    tampered(nights[0], tmp_path, seed, 15)


@pytest.mark.slow
def test_a_thousand_tamperings(nights, tmp_path):
    tampered(nights[0], tmp_path, 99, 1000)


def tampered(job, folder, seed, n_times):
    """Alter, cut, empty, remove or swap files of a copy of the store, one at a time."""
    store = folder / "copy"
    shutil.copytree(job.store, store, symlinks=True)
    rng = random.Random(seed)
    files = sorted(each for each in store.rglob("*") if each.is_file() and _is_sealed(each, store))
    quick = AttestedSinks(are_checked=False)
    assert faults_of(store, sinks=quick) == []
    for _ in range(n_times):
        file = rng.choice(files)
        content = file.read_bytes()
        other = bytearray(content)
        what = rng.choice(["bit", "bit", "cut", "gone", "other"])
        if what == "bit" and other:
            other[rng.randrange(len(other))] ^= 1 << rng.randrange(2)
        elif what == "cut":
            other = other[: len(other) // 2]
        elif what == "other":
            other = bytearray(rng.choice(files).read_bytes())
        if what == "gone":
            file.unlink()
        elif other == content:
            continue
        else:
            file.write_bytes(other)
        try:
            assert faults_of(store, sinks=quick), f"{what}: {file.relative_to(store)}"
        except DshapError as error:
            assert "\n" not in str(error)
        file.write_bytes(content)
    assert faults_of(store, sinks=quick) == []


def _is_sealed(file: Path, store: Path) -> bool:
    """Whether a file holds what was sealed; facts that a later run finds anew are not."""
    name = str(file.relative_to(store))
    return not (name.startswith("state/") or "/histograms/" in name or "/facts/" in name)


def test_a_record_that_was_sealed_again_by_its_writer(nights, tmp_path):
    """A record has a digest of its own content: whoever alters it can renew that, not the statement."""
    store = tmp_path / "copy"
    shutil.copytree(nights[0].store, store, symlinks=True)
    file = store / "runs" / sealed_runs(store)[-1] / RECORD
    document = dict(document_in(file.read_bytes()))
    document["elapsed_time"] = 0.5
    about = document["args"]["dshap"]
    about[SEAL] = seal_of(RECORD, document)
    file.write_text(json.dumps(document))
    assert document_in(file.read_bytes()) is not None
    assert any(RECORD in each for each in faults_of(store))


SINK_CHANGES = {
    "UPDATE reasons SET attribution = attribution + 1e-9 WHERE rank = 1 AND id = 7": "id 7",
    "DELETE FROM _dshap_runs": "_dshap_runs has no line",
    "DROP TABLE reasons": "it is missing",
}
"""Statement that alters the table of a sink -> words of the line that names it."""


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgresql"])
def test_altered_tables_are_named(tmp_path, monkeypatch, kind, request):
    """By the sink and the key of the line; tests/sinks/test_table_comparison.py alters more."""
    uri = f"{kind}:///{tmp_path}/shop.{kind}"
    if kind == "postgresql":
        uri = request.getfixturevalue("postgresql").uri(password=None)
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
    job, _ = with_sinks(tmp_path, uri)
    job.run()
    run(Database(uri), "INSERT INTO reasons (id, class, rank, status) VALUES (9999, 'x', 1, 'ok')")
    assert faults_of(job.store) == []  # a line of the user
    for statement, said in SINK_CHANGES.items():
        run(Database(uri), statement)
        found = [each for each in faults_of(job.store) if said in each]
        assert found, statement
        assert all(each.startswith("sink reasons: ") for each in found)


def test_lines_with_the_version_of_the_card(tmp_path):
    """A sink without `model_version` writes that of the card; its lines are compared with it."""
    job, _ = with_sinks(tmp_path, card={"version": "2026.3"})
    job.run()
    assert faults_of(job.store) == []


def test_lines_of_reasons(tmp_path):
    """Errors, places, texts with quotes and values without a code, of three classes."""
    job = of_reasons(tmp_path / "job")
    job.run()
    assert faults_of(job.store) == []
    shop = Database(job.tables["sink"][0]["uri"])
    run(shop, "UPDATE notices SET first_place = 9 WHERE id = 'kü-1' AND rank = 1")
    altered = "rank 1: first_place is not as it was loaded"
    found = faults_of(job.store)
    assert any("id kü-1" in each and altered in each for each in found), found


def test_altered_folders_are_named(tmp_path):
    job, _ = with_sinks(tmp_path)
    job.run()
    file = next((tmp_path / "lines" / "current").resolve().glob("*.parquet"))
    table = pq.read_table(file)
    pq.write_table(table.slice(0, table.num_rows - 1), file)
    assert any("lines are not" in each for each in faults_of(job.store))
    file.unlink()
    assert any("sink" in each for each in faults_of(job.store))


def test_a_sink_that_cannot_be_reached(tmp_path):
    job, _ = with_sinks(tmp_path)
    job.run()
    elsewhere = AttestedSinks(str(job.file), ("sink.reasons.table=another",))
    found = attest_store(job.store, None, "", elsewhere)
    with pytest.raises(SinkError, match=r"sink reasons was not compared: .*no such"):
        found.refuse_faults()
    attest_store(job.store, None, "", AttestedSinks(are_checked=False)).refuse_faults()


def test_signatures(nights, tmp_path):
    job, public = nights
    private, other = new_key(tmp_path, "other")
    found = attest_store(job.store, str(other), "", SINKS)
    with pytest.raises(DamagedError, match=r"is signed with the key .* not with the one that was"):
        found.refuse_faults()
    assert attest_store(job.store, str(public), "", SINKS).seals.faults == []
    unsigned = of_trees(tmp_path / "unsigned")
    unsigned.run()
    found = attest_store(unsigned.store, None, "", SINKS)
    found.refuse_faults()
    assert "the statements are not signed" in found.seals.notes[0]
    with pytest.raises(DamagedError, match="it is not signed, and the key"):
        attest_store(unsigned.store, str(other), "", SINKS).refuse_faults()
    assert signing_key(str(private), "key").public.keyid[:12] in str(_refusal(unsigned, other))


def _refusal(job, key):
    with pytest.raises(DamagedError) as raised:
        attest_store(job.store, str(key), "", SINKS).refuse_faults()
    return raised.value


def test_a_key_that_is_none_is_refused_before_anything_is_computed(tmp_path):
    job = of_trees(tmp_path / "job", seal={"key": "table.parquet"})
    with pytest.raises(InputError, match=r"\[seal\] key"):
        job.run()
    assert not job.store.exists()


def test_a_key_of_the_environment(tmp_path, monkeypatch):
    """The text of the key is in no file of the store."""
    private, public = new_key(tmp_path)
    job = of_trees(tmp_path / "job", seal={"key": "{{ env_var(DSHAP_SEAL_KEY) }}"})
    with pytest.raises(InputError, match="DSHAP_SEAL_KEY"):
        job.run()
    monkeypatch.setenv("DSHAP_SEAL_KEY", private.read_text())
    job.run()
    attest_store(job.store, str(public), "", SINKS).refuse_faults()
    secret = private.read_text().splitlines()[1].encode()
    assert not [
        file for file in job.store.rglob("*") if file.is_file() and secret in file.read_bytes()
    ]
    job.tables["seal"] = {"key": private.read_text().replace("\n", "\\n")}
    with pytest.raises(InputError, match="the private key is written in the job") as raised:
        job.run()
    assert secret.decode() not in str(raised.value)


def test_a_seal_of_before_packing_holds(tmp_path):
    """Blocks that are packed, or unpacked again, are the same chunks."""
    job = of_trees(tmp_path / "job")
    job.tables["run"] = {"instance_tile": 3}
    job.run()
    assert is_packed(job.store / "reasons")
    assert faults_of(job.store) == []
    unpack_cube(job.store / "reasons")
    assert not any("sealed" in each for each in faults_of(job.store))


def test_runs_of_one_cube(tmp_path):
    """A second run without work seals the same cube, by the digests of the first."""
    job = of_people(tmp_path / "job")
    job.run()
    job.run()
    first, second = sealed_runs(job.store)
    assert faults_of(job.store) == []
    of_first, of_second = (
        {
            each["name"]: each["digest"]
            for each in read_envelope(job.store, run).statement["subject"]
        }
        for run in (first, second)
    )
    shared = [name for name in of_first if name.startswith("classes/")]
    assert shared
    assert all(of_first[name] == of_second[name] for name in shared)


def test_a_key_that_counts_from_a_run_on(tmp_path):
    """A run before there was a key stays unsigned, and is compared all the same."""
    job, public = with_sinks(tmp_path)
    key = job.tables.pop("seal")
    first = job.run().facts.run_id
    job.tables["seal"] = key
    job.put(job.table.iloc[1:])
    last = job.run().facts.run_id
    found = attest_store(job.store, str(public), "", SINKS)
    assert [each.run_id for each in found.seals.faults] == [first]
    assert "give --since RUN_ID" in str(found.seals.faults[0])
    for since in (last, f"{last[:4]}-{last[4:6]}-{last[6:8]}T{last[9:]}"):
        found = attest_store(job.store, str(public), "", SINKS, since)
        found.refuse_faults()
        assert found.seals.runs == [first, last]
        assert f"1 run before {last}: compared" in " ".join(found.seals.notes)
    with pytest.raises(InputError, match=r"no sealed run of .* is as new"):
        attest_store(job.store, str(public), "", SINKS, "2999-01-01")
    with pytest.raises(InputError, match="is no run and no day"):
        attest_store(job.store, str(public), "", SINKS, "yesterday")
    with pytest.raises(InputError, match="give --key too"):
        attest_store(job.store, None, "", SINKS, last)


def test_a_missing_statement(nights, tmp_path):
    store = tmp_path / "copy"
    shutil.copytree(nights[0].store, store, symlinks=True)
    first, second = sealed_runs(store)
    (store / "runs" / second / "attestation.json").unlink()
    assert any("is missing, and an earlier run has one" in each for each in faults_of(store))
    (store / "runs" / first / "attestation.json").unlink()
    with pytest.raises(InputError, match="has no attestation"):
        attest_store(store, None, "", SINKS)


def test_a_person_who_is_forgotten(tmp_path):
    """`dshap forget` seals again what it has changed, with the key of the job."""
    job, public = with_sinks(tmp_path)
    job.run()
    job.put(job.table.iloc[3:])
    job.run()
    done = forget_keys(job.store, ["7"], job_file=str(job.file))
    assert done.resealed == tuple(sealed_runs(job.store))
    found = attest_store(job.store, str(public), "", SINKS)
    found.refuse_faults()
    assert all(found.seals.signed_by.values())
    assert sum("was sealed again" in each for each in found.seals.notes) == 2


def lines_sealed(store):
    """Run and sink -> the number of lines that its statement names now."""
    return {
        (run_id, load.name): load.subject.annotations["lines"]
        for run_id in sealed_runs(store)
        for load in loads_of(store, run_id)
    }


def test_tables_are_compared_after_an_erasure(tmp_path):
    """The renewed statements name the loads as they are now, each night with its own."""
    job, public = with_sinks(tmp_path)
    job.run()
    job.put(job.table.iloc[3:])
    job.run()
    before = lines_sealed(job.store)
    forget_keys(job.store, ["7"], job_file=str(job.file))
    after = lines_sealed(job.store)
    assert set(after) == set(before)
    assert any(after[each] < before[each] for each in before)
    attest_store(job.store, str(public), "", SINKS).refuse_faults()
    shop = Database(f"duckdb:///{tmp_path}/shop.duckdb")
    run(shop, "UPDATE reasons SET attribution = attribution + 1e-9 WHERE id = 8")
    assert any("id 8" in each and "as it was loaded" in each for each in faults_of(job.store))


def test_a_person_who_comes_back_into_a_table_is_seen(tmp_path):
    """A line of the person that came back is none of the loads."""
    job, _ = with_sinks(tmp_path)
    job.run()
    shop = Database(f"duckdb:///{tmp_path}/shop.duckdb")
    run(shop, "CREATE TABLE kept AS SELECT * FROM reasons WHERE id = 7")
    forget_keys(job.store, ["7"], job_file=str(job.file))
    assert faults_of(job.store) == []
    run(shop, "INSERT INTO reasons SELECT * FROM kept")
    assert any("id 7" in each and "was not loaded" in each for each in faults_of(job.store))


def test_an_erasure_without_the_job_file_names_the_loads_too(tmp_path):
    """The store has the job of each run."""
    job, _ = with_sinks(tmp_path)
    job.run()
    before = lines_sealed(job.store)
    job.file.rename(tmp_path / "elsewhere.toml")
    assert not forget_keys(job.store, ["7"], unsigned=True).erasure.left
    after = lines_sealed(job.store)
    assert {each: before[each] - after[each] for each in before} == {
        each: 2 if each[1] == "reasons" else 1 for each in before
    }
    assert faults_of(job.store) == []


def test_an_earlier_night_that_is_sealed_again(nights, tmp_path):
    """The statement of the night after names the old one, which is found beside the new one."""
    store = tmp_path / "copy"
    shutil.copytree(nights[0].store, store, symlinks=True)
    first, _ = sealed_runs(store)
    replace_seal(store, first, None, "1 key was erased")
    quick = AttestedSinks(are_checked=False)
    assert faults_of(store, sinks=quick) == []
    (store / "runs" / first / "attestation-1.json").unlink()
    assert any("attestation of the run before" in each for each in faults_of(store, sinks=quick))


def test_an_erasure_names_the_statement_before(tmp_path):
    """Whoever changes a cube on purpose seals it again: the old statement stays, and is named."""
    job = of_trees(tmp_path / "job")
    job.run()
    (run_id,) = sealed_runs(job.store)
    note = notes_of(job.store / "reasons")
    note.put("erased", {"keys": 1})
    mark_finished(job.store / "reasons")
    assert any("reasons/notes" in each for each in faults_of(job.store))
    replace_seal(job.store, run_id, None, "1 key was erased")
    found = attest_store(job.store, None, "", SINKS)
    found.refuse_faults()
    assert any("was sealed again: 1 key was erased" in each for each in found.seals.notes)
    old = job.store / "runs" / run_id / "attestation-1.json"
    old.write_bytes(old.read_bytes() + b" ")
    assert any("attestation-1.json" in each for each in faults_of(job.store))
