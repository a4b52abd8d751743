"""The files of workflows/schedules: what they start runs, and they tell exit statuses apart by the one
table, as docs/schedules.md does."""

from __future__ import annotations

import ast
import configparser
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dshap import errors
from dshap.cli import cli
from dshap.core.exit_statuses import EXIT_STATUSES, FINAL, SKIPPED
from dshap.history.run_record import read_records
from tests.jobs.job_files import changed, small_table, write_job
from tests.pages import ROOT
from tests.restricted_pods import faults_of, pods_of

SCHEDULES = ROOT / "workflows" / "schedules"
COMMAND = Path(sys.executable).parent / "dshap"
DSHAP = "/srv/churn/.venv/bin/dshap"
JOB = "/srv/churn/job.toml"
SECRETS = "/srv/churn/secrets.env"
PREDICT = "def predict(x):\n    return x[:, 0] + x[:, 1] * x[:, 2]\n"
BLACK_BOX = (
    ("model", {"kind": "import", "function": "my_night_model:predict"}),
    ("source.target", None),
    ("source.path", "{{ env_var(TABLE) }}"),
    ("explain", [{"name": "reasons", "value": "marginal", "background": 5}]),
)
BARE = {"PATH": "/usr/bin:/bin", "HOME": "/tmp"}
"""The environment that cron gives."""


@pytest.fixture
def folder(tmp_path) -> Iterator[Path]:
    """A job whose table stands in a file of secrets."""
    small_table().to_parquet(tmp_path / "table.parquet")
    (tmp_path / "my_night_model.py").write_text(PREDICT)
    (tmp_path / "secrets.env").write_text("TABLE=table.parquet\n")
    write_job(tmp_path, changed(*BLACK_BOX))
    yield tmp_path
    sys.modules.pop("my_night_model", None)


def here(text: str, folder: Path) -> str:
    """The text of a schedule with the paths of this machine."""
    for path, mine in (
        (DSHAP, COMMAND),
        (JOB, folder / "job.toml"),
        (SECRETS, folder / "secrets.env"),
    ):
        assert path in text or path == SECRETS, path
        text = text.replace(path, str(mine))
    return text


def ends_well(command: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The command, in this process: cron starts the installed one."""
    program, *arguments = map(str, command)
    assert program == str(COMMAND)
    assert os.access(COMMAND, os.X_OK)
    monkeypatch.setenv("TABLE", "table.parquet")
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output


PAGED = set(FINAL)
SKIP = set(SKIPPED)


def test_the_documented_table_is_that_of_the_code():
    table = (ROOT / "docs" / "schedules.md").read_text().partition("## What a scheduler")[2]
    lines = [line for line in table.splitlines() if re.match(r"\| \d+ \|", line)]
    assert lines == [status.line for status in EXIT_STATUSES]


def test_every_exit_status_of_a_run_has_a_line():
    known = {
        each.exit_status
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, errors.DshapError)
    }
    # 11 is of `dshap verify` alone; 137 is the shell's for kill -9
    told = [status.number for status in EXIT_STATUSES]
    assert set(told) == known - {11} | {0, 1, 99, 137}
    assert told == sorted(set(told))


# cron


@pytest.mark.slow
def test_the_line_of_cron_is_run_by_sh(folder):
    """With the environment that cron gives, and the assignments of the table as cron reads them."""
    named, line = cron_table(here((SCHEDULES / "crontab").read_text(), folder))
    for _ in range(2):
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            env={**BARE, **named},
            capture_output=True,
            text=True,
            timeout=400,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")  # no mail
    assert [each.about["has_work"] for each in read_records(folder / "out.zarr")] == [True, False]
    (folder / "table.parquet").unlink()
    failed = subprocess.run(
        ["/bin/sh", "-c", line], env={**BARE, **named}, capture_output=True, text=True, timeout=400
    )
    assert failed.returncode == 2
    assert len(failed.stderr.splitlines()) == 1  # one line of mail


def test_the_line_of_a_secret_is_taken_as_it_stands(tmp_path):
    """The example in the crontab, by the command of its line: with blanks, %, & and $."""
    text = (SCHEDULES / "crontab").read_text()
    (example,) = re.findall(r"WAREHOUSE_PASSWORD='.*?'", text)
    (tmp_path / "secrets.env").write_text(f"{example}\nOTHER='it'\\''s'\n")
    (tmp_path / "dshap").write_text('#!/bin/sh\necho "$WAREHOUSE_PASSWORD|$OTHER"\n')
    (tmp_path / "dshap").chmod(0o755)
    _, line = cron_table(text)
    named = {
        "SECRETS": str(tmp_path / "secrets.env"),
        "DSHAP": str(tmp_path / "dshap"),
        "JOB": "",
    }
    done = subprocess.run(
        ["/bin/sh", "-c", line], env={**BARE, **named}, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("50% sure & $afe|it's\n", "")
    assert "'\\''" in text


def cron_table(text: str) -> tuple[dict[str, str], str]:
    """The assignments and the one command of a table of cron; an unescaped % would end the
    command."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    named = dict(line.split("=", 1) for line in lines if re.match(r"\w+=", line))
    (line,) = (line for line in lines if not re.match(r"\w+=", line))
    *when, command = line.split(maxsplit=5)
    assert len(when) == 5
    assert "%" not in command
    return named, command


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="a cron of one's own takes root")
def test_the_line_of_cron_is_run_by_cron(folder):
    """In a file system of its own, so that no table of this machine is read."""
    cron = shutil.which("cron", path=f"{os.environ['PATH']}:/usr/sbin")
    if cron is None:
        pytest.skip("cron is not installed")
    text = here((SCHEDULES / "crontab").read_text(), folder)
    (folder / "table").write_text(text.replace("15 3 * * *", "* * * * *"))
    script = (
        "mount --make-rprivate / && mount -t tmpfs tmpfs /var/spool && mount -t tmpfs tmpfs /run && "
        "mkdir -p /var/spool/cron && mkdir -m 1730 /var/spool/cron/crontabs && "
        f"cp {folder}/table /var/spool/cron/crontabs/root && "
        f"chmod 600 /var/spool/cron/crontabs/root && exec {cron} -f"
    )
    running = subprocess.Popen(["unshare", "-m", "sh", "-c", script], start_new_session=True)
    try:
        deadline = time.monotonic() + 150
        while time.monotonic() < deadline and running.poll() is None:
            if any(each.is_over for each in read_records(folder / "out.zarr")):
                return
            time.sleep(1)
        if running.poll() is not None:
            pytest.skip("no mounts of one's own here")
        pytest.fail("cron has not run its line")
    finally:
        if running.poll() is None:
            os.killpg(running.pid, 9)
        running.wait()


# systemd


@pytest.mark.slow
def test_the_units_of_systemd(folder, tmp_path, monkeypatch):
    names = ("dshap.service", "dshap.timer", "dshap-failed@.service")
    for name in names:
        text = (SCHEDULES / "systemd" / name).read_text()
        (tmp_path / name).write_text(here(text, folder) if name == names[0] else text)
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(tmp_path / "dshap.service")
    service = unit["Service"]
    assert set(map(int, service["SuccessExitStatus"].split())) == SKIP
    assert set(map(int, service["RestartPreventExitStatus"].split())) == PAGED
    assert service["User"] == "churn"
    assert unit["Unit"]["OnFailure"] == "dshap-failed@%n.service"
    ends_well(service["ExecStart"].split(), monkeypatch)
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    said = subprocess.run(
        [analyze, "verify", tmp_path / "dshap.service", tmp_path / "dshap.timer"],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert "dshap" not in said.stderr, said.stderr


# Kubernetes


OF_PODS = SCHEDULES / "kubernetes"
TIMES = ("--schedule", "15 3 * * *", "--time-zone", "Etc/UTC")


def printed_cron_job(*words: str) -> str:
    """What the command prints of the profile and the job beside the file."""
    files = (str(OF_PODS / "pods.toml"), str(OF_PODS / "job.toml"))
    done = CliRunner().invoke(cli, ["cluster", "manifest", *files, *TIMES, *words])
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_the_cron_job_is_what_the_command_prints():
    stored = (SCHEDULES / "cronjob.yaml").read_text()
    comment = "".join(re.findall(r"^#.*\n", stored.partition("apiVersion")[0], re.MULTILINE))
    assert stored == comment + printed_cron_job()
    assert (
        "dshap cluster manifest pods.toml job.toml " + " ".join(map(shlex.quote, TIMES)) in comment
    )


@pytest.mark.parametrize("version", ["1.31", "1.34", "1.37"])
def test_the_cron_job_is_valid_and_restricted(version):
    objects = list(yaml.safe_load_all((SCHEDULES / "cronjob.yaml").read_text()))
    assert [faults_of(pod) for pod in pods_of(objects)] == [[]]
    validate = pytest.importorskip("kubernetes_validate", reason="it is not installed")
    for each in objects:
        validate.validate(each, version, strict=True)


@pytest.mark.slow
def test_the_cron_job_of_kubernetes(folder, monkeypatch):
    files, job = yaml.safe_load_all((SCHEDULES / "cronjob.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    of_job = job["spec"]["jobTemplate"]["spec"]
    pod = of_job["template"]["spec"]
    assert pod["restartPolicy"] == "Never"  # what podFailurePolicy takes
    (container,) = pod["containers"]
    codes = [
        rule["onExitCodes"] for rule in of_job["podFailurePolicy"]["rules"] if "onExitCodes" in rule
    ]
    (ends,) = (code for code in codes if code["operator"] == "In")
    assert set(ends["values"]) == PAGED
    assert ends["containerName"] == container["name"]
    assert {each["name"] for each in container["volumeMounts"]} == {
        each["name"] for each in pod["volumes"]
    }
    assert files["data"] == {"job.toml": (OF_PODS / "job.toml").read_text()}
    name, *arguments = container["command"]
    assert name == "dshap"
    assert arguments[1] == "/etc/dshap/jobs/job.toml"
    ends_well([COMMAND, arguments[0], folder / "job.toml", *arguments[2:]], monkeypatch)


# Airflow and Dagster


def constants(path: Path) -> dict[str, Any]:
    """The constants of a module that stand before its first function."""
    tree = ast.parse(path.read_text())
    names: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            try:
                exec(compile(ast.Module([node], []), str(path), "exec"), names)
            except NameError:
                continue  # of the scheduler's own
    return names


@pytest.mark.slow
@pytest.mark.parametrize("name", ["airflow_dag.py", "dagster_definitions.py"])
def test_a_schedule_in_python(folder, tmp_path, name, monkeypatch):
    text = (SCHEDULES / name).read_text()
    compile(text, name, "exec")
    (tmp_path / name).write_text(here(text, folder))
    known = constants(tmp_path / name)
    assert set(known["SKIPPED"]) == SKIP
    assert set(known["FINAL"]) == PAGED
    ends_well(known["COMMAND"], monkeypatch)


SDK = {"dag", "task"}
"""Names of `airflow.sdk` in Airflow 3 that the file may import."""
ERRORS = {"AirflowFailException", "AirflowSkipException"}


def test_the_imports_of_airflow():
    """Airflow 3.3 has these names there; airflow.decorators and airflow.models are of Airflow 2."""
    tree = ast.parse((SCHEDULES / "airflow_dag.py").read_text())
    imported = {
        node.module: {alias.name for alias in node.names}
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("airflow")
    }
    assert imported == {"airflow.sdk": SDK, "airflow.sdk.exceptions": ERRORS}


def test_the_date_of_airflow(folder, tmp_path, monkeypatch):
    """The task hands the date of Airflow's run to the command; stand-ins take the place of Airflow."""
    sdk = types.ModuleType("airflow.sdk")
    sdk.task = lambda **options: lambda function: function
    sdk.dag = lambda **options: lambda function: lambda: None
    exceptions = types.ModuleType("airflow.sdk.exceptions")
    for name in ERRORS:
        setattr(exceptions, name, type(name, (Exception,), {}))
    for module in (types.ModuleType("airflow"), sdk, exceptions):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    names: dict[str, Any] = {}
    text = here((SCHEDULES / "airflow_dag.py").read_text(), folder)
    exec(compile(text, "dag", "exec"), names)
    names["COMMAND"] = ["sh", "-c", f'echo "$@" >> {tmp_path}/asked', "run"]
    names["explain"]()
    names["explain"](ds="2026-11-27")
    assert (tmp_path / "asked").read_text().splitlines() == ["", "--as-of 2026-11-27"]
    names["COMMAND"] = ["sh", "-c", "exit 99"]
    with pytest.raises(exceptions.AirflowSkipException):
        names["explain"](ds="2026-11-27")
    names["COMMAND"] = ["sh", "-c", "exit 8"]
    with pytest.raises(exceptions.AirflowFailException):
        names["explain"]()


OF_AIRFLOW = """
import sys, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import airflow.sdk
    before = len(caught)
    names = {}
    exec(compile(open(sys.argv[1]).read(), "the_dag", "exec"), names)
print([str(each.message) for each in caught[before:] if each.filename == "the_dag"])
for status in (0, 99, 8, 10):
    names["COMMAND"] = ["sh", "-c", f'echo "$@"; exit {status}', "run"]
    try:
        names["explain"].function(ds="2026-11-27")
        print(status, "ended well", flush=True)
    except Exception as error:
        print(status, type(error).__name__, flush=True)
"""


def test_the_task_of_airflow(tmp_path):
    """In an environment with Airflow 3: no import is deprecated, and what it makes of an exit status."""
    python = os.environ.get("AIRFLOW_PYTHON")
    if python is None:
        pytest.skip("Airflow is not installed: make daily-airflow")
    done = subprocess.run(
        [python, "-c", OF_AIRFLOW, SCHEDULES / "airflow_dag.py"],
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if "[" not in line[1:]]
    assert said == [
        "[]",
        *("--as-of 2026-11-27", "0 ended well"),
        *("--as-of 2026-11-27", "99 AirflowSkipException"),
        *("--as-of 2026-11-27", "8 AirflowFailException"),
        *("--as-of 2026-11-27", "10 RuntimeError"),
    ]


def test_the_asset_of_dagster():
    """Where Dagster is installed: what it makes of an exit status."""
    dagster = pytest.importorskip("dagster", reason="Dagster is not installed")
    names: dict[str, Any] = {}
    exec(compile((SCHEDULES / "dagster_definitions.py").read_text(), "defs", "exec"), names)
    for status, is_done in ((0, True), (99, True), (8, False)):
        names["COMMAND"] = ["sh", "-c", f"exit {status}"]
        ended = dagster.materialize([names["customer_reasons"]], raise_on_error=False)
        assert ended.success is is_done


# dbt


@pytest.mark.slow
def test_the_script_and_the_models_of_dbt(folder, monkeypatch):
    """Programs in the places of dbt and dshap write down what they are asked; then dshap is."""
    programs = {"DBT": folder / "dbt", "DSHAP": folder / "dshap"}
    for program, end in (("DBT", "0"), ("DSHAP", "$STATUS")):
        name = programs[program].name
        programs[program].write_text(f'#!/bin/sh\necho "{name} $@" >> {folder}/asked\nexit {end}\n')
        programs[program].chmod(0o755)
    environment = {**BARE, **programs, "JOB": folder / "job.toml"}
    script = ["sh", SCHEDULES / "dbt" / "nightly.sh"]
    done = subprocess.run(script, env={**environment, "STATUS": "0"}, capture_output=True)
    assert done.returncode == 0, done.stderr
    asked = (folder / "asked").read_text().splitlines()
    before, explained, after = asked
    assert (before, after) == ("dbt build --select customers", "dbt test --select source:dshap")
    # what dshap ends with ends the script, before the tests of its result
    failed = subprocess.run(script, env={**environment, "STATUS": "2"}, capture_output=True)
    assert failed.returncode == 2
    assert (folder / "asked").read_text().splitlines() == [*asked, before, explained]
    ends_well([COMMAND, *explained.split()[1:]], monkeypatch)
    models = yaml.safe_load((SCHEDULES / "dbt" / "dshap.yml").read_text())
    (source,) = models["sources"]
    assert (source["name"], source["tables"][0]["name"]) == ("dshap", "customer_reasons")


def test_every_file_is_linked_in_docs():
    linked = (ROOT / "docs" / "schedules.md").read_text()
    for path in SCHEDULES.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert f"](../{path.relative_to(ROOT).as_posix()})" in linked, path
