"""The tables [cluster] and [worker]: keys of each kind, and what is refused before a run starts."""

from __future__ import annotations

import importlib.util
import re
import tomllib

import pytest
from click.testing import CliRunner

from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.engine.clusters.installed import EXTRAS, PACKAGE_OF
from dshap.engine.clusters.kubernetes import USER_ID
from dshap.jobfile.cluster_tables import CLUSTERS
from dshap.jobfile.reading import read_cluster
from dshap.jobs import parse_job
from tests.jobs.job_files import changed, small_table, write_job
from tests.pages import ROOT

SLURM = {"kind": "slurm", "workers": 3, "jobqueue": {"queue": "long", "interface": "ib0"}}
WORKER = {"cores": 4, "memory": "16GiB", "walltime": "04:00:00"}


def test_a_queue():
    job = parse_job(changed(("cluster", SLURM), ("worker", WORKER)))
    assert job.cluster.jobqueue == {"queue": "long", "interface": "ib0"}
    assert job.memory_limit == 4 << 30
    assert job.worker_options.lifetime_s == 4 * 3600 - 300


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"jobqueue": {"queu": "long"}}, "unknown option of dask-jobqueue 'queu'; did you mean"),
        ({"jobqueue": {"memory": "2GB"}}, "jobqueue.memory: [worker] memory sets it; leave it out"),
        ({"queue": "long"}, "[cluster] unknown key 'queue'"),
        ({"workers": 0}, "[cluster] workers = 0: give at least 1"),
    ],
)
def test_what_a_queue_refuses(changes, said):
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    with pytest.raises(InputError) as refused:
        parse_job(changed(("cluster", {**SLURM, **changes}), ("worker", WORKER)))
    assert said in str(refused.value)


BOUNDED = [{"kind": "local"}, {"kind": "slurm"}, {"kind": "gateway"}]


@pytest.mark.parametrize("cluster", BOUNDED, ids=lambda table: table["kind"])
def test_bounds_of_a_cluster_that_grows(cluster):
    """`maximum` alone is enough; the number of workers cannot be given beside it."""

    def read(**keys):
        return parse_job(changed(("cluster", {**cluster, **keys}), ("worker", {"memory": "2GiB"})))

    for minimum, maximum in ((0, 1), (1, 1), (3, 8)):
        found = read(minimum=minimum, maximum=maximum).cluster
        assert (found.minimum, found.maximum) == (minimum, maximum)
    assert read(maximum=4).cluster.minimum is None
    assert read(workers=4).cluster.maximum is None
    for keys, said in (
        ({"minimum": 2}, "minimum = 2 needs maximum: give both"),
        ({"minimum": 3, "maximum": 2}, "minimum = 3 is more than maximum = 2: give at most that"),
        ({"workers": 2, "maximum": 2}, "workers is given too: leave one of them out"),
        ({"maximum": 0}, "[cluster] maximum = 0: give at least 1"),
        ({"minimum": -1, "maximum": 2}, "[cluster] minimum = -1: give at least 0"),
    ):
        with pytest.raises(InputError) as refused:
            read(**keys)
        assert said in str(refused.value)


def test_a_cluster_that_runs_already_has_no_bounds():
    table = {"kind": "gateway", "cluster": "mine", "maximum": 3}
    with pytest.raises(InputError, match="cluster is given too: leave one of them out"):
        parse_job(changed(("cluster", table)))


@pytest.mark.parametrize("kind", ["scheduler", "ssh", "kubernetes", "python"])
def test_kinds_that_cannot_grow_refuse_bounds(kind):
    with pytest.raises(InputError, match=r"unknown key 'maximum'"):
        parse_job(changed(("cluster", {"kind": kind, **TABLES[kind], "maximum": 3})))


SSH = {"kind": "ssh", "hosts": ["node1"], "certificates": "tls"}


@pytest.mark.parametrize(
    "cluster", [SLURM, SSH, {"kind": "gateway"}], ids=lambda table: table["kind"]
)
def test_a_package_that_is_not_installed(tmp_path, monkeypatch, cluster):
    """Its extra is named before the run does anything; a plan needs none."""
    find = importlib.util.find_spec
    gone = PACKAGE_OF[cluster["kind"]]
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *more: None if name == gone else find(name, *more)
    )
    small_table().to_parquet(tmp_path / "table.parquet")
    worker = {"cores": 4, "memory": "16GiB"}
    job = write_job(tmp_path, changed(("cluster", cluster), ("worker", worker)))
    assert CliRunner().invoke(cli, ["plan", str(job)]).exit_code == 0
    done = CliRunner().invoke(cli, ["run", str(job)])
    assert done.exit_code == 2
    assert not (tmp_path / "out.zarr").exists()
    assert f"pip install 'dshap[{EXTRAS[gone]}]'" in done.stderr


def test_the_extras_are_those_of_the_project():
    project = (ROOT / "pyproject.toml").read_text()
    for package, extra in EXTRAS.items():
        assert f'\n{extra} = ["{package.replace("_", "-")}>=' in project


EVERY_KEY = {
    "cores": 2,
    "memory": "2GiB",
    "threads": 2,
    "walltime": "04:00:00",
    "scratch": "/scratch",
    "environment": {"LC_ALL": "C"},
    "python": "/opt/bin/python",
    "ephemeral_storage": "20GiB",
}
"""A value of each key of [worker]."""
TABLES = {
    "none": {},
    "local": {},
    "python": {"file": "cluster.py"},
    "scheduler": {"address": "tcp://h:1"},
    "ssh": {"hosts": ["node1"], "certificates": "tls"},
    "kubernetes": {"image": "image"},
}
"""Kind of cluster -> the keys that it needs."""
USED = {
    "local": {"environment"},
    "ssh": {"scratch", "environment", "python"},
    "kubernetes": {"scratch", "environment", "python", "ephemeral_storage"},
    **dict.fromkeys(["slurm", "pbs", "sge", "lsf"], EVERY_KEY.keys() - {"ephemeral_storage"}),
    "none": EVERY_KEY.keys(),
}
"""Kind of cluster -> the keys of [worker] that it uses beside the size of a worker."""


@pytest.mark.parametrize("kind", CLUSTERS.known)
def test_keys_of_worker_that_a_kind_does_not_use_are_refused(kind):
    """The kinds that take them are named."""
    used = {"cores", "memory", "threads"} | USED.get(kind, set())
    cluster = {"kind": kind, **TABLES.get(kind, {})}
    parse_job(changed(("cluster", cluster), ("worker", {name: EVERY_KEY[name] for name in used})))
    for name in EVERY_KEY.keys() - used:
        with pytest.raises(InputError) as refused:
            parse_job(changed(("cluster", cluster), ("worker", {name: EVERY_KEY[name]})))
        said = (
            f'[worker] {name} is not used by [cluster] kind = "{kind}": leave it out; kinds that '
        )
        assert str(refused.value).startswith(said), refused.value
        takers = {each for each, keys in USED.items() if name in keys} - {"none"}
        assert set(re.findall(r'"(\w+)"', str(refused.value).partition("take it")[2])) == takers


def test_keys_of_a_job_that_another_cluster_does_not_use(tmp_path):
    """--cluster leaves them out; in a profile, or beside it in the job, they are refused."""
    small_table().to_parquet(tmp_path / "table.parquet")
    job = write_job(tmp_path, changed(("cluster", SLURM), ("worker", WORKER)))
    shown = CliRunner().invoke(cli, ["job", str(job), "--cluster", "local"])
    assert shown.exit_code == 0, shown.output
    assert "walltime" not in shown.output, shown.output
    assert 'memory = "16GiB"' in shown.output
    kept = CliRunner().invoke(cli, ["job", str(job), "--cluster", "none"])
    assert kept.exit_code == 0
    assert 'walltime = "04:00:00"' in kept.output
    (tmp_path / "here.toml").write_text(
        '[cluster]\nkind = "local"\n[worker]\nwalltime = "04:00:00"\n'
    )
    for words in (
        ["job", job, "--cluster", tmp_path / "here.toml"],
        ["job", job, "--cluster", "local", "--set", "worker.walltime=04:00:00"],
        ["cluster", "check", tmp_path / "here.toml"],
    ):
        done = CliRunner().invoke(cli, list(map(str, words)))
        (line,) = done.stderr.splitlines()
        assert done.exit_code == 2
        assert '[worker] walltime is not used by [cluster] kind = "local"' in line


PROFILES = sorted((ROOT / "cluster").glob("*.toml"))


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_the_profiles_of_the_project_are_taken(path):
    cluster, worker = read_cluster(str(path))
    assert cluster.kind in CLUSTERS.known
    assert worker.cores >= 1


def test_keys_that_a_profile_has_as_comments_are_taken(tmp_path):
    text = (ROOT / "cluster" / "kubernetes.toml").read_text()
    text, n_keys = re.subn(r"^# (?=\w+ = )", "", text, flags=re.MULTILINE)
    path = tmp_path / "pods.toml"
    path.write_text(text)
    _, worker = read_cluster(str(path))
    assert n_keys == 5
    assert worker.ephemeral_storage == "50GiB"


def test_there_is_a_profile_of_each_kind_that_needs_keys():
    """PBS stands for SGE and LSF."""
    kinds = {read_cluster(str(path))[0].kind for path in PROFILES}
    assert CLUSTERS.known.keys() - kinds == {"none", "local", "python", "sge", "lsf"}


def test_the_container_file_names_what_is_there():
    """Its copied files, its extras, and the user that pods run as."""
    text = (ROOT / "cluster" / "Containerfile").read_text()
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (ROOT / name).exists(), name
    (extras,) = re.findall(r'"\$wheel\[([\w,]+)\]"', text)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras.split(",")) <= project["optional-dependencies"].keys()
    assert "cloud" in extras.split(",")  # pods with stores and rows in buckets
    # by its name, pip would take a package of that name from an index
    assert '"dshap[' not in text
    assert "--find-links" not in text
    assert "$(echo /tmp/wheels/dshap-*.whl)" in text
    assert f"--uid {USER_ID} " in text
    assert f"USER {USER_ID}\n" in text
