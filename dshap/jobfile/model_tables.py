"""The tables [model] of fitted models that a job is given: files, and objects of Python code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache, partial
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, PrivateAttr, model_validator

from dshap.core.errors import InputError
from dshap.jobfile.fields import Names, NotEmpty, one_of, or_say
from dshap.jobfile.kinds import CODE, KindTable, imported
from dshap.jobfile.paths import FilePath
from dshap.models.adapters.mlflow_models import ADDRESS, ReadOptions, Registry, load_mlflow
from dshap.models.adapters.model_files import (
    METHODS,
    LoadedModel,
    load_lightgbm,
    load_onnx,
    load_pickle,
    load_skops,
    load_xgboost,
    method_of,
    sha256_of,
)

Sha256 = Annotated[str, Field(pattern=r"^[0-9A-Fa-f]{64}$")]
Method = one_of(METHODS)
_ADDRESSES = 'give "models:/NAME@ALIAS" or "models:/NAME/VERSION"'
FiniteNumber = Annotated[float, Field(allow_inf_nan=False), or_say("give a finite number")]


class GivenModel(KindTable, ABC):
    """A fitted model that is given to the job, which does not fit it."""

    classes: Names | None = None
    """The names of the classes, in the order of the model's outputs."""

    @abstractmethod
    def loaded(self) -> LoadedModel:
        """Read or import the model."""


class ImportedModel(GivenModel):
    """The table [model] of kind = "import": an object of the user's code.

    It is a predict function, or a fitted estimator.
    """

    function: Annotated[str, Field(pattern=CODE)]
    """"package.module:name" of a function, rows (n, columns) -> (n,) or (n, k), or of a fitted
    model."""

    def loaded(self) -> LoadedModel:
        found = imported(self.function, "[model] function")
        if callable(found):
            return LoadedModel(found, found)
        try:
            predict = getattr(found, method_of(found, "auto", ""))
        except InputError:
            place = self.function.replace(":", ".")
            kind = type(found).__name__
            raise InputError(
                f'[model] function = "{self.function}": {place} is {_article(kind)} {kind}, neither '
                "a function nor a fitted model"
            ) from None
        return LoadedModel(found, predict)


class ModelFileTable(GivenModel):
    """A table [model] of a model in a file."""

    path: FilePath
    """The path of the file."""
    sha256: Sha256 | None = None
    """The SHA-256 that the file must have, where given."""
    places: ClassVar[Sequence[str]] = ("path",)
    """The keys with the place of the model, which identify no run."""
    _held: LoadedModel | None = PrivateAttr(default=None)

    def with_model(self) -> Self:
        """A copy with the model of the file as it is now, independent of later changes."""
        copy = self.model_copy()
        copy._held = given_model(self)
        return copy

    def model_now(self) -> LoadedModel:
        """The stored model; else that of the file, read once while its bytes stay the same."""
        return self._held or _read(self, self._content_now())

    def _content_now(self) -> str:
        """A text that changes with the content."""
        return sha256_of(self.path)


class XGBoostTable(ModelFileTable):
    """The table [model] of kind = "xgboost": a booster as JSON or UBJSON."""

    missing_value: FiniteNumber | None = None
    """A number that means missing, as NaN does: the `missing` of the fit, which the file does not
    contain."""

    def loaded(self) -> LoadedModel:
        options: dict[str, Any] = {"missing_value": self.missing_value}
        return _said(partial(load_xgboost, self.path, sha256=self.sha256, **options))


class LightGBMTable(ModelFileTable):
    """The table [model] of kind = "lightgbm": a booster as text."""

    def loaded(self) -> LoadedModel:
        return _said(partial(load_lightgbm, self.path, sha256=self.sha256))


class OnnxTable(ModelFileTable):
    """The table [model] of kind = "onnx"."""

    output: NotEmpty | None = None
    """The output that is explained; by default the probabilities, or the only output of numbers."""

    def loaded(self) -> LoadedModel:
        return _said(partial(load_onnx, self.path, sha256=self.sha256, output=self.output))


class SkopsTable(ModelFileTable):
    """The table [model] of kind = "skops": an estimator of scikit-learn."""

    method: Method = "auto"  # type: ignore[valid-type]
    """The method that is explained; "auto": predict_proba where there is one, else predict."""
    trusted: Names = ()
    """The types in the file that are trusted, beside those that skops knows."""

    def loaded(self) -> LoadedModel:
        options: dict[str, Any] = {"trusted": self.trusted, "method": self.method}
        return _said(partial(load_skops, self.path, sha256=self.sha256, **options))


class PickleTable(ModelFileTable):
    """The table [model] of kind = "pickle": an estimator in a pickle or a file of joblib."""

    method: Method = "auto"  # type: ignore[valid-type]
    """The method that is explained; "auto": predict_proba where there is one, else predict."""
    allow_pickle: bool = False
    """Whether the file may be read: reading a pickle can run any code."""

    @model_validator(mode="after")
    def _check_allowed(self) -> PickleTable:
        if not self.allow_pickle:
            raise ValueError(
                'kind = "pickle" runs code of the file: if you trust who made it, give '
                'allow_pickle = true and its sha256; "xgboost", "lightgbm", "onnx" and "skops" '
                "need neither"
            )
        if self.sha256 is None:
            raise ValueError(
                "sha256 is missing: give the SHA-256 of the pickle that you trust (sha256sum prints it); "
                "no other file is loaded"
            )
        return self

    def loaded(self) -> LoadedModel:
        options: dict[str, Any] = {"allow_pickle": self.allow_pickle, "method": self.method}
        return _said(partial(load_pickle, self.path, sha256=self.sha256, **options))


class MlflowTable(ModelFileTable):
    """The table [model] of kind = "mlflow": a model of a registry."""

    places: ClassVar[Sequence[str]] = ("path", "tracking_uri")

    path: Annotated[str, Field(pattern=ADDRESS), or_say(_ADDRESSES)]
    """The address: "models:/NAME@ALIAS", or "models:/NAME/VERSION"."""
    tracking_uri: NotEmpty | None = None
    """The address of the registry; by default that of MLflow's settings (MLFLOW_TRACKING_URI)."""
    method: Method = "auto"  # type: ignore[valid-type]
    """The method of an estimator that is explained; "auto": predict_proba where there is one."""
    trusted: Names = ()
    """The types in a file of skops that are trusted, beside those that skops knows."""
    allow_pickle: bool = False
    """Whether a version may be read that is no file of a known kind: reading it runs code."""

    def loaded(self) -> LoadedModel:
        options = ReadOptions(self.allow_pickle, self.trusted or (), self.method, self.sha256)
        return _said(
            partial(load_mlflow, self.path, tracking_uri=self.tracking_uri, options=options)
        )

    def _content_now(self) -> str:
        """The address of the version that is meant now: a version never changes."""
        return _said_address(Registry(self.tracking_uri), self.path)


def given_model(table: GivenModel) -> LoadedModel:
    """The model of a table; one of a file is read once in a process, while its bytes stay."""
    match table:
        case ModelFileTable():
            return table.model_now()
    return table.loaded()


def sha256_of_given(table: GivenModel) -> str:
    """The SHA-256 of the file of a model, as it was read; empty for an object of Python code."""
    file = given_model(table).file
    if file is None:
        return ""
    return file.sha256


@cache
def _read(table: ModelFileTable, sha256: str) -> LoadedModel:
    return table.loaded()


def _said(load: partial[LoadedModel]) -> LoadedModel:
    """The model that a function loads; its messages begin with the table."""
    try:
        return load()
    except InputError as error:
        raise InputError(f"[model] {error}") from error


def _said_address(registry: Registry, address: str) -> str:
    """The address of a version; messages begin with the table."""
    try:
        return registry.version_of(address)
    except InputError as error:
        raise InputError(f"[model] {error}") from error


def _article(noun: str) -> str:
    if noun[0].lower() in "aeiou":
        return "an"
    return "a"
