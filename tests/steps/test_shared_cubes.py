"""A finished job run again: no row but those of the probe is read, and everything that changed is
noticed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import astuple, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dshap
from dshap.analysis.column_texts import card_of, texts_of
from dshap.core.errors import InputError, LockedError, StoreMismatchError
from dshap.cube import verify_cube
from dshap.engine import SilentProgress
from dshap.history.stages import ALL_KEPT
from dshap.jobinput.job_rows import KEPT_BYTES, JobRows
from dshap.jobs import JobResult, parse_job, run_job
from dshap.run.determinism import PROBE_ROWS
from dshap.run.versions import NUMERICS_VERSION
from dshap.storage.lease import Lease
from dshap.tables import ParquetSource, parquet
from dshap.tables.files import COARSE_TICK_NS, TICK_NS, FileStamp, stamp_file
from tests.jobs.job_files import JOB, changed, small_table
from tests.said import Said

N_ROWS = 200
LOGISTIC = {"kind": "kernel_logistic", "landmarks": 20, "lengthscale": 1.0, "penalty": 1e-3}
ALL_ROWS = {"name": "a", "value": "kernel_interventional"}
OF_ALL_KINDS: dict[str, tuple[tuple[str, Any], ...]] = {
    "two explanations": (),
    "quality": (("explain.0.quality_rows", 20), ("model.holdout", 0.3)),
    "classes": (("model", LOGISTIC), ("source.target", "is_high"), ("explain", [ALL_ROWS])),
    "a background drawn": (("explain", [{**ALL_ROWS, "background": 20}]),),
    "a background chosen": (
        (
            "explain",
            [{"name": "a", "value": "marginal", "background": 10, "selection": "thinning"}],
        ),
    ),
    "a regression on a model's own columns": (
        ("explain", [{"name": "a", "value": "conditional_regression", "landmarks": 15}]),
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the small table, in two files, of numbers that lie in their pages as
    they are."""
    monkeypatch.chdir(tmp_path)
    table = small_table(N_ROWS).assign(is_high=lambda own: (own.y > 50.0).astype(int))
    write(table[:120], "a")
    write(table[120:], "b")
    return tmp_path


def write(table: pd.DataFrame, name: str) -> None:
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    Path("table").mkdir(exist_ok=True)
    pq.write_table(
        arrow,
        f"table/{name}.parquet",
        compression="none",
        use_dictionary=False,
        write_statistics=False,
    )


def run(*changes: tuple[str, Any], **options: Any) -> JobResult:
    job = parse_job(changed(("source.path", "table"), *changes))
    return run_job(job, options.pop("progress", SilentProgress()), **options)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int]]]:
    """The spans of rows that are read."""
    spans: list[tuple[int, int]] = []
    plain = ParquetSource.read

    def spy(self: ParquetSource, start: int, stop: int, **options: Any) -> Any:
        if "/table/" in self.paths[0]:
            spans.append((start, stop))
        return plain(self, start, stop, **options)

    monkeypatch.setattr(ParquetSource, "read", spy)
    return spans


def of_the_table(reads: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Without the first rows, by whose predictions the model is known again."""
    return [span for span in reads if span != (0, PROBE_ROWS)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", OF_ALL_KINDS)
def test_a_finished_job_reads_no_row_but_the_probes(folder, reads, monkeypatch, kind):
    """Nor does it start a cluster, also one whose memory is not known before."""
    changes = OF_ALL_KINDS[kind]
    assert not run(*changes).was_complete
    assert of_the_table(reads)
    files = {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}
    reads.clear()
    monkeypatch.setattr(
        "dshap.engine.clusters.local.local_client",
        lambda *_, **__: pytest.fail("a cluster started"),
    )
    again = run(*changes, ("cluster", {"kind": "local", "workers": 1}))
    assert again.was_complete
    assert {stage.kept for stage in again.stages} == {ALL_KEPT}
    assert of_the_table(reads) == []
    assert len(reads) <= 2
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()} == files


@pytest.mark.parametrize(
    ("in_file", "given", "expected"),
    [({}, None, 120.0), ({"wait": 0.5}, None, 0.5), ({"wait": 0.5}, 7.0, 7.0)],
)
def test_how_long_a_cluster_is_waited_for(folder, monkeypatch, in_file, given, expected):
    """By the job file, and by --wait before it."""
    waits = []

    def none_comes(client: Any, wait_s: float, say: Any) -> None:
        waits.append(wait_s)
        raise InputError("no workers")

    client = SimpleNamespace(
        status="running", close=lambda: None, cluster=None, nthreads=lambda: {"a": 1}
    )
    monkeypatch.setattr("dshap.engine.clusters.scheduler.connect", lambda address, **_: client)
    monkeypatch.setattr("dshap.engine.cluster.await_workers", none_comes)
    with pytest.raises(InputError, match="no workers"):
        run(
            ("cluster", {"kind": "scheduler", "address": "tcp://127.0.0.1:1", **in_file}),
            wait_s=given,
        )
    assert waits == [expected]


@pytest.mark.parametrize("value", ["interventional", "observational"])
def test_a_job_fits_with_a_shapley_penalty(folder, value):
    """The model of `fit`, whose penalty is in the report of the run; another strength is another
    job."""
    shapley = {"player": ["temp", "hum"], "strength": 2.0, "value": value}
    done = run(("model.shapley", shapley), ("explain", [ALL_ROWS]))
    penalty = dshap.models.ShapleyPenalty(["temp", "hum"], 2.0, value)
    kernel, embedding = dshap.kernels.RBF([1.0, 2.0, 1.5]), dshap.kernels.Nystrom(30)
    table = pd.concat(map(pd.read_parquet, ("table/a.parquet", "table/b.parquet")))
    columns = ["hr", "temp", "hum"]
    model = dshap.models.KernelRidge(kernel, embedding, 1e-4, holdout=0.1, shapley=penalty)
    model.fit(table[columns], table["y"])
    stored = dshap.open_cube("out.zarr/a")
    np.testing.assert_allclose(
        stored.prediction.values[:, 0], model.predict(table[columns]), rtol=1e-9
    )
    assert "temp + hum" in str(done.report)
    assert value in str(done.report)
    with pytest.raises(StoreMismatchError):
        run(("model.shapley", {**shapley, "strength": 3.0}), ("explain", [ALL_ROWS]))


def test_a_player_that_is_no_column_is_refused(folder):
    with pytest.raises(InputError, match="unknown player 'tmp'; did you mean 'temp'"):
        run(("model.shapley", {"player": "tmp", "strength": 1.0}), ("explain", [ALL_ROWS]))


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["chain", {"grid": [1, 3]}])
def test_a_job_has_designs_of_graphs(folder, graph):
    """The numbers of `explain`; a job of another graph is another job."""
    of_graph = {"kind": "connected", "graph": graph, "order": 1, "coefficients": "boundary"}
    assert not run(("explain", [ALL_ROWS]), ("design", of_graph)).was_complete
    assert run(("explain", [ALL_ROWS]), ("design", of_graph)).was_complete
    stored = dshap.open_cube("out.zarr/a")
    design = dshap.designs.connected(dshap.designs.chain(3), 1, coefficients="boundary")
    phi = stored.attribution.values
    assert np.isfinite(phi).all()
    assert not design.info.is_efficient
    assert (
        np.abs(phi.sum(axis=1) + stored.base_value.values - stored.prediction.values).max() > 1e-6
    )
    with pytest.raises(StoreMismatchError, match="design"):
        run(("explain", [ALL_ROWS]), ("design", {**of_graph, "order": 2}))


def test_a_graph_of_another_number_of_players_is_refused(folder):
    with pytest.raises(
        InputError, match=r"the design has 4 players, the value function 3 .*: make its graph of 3"
    ):
        run(("design", {"kind": "myerson", "graph": {"grid": [2, 2]}}))


def altered_in_place(name: str = "table/a.parquet") -> None:
    """Another value on the same place, with the file's size and times as they were."""
    file, table = Path(name), pq.read_table(name)
    was, times = file.read_bytes(), os.stat(file)
    value = table["temp"][100].as_py()
    (old, new) = (np.float64(own).tobytes() for own in (value, value + 1.0))
    assert was.count(old) == 1
    with open(file, "r+b") as opened:
        opened.write(was.replace(old, new))
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert pq.read_table(name)["temp"][100].as_py() == value + 1.0
    now = os.stat(file)
    assert (now.st_size, now.st_mtime_ns, now.st_ino) == (
        times.st_size,
        times.st_mtime_ns,
        times.st_ino,
    )


def rewritten() -> None:
    write(pq.read_table("table/a.parquet").to_pandas().assign(temp=1.0), "a")


def put_in_its_place() -> None:
    """A file of the same size, times and footer, under the name of the first."""
    Path("new").mkdir()
    Path("new/a.parquet").write_bytes(Path("table/a.parquet").read_bytes())
    altered_in_place("new/a.parquet")
    told = os.stat("table/a.parquet")
    os.utime("new/a.parquet", ns=(told.st_atime_ns, told.st_mtime_ns))
    os.replace("new/a.parquet", "table/a.parquet")


def exchanged() -> None:
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        os.rename(f"table/{old}.parquet", f"table/{new}.parquet")


CHANGED_FILES: dict[str, Callable[[], None]] = {
    "rewritten": rewritten,
    "altered in place": altered_in_place,
    "another in its place": put_in_its_place,
    "exchanged": exchanged,
    "one more": lambda: write(small_table(5).assign(id=range(5), is_high=0), "c"),
    "one less": lambda: os.remove("table/b.parquet"),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGED_FILES)
def test_changed_data_are_noticed(folder, change):
    run()
    CHANGED_FILES[change]()
    with pytest.raises(
        StoreMismatchError, match=r"contains a different run: rows: .*(key|order)"
    ) as raised:
        run()
    assert not re.search("[0-9a-f]{16}", str(raised.value))


def test_files_of_another_time_are_read_again(folder, reads):
    """The census is kept for their new times too."""
    run()
    for again in (os.utime, lambda file: os.rename(file, file)):
        again("table/b.parquet")
    reads.clear()
    assert run().was_complete
    assert of_the_table(reads)
    reads.clear()
    assert run().was_complete
    assert not of_the_table(reads)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("source.features", ["hr", "temp"]), "features"),
        (("source.target", "hum"), r"also in features|target"),
        (("source.key", None), "keys"),
        (("source.missing", "skip"), r"missing was refuse, now skip"),
        (("job.seed", 1), "seed was 0, now 1"),
        (("model.penalty", 1e-3), "model.penalty was 0.0001, now 0.001"),
        (("explain.1.landmarks", 25), "landmarks was 20, now 25"),
        (("explain.0.background", 50), "background.*: 200 rows before, 50 now"),
    ],
)
def test_a_changed_job_is_noticed(folder, change, said):
    run()
    with pytest.raises(InputError if "also in" in said else StoreMismatchError, match=said):
        run(change, *([("model.lengthscale", 1.0)] if change[0] == "source.features" else []))


def test_another_version_reads_again(folder, reads, monkeypatch):
    run()
    monkeypatch.setattr("dshap.jobinput.job_rows.__version__", "9.9")
    reads.clear()
    assert run().was_complete
    assert of_the_table(reads)
    monkeypatch.setattr("dshap.run.versions.NUMERICS_VERSION", 1_000)
    reads.clear()
    again = run()  # what is finished stays so, and no fact of other numerics is trusted
    assert again.was_complete
    assert of_the_table(reads)
    assert {each.finished_by for each in again.explanations} == {
        f"dshap {dshap.__version__} (numerics {NUMERICS_VERSION})"
    }


def of_another_table(file: Path) -> None:
    """The census of another table under this name."""
    table = small_table(N_ROWS).assign(id=range(N_ROWS), is_high=0)
    table.to_parquet("other.parquet")
    run(("source.path", "other.parquet"), ("job.store", "other.zarr"))
    (other,) = Path("other.zarr/state").glob("census-*")
    file.write_bytes(other.read_bytes())


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "a bit": lambda file: file.write_bytes(
        file.read_bytes()[:200] + b"x" + file.read_bytes()[201:]
    ),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-7]),
    "empty": lambda file: file.write_bytes(b""),
    "of another table": of_another_table,
    "gone": lambda file: file.unlink(),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_census_is_named_and_taken_again(folder, reads, damage):
    run()
    (file,) = Path("out.zarr/state").glob("census-*")
    DAMAGES[damage](file)
    assert [own.place for own in verify_cube(Path("out.zarr").absolute())] == [f"state {file.stem}"]
    reads.clear()
    said = Said()
    assert run(progress=said).was_complete
    assert of_the_table(reads)
    assert damage == "gone" or any(f"state {file.stem} is damaged" in line for line in said)
    assert verify_cube(Path("out.zarr").absolute()) == []
    reads.clear()
    assert run().was_complete
    assert not of_the_table(reads)


def test_damaged_blocks_are_computed_again_though_no_row_is_counted(folder):
    run()
    receipt = next(iter(Path("out.zarr/interventional/state/receipts").glob("*")))
    receipt.write_bytes(receipt.read_bytes()[:-3])
    again = run()
    assert [each.was_complete for each in again.explanations] == [False, True]
    assert again.stages[0].kept == ALL_KEPT  # the census


def test_rows_can_be_read_again_whatever_the_files_tell(folder, monkeypatch):
    """Of files whose stamps do not tell a change: a run trusts them, unless it is told not to."""

    def blind(root: str, name: str) -> FileStamp:
        return replace(stamp_file(root, name), written_ns=1, changed_ns=1, footer="")

    monkeypatch.setattr(parquet, "stamp_file", blind)
    monkeypatch.setattr(parquet, "check_same_file", lambda stamp, host: None)
    run()
    altered_in_place()
    assert run().was_complete
    with pytest.raises(StoreMismatchError, match="contains a different run: rows: "):
        run(trusts_files=False)


def test_a_file_written_just_now_has_no_stamp(folder, monkeypatch):
    """It may change again without another time."""
    changed_ns = max(os.stat(f"table/{name}.parquet").st_ctime_ns for name in "ab")
    is_coarse = changed_ns % 1_000_000_000 == 0
    for after, is_stamped in (
        (0, False),
        (TICK_NS - 1, False),
        (COARSE_TICK_NS if is_coarse else TICK_NS, True),
    ):
        monkeypatch.setattr(parquet.time, "time_ns", lambda now=changed_ns + after: now)
        assert (ParquetSource("table").stamp is not None) is is_stamped
    assert (
        replace(stamp_file("table", "a.parquet"), changed_ns=5_000_000_000).tick_ns
        == COARSE_TICK_NS
    )


def test_a_stamp_tells_every_part(folder):
    stamp = stamp_file(str(folder), "table/a.parquet")
    told = os.stat("table/a.parquet")
    assert astuple(stamp)[:5] == (
        str(folder / "table/a.parquet"), told.st_size, told.st_mtime_ns, told.st_ctime_ns, told.st_ino,
    )  # fmt: skip
    footer = stamp.footer
    pq.write_table(pq.read_table("table/a.parquet"), "table/a.parquet")  # other codecs
    assert stamp_file(str(folder), "table/a.parquet").footer != footer
    Path("table/short").write_bytes(b"PAR")
    Path("table/huge").write_bytes(b"\xff\xff\xff\x7fPAR1")  # says a footer larger than the file
    assert stamp_file(str(folder), "table/short").size == 3
    assert stamp_file(str(folder), "table/huge").size == 8


def test_large_samples_are_read_again(folder, monkeypatch):
    """What is kept stays small."""
    assert KEPT_BYTES == 16 << 20
    monkeypatch.setattr("dshap.jobinput.job_rows.KEPT_BYTES", 24 * 20 - 1)
    job = {**JOB, "explain": [{**ALL_ROWS, "background": 20}]}
    run(("explain", job["explain"]))
    assert not list(Path("out.zarr/state").glob("sample-*"))
    assert run(("explain", job["explain"])).was_complete


def test_what_is_known_of_a_table_is_found_once(folder, reads):
    table = JobRows(parse_job(changed(("source.path", "table"))))
    assert table.kept_census() is None
    assert table.keep() == []
    first = table.sample(30)
    reads.clear()
    assert table.sample(30) is first
    assert not reads
    assert table.sample(31).shape == (31, 3)
    assert reads


@pytest.mark.parametrize("after", [3, 8])
def test_a_run_whose_store_another_took_ends(folder, monkeypatch, after):
    """As when its machine slept for minutes: it stops at its next step, and the same job goes on."""
    checks = []

    def check(lease):
        checks.append(lease)
        if len(checks) > after:
            raise LockedError("the store is no longer locked by this process")

    with monkeypatch.context() as patch:
        patch.setattr(Lease, "check", check)
        with pytest.raises(LockedError, match="no longer locked"):
            run()
    assert len(checks) == after + 1
    assert not run().was_complete


def test_another_dictionary_explains_nothing_anew(folder, reads):
    """Nor does another card, or wording: only notes are written."""
    words = (("columns", {"hr": {"label": "Stunde"}}), ("card", {"owner": "Ann"}))
    assert not run(*words).was_complete
    store = folder / "out.zarr"
    files = {file: file.stat().st_mtime_ns for file in store.rglob("c/*") if file.is_file()}
    reads.clear()
    others = (
        ("columns", {"temp": {"label": "Wärme", "unit": "°C"}, "y": {"label": "Fahrten"}}),
        ("card", {"owner": "Ben"}),
        ("sentences", {"language": "de"}),
    )
    assert run(*others).was_complete
    assert of_the_table(reads) == []
    assert {file: file.stat().st_mtime_ns for file in store.rglob("c/*") if file.is_file()} == files
    for name in ("interventional", "observational"):
        texts = texts_of(store / name)
        assert (texts.label_of("hr"), texts.axis_of("temp")) == ("hr", "Wärme (°C)")
        assert card_of(store / name) == {"owner": "Ben"}
        assert verify_cube(store / name) == []
    (sentence,) = dshap.open_cube(store / "interventional").dshap.sentences(1000, k=1)
    assert ", vor allem wegen: " in sentence
    assert run().was_complete
    assert texts_of(store / "interventional").axis_of("temp") == "temp", (
        "what is gone is taken back"
    )


def test_a_dictionary_with_an_unknown_column_is_refused_before_anything(folder):
    with pytest.raises(InputError, match=r"\[columns\]: unknown column 'hrs'; did you mean 'hr'\?"):
        run(("columns", {"hrs": {"label": "Stunde"}}))
    assert not (folder / "out.zarr").exists()
