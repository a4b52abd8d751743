"""Fitted models in files: read, and wrapped so that every value function can call them.

A file of XGBoost, LightGBM or ONNX contains numbers; one of skops contains types that its reader
checks; a pickle is a program, which runs when it is read, so that it must be asked for and named by
its SHA-256.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from dshap.core.duck_typing import has_member, of_estimator
from dshap.core.errors import InputError, shown
from dshap.core.rules import checked
from dshap.models.adapters.onnx import OnnxModel
from dshap.models.adapters.xgboost_files import (
    method_of_xgboost,
    read_xgboost,
    scale_of_xgboost,
)
from dshap.predictors.tree_rounds import rounds_note
from dshap.trees.tree_kinds import is_ensemble, library_of

METHODS = ("auto", "predict_proba", "predict", "decision_function", "predict_log_proba")
"""Methods of an estimator that may be explained; "auto" is the first of the next two it has."""
CLASSIFYING = ("binary", "multiclass", "multiclassova")
"""Objectives of LightGBM whose outputs belong to classes, which it counts from 0."""


@dataclass(frozen=True)
class ModelFile:
    """The identity of a model that was read from a file."""

    kind: str
    path: str
    sha256: str
    """The SHA-256 of the content, in hexadecimal digits."""
    library: str
    version: str
    """The version of the installed library that read it."""


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A fitted model, from a file or from Python code."""

    model: Any
    """The model as its library gives it, such as for `dshap.values.Trees`."""
    predict: Callable[..., Any]
    """The function that is explained: rows (n, columns) -> (n,) or (n, k)."""
    file: ModelFile | None = None
    """The file that it was read from; None if it is an object of Python code."""
    classes: tuple[str, ...] | None = None
    """The names of the classes, where the model has them and its library's object does not."""

    @property
    def rounds(self) -> str:
        """The note on the boosting rounds that it predicts with; empty without early stopping."""
        return rounds_note(self.predict)


class NamedPredictor:
    """A fitted model, with the name by which a run recognizes it: kind and SHA-256 of its file.

    It has those attributes of scikit-learn's estimators, such as `classes_`, that the model has.

    Parameters
    ----------
    model : fitted model
    method : name of the method that is explained
    stored_name : str
    takes_frames : whether it is called with data frames if it was fitted on them; libraries of
        trees also accept arrays of numbers, and are faster with them
    categories : column -> its categories, for a library of trees that was fitted on categories; the
        column may then contain their values as text or numbers too
    options : options of the method
    """

    rounds_note = ""
    """The note on the boosting rounds of its predictions, for plan and record."""
    output_scale: str | None = None
    """The scale of its predictions; None if it follows from the method."""
    output_names: tuple[str, ...] | None = None
    """Always None: outputs are named by the classes."""

    def __init__(
        self,
        model: Any,
        method: str,
        stored_name: str,
        takes_frames: bool = True,
        categories: OwnCategories | None = None,
        options: Mapping[str, bool] | None = None,
    ) -> None:
        self.model = model
        self.method = method
        self.options = dict(options or {})
        self.stored_name = stored_name
        self.takes_frames = takes_frames
        self.categories = categories
        for fact in ("feature_names_in_", "n_features_in_", "classes_"):
            if has_member(model, fact):
                setattr(self, fact, getattr(model, fact))

    def predict(self, rows: Any) -> Any:
        """The model's answer for rows, an array or a data frame."""
        if self.categories is not None:
            rows = self.categories.in_frame(rows)
        return getattr(self.model, self.method)(rows, **self.options)


@dataclass(frozen=True)
class OwnCategories:
    """The categories that a library of trees stored in the fit."""

    lists: Mapping[str, tuple[Any, ...]]
    """Column -> its categories, in the order of their codes."""
    takes_unseen: bool
    """Whether a value outside of the list counts as missing; else it is refused."""

    @classmethod
    def of(cls, model: Any) -> OwnCategories | None:
        """The categories of a model; None if it has none, or did not store them."""
        try:
            library = library_of(model)(model)
            coded = library.coded({})
        except InputError:  # a linear booster, or lists that are missing: a black box of numbers
            return None
        if not coded or library.names is None:
            return None
        return cls({library.names[j]: kept for j, kept in coded.items()}, library.takes_unseen)

    def in_frame(self, rows: Any) -> Any:
        """A data frame whose columns of categories have the lists of the model."""
        return rows.assign(**{name: self._coded(rows[name], name) for name in self.lists})

    def _coded(self, column: Any, name: str) -> Any:
        import pandas as pd  # installed, as the rows are a data frame

        listed = list(self.lists[name])
        codes = pd.Index(listed, dtype=object).get_indexer(column.astype(object))
        is_unseen = (codes < 0) & column.notna().to_numpy()
        if is_unseen.any() and not self.takes_unseen:
            raise ValueError(
                f"column {name!r} contains {column[is_unseen].iloc[0]!r}, which the model has not "
                "seen"
            )
        return pd.Categorical.from_codes(codes, categories=listed)


class LightGBMPredictor:
    """A booster of LightGBM as a predictor of numbers, or of a probability for each class.

    For two classes LightGBM returns only the probability of the second; here that of the first is
    put before it.
    """

    def __init__(self, booster: Any) -> None:
        self.booster = booster
        names = booster.feature_name()
        is_numbered = names == [f"Column_{j}" for j in range(len(names))]
        self.n_features_in_ = len(names)
        if not is_numbered:
            self.feature_names_in_ = np.array(names, dtype=object)
        objective = str(booster.dump_model(num_iteration=1).get("objective", "")).split(" ")[0]
        self.is_binary = objective == "binary"
        if objective in CLASSIFYING:
            self.classes_ = np.arange(max(2, booster.num_model_per_iteration()))

    def predict(self, rows: Any) -> Any:
        """Predictions (n,) of numbers, probabilities (n, k) of classes."""
        found = np.asarray(self.booster.predict(rows, num_threads=1))
        if self.is_binary:
            return np.column_stack([1.0 - found, found])
        return found


def load_xgboost(
    path: str | Path, *, sha256: str | None = None, missing_value: float | None = None
) -> LoadedModel:
    """Read a model of XGBoost, saved as JSON or UBJSON by a booster or its scikit-learn classes.

    Classes are explained as probabilities, one output a class; ``binary:hinge`` as the predicted
    class, ``binary:logitraw`` as log-odds; other objectives as predicted.  After early stopping the
    file of a scikit-learn class predicts with the best rounds, and the file of a booster with all
    rounds, each as the object that saved it.

    Parameters
    ----------
    path : path
    sha256 : the SHA-256 that the file must have; not compared if None
    missing_value : the number that means missing beside NaN, as `missing` of the scikit-learn
        classes, which is not in the file

    Raises
    ------
    InputError
        The file is missing, has another SHA-256, is none that the installed XGBoost reads, or names
        a type of estimator that XGBoost has no class for; or `missing_value` is no finite number.
    """
    if missing_value is not None:
        (missing_value,) = checked(missing_value=missing_value)
    library = _library("xgboost", "xgboost", "pip install xgboost-cpu")
    content = _content(path, sha256)
    model = _read(
        "xgboost", library, path, lambda: read_xgboost(library, path, content, missing_value)
    )
    method, options = method_of_xgboost(model)
    file = _file("xgboost", library, path, content)
    if missing_value is None:
        name = _name(file)
    else:
        name = f"{_name(file)}:missing={missing_value!r}"
    scale = scale_of_xgboost(model, method)
    return _of_trees(model, model, method, file, name, options, scale)


def load_lightgbm(path: str | Path, *, sha256: str | None = None) -> LoadedModel:
    """Read a model of LightGBM, saved as text by `booster.save_model`.

    Classes are explained as probabilities, one output a class, which is named by its number; other
    objectives as predicted.  LightGBM saves the rounds up to the best one of early stopping.

    Raises
    ------
    InputError
        The file is missing, has another SHA-256, or is none that the installed LightGBM reads.
    """
    library = _library("lightgbm", "lightgbm", "pip install 'dshap[trees]'")
    content = _content(path, sha256)

    def read() -> Any:
        text = content.decode()
        if not text.startswith("tree"):  # LightGBM ends the process at some other files
            raise ValueError("it does not begin with 'tree'")
        return library.Booster(model_str=text)

    booster = _read("lightgbm", library, path, read)
    file = _file("lightgbm", library, path, content)
    predictor = LightGBMPredictor(booster)
    loaded = _of_trees(booster, predictor, "predict", file, _name(file))
    if has_member(predictor, "classes_"):
        return replace(loaded, classes=tuple(map(str, predictor.classes_.tolist())))
    return loaded


def load_onnx(
    path: str | Path, *, sha256: str | None = None, output: str | None = None
) -> LoadedModel:
    """Read a model in ONNX, run by onnxruntime on one thread.

    It accepts rows as one input of numbers (n, columns), or a data frame as one input (n, 1) a
    column.  `output` names the output to explain; left out, the probabilities of a classifier, or
    the only output of numbers.

    Raises
    ------
    InputError
        The file is missing, has another SHA-256, is no ONNX, or has inputs or outputs of another
        form.
    """
    library = _library("onnx", "onnxruntime", "pip install 'dshap[models]'")
    content = _content(path, sha256)
    model = _read("onnx", library, path, lambda: OnnxModel(content, output))
    return _loaded("onnx", library, path, content, model, "predict")


def load_skops(
    path: str | Path,
    *,
    sha256: str | None = None,
    trusted: Sequence[str] = (),
    method: str = "auto",
) -> LoadedModel:
    """Read an estimator saved by skops, which runs no code of the file.

    Parameters
    ----------
    path : path
    sha256 : the SHA-256 that the file must have; not compared if None
    trusted : the types in the file that are trusted beside those that skops knows
    method : the method of the estimator that is explained, see `METHODS`

    Raises
    ------
    InputError
        The file is missing, has another SHA-256, contains types that are not trusted, or is none
        that the installed skops reads.
    """
    library = _library("skops", "skops.io", "pip install 'dshap[models]'")
    content = _content(path, sha256)
    unknown = _read("skops", library, path, lambda: library.get_untrusted_types(data=content))
    if others := sorted(set(unknown) - set(trusted)):
        listed = ", ".join(f'"{each}"' for each in sorted({*others, *trusted}))
        raise InputError(
            f"{path} contains types that skops does not know: {', '.join(others)}; if you trust "
            f"who made the file, give trusted = [{listed}]"
        )
    model = _read("skops", library, path, lambda: library.loads(content, trusted=list(trusted)))
    return _loaded("skops", library, path, content, model, method_of(model, method, path))


def load_pickle(
    path: str | Path, *, sha256: str | None = None, allow_pickle: bool = False, method: str = "auto"
) -> LoadedModel:
    """Read an estimator from a pickle, or a file of joblib, which may run any code.

    Nothing is read of it before `allow_pickle` and `sha256` were checked.

    Raises
    ------
    InputError
        Pickles are not allowed, the SHA-256 is missing or another, or reading fails.
    """
    if not allow_pickle:
        raise InputError(
            f"{path} is a pickle, which runs code when it is read: if you trust who made the file, "
            "give allow_pickle = true and its sha256; a file of XGBoost, LightGBM, ONNX or skops "
            "needs neither"
        )
    if sha256 is None:
        raise InputError(
            f"{path} is a pickle, and its sha256 is missing: give that of the file that you trust "
            "(sha256sum prints it)"
        )
    library = _library("pickle", "joblib", "pip install joblib")
    content = _content(path, sha256)
    model = _read("pickle", library, path, lambda: library.load(io.BytesIO(content)))
    return _loaded("pickle", library, path, content, model, method_of(model, method, path))


def method_of(model: Any, method: str, path: str | Path) -> str:
    """The name of the method of an estimator that is explained.

    Raises
    ------
    InputError
        The model has no such method, or is no estimator.
    """
    has = [name for name in METHODS[1:] if has_member(model, name)]
    wanted: Collection[str] = METHODS[1:3] if method == "auto" else (method,)
    for name in wanted:
        if name in has:
            return name
    instead = f"it has {', '.join(has)}" if has else "give a fitted estimator"
    raise InputError(
        f"{path} contains {shown(model)}, which has no {' and no '.join(wanted)}: {instead}"
    )


def feature_names_of(loaded: LoadedModel) -> tuple[str, ...] | None:
    """The columns that a model was fitted on, in its order; None if it does not know them."""
    for each in (loaded.predict, loaded.model):
        names = of_estimator(each, "feature_names_in_")
        if names is not None:
            return tuple(map(str, names))
    if is_ensemble(loaded.model):
        library = library_of(loaded.model)(loaded.model)
        return library.names
    return None


def n_columns_of(loaded: LoadedModel) -> int | None:
    """The number of columns that a model was fitted on; None if it does not know it."""
    for each in (loaded.predict, loaded.model):
        number = of_estimator(each, "n_features_in_")
        if number is not None:
            return int(number)
    return None


def sha256_of(path: str | Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits; InputError if it cannot be read."""
    return hashlib.sha256(_content(path, None)).hexdigest()


def _library(kind: str, module: str, remedy: str) -> ModuleType:
    """The library that reads a kind of file; InputError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f'a model of kind "{kind}" needs {module.partition(".")[0]}, which is not installed '
            f"({error}): {remedy}"
        ) from error


def _content(path: str | Path, sha256: str | None) -> bytes:
    """The bytes of a file; InputError if it is missing or has another SHA-256."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"model {path}: {error.strerror or error}") from error
    found = hashlib.sha256(content).hexdigest()
    if sha256 is not None and sha256.lower() != found:
        raise InputError(
            f"model {path} has the sha256 {found}, and {sha256} was given: it is another file"
        )
    return content


def _read(kind: str, library: ModuleType, path: str | Path, read: Callable[[], Any]) -> Any:
    """Read a file by its library; InputError in one line if it cannot."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # another version of the library that wrote it
            return read()
    except InputError:
        raise
    except Exception as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise InputError(
            f"model {path} cannot be read as {kind} by {_installed(library)} "
            f"({type(error).__name__}: {reason[:200]}): give a file of that kind, written by this "
            "version or an earlier one"
        ) from error


def _installed(library: ModuleType) -> str:
    """Name and version of an installed library."""
    name = library.__name__.partition(".")[0]
    return f"{name} {_version(name)}"


def _version(name: str) -> str:
    """The version of an installed library, by the name that it is imported under."""
    found: str | None = getattr(importlib.import_module(name), "__version__", None)
    return found or version(name)


def _file(kind: str, library: ModuleType, path: str | Path, content: bytes) -> ModelFile:
    name = library.__name__.partition(".")[0]
    return ModelFile(kind, str(path), hashlib.sha256(content).hexdigest(), name, _version(name))


def _name(file: ModelFile) -> str:
    """The name by which a run recognizes the model, independent of the path of its file."""
    return f"{file.kind}:{file.sha256}"


def _loaded(
    kind: str, library: ModuleType, path: str | Path, content: bytes, model: Any, method: str
) -> LoadedModel:
    file = _file(kind, library, path, content)
    return LoadedModel(model, NamedPredictor(model, method, _name(file)).predict, file)


def _of_trees(
    model: Any,
    predictor: Any,
    method: str,
    file: ModelFile,
    name: str,
    options: Mapping[str, bool] | None = None,
    scale: str | None = None,
) -> LoadedModel:
    """A tree ensemble, called with data frames if it was fitted on categories."""
    categories = OwnCategories.of(model) if is_ensemble(model) else None
    has_categories = categories is not None
    named = NamedPredictor(predictor, method, name, has_categories, categories, options)
    named.rounds_note = rounds_note(model)
    named.output_scale = scale
    return LoadedModel(model, named.predict, file)
