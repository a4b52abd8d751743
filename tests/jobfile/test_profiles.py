"""Profiles of clusters: where they are found, what a job's own keys do, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.jobs import load_job, parse_job
from tests.jobs.job_files import changed, write_job

LOCAL = (
    '[cluster]\nkind = "local"\nworkers = 3\n[worker]\nmemory = "4GiB"\nthreads = 2\ncores = 4\n'
)
FILE = '[cluster]\nkind = "python"\nfile = "own.py"\n'


@pytest.fixture
def places(tmp_path, monkeypatch) -> dict[str, Path]:
    """Folders of profiles: beside the job, of the working directory, of the user."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    here = tmp_path / "here"
    places = {
        "job": tmp_path / "jobs" / "clusters",
        "here": here / "clusters",
        "user": tmp_path / "config" / "dshap" / "clusters",
    }
    for place in places.values():
        place.mkdir(parents=True)
    monkeypatch.chdir(here)
    return places


def job_in(places, *changes) -> Path:
    return write_job(places["job"].parent, changed(*changes))


@pytest.mark.parametrize("place", ["job", "here", "user"])
def test_a_profile_is_found_by_its_name(places, place):
    (places[place] / "site.toml").write_text(LOCAL)
    job = load_job(job_in(places), cluster="site")
    assert (job.cluster.kind, job.cluster.workers, job.cluster.profile) == ("local", 3, "site")
    assert (job.memory_limit, job.n_threads) == (2 << 30, 2)


def test_the_nearest_counts(places):
    for number, place in enumerate(places.values()):
        (place / "site.toml").write_text(LOCAL.replace("3", str(number + 1)))
    for number, place in enumerate(places.values()):
        assert load_job(job_in(places), cluster="site").cluster.workers == number + 1
        (place / "site.toml").unlink()


def test_a_path_of_a_file_is_from_the_working_directory_and_its_paths_from_its_folder(places):
    """In a job file it is from the folder of the job."""
    (places["here"] / "own.toml").write_text(FILE)
    job = load_job(job_in(places), cluster="clusters/own.toml")
    assert job.cluster.file == str(places["here"] / "own.py")
    (places["job"] / "own.toml").write_text(FILE)
    job = load_job(job_in(places, ("cluster", {"profile": "clusters/own.toml"})))
    assert job.cluster.file == str(places["job"] / "own.py")


def test_keys_of_the_job_come_first(places):
    """Those of --set before them; with --cluster the file's [cluster] is not read."""
    (places["here"] / "site.toml").write_text(LOCAL)
    own = {"profile": "site", "workers": 5}
    path = job_in(places, ("cluster", own), ("worker", {"memory": "8GiB"}))
    job = load_job(path)
    assert (job.cluster.workers, job.worker.memory, job.worker.cores) == (5, "8GiB", 4)
    assert load_job(path, ["cluster.workers=6"]).cluster.workers == 6
    assert load_job(path, cluster="site").cluster.workers == 3
    assert load_job(path, cluster="none").cluster.kind == "none"
    assert load_job(path, cluster="local").cluster.workers is None


def test_a_printed_job_with_a_profile_is_that_job(places):
    (places["here"] / "site.toml").write_text(LOCAL)
    path = job_in(places)
    shown = CliRunner().invoke(cli, ["job", str(path), "--cluster", "site"])
    assert shown.exit_code == 0
    assert 'profile = "site"' in shown.stdout
    path.write_text(shown.stdout)
    assert load_job(path) == load_job(job_in(places), cluster="site")


def refused(places, *arguments: str) -> Result:
    done = CliRunner().invoke(cli, ["plan", str(job_in(places)), *arguments])
    assert done.exit_code == 2, done.output
    assert len(done.stderr.splitlines()) == 1, done.output
    return done


def test_no_such_profile(places):
    """The message says where it looked, and what is there."""
    (places["user"] / "slurm.toml").write_text(LOCAL)
    said = refused(places, "--cluster", "slrum").stderr
    assert "unknown profile 'slrum'; did you mean 'slurm'? Allowed: local, none, slurm." in said
    for place in (*places.values(), "/etc/dshap/clusters"):
        assert str(place) in said
    assert (
        "profile /none/a.toml: there is no such file"
        in refused(places, "--cluster", "/none/a.toml").stderr
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind = ", "is not valid TOML"),
        ("[worker]\ncores = 2\n", "[cluster] kind is missing"),
        (
            '[cluster]\nkind = "local"\n[source]\n',
            "unknown table 'source'. Allowed: cluster, worker",
        ),
        ('cluster = "local"\n', "write a table, [cluster]"),
        ('[cluster]\nkind = "local"\nprofile = "b"\n', "a profile cannot use another profile"),
        ('[cluster]\nkind = "locl"\n', "[cluster] unknown kind 'locl'; did you mean 'local'?"),
        (LOCAL + "core = 3\n", "[worker] unknown key 'core'; did you mean 'cores'?"),
        (
            LOCAL + "environment = { A = 1 }\n",
            '[worker] environment.A = "***": give text in quotes',
        ),
        (
            LOCAL + 'environment = "A=1"\n',
            '[worker] environment = "***": give a table like { LC_ALL = "C" }',
        ),
        (LOCAL + 'walltime = "4h"\n', '[worker] walltime = "4h": walltime "4h" is not understood'),
        (LOCAL + 'walltime = "00:05:00"\n', "[worker] walltime"),
        (LOCAL.replace("cores = 4", "cores = 3"), "cores = 3 is not a multiple of threads = 2"),
        (LOCAL.replace("4GiB", "4 apples"), "[worker] memory = "),
        ('[cluster]\nkind = "python"\nfile = "{{ env_var(NOT_SET_X) }}"\n', "NOT_SET_X is not set"),
    ],
)
def test_bad_profiles(places, text, said):
    (places["here"] / "bad.toml").write_text(text)
    assert said in refused(places, "--cluster", "bad").stderr


def test_a_kind_beside_a_profile_of_another(places):
    (places["here"] / "site.toml").write_text(LOCAL)
    with pytest.raises(InputError, match=r'kind = "none" is given beside profile = "site"'):
        parse_job(changed(("cluster", {"profile": "site", "kind": "none"})))
