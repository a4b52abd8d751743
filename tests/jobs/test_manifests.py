"""Manifests for Kubernetes: valid by its published schemas, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from dshap.cli import cli
from dshap.engine import make_certificates
from tests.jobs.job_files import changed, write_job

PROFILE = """
[cluster]
kind = "kubernetes"
image = "registry.example/dshap:0.2"
workers = 3
volumes = { "/data" = "shared" }
[worker]
cores = 2
memory = "8GiB"
environment = { LC_ALL = "C.UTF-8" }
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pods.toml").write_text(PROFILE)
    write_job(tmp_path, changed(("job.store", "/data/out"), ("source.path", "/data/a.parquet")))
    return tmp_path


def manifest(*words: str) -> Result:
    return CliRunner().invoke(cli, ["cluster", "manifest", "pods.toml", "job.toml", *words])


@pytest.mark.parametrize("version", ["1.31", "1.34", "1.37"])
def test_the_objects_are_valid_by_the_schemas_of_kubernetes(folder, version):
    """Unknown fields are errors; the schemas are those that kubernetes-validate holds."""
    validate = pytest.importorskip("kubernetes_validate", reason="it is not installed")
    make_certificates("tls")
    done = manifest("--certificates", "tls")
    assert done.exit_code == 0, done.stderr
    assert "job.toml: |\n    [job]\n" in done.stdout  # to be read, without quotes and blank lines
    objects = list(yaml.safe_load_all(done.stdout))
    assert [each["kind"] for each in objects] == ["Secret", "ConfigMap", "Service", "Job", "Job"]
    for each in objects:
        validate.validate(each, version, strict=True)
    broken = {**objects[-1], "spec": {**objects[-1]["spec"], "completion": 3}}
    with pytest.raises(validate.ValidationError):
        validate.validate(broken, version, strict=True)


@pytest.mark.parametrize("version", ["1.31", "1.34", "1.37"])
def test_the_objects_of_shards_are_valid_too(folder, version):
    validate = pytest.importorskip("kubernetes_validate", reason="it is not installed")
    more = 'workers = 3\ncredentials = "keys"\nservice_account = "reader"'
    (folder / "pods.toml").write_text(PROFILE.replace("workers = 3", more))
    done = manifest("--shards", "64")
    assert done.exit_code == 0, done.stderr
    objects = list(yaml.safe_load_all(done.stdout))
    assert [each["kind"] for each in objects] == ["ConfigMap", "Job", "Job", "Job"]
    for each in objects:
        validate.validate(each, version, strict=True)


def test_what_the_objects_of_shards_say(folder):
    """Shards and finish wait until they are started; none has a scheduler or certificates."""
    _, learn, shards, finish = json.loads(manifest("--shards", "64", "--json").stdout)["items"]
    assert [job["spec"]["suspend"] for job in (learn, shards, finish)] == [False, True, True]
    spec = shards["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (64, 3, "Indexed")
    assert spec["backoffLimitPerIndex"] == 3 and "backoffLimit" not in spec
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"][-2:] == ["--shard", "auto/64"]
    assert container["resources"]["requests"] == {"cpu": "2", "memory": "8192Mi"}
    assert {volume["name"] for volume in pod["volumes"]} == {"shared", "files"}
    refused = manifest("--shards", "64", "--certificates", "tls")
    assert refused.exit_code == 2 and "leave --certificates out" in refused.stderr


@pytest.mark.parametrize(("words", "action"), [((), "FailJob"), (("--shards", "4"), "FailIndex")])
def test_exit_statuses_that_are_not_tried_again(folder, words, action):
    """Those of which docs/schedules.md says that the same command ends like this again; a pod that
    is taken away does not count."""
    jobs = json.loads(manifest(*words, "--json").stdout)["items"]
    (found,) = (
        job["spec"]["podFailurePolicy"]["rules"]
        for job in jobs
        if job["metadata"]["name"] in ("dshap-run", "dshap-shards")
    )
    taken_away, final = found
    assert taken_away["action"] == "Ignore"
    assert taken_away["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    assert final["action"] == action
    assert final["onExitCodes"]["values"] == [1, 2, 3, 4, 5, 7, 8, 9, 11]
    tried_again = {6, 10, 130, 137}
    assert not tried_again & set(final["onExitCodes"]["values"])


def test_a_bucket_is_reached_by_a_secret_or_a_role(folder):
    more = 'workers = 3\ncredentials = "keys"\nservice_account = "reader"'
    (folder / "pods.toml").write_text(PROFILE.replace("workers = 3", more))
    _, _, run, workers = json.loads(manifest("--json").stdout)["items"]
    for job in (run, workers):
        pod = job["spec"]["template"]["spec"]
        assert pod["serviceAccountName"] == "reader"
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert container["envFrom"] == [{"secretRef": {"name": "keys"}}]
            assert "memory" in container["resources"]["requests"]


def test_what_the_objects_say(folder):
    shown = manifest("--json")
    files, service, run, workers = json.loads(shown.stdout)["items"]
    assert files["data"] == {
        name: (folder / name).read_text() for name in ("pods.toml", "job.toml")
    }
    assert (workers["spec"]["completions"], workers["spec"]["parallelism"]) == (3, 3)
    assert workers["spec"]["completionMode"] == "Indexed"
    (worker,) = workers["spec"]["template"]["spec"]["containers"]
    assert worker["resources"]["limits"] == {"cpu": "2", "memory": "8192Mi"}
    words = worker["command"]
    assert words[words.index("--nworkers") + 1] == "2"
    assert words[words.index("--memory-limit") + 1] == str(4 << 30)
    assert "tls://dshap-scheduler.default.svc:8786" in words
    pod = run["spec"]["template"]["spec"]
    (scheduler,) = pod["initContainers"]
    assert scheduler["restartPolicy"] == "Always" and pod["restartPolicy"] == "Never"
    assert (
        service["spec"]["selector"].items() <= run["spec"]["template"]["metadata"]["labels"].items()
    )
    (container,) = pod["containers"]
    assert container["command"][:5] == [
        "dshap",
        "run",
        "/etc/dshap/jobs/job.toml",
        "--cluster",
        "pods",
    ]
    for each in (container, scheduler, worker):
        mounts = {mount["name"]: mount["mountPath"] for mount in each["volumeMounts"]}
        assert mounts["shared"] == "/data" and mounts["tls"] == "/etc/dshap/tls"
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert volumes == {"tls", "shared", "files"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('kind = "kubernetes"', 'kind = "local"', "[cluster] unknown key 'image'"),
        ("workers = 3", "workers = 0", "[cluster] workers = 0: give at least 1"),
        ('"shared"', '"Shared"', "give a name of small letters, digits and '-'"),
        ('image = "registry.example/dshap:0.2"', "", "[cluster] image is missing"),
        ('"/data" =', '"/other" =', '[job] store = "/data/out" is on no volume of the pods'),
    ],
)
def test_what_is_refused(folder, old, new, said):
    (folder / "pods.toml").write_text(PROFILE.replace(old, new))
    done = manifest()
    assert done.exit_code == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1


def test_another_kind_has_no_manifest(folder):
    (folder / "pods.toml").write_text('[cluster]\nkind = "local"\n')
    done = manifest()
    assert done.exit_code == 2 and 'kind = "local" has no manifest' in done.stderr


def test_a_secret_of_certificates_that_are_not_there(folder):
    done = manifest("--certificates", "none")
    assert done.exit_code == 2 and "TLS: there is no file " in done.stderr
