"""kubectl, podman and aws where there is no cluster, no daemon and no account: what can be proved.

Their command lines are checked, by the program itself where it is installed; objects are checked by
the schemas of Kubernetes; and what a container would run is run, as it stands there, by `pod.sh`.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

POD = Path(__file__).with_name("pod.sh")
STATE = "DSHAP_STAND_INS"
"""The variable with the folder in which one call leaves what the next must know."""
SCHEMAS = ("1.31", "1.37")
"""The versions of Kubernetes by whose schemas objects are checked."""
PATIENCE_S = 300.0
Object = dict[str, Any]


def put_on_path(folder: Path) -> dict[str, str]:
    """Make the three programs in a folder, and give the environment in which they are found."""
    programs = folder / "programs"
    programs.mkdir()
    (folder / "state").mkdir()
    root = Path(__file__).parents[2]
    for name in PROGRAMS:
        call = shlex.join([sys.executable, "-m", "tests.documented.stand_ins", name])
        program = programs / name
        program.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(root))} exec {call} "$@"\n')
        program.chmod(0o755)
    return {"PATH": f"{programs}:{os.environ['PATH']}", STATE: str(folder / "state")}


def _state() -> Path:
    return Path(os.environ[STATE])


def _real(program: str) -> str | None:
    """The program itself, where it is installed and starts."""
    own = str(_state().parent / "programs")
    rest = os.pathsep.join(each for each in os.environ["PATH"].split(os.pathsep) if each != own)
    found = shutil.which(program, path=rest)
    if found is None:
        return None
    # without the stand-ins: a launcher such as pyenv's tries all programs of this name on the PATH
    alone = {**os.environ, "PATH": rest}
    helped = subprocess.run([found, "--help"], env=alone, capture_output=True)
    return found if helped.returncode in (0, 255) else None


def in_pod(
    words: Sequence[str],
    mounts: Mapping[str, Path | str],
    variables: Mapping[str, str],
    host: str = "",
    output: Any = None,
) -> subprocess.Popen:
    """Start a command as in a container; it ends with this process."""
    root = tempfile.mkdtemp(prefix="pod-", dir=_state())
    pairs = [f"{path}={source}" for path, source in mounts.items()]
    own = ["unshare", "--mount", "--pid", "--fork", "--kill-child", str(POD), root, host, *pairs]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {"PATH": path, "HOME": "/root", "LANG": "C.UTF-8", **variables}
    return subprocess.Popen(
        [*own, "--", *words], env=environment, stdout=output, stderr=subprocess.STDOUT
    )


# Kubernetes


def kubectl(words: list[str]) -> int:
    """Create a secret, apply objects, or show the log of a job."""
    match words:
        case ["create", "secret", "generic", name, source]:
            _check_by_kubectl(words)
            folder = Path(source.removeprefix("--from-file="))
            data = {
                file.name: base64.b64encode(file.read_bytes()).decode() for file in folder.iterdir()
            }
            return _apply([_object("Secret", name, type="Opaque", data=data)])
        case ["apply", "-f", file]:
            return _apply(list(yaml.safe_load_all(Path(file).read_text())))
        case ["delete", "-f", file]:
            return _delete(list(yaml.safe_load_all(Path(file).read_text())))
        case ["wait", "--for=condition=complete", timeout, job] if timeout.startswith("--timeout="):
            return int(_known()[_job_key(job)].get("status") != "complete")
        case ["patch", "job", name, "--patch", patch]:
            known = _known()
            job = known[_job_key(name)]
            job["spec"] |= json.loads(patch)["spec"]
            return _apply([job], known)
        case ["logs", "--follow", job, "--container", container]:
            print((_state() / f"{job.removeprefix('job/')}.{container}.log").read_text())
            return 0
    raise SystemExit(f"kubectl: no stand-in for {shlex.join(words)}")


def _object(kind: str, name: str, **parts: Any) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **parts}


def _check_by_kubectl(words: list[str]) -> None:
    real = _real("kubectl")
    if real is not None:
        subprocess.run([real, *words, "--dry-run=client", "-o", "name"], check=True)


def _known() -> dict[str, Object]:
    """Kind and name -> the objects of earlier calls."""
    file = _state() / "objects.json"
    return json.loads(file.read_text()) if file.exists() else {}


def _job_key(name: str) -> str:
    return f"Job/{name.removeprefix('job/')}"


def _apply(objects: list[Object], known: dict[str, Object] | None = None) -> int:
    """Check objects, remember them, and run the jobs among them to their end, but for suspended ones."""
    import kubernetes_validate

    known = known or _known()
    for each in objects:
        plain = {name: part for name, part in each.items() if name != "status"}
        for version in SCHEMAS:
            kubernetes_validate.validate(plain, version, strict=True)
        known[f"{each['kind']}/{each['metadata']['name']}"] = each
        print(f"{each['kind'].lower()}/{each['metadata']['name']} is valid")
    jobs = [each for each in objects if each["kind"] == "Job" and not each["spec"].get("suspend")]
    hosts = [
        f"{each['metadata']['name']}.{each['metadata']['namespace']}.svc"
        for each in objects
        if each["kind"] == "Service"
    ]
    status = _run_jobs(jobs, known, " ".join(hosts)) if jobs else 0
    for job in jobs if status == 0 else []:
        job["status"] = "complete"
    (_state() / "objects.json").write_text(json.dumps(known))
    return status


def _delete(objects: list[Object]) -> int:
    """Forget objects that earlier calls have applied."""
    known = _known()
    for each in objects:
        del known[f"{each['kind']}/{each['metadata']['name']}"]
    (_state() / "objects.json").write_text(json.dumps(known))
    return 0


def _run_jobs(jobs: list[Object], known: Mapping[str, Object], host: str) -> int:
    """Run all pods of jobs at once; the worst exit status of their containers, sidecars aside."""
    sidecars = []
    running = []
    for job in jobs:
        spec = job["spec"]["template"]["spec"]
        for index in range(job["spec"].get("completions", 1)):
            for container in spec.get("initContainers", []):
                sidecars.append(_start(job, container, known, host, index))
            for container in spec["containers"]:
                running.append((job, _start(job, container, known, host, index)))
    # a worker ends once its scheduler is gone, and that goes with the pod of the run
    is_first = [job["spec"].get("completionMode") is None or not sidecars for job, _ in running]
    first = [process for (_, process), waits in zip(running, is_first, strict=True) if waits]
    statuses = [process.wait(PATIENCE_S) for process in first]
    for process in sidecars:
        process.kill()  # unshare keeps SIGTERM to itself
        process.wait(PATIENCE_S)
    statuses += [process.wait(PATIENCE_S) for _, process in running]
    for job, process in running:
        print(f"job/{job['metadata']['name']}: exit status {process.returncode}")
    return max(statuses)


def _start(
    job: Object, container: Object, known: Mapping[str, Object], host: str, index: int
) -> subprocess.Popen:
    mounts = {mount["mountPath"]: _source(mount, job, known) for mount in container["volumeMounts"]}
    variables = {each["name"]: each["value"] for each in container.get("env", [])}
    variables["JOB_COMPLETION_INDEX"] = str(index)
    log = _state() / f"{job['metadata']['name']}.{container['name']}.log"
    with log.open("ab") as output:
        return in_pod(container["command"], mounts, variables, host, output)


def _source(mount: Object, job: Object, known: Mapping[str, Object]) -> Path | str:
    """The folder or file here that stands for a volume of a pod; ":" is a new folder."""
    volumes = job["spec"]["template"]["spec"]["volumes"]
    (volume,) = (each for each in volumes if each["name"] == mount["name"])
    if "emptyDir" in volume:
        return ":"
    folder = _state() / f"volume-{volume['name']}"
    folder.mkdir(exist_ok=True)
    if "secret" in volume:
        data = known[f"Secret/{volume['secret']['secretName']}"]["data"]
        for name, text in data.items():
            (folder / name).write_bytes(base64.b64decode(text))
    if "configMap" in volume:
        for name, text in known[f"ConfigMap/{volume['configMap']['name']}"]["data"].items():
            (folder / name).write_text(text)
    return folder / mount.get("subPath", "")


# Containers


def podman(words: list[str]) -> int:
    """Build an image by hand, line by line of its file; push none."""
    match words:
        case ["build", "-f", file, "-t", tag, context]:
            _build(Path(file).read_text(), Path(context))
            (_state() / "built").write_text(tag)
            return 0
        case ["push", tag]:
            print("there is no registry: nothing is pushed")
            built = _state() / "built"
            return int(not built.exists() or built.read_text() != tag)
    raise SystemExit(f"podman: no stand-in for {shlex.join(words)}")


class _Stage:
    """A stage of an image: a folder for its files, and its Python as a virtual environment."""

    def __init__(self, position: int) -> None:
        self.folder = _state() / f"image-{position}"
        (self.folder / "image").mkdir(parents=True)
        self.place = "/"
        self.variables: dict[str, str] = {}
        self.tops = {"/image": ":", "/home": ":", "/var": ":"}
        self.run(shlex.join([sys.executable, "-m", "venv", "/image"]))

    def path(self, inside: str) -> Path:
        """The file here that is at a path of the image; its top folder is the image's own."""
        full = Path(self.place, inside)
        if full.is_relative_to("/image"):
            return self.folder / full.relative_to("/")
        top = f"/{full.parts[1]}"
        own = self.folder / full.parts[1]
        own.mkdir(exist_ok=True)
        self.tops[top] = str(own)
        return self.folder / full.relative_to("/")

    def run(self, line: str) -> None:
        mounts = {**self.tops, "/image": str(self.folder / "image")}
        variables = {**self.variables, "PATH": f"/image/bin:{os.environ['PATH']}"}
        # the users of this machine are none of the image
        command = f"set -e; sed -i /:x:1000:/d /etc/passwd /etc/group; cd {self.place}; {line}"
        if in_pod(["sh", "-c", command], mounts, variables).wait(2 * PATIENCE_S):
            raise SystemExit(f"podman: RUN {line}")


def _build(text: str, context: Path) -> None:
    """Carry out the lines of a Containerfile."""
    stages: dict[str, _Stage] = {}
    stage = None
    for line in re.sub(r"\\\n", " ", text).splitlines():
        word, _, rest = line.partition(" ")
        if not word or word.startswith("#"):
            continue
        if word == "FROM":
            stage = _Stage(len(stages))
            stages[rest.partition(" AS ")[2]] = stage
            for top in re.findall(r"(?<=\s)/\w+", text):
                stage.path(top)  # a folder of the image's own, which stays
        assert stage is not None, line
        _carry_out(word, rest, stage, stages, context)
    assert stage is not None, "an image has a stage"


def _carry_out(
    word: str, rest: str, stage: _Stage, stages: Mapping[str, _Stage], context: Path
) -> None:
    match word:
        case "FROM" | "USER":
            return
        case "WORKDIR":
            stage.place = rest
            stage.path(".").mkdir(parents=True, exist_ok=True)
        case "ENV":
            stage.variables |= dict(each.split("=", 1) for each in rest.split())
        case "COPY":
            _copy(rest.split(), stage, stages, context)
        case "RUN":
            stage.run(rest)
        case "CMD":
            stage.run(shlex.join(json.loads(rest)))
        case _:
            raise SystemExit(f"podman: no stand-in for {word} {rest}")


def _copy(words: list[str], stage: _Stage, stages: Mapping[str, _Stage], context: Path) -> None:
    """The files of COPY, from the context or from another stage."""
    if words[0].startswith("--from="):
        other = stages[words.pop(0).removeprefix("--from=")]
        sources = [other.path(each) for each in words[:-1]]
    else:
        sources = [context / each for each in words[:-1]]
    target = stage.path(words[-1])
    for source in sources:
        place = target / source.name if words[-1].endswith("/") else target
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, place)


# AWS Batch


def aws(words: list[str]) -> int:
    """Submit a job to AWS Batch: its parameters are checked, and its commands run in this folder."""
    options = _options_of(words)
    _check_by_aws(words)
    parameters = {
        "jobName": options["job-name"],
        "jobQueue": options["job-queue"],
        "jobDefinition": options["job-definition"],
        "containerOverrides": _shorthand(options["container-overrides"]),
    }
    if "array-properties" in options:
        size = int(options["array-properties"].removeprefix("size="))
        parameters["arrayProperties"] = {"size": size}
    if "retry-strategy" in options:
        attempts = int(options["retry-strategy"].removeprefix("attempts="))
        parameters["retryStrategy"] = {"attempts": attempts}
    before = options.get("depends-on", "").removeprefix("jobId=")
    if before:
        parameters["dependsOn"] = [{"jobId": before}]
    _check_by_model(parameters)
    if before:
        statuses = json.loads((_state() / f"{before}.json").read_text())
        assert not any(statuses), f"the job {before} has failed: this one is not started"
    indices = range(parameters.get("arrayProperties", {}).get("size", 1))
    command = parameters["containerOverrides"]["command"]
    ended = [_run_task(command, index, len(indices) > 1) for index in indices]
    (_state() / f"{options['job-name']}.json").write_text(json.dumps(ended))
    print(options["job-name"])
    return max(ended)


def _options_of(words: list[str]) -> dict[str, str]:
    parser = argparse.ArgumentParser(prog="aws")
    parser.add_argument("service", choices=["batch"])
    parser.add_argument("operation", choices=["submit-job"])
    names = ["job-name", "job-queue", "job-definition", "container-overrides", "query", "output"]
    for name in [*names, "array-properties", "depends-on", "retry-strategy"]:
        parser.add_argument(f"--{name}")
    found = vars(parser.parse_args(words))
    return {name.replace("_", "-"): text for name, text in found.items() if text is not None}


def _shorthand(text: str) -> dict[str, Any]:
    """An option like `command=["a","b"]`."""
    name, _, value = text.partition("=")
    return {name: json.loads(value)}


def _check_by_aws(words: list[str]) -> None:
    """Let the program itself read the command line, where it is installed; nothing is sent."""
    real = _real("aws")
    if real is None:
        return
    region = {**os.environ, "AWS_DEFAULT_REGION": "us-east-1"}
    words = [*words, "--generate-cli-skeleton", "output"]
    subprocess.run([real, *words], env=region, stdout=subprocess.DEVNULL, check=True)


def _check_by_model(parameters: Mapping[str, Any]) -> None:
    """Check the parameters by the model of the service that botocore has."""
    from botocore.session import get_session
    from botocore.validate import ParamValidator

    model = get_session().get_service_model("batch").operation_model("SubmitJob")
    report = ParamValidator().validate(parameters, model.input_shape)
    assert not report.has_errors(), report.generate_report()


def _run_task(command: list[str], index: int, is_array: bool) -> int:
    variables = {"AWS_BATCH_JOB_ARRAY_INDEX": str(index)} if is_array else {}
    environment = {**os.environ, **variables}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(command, env=environment, stdout=sys.stderr).returncode


PROGRAMS = {"kubectl": kubectl, "podman": podman, "aws": aws}
"""Program -> its stand-in, from arguments to an exit status."""


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    sys.exit(PROGRAMS[sys.argv[1]](sys.argv[2:]))
