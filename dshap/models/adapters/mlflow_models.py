"""Models of a registry of MLflow: fetched by their address, then read like files of their own kind.

A version that contains a file of XGBoost, LightGBM, ONNX or skops is read as that file, which runs
no code.  Any other is a program (a pickle, or a model of MLflow's own), which must be asked for.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numpy as np

from dshap.core.errors import InputError
from dshap.models.adapters.model_files import (
    LoadedModel,
    ModelFile,
    NamedPredictor,
    load_lightgbm,
    load_onnx,
    load_pickle,
    load_skops,
    load_xgboost,
    sha256_of,
)

ADDRESS = r"^models:/[^/@]+(/[^/@]+|@[^/@]+)$"
"""The pattern of the address of a model: models:/NAME@ALIAS or models:/NAME/VERSION."""
_ALIAS = re.compile(r"models:/([^/@]+)@([^/@]+)")
FILES: Mapping[str, str] = {
    "xgboost": "data",
    "lightgbm": "data",
    "onnx": "data",
    "sklearn": "pickled_model",
}
"""Flavour of a version -> its key that names the file of the model."""
VARIABLES = ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI")
"""The variables that MLflow reads, and sets for processes that it starts."""
NOT_CONTENT = ("registered_model_meta",)
"""Files of a version with its place in the registry."""


@dataclass(frozen=True)
class Registry:
    """A registry of MLflow."""

    tracking_uri: str | None = None
    """Its address; None for that of MLflow's own settings, such as MLFLOW_TRACKING_URI."""

    def client(self) -> Any:
        """A client of the registry."""
        uri = self.tracking_uri
        return _library("mlflow").MlflowClient(tracking_uri=uri, registry_uri=uri)

    def log_file(self, experiment: str, run_name: str, tags: Mapping[str, str], path: Path) -> str:
        """Log a file as an artifact of a new run of an experiment, which is made; returns the run's id.

        Raises
        ------
        InputError
            MLflow is not installed, or the registry cannot be reached.
        """
        with _in_one_line(f"page {path}"):
            client = self.client()
            known = client.get_experiment_by_name(experiment)
            if known is None:
                experiment_id = client.create_experiment(experiment)
            else:
                experiment_id = known.experiment_id
            run = client.create_run(experiment_id, run_name=run_name, tags=dict(tags))
            run_id: str = run.info.run_id
            client.log_artifact(run_id, str(path))
            client.set_terminated(run_id)
        return run_id

    def version_of(self, address: str) -> str:
        """The address of the version that an address with an alias refers to now.

        Raises
        ------
        InputError
            There is no such model or alias, or the registry cannot be reached.
        """
        found = _ALIAS.fullmatch(address)
        if found is None:
            return address
        with _in_one_line(address):
            version = self.client().get_model_version_by_alias(found[1], found[2])
        return f"models:/{found[1]}/{version.version}"

    def fetch(self, address: str, folder: Path) -> Path:
        """Fetch the files of a version; returns the folder that they are in."""
        artifacts = _library("mlflow.artifacts")
        with _in_one_line(address), self._as_setting():
            found = artifacts.download_artifacts(artifact_uri=address, dst_path=str(folder))
        return Path(found)

    @contextmanager
    def _as_setting(self) -> Iterator[None]:
        """Make the address that of MLflow's own settings: some of its steps ask these alone."""
        if self.tracking_uri is None:
            yield
            return
        mlflow = _library("mlflow")
        variables = {name: os.environ.get(name) for name in VARIABLES}
        before = mlflow.get_tracking_uri(), mlflow.get_registry_uri()
        try:
            mlflow.set_tracking_uri(self.tracking_uri)
            mlflow.set_registry_uri(self.tracking_uri)
            yield
        finally:
            mlflow.set_tracking_uri(None)
            mlflow.set_registry_uri(None)
            for name, value in variables.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
            # an address from the environment is not set, so that it may change later
            if mlflow.get_tracking_uri() != before[0]:
                mlflow.set_tracking_uri(before[0])
            if mlflow.get_registry_uri() != before[1]:
                mlflow.set_registry_uri(before[1])


@dataclass(frozen=True)
class ReadOptions:
    """How a model of a registry is read."""

    allow_pickle: bool = False
    """Whether a version that is a program may be read."""
    trusted: Sequence[str] = ()
    """Types in a file of skops that are trusted beside those that skops knows."""
    method: str = "auto"
    """The method of an estimator that is explained."""
    sha256: str | None = None
    """The SHA-256 that the file must have; not compared if None."""


class MlflowModel:
    """A model of MLflow's own, which accepts data frames; it has the names of its signature.

    Parameters
    ----------
    pyfunc : the model, as mlflow.pyfunc loads it
    files : the folder that it was loaded from, which is removed with it
    """

    def __init__(self, pyfunc: Any, files: TemporaryDirectory[str]) -> None:
        self._pyfunc = pyfunc
        self._files = files
        schema = pyfunc.metadata.get_input_schema()
        if schema is not None and schema.has_input_names():
            self.feature_names_in_ = np.array(schema.input_names(), dtype=object)
            self.n_features_in_ = len(schema.input_names())

    def predict(self, rows: Any) -> Any:
        """The predictions for a data frame of rows."""
        return self._pyfunc.predict(rows)


def load_mlflow(
    address: str, *, tracking_uri: str | None = None, options: ReadOptions | None = None
) -> LoadedModel:
    """Read a model of a registry of MLflow.

    Parameters
    ----------
    address : models:/NAME@ALIAS or models:/NAME/VERSION
    tracking_uri : the address of the registry; None for that of MLflow's own settings
    options : ReadOptions, optional

    Returns
    -------
    LoadedModel
        Its file has the address of the version.

    Raises
    ------
    InputError
        MLflow is not installed, there is no such model, it may not be read, or cannot be.
    """
    registry = Registry(tracking_uri)
    version = registry.version_of(address)
    files = TemporaryDirectory(prefix="dshap-mlflow-", ignore_cleanup_errors=True)
    folder = registry.fetch(version, Path(files.name))
    try:
        loaded = _read(version, folder, files, options or ReadOptions())
    except InputError as error:
        said = str(error).replace(f"model {folder}", version).replace(str(folder), version)
        raise InputError(said) from error
    assert loaded.file is not None, "a version has files"
    return replace(loaded, file=replace(loaded.file, path=version))


def _read(
    version: str, folder: Path, files: TemporaryDirectory[str], options: ReadOptions
) -> LoadedModel:
    """The model in the files of a version."""
    flavors = _flavors(version, folder)
    for flavor, key in FILES.items():
        if flavor in flavors and key in flavors[flavor]:
            path = folder / flavors[flavor][key]
            return _reader(flavor, path)(path, options)
    if not options.allow_pickle:
        known = ", ".join(sorted(flavors)) or "none"
        raise InputError(
            f"{version} (flavours: {known}) is a program of MLflow, which runs code when it is "
            "read: if you trust who registered it, give allow_pickle = true"
        )
    library = _library("mlflow.pyfunc")
    with _in_one_line(version):
        model = MlflowModel(library.load_model(str(folder)), files)
    digest = _digest_of(folder)
    if options.sha256 is not None and options.sha256.lower() != digest:
        raise InputError(f"{version} has the sha256 {digest}, and {options.sha256} was given")
    file = ModelFile("mlflow", version, digest, "mlflow", _library("mlflow").__version__)
    return LoadedModel(model, NamedPredictor(model, "predict", f"mlflow:{digest}").predict, file)


def _flavors(version: str, folder: Path) -> Mapping[str, Mapping[str, Any]]:
    """The flavours of a version and their keys."""
    model = _library("mlflow.models").Model
    with _in_one_line(version):
        flavors: Mapping[str, Mapping[str, Any]] = model.load(str(folder)).flavors
    return flavors


_Read = Callable[[Path, ReadOptions], LoadedModel]


def _reader(flavor: str, path: Path) -> _Read:
    """The reader of the file of a flavour, whose library may store it in several forms."""
    if path.suffix == ".skops":
        return _skops
    if path.suffix in (".pkl", ".pickle", ".joblib"):
        return _pickle
    return _READERS.get(flavor, _pickle)


def _skops(path: Path, options: ReadOptions) -> LoadedModel:
    trusted = options.trusted
    return load_skops(path, sha256=options.sha256, trusted=trusted, method=options.method)


def _pickle(path: Path, options: ReadOptions) -> LoadedModel:
    # a registry controls who may register a model; the file changes with each version of an alias
    if not options.allow_pickle:
        raise InputError(
            f"model {path} is a pickle, which runs code when it is read: if you trust who "
            "registered it, give allow_pickle = true, or log it in the format of skops"
        )
    sha256 = options.sha256 or sha256_of(path)
    return load_pickle(path, sha256=sha256, allow_pickle=True, method=options.method)


_READERS: Mapping[str, _Read] = {
    "xgboost": lambda path, options: load_xgboost(path, sha256=options.sha256),
    "lightgbm": lambda path, options: load_lightgbm(path, sha256=options.sha256),
    "onnx": lambda path, options: load_onnx(path, sha256=options.sha256),
}
"""Flavour -> the reader of its own files."""


def _digest_of(folder: Path) -> str:
    """The SHA-256 of the files of a version, by their names."""
    digest = hashlib.sha256()
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        if path.name not in NOT_CONTENT:
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
            digest.update(sha256_of(path).encode())
    return digest.hexdigest()


@contextmanager
def _in_one_line(address: str) -> Iterator[None]:
    """Turn every error of MLflow inside into one line about an address."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # of MLflow, of the database, or of the connection
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise InputError(
            f"{address}: MLflow refused it ({type(error).__name__}: {reason[:300]})"
        ) from error


def _library(module: str) -> ModuleType:
    """A module of MLflow; an `InputError` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"a model of MLflow needs mlflow, which is not installed ({error}): pip install mlflow"
        ) from error
