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


PLACED = """
image_pull_secrets = ["registry.example-pull"]
node_selector = { pool = "batch", "topology.kubernetes.io/zone" = "eu-west-1a" }
tolerations = [
    { key = "dedicated", operator = "Equal", value = "batch", effect = "NoSchedule" },
    { key = "spot", operator = "Exists", effect = "NoExecute", tolerationSeconds = 60 },
]
priority_class = "batch-low"
labels = { team = "risk", "kueue.x-k8s.io/queue-name" = "nightly" }
annotations = { "sidecar.istio.io/inject" = "false" }
"""
"""Where pods run, as [cluster] says it."""


def placed(profile: str = PROFILE) -> str:
    """The profile with all that says where pods run and how much disk they may fill."""
    return profile.replace("[worker]", f'{PLACED}[worker]\nephemeral_storage = "20GiB"')


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
    assert "&id" not in done.stdout  # a part that stands twice is written twice
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


@pytest.mark.parametrize("words", [(), ("--shards", "4")])
@pytest.mark.parametrize("version", ["1.31", "1.34", "1.37"])
def test_where_pods_run_is_valid(folder, version, words):
    validate = pytest.importorskip("kubernetes_validate", reason="it is not installed")
    (folder / "pods.toml").write_text(placed())
    done = manifest(*words)
    assert done.exit_code == 0, done.stderr
    for each in yaml.safe_load_all(done.stdout):
        validate.validate(each, version, strict=True)


@pytest.mark.parametrize("words", [(), ("--shards", "4")])
def test_where_pods_run(folder, words):
    """All pods have it; dshap's own labels stay, by which the service finds the scheduler."""
    (folder / "pods.toml").write_text(placed())
    items = json.loads(manifest(*words, "--json").stdout)["items"]
    for each in items:
        labels = each["metadata"]["labels"]
        assert labels["team"] == "risk" and labels["app"] == "dshap"
        assert each["metadata"]["annotations"] == {"sidecar.istio.io/inject": "false"}
    jobs = [each for each in items if each["kind"] == "Job"]
    assert len(jobs) == (3 if words else 2)
    for job in jobs:
        template = job["spec"]["template"]
        assert template["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "nightly"
        assert template["metadata"]["labels"]["part"] in job["metadata"]["name"]
        assert template["metadata"]["annotations"] == {"sidecar.istio.io/inject": "false"}
        pod = template["spec"]
        assert pod["nodeSelector"] == {
            "pool": "batch",
            "topology.kubernetes.io/zone": "eu-west-1a",
        }
        assert pod["tolerations"] == [
            {"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"},
            {
                "key": "spot",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 60,
            },
        ]
        assert pod["imagePullSecrets"] == [{"name": "registry.example-pull"}]
        assert pod["priorityClassName"] == "batch-low"


def test_a_profile_that_says_nothing_of_it_adds_nothing(folder):
    for job in json.loads(manifest("--json").stdout)["items"][2:]:
        pod = job["spec"]["template"]["spec"]
        assert not {"nodeSelector", "tolerations", "imagePullSecrets", "priorityClassName"} & set(
            pod
        )
        assert "annotations" not in job["metadata"]


@pytest.mark.parametrize("words", [(), ("--shards", "4")])
def test_the_disk_of_pods_that_explain(folder, words):
    """Requested, limited, and the size of the volume for temporary files."""
    (folder / "pods.toml").write_text(placed())
    items = json.loads(manifest(*words, "--json").stdout)["items"]
    explains = [
        job["spec"]["template"]["spec"]
        for job in items
        if job["metadata"]["name"] in ("dshap-workers", "dshap-shards")
    ]
    (pod,) = explains
    (container,) = pod["containers"]
    for part in ("requests", "limits"):
        assert container["resources"][part]["ephemeral-storage"] == "20480Mi"
    assert {"name": "scratch", "emptyDir": {"sizeLimit": "20480Mi"}} in pod["volumes"]


def scratch_of(pod: dict) -> tuple[str | None, str | None]:
    """Where the only container of a pod sees its scratch, and where its temporary files go."""
    (container,) = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    variables = {each["name"]: each["value"] for each in container["env"]}
    return mounts.get("scratch"), variables.get("TMPDIR")


@pytest.mark.parametrize(
    ("more", "seen"),
    [
        ("", ("/var/tmp/dshap", "/var/tmp/dshap")),
        ('scratch = "/fast"', ("/fast", "/fast")),
        ('scratch = "/data/scratch"', (None, None)),  # on a volume of the profile
    ],
)
def test_scratch_is_a_volume_of_the_pod(folder, more, seen):
    """The user of the pods could make no folder at the root of the image."""
    (folder / "pods.toml").write_text(PROFILE + more)
    _, _, run, workers = json.loads(manifest("--json").stdout)["items"]
    for job in (run, workers):
        pod = job["spec"]["template"]["spec"]
        assert scratch_of(pod) == seen
        assert ("scratch" in {volume["name"] for volume in pod["volumes"]}) == (seen[0] is not None)
    (worker,) = workers["spec"]["template"]["spec"]["containers"]
    words = worker["command"]
    chosen = more.partition('"')[2].strip('"') or "/var/tmp/dshap"
    assert words[words.index("--local-directory") + 1] == chosen


def test_a_variable_of_the_profile_comes_first(folder):
    more = 'environment = { LC_ALL = "C.UTF-8", TMPDIR = "/dev/shm" }'
    (folder / "pods.toml").write_text(PROFILE.replace('environment = { LC_ALL = "C.UTF-8" }', more))
    _, _, run, _ = json.loads(manifest("--json").stdout)["items"]
    assert scratch_of(run["spec"]["template"]["spec"]) == ("/var/tmp/dshap", "/dev/shm")


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
    assert {volume["name"] for volume in pod["volumes"]} == {"claim-0", "files", "scratch"}
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
        assert mounts["claim-0"] == "/data" and mounts["tls"] == "/etc/dshap/tls"
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert volumes == {"tls", "claim-0", "files", "scratch"}


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


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (
            'node_selector = "batch"',
            '[cluster] node_selector = "batch": give a table like { pool = "batch" }',
        ),
        ("node_selector = { gpu = true }", "[cluster] node_selector.gpu = true: give text in quo"),
        ('node_selector = { a = "b c" }', '[cluster] node_selector.a = "b c": give text in quotes'),
        ('node_selector = { "a b" = "c" }', '"a b" is no name of a label: write letters'),
        (
            'node_selectors = { a = "b" }',
            "unknown key 'node_selectors'; did you mean 'node_selector'?",
        ),
        ('labels = { app = "mine" }', "the label app is dshap's own: give it another name"),
        ("annotations = { a = 1 }", "[cluster] annotations.a = 1: give text in quotes"),
        (
            'image_pull_secrets = "pull"',
            '[cluster] image_pull_secrets = "pull": give a list',
        ),
        ('image_pull_secrets = ["Pull"]', "give a name of small letters, digits, '-' and '.'"),
        ("priority_class = 3", "[cluster] priority_class = 3: give a name of small letters"),
        ('tolerations = { key = "a" }', "[cluster] tolerations = {'key': 'a'}: give a list"),
        ('tolerations = ["a"]', '[[cluster.tolerations]] number 1 = "a": give a table'),
        (
            'tolerations = [{ key = "a", operator = "Exists" }, { key = "a", efect = "NoExecute" }]',
            "[[cluster.tolerations]] number 2 unknown key 'efect'; did you mean 'effect'?",
        ),
        (
            'tolerations = [{ key = "a", operator = "Exist" }]',
            "[[cluster.tolerations]] number 1 unknown operator 'Exist'; did you mean 'Exists'?",
        ),
        (
            'tolerations = [{ key = "a", operator = "Exists", value = "b" }]',
            '[[cluster.tolerations]] number 1 operator = "Exists" takes any value: leave value out',
        ),
        ('tolerations = [{ value = "b" }]', "number 1 key is missing: give it, or operator ="),
        (
            'tolerations = [{ key = "a", tolerationSeconds = 3 }]',
            'tolerationSeconds goes with effect = "NoExecute"',
        ),
    ],
)
def test_what_of_the_place_of_pods_is_refused(folder, key, said):
    """One line with the place and what to write."""
    (folder / "pods.toml").write_text(PROFILE.replace("[worker]", f"{key}\n[worker]"))
    done = manifest()
    assert done.exit_code == 2 and said in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('"lots"', "[worker] ephemeral_storage = \"lots\": memory size 'lots' is not understood"),
        ("true", "[worker] ephemeral_storage = true"),
    ],
)
def test_disk_that_is_refused(folder, given, said):
    (folder / "pods.toml").write_text(PROFILE + f"ephemeral_storage = {given}\n")
    done = manifest()
    assert done.exit_code == 2 and said in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("claim", ["scratch", "tls", "files"])
def test_a_claim_may_have_the_name_of_a_volume_of_dshap(folder, claim):
    (folder / "pods.toml").write_text(PROFILE.replace('"shared"', f'"{claim}"'))
    done = manifest()
    assert done.exit_code == 0, done.stderr
    for each in yaml.safe_load_all(done.stdout):
        if each["kind"] == "Job":
            volumes = each["spec"]["template"]["spec"]["volumes"]
            names = [volume["name"] for volume in volumes]
            assert len(names) == len(set(names))
            assert {"claimName": claim} in [v.get("persistentVolumeClaim") for v in volumes]


@pytest.mark.parametrize(
    ("scratch", "said"),
    [
        ("scratch", "is a folder of pods: give an absolute path"),
        ("~/scratch", "is a folder of pods: give an absolute path"),
        ("/data/../tmp", "is a folder of pods: give an absolute path"),
        ("/etc/dshap/tls", "is in /etc/dshap/tls, where pods see files of dshap"),
        ("/etc/dshap/jobs/a", "is in /etc/dshap/jobs, where pods see files of dshap"),
        ("/", "is a folder of pods: give an absolute path"),
    ],
)
def test_scratch_that_no_pod_can_have(folder, scratch, said):
    (folder / "pods.toml").write_text(f'{PROFILE}scratch = "{scratch}"\n')
    done = manifest()
    assert done.exit_code == 2 and f'[worker] scratch = "{scratch}" {said}' in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "address",
    ["host:8786", "tcp://host:8786", "tls://:8786", "tls://", "tls://a b", "tls://host:port"],
)
def test_addresses_that_no_pod_reaches(folder, address):
    (folder / "pods.toml").write_text(
        PROFILE.replace("[worker]", f'address = "{address}"\n[worker]')
    )
    done = manifest()
    assert done.exit_code == 2 and 'give one like "tls://HOST:8786"' in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("address", ["tls://host", "tls://host.example:9000", "tls://[fd00::1]:1"])
def test_addresses_that_pods_reach(folder, address):
    (folder / "pods.toml").write_text(
        PROFILE.replace("[worker]", f'address = "{address}"\n[worker]')
    )
    assert manifest().exit_code == 0


def test_another_kind_has_no_manifest(folder):
    (folder / "pods.toml").write_text('[cluster]\nkind = "local"\n')
    done = manifest()
    assert done.exit_code == 2 and 'kind = "local" has no manifest' in done.stderr


def test_a_secret_of_certificates_that_are_not_there(folder):
    done = manifest("--certificates", "none")
    assert done.exit_code == 2 and "TLS: there is no file " in done.stderr
