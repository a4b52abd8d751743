"""Manifests for Kubernetes: valid by its published schemas, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from dshap.cli import cli
from dshap.core.exit_statuses import FINAL
from dshap.engine import make_certificates
from dshap.engine.clusters.kubernetes import BESIDE_BYTES, PER_WORKER_BYTES
from tests.jobs.job_files import changed, write_job
from tests.restricted_pods import faults_of, pods_of

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
    done = manifest("--shards", "64", "--learn-shards", "3")
    assert done.exit_code == 0, done.stderr
    objects = list(yaml.safe_load_all(done.stdout))
    assert [each["kind"] for each in objects] == ["ConfigMap", *["Job"] * 5]
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
        assert labels["team"] == "risk"
        assert labels["app"] == "dshap"
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


KINDS = {
    "run": (),
    "shards": ("--shards", "4"),
    "schedule": ("--schedule", "0 3 * * *"),
}
"""Each kind of manifest, by its options."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("profile", ["plain", "placed", "a volume for scratch"])
def test_every_pod_passes_the_restricted_standard(folder, kind, profile):
    """A cluster may refuse all others; nothing of a profile can break it."""
    texts = {
        "plain": PROFILE,
        "placed": placed(),
        "a volume for scratch": PROFILE + 'scratch = "/data/scratch"',
    }
    (folder / "pods.toml").write_text(texts[profile])
    pods = list(pods_of(json.loads(manifest(*KINDS[kind], "--json").stdout)["items"]))
    assert len(pods) == {"run": 2, "shards": 3, "schedule": 1}[kind]
    assert [faults_of(pod) for pod in pods] == [[]] * len(pods)
    for pod in pods:
        assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
        assert pod["terminationGracePeriodSeconds"] == 120


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda pod: pod.pop("securityContext"), "runAsNonRoot is not true"),
        (lambda pod: pod["securityContext"].pop("seccompProfile"), "seccompProfile"),
        (lambda pod: pod["containers"][0].pop("securityContext"), "allowPrivilegeEscalation"),
        (lambda pod: pod["containers"][0]["securityContext"].pop("capabilities"), "dropped"),
        (lambda pod: pod["volumes"].append({"name": "h", "hostPath": {}}), "volume hostPath"),
        (lambda pod: pod.update(hostNetwork=True), "hostNetwork"),
    ],
)
def test_the_check_of_the_standard_finds_faults(folder, change, fault):
    (pod,) = pods_of(json.loads(manifest(*KINDS["schedule"], "--json").stdout)["items"])
    change(pod)
    assert fault in "; ".join(faults_of(pod))


@pytest.mark.parametrize("version", ["1.31", "1.34", "1.37"])
@pytest.mark.parametrize("profile", ["plain", "placed"])
def test_a_run_on_a_schedule_is_valid(folder, version, profile):
    validate = pytest.importorskip("kubernetes_validate", reason="it is not installed")
    (folder / "pods.toml").write_text(PROFILE if profile == "plain" else placed())
    done = manifest("--schedule", "@daily", "--time-zone", "Europe/Berlin")
    assert done.exit_code == 0, done.stderr
    objects = list(yaml.safe_load_all(done.stdout))
    assert [each["kind"] for each in objects] == ["ConfigMap", "CronJob"]
    for each in objects:
        validate.validate(each, version, strict=True)


def test_what_a_run_on_a_schedule_says(folder):
    """One pod of the size of [worker], which no other starts beside."""
    _, nights = json.loads(
        manifest("--schedule", " 0  3 * * 1-5", "--time-zone", "Europe/Berlin", "--json").stdout
    )["items"]
    spec = nights["spec"]
    assert (spec["schedule"], spec["timeZone"]) == ("0 3 * * 1-5", "Europe/Berlin")
    assert spec["concurrencyPolicy"] == "Forbid"
    assert spec["startingDeadlineSeconds"] == 7200
    assert (spec["successfulJobsHistoryLimit"], spec["failedJobsHistoryLimit"]) == (7, 7)
    job = spec["jobTemplate"]["spec"]
    assert job["backoffLimit"] == 3
    assert "ttlSecondsAfterFinished" not in job
    ignored, final = job["podFailurePolicy"]["rules"]
    assert ignored["action"] == "Ignore"
    assert final["onExitCodes"]["values"] == list(FINAL)
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    assert final["onExitCodes"]["containerName"] == container["name"]
    run = ["dshap", "run", "/etc/dshap/jobs/job.toml", "--cluster", "none"]  # not the job's own
    assert container["command"] == [*run, "--log", "json"]
    size = {"cpu": "2", "memory": "8192Mi"}
    assert container["resources"] == {"requests": size, "limits": size}
    # no service of a run that has the same name finds its pod
    labels = job["template"]["metadata"]["labels"]
    service = json.loads(manifest("--json").stdout)["items"][1]
    assert not service["spec"]["selector"].items() <= labels.items()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--schedule", "0 3 * *"), '--schedule "0 3 * *": give five fields'),
        (
            ("--schedule", "@daily", "--time-zone", "Berlin"),
            '--time-zone "Berlin" is not a time zone',
        ),
        (("--time-zone", "Europe/Berlin"), "--time-zone is that of --schedule"),
        (("--schedule", "@daily", "--shards", "3"), "give one of them"),
        (("--schedule", "@daily", "--certificates", "tls"), "leave --certificates out"),
    ],
)
def test_schedules_that_are_refused(folder, words, said):
    done = manifest(*words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("count", "workers", "parallelism", "most_failed"),
    [
        (4, 3, 3, None),
        (100_000, 200_000, 100_000, None),
        (100_001, 3, 3, 10_000),
        (100_001, 10_001, 10_000, 10_000),
    ],
)
def test_indexes_within_the_limits_of_kubernetes(folder, count, workers, parallelism, most_failed):
    """Above 10^5 indexes with a backoff limit each, it wants both limits, of 10^4 at most."""
    (folder / "pods.toml").write_text(PROFILE.replace("workers = 3", f"workers = {workers}"))
    *_, shards, _ = json.loads(manifest("--shards", str(count), "--json").stdout)["items"]
    spec = shards["spec"]
    assert (spec["completions"], spec["parallelism"]) == (count, parallelism)
    assert spec.get("maxFailedIndexes") == most_failed
    assert spec["backoffLimitPerIndex"] == 3


@pytest.mark.parametrize("kind", ["run", "shards"])
@pytest.mark.parametrize(("key", "seconds"), [("", 604_800), ("= 0", 0), ("= 3600", 3600)])
def test_ended_jobs_are_deleted_after_a_time(folder, kind, key, seconds):
    more = f"ttl_seconds_after_finished {key}" if key else ""
    (folder / "pods.toml").write_text(PROFILE.replace("[worker]", f"{more}\n[worker]"))
    items = json.loads(manifest(*KINDS[kind], "--json").stdout)["items"]
    jobs = [each for each in items if each["kind"] == "Job"]
    assert [job["spec"]["ttlSecondsAfterFinished"] for job in jobs] == [seconds] * len(jobs)


SIZES = """
[cluster.resources.run]
requests = { cpu = 2, memory = "3Gi" }
limits = { cpu = "2.5", memory = "4Gi" }
[cluster.resources.scheduler]
limits = { cpu = "500m", memory = "2Gi" }
[cluster.resources.worker]
requests = { cpu = "1500m" }
limits = { "nvidia.com/gpu" = 1, ephemeral-storage = "10Gi" }
[worker]"""


def resources_of(items: list[dict]) -> dict[str, dict]:
    """Container -> its resources."""
    return {
        container["name"]: container["resources"]
        for pod in pods_of(items)
        for container in [*pod.get("initContainers", []), *pod["containers"]]
    }


def test_the_resources_of_each_container(folder):
    """A quota of a namespace may want limits of all of them."""
    (folder / "pods.toml").write_text(PROFILE.replace("\n[worker]", SIZES))
    found = resources_of(json.loads(manifest("--json").stdout)["items"])
    assert found["run"] == {
        "requests": {"cpu": "2", "memory": "3Gi"},
        "limits": {"cpu": "2.5", "memory": "4Gi"},
    }
    of_scheduler = {"cpu": "500m", "memory": "2Gi"}
    assert found["scheduler"] == {"requests": of_scheduler, "limits": of_scheduler}
    memory = found["worker"]["limits"]["memory"]
    assert found["worker"]["limits"] == {
        "cpu": "2",
        "memory": memory,
        "nvidia.com/gpu": "1",
        "ephemeral-storage": "10Gi",
    }
    assert found["worker"]["requests"] == {**found["worker"]["limits"], "cpu": "1500m"}
    for kind in ("shards", "schedule"):
        items = json.loads(manifest(*KINDS[kind], "--json").stdout)["items"]
        for resources in resources_of(items).values():
            assert resources["requests"]["cpu"] == "1500m"
            assert resources["limits"]["nvidia.com/gpu"] == "1"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", ["1.31", "1.37"])
def test_resources_are_valid(folder, kind, version):
    validate = pytest.importorskip("kubernetes_validate", reason="it is not installed")
    (folder / "pods.toml").write_text(PROFILE.replace("\n[worker]", SIZES))
    for each in yaml.safe_load_all(manifest(*KINDS[kind]).stdout):
        validate.validate(each, version, strict=True)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ('run = "2Gi"', '[cluster.resources] run = "2Gi": give a table'),
        ('runs = { limits = { cpu = "1" } }', "unknown key 'runs'; did you mean 'run'?"),
        ('run = { limit = { cpu = "1" } }', "unknown key 'limit'; did you mean 'limits'?"),
        ('run = { limits = { memory = "4GiB" } }', '"4GiB" is not a quantity of Kubernetes'),
        ('run = { limits = { memory = "-1" } }', '"-1" is not a quantity of Kubernetes'),
        ("run = { limits = { cpu = true } }", "limits.cpu = true"),
        (
            'run = { requests = { cpu = "1500m" }, limits = { cpu = 1 } }',
            'requests.cpu = "1500m" is more than limits.cpu = "1": give at most that',
        ),
        (
            'worker = { limits = { memory = "8Gi" } }',
            '[cluster.resources.worker] limits.memory = "8Gi" is less than',
        ),
    ],
)
def test_resources_that_are_refused(folder, key, said):
    (folder / "pods.toml").write_text(
        PROFILE.replace("[worker]", f"[cluster.resources]\n{key}\n[worker]")
    )
    done = manifest()
    assert done.exit_code == 2, done.stderr
    assert said in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_a_pod_has_room_for_what_stands_beside_its_workers(folder, cores):
    """Each worker process may use its share of [worker] memory to the last byte."""
    (folder / "pods.toml").write_text(PROFILE.replace("cores = 2", f"cores = {cores}"))
    *_, workers = json.loads(manifest("--json").stdout)["items"]
    (container,) = workers["spec"]["template"]["spec"]["containers"]
    words = container["command"]
    of_process = int(words[words.index("--memory-limit") + 1])
    limit = int(container["resources"]["limits"]["memory"].removesuffix("Mi")) << 20
    assert limit - cores * of_process == BESIDE_BYTES + cores * PER_WORKER_BYTES
    assert cores * of_process == 8 << 30
    learn = resources_of(json.loads(manifest("--shards", "4", "--json").stdout)["items"])["learn"]
    assert learn["limits"]["memory"] == "8192Mi"  # one process, and nothing beside it


def test_a_job_file_with_umlauts(folder):
    text = (folder / "job.toml").read_text() + "# für Köln\n"
    (folder / "job.toml").write_text(text, encoding="utf-8")
    for words in KINDS.values():
        files = json.loads(manifest(*words, "--json").stdout)["items"][0]
        assert files["data"]["job.toml"] == text


def test_what_the_objects_of_shards_say(folder):
    """Shards and finish wait until they are started; none has a scheduler or certificates."""
    _, learn, shards, finish = json.loads(manifest("--shards", "64", "--json").stdout)["items"]
    assert [job["spec"]["suspend"] for job in (learn, shards, finish)] == [False, True, True]
    spec = shards["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (64, 3, "Indexed")
    assert spec["backoffLimitPerIndex"] == 3
    assert "backoffLimit" not in spec
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"][-2:] == ["--shard", "auto/64"]
    assert container["resources"]["requests"] == {"cpu": "2", "memory": "8192Mi"}
    assert {volume["name"] for volume in pod["volumes"]} == {"claim-0", "files", "scratch"}
    refused = manifest("--shards", "64", "--certificates", "tls")
    assert refused.exit_code == 2
    assert "leave --certificates out" in refused.stderr


def test_what_the_objects_of_shared_learning_say(folder):
    """Begin, shares of the learning, and the parts as without; all but the first wait."""
    words = ("--shards", "64", "--learn-shards", "16")
    _, *jobs = json.loads(manifest(*words, "--json").stdout)["items"]
    names = [job["metadata"]["name"].removeprefix("dshap-") for job in jobs]
    assert names == ["begin", "learning", "learn", "shards", "finish"]
    assert [job["spec"]["suspend"] for job in jobs] == [False, True, True, True, True]
    assert jobs[1]["spec"]["completions"] == 16
    (container,) = jobs[1]["spec"]["template"]["spec"]["containers"]
    assert container["command"][-4:] == ["--only", "learn", "--shard", "auto/16"]
    refused = manifest("--learn-shards", "16")
    assert refused.exit_code == 2
    assert "give --shards too" in refused.stderr


@pytest.mark.parametrize(("words", "action"), [((), "FailJob"), (("--shards", "4"), "FailIndex")])
def test_exit_statuses_that_are_not_tried_again(folder, words, action):
    """Those of the one table; a pod that is taken away does not count."""
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
    assert final["onExitCodes"]["values"] == list(FINAL) == [1, 3, 4, 5, 7, 8]
    tried_again = {2, 6, 9, 10, 130, 137}
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
    beside = (BESIDE_BYTES + 2 * PER_WORKER_BYTES) >> 20
    assert worker["resources"]["limits"] == {"cpu": "2", "memory": f"{8192 + beside}Mi"}
    words = worker["command"]
    assert words[words.index("--nworkers") + 1] == "2"
    assert words[words.index("--memory-limit") + 1] == str(4 << 30)
    assert "tls://dshap-scheduler.default.svc:8786" in words
    pod = run["spec"]["template"]["spec"]
    (scheduler,) = pod["initContainers"]
    assert scheduler["restartPolicy"] == "Always"
    assert pod["restartPolicy"] == "Never"
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
        assert mounts["claim-0"] == "/data"
        assert mounts["tls"] == "/etc/dshap/tls"
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
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (
            'node_selector = "batch"',
            '[cluster] node_selector = "batch": give a table like { pool = "batch" }',
        ),
        ("node_selector = { gpu = true }", "[cluster] node_selector.gpu = true: give text in quo"),
        ('node_selector = { a = "b c" }', '[cluster] node_selector.a = "b c": give text in quotes'),
        ('node_selector = { "a b" = "c" }', '"a b" is not a valid name of a label: write letters'),
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
            'tolerationSeconds needs effect = "NoExecute"',
        ),
    ],
)
def test_what_of_the_place_of_pods_is_refused(folder, key, said):
    """One line with the place and what to write."""
    (folder / "pods.toml").write_text(PROFILE.replace("[worker]", f"{key}\n[worker]"))
    done = manifest()
    assert done.exit_code == 2, done.stderr
    assert said in done.stderr, done.stderr
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
    assert done.exit_code == 2, done.stderr
    assert said in done.stderr, done.stderr
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
    assert done.exit_code == 2
    assert f'[worker] scratch = "{scratch}" {said}' in done.stderr
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
    assert done.exit_code == 2, done.stderr
    assert 'give one like "tls://HOST:8786"' in done.stderr, done.stderr
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
    assert done.exit_code == 2
    assert 'kind = "local" has no manifest' in done.stderr


def test_a_secret_of_certificates_that_are_not_there(folder):
    done = manifest("--certificates", "none")
    assert done.exit_code == 2
    assert "TLS: there is no file " in done.stderr


TARGETS = """
[targets.dev.job]
store = "/data/dev"
[targets.local.job]
store = "build/out"
"""


@pytest.mark.parametrize(
    ("words", "n_runs"),
    [((), 1), (("--shards", "2", "--learn-shards", "2"), 5), (("--schedule", "0 3 * * *"), 1)],
)
def test_pods_run_the_target(folder, words, n_runs):
    """The config map has the file with all of its targets, and each command names the one."""
    (folder / "job.toml").write_text((folder / "job.toml").read_text() + TARGETS)
    done = manifest(*words, "--target", "dev")
    assert done.exit_code == 0, done.stderr
    objects = list(yaml.safe_load_all(done.stdout))
    assert "[targets.dev.job]" in objects[0]["data"]["job.toml"]
    commands = [
        container["command"]
        for pod in pods_of(objects)
        for container in pod["containers"]
        if container["command"][:2] == ["dshap", "run"]
    ]
    assert len(commands) == n_runs
    for command in commands:
        at = command.index("--target")
        assert command[at - 1].endswith("/job.toml")
        assert command[at + 1] == "dev"
    assert "--target" not in manifest(*words).stdout


def test_the_paths_of_a_target_are_those_that_pods_must_see(folder):
    (folder / "job.toml").write_text((folder / "job.toml").read_text() + TARGETS)
    done = manifest("--target", "local")
    assert done.exit_code == 2
    assert '[job] store = "build/out" is on no volume of the pods' in done.stderr
    done = manifest("--target", "prod")
    assert done.exit_code == 2
    assert "'prod'" in done.stderr
    assert len(done.stderr.splitlines()) == 1
