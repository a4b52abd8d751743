"""Models of a registry of MLflow, in a database of SQLite: explained as the files that they hold.

`make daily-platforms` installs MLflow for them.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dshap
from dshap.cli import cli
from dshap.core.errors import InputError
from dshap.history.run_record import read_records
from dshap.jobs import load_job
from dshap.models.adapters.mlflow_models import ReadOptions, Registry, load_mlflow
from dshap.models.adapters.model_files import load_lightgbm
from tests.jobs.job_files import changed, small_table, write_job

NAMES = ["hr", "temp", "hum"]
HAS_MLFLOW = importlib.util.find_spec("mlflow") is not None
needs_mlflow = pytest.mark.skipif(not HAS_MLFLOW, reason="mlflow is not installed")


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """Two versions of a booster, a linear model, a pickle, and a model of MLflow's own."""
    import lightgbm
    import mlflow
    import mlflow.lightgbm
    import mlflow.pyfunc
    import mlflow.sklearn
    from sklearn.linear_model import LinearRegression

    folder = tmp_path_factory.mktemp("registry")
    uri = f"sqlite:///{folder}/registry.db"
    table = small_table()
    x, y = table[NAMES], table["y"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # artifacts lie beside the database
        mlflow.set_tracking_uri(uri)
        for rounds in (3, 5):
            booster = lightgbm.train({"verbose": -1}, lightgbm.Dataset(x, y), rounds)
            booster.save_model(folder / f"booster{rounds}.txt")
            _logged(mlflow.lightgbm, booster, "churn")
        linear = LinearRegression().fit(x, y)
        _logged(mlflow.sklearn, linear, "linear")
        _logged(mlflow.sklearn, linear, "pickled", serialization_format="cloudpickle")

        class Doubled(mlflow.pyfunc.PythonModel):
            def predict(self, context, model_input, params=None):
                return 2.0 * model_input["temp"].to_numpy() * model_input["hum"].to_numpy()

        signature = mlflow.models.infer_signature(x, y)
        with mlflow.start_run():
            mlflow.pyfunc.log_model(
                name="model",
                python_model=Doubled(),
                signature=signature,
                registered_model_name="own",
                pip_requirements=[],
            )
        client = mlflow.MlflowClient()
        client.set_registered_model_alias("churn", "prod", 1)
        mlflow.set_tracking_uri(None)
    return folder, uri, client


def _logged(flavour, model, name, **options):
    import mlflow

    with mlflow.start_run():
        flavour.log_model(
            model, name="model", registered_model_name=name, pip_requirements=[], **options
        )


@needs_mlflow
def test_a_booster_is_read_as_its_file(registry):
    folder, uri, _ = registry
    for address, rounds, version in (("@prod", 3, 1), ("/2", 5, 2)):
        found = load_mlflow(f"models:/churn{address}", tracking_uri=uri)
        own = load_lightgbm(folder / f"booster{rounds}.txt")
        x = small_table()[NAMES]
        np.testing.assert_array_equal(found.predict(x), own.predict(x))
        assert (found.file.kind, found.file.path) == ("lightgbm", f"models:/churn/{version}")
    assert Registry(uri).version_of("models:/churn@prod") == "models:/churn/1"


@needs_mlflow
def test_programs_are_asked_for(registry):
    _, uri, _ = registry
    x = small_table()[NAMES]
    for name in ("pickled", "own"):
        with pytest.raises(InputError, match=f"models:/{name}/1.*allow_pickle = true"):
            load_mlflow(f"models:/{name}/1", tracking_uri=uri)
        found = load_mlflow(
            f"models:/{name}/1", tracking_uri=uri, options=ReadOptions(allow_pickle=True)
        )
        assert len(found.file.sha256) == 64
        again = load_mlflow(
            f"models:/{name}/1",
            tracking_uri=uri,
            options=ReadOptions(allow_pickle=True, sha256=found.file.sha256),
        )
        np.testing.assert_array_equal(found.predict(x), again.predict(x))
        with pytest.raises(InputError, match="sha256"):
            load_mlflow(
                f"models:/{name}/1",
                tracking_uri=uri,
                options=ReadOptions(allow_pickle=True, sha256="0" * 64),
            )
    np.testing.assert_allclose(found.predict(x), 2.0 * x["temp"] * x["hum"])
    linear = load_mlflow("models:/linear/1", tracking_uri=uri)  # skops: no program
    assert linear.file.kind == "skops"


@needs_mlflow
@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("models:/churn@pord", "models:/churn@pord: MLflow refused it"),
        ("models:/chrun/1", "models:/chrun/1: MLflow refused it"),
        ("models:/churn/7", "models:/churn/7: MLflow refused it"),
    ],
)
def test_no_such_model(registry, address, said):
    with pytest.raises(InputError, match=said) as raised:
        load_mlflow(address, tracking_uri=registry[1])
    assert "\n" not in str(raised.value)


@needs_mlflow
def test_a_job_by_its_alias(registry, tmp_path, monkeypatch):
    """A new version behind the alias is another model: the store refuses it, a night learns anew."""
    _, uri, client = registry
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    small_table().to_parquet("table.parquet")
    client.set_registered_model_alias("churn", "prod", 1)
    job = changed(
        ("model", {"kind": "mlflow", "path": "models:/churn@prod"}),
        ("source.target", None),
        ("source.features", None),
        ("explain", [{"name": "reasons", "value": "trees"}]),
        ("run", {}),
        ("incremental", {"strategy": "digest"}),
        ("report", {"page": "page.html", "mlflow": True}),
    )
    path = str(write_job(tmp_path, job))
    done = CliRunner().invoke(cli, ["check", path])
    assert "models:/churn@prod: it loads as models:/churn/1, SHA-256" in done.output
    for version in (1, 1, 2):
        client.set_registered_model_alias("churn", "prod", version)
        done = CliRunner().invoke(cli, ["run", path, "-q"])
        assert done.exit_code == 0, done.output
    records = read_records(tmp_path / "out.zarr")
    facts = [next(iter(each.named("explanation")))["adapter_response"]["model"] for each in records]
    assert [each["registered"] for each in facts] == [f"models:/churn/{n}" for n in (1, 1, 2)]
    assert [each.about["has_work"] for each in records] == [True, False, True]
    booster = load_mlflow("models:/churn/2", tracking_uri=uri)
    cube = dshap.open_cube(tmp_path / "out.zarr" / "reasons")
    predicted = booster.predict(small_table()[NAMES])
    np.testing.assert_allclose(cube["prediction"].values.squeeze(), predicted)
    # the page of each run that explained something is in the experiment of the job
    experiment = client.get_experiment_by_name("small")
    runs = client.search_runs([experiment.experiment_id])
    assert {run.data.tags["dshap.model"] for run in runs} == {"models:/churn/1", "models:/churn/2"}
    for run in runs:
        assert [each.path for each in client.list_artifacts(run.info.run_id)] == ["page.html"]
        assert run.data.tags["dshap.run"] in {each.run_id for each in records}


@needs_mlflow
def test_a_first_job(registry, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", registry[1])
    small_table().to_parquet("table.parquet")
    words = ["init", "--source", "table.parquet", "--model", "models:/churn/1"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    job = load_job("job.toml")
    assert (job.model.kind, job.model.path, job.explain[0].value) == (
        "mlflow",
        "models:/churn/1",
        "trees",
    )


def job_of(tmp_path: Path, **model) -> Path:
    pd.DataFrame({"id": [1], "a": [1.0]}).to_parquet(tmp_path / "table.parquet")
    changes = (
        ("model", {"kind": "mlflow", **model}),
        ("source.target", None),
        ("source.features", ["a"]),
        ("explain", [{"name": "reasons", "value": "marginal"}]),
    )
    return write_job(tmp_path, changed(*changes))


@pytest.mark.parametrize(
    "path", ["churn", "models:/churn", "models:/a/b/c", "runs:/x/model", "m.txt"]
)
def test_no_address(tmp_path, path):
    with pytest.raises(InputError, match=r'give "models:/NAME@ALIAS" or "models:/NAME/VERSION"'):
        load_job(job_of(tmp_path, path=path))


def test_the_page_is_needed(tmp_path):
    job = changed(("report", {"mlflow": True}))
    with pytest.raises(InputError, match=r"\[report\] mlflow = true logs the page: give page"):
        load_job(write_job(tmp_path, job))


@pytest.mark.skipif(HAS_MLFLOW, reason="mlflow is installed")
def test_mlflow_is_not_installed(tmp_path):
    path = job_of(tmp_path, path="models:/churn@prod")
    done = CliRunner().invoke(cli, ["check", str(path), "--json"])
    assert done.exit_code == 2
    model = json.loads(done.stdout)["checks"][0]
    assert "a model of MLflow needs mlflow, which is not installed" in model["message"]
