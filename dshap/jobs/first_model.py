"""The model of a first job: the kind of its file, the columns that it was fitted on, how to explain it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dshap.core.duck_typing import of_estimator
from dshap.core.errors import InputError
from dshap.core.user_code import make_importable
from dshap.jobfile.kinds import CODE
from dshap.jobfile.schema import MODELS
from dshap.jobs.first_source import as_written
from dshap.models.adapters.mlflow_models import ADDRESS
from dshap.models.adapters.model_files import (
    LoadedModel,
    feature_names_of,
    n_columns_of,
    sha256_of,
)
from dshap.trees.tree_kinds import is_ensemble

ENDS: Mapping[str, str] = {
    ".json": "xgboost",
    ".ubj": "xgboost",
    ".onnx": "onnx",
    ".skops": "skops",
    ".pkl": "pickle",
    ".pickle": "pickle",
    ".joblib": "pickle",
}
"""End of the name of a file -> the kind of model in it."""
LIGHTGBM = b"tree\n"
"""The beginning of a file of LightGBM, of any name."""
PICKLE = b"\x80"  # the first byte of every pickle of protocol 2 or later
TAKES_NAN = ("xgboost", "lightgbm")
"""Kinds whose trees send missing values one way or the other."""
KNOWN = (
    "give a file of XGBoost (.json, .ubj), LightGBM (its text), ONNX (.onnx) or skops (.skops), a pickle "
    "(.pkl, .joblib), models:/NAME@ALIAS of MLflow, or package.module:name of a predict function"
)
PICKLE_NOTE = (
    "is a pickle, which runs code when it is read: if you trust who made it, give --allow-pickle"
)


class PickleError(InputError):
    """A model is a pickle, and no option allows reading it."""


@dataclass(frozen=True)
class FirstModel:
    """The model that a first job explains."""

    kind: str
    place: str
    """The path of its file, or "package.module:name"."""
    sha256: str = ""
    """The SHA-256 of a pickle that may be read; empty for other kinds."""

    @classmethod
    def of(cls, text: str, folder: Path, *, allow_pickle: bool = False) -> FirstModel:
        """Find the kind of a model from the path of its file, or the place of a function.

        Parameters
        ----------
        text : a path, or "package.module:name"
        folder : the folder of the job file, where modules beside it are found
        allow_pickle : whether a pickle may be read, which runs code

        Raises
        ------
        InputError
            There is no such file, it is of no known kind, or a pickle that may not be read.
        """
        if re.fullmatch(ADDRESS, text):
            return cls("mlflow", text)
        path = os.path.abspath(os.path.expanduser(text))
        if not os.path.isfile(path):
            if re.fullmatch(CODE, text):
                make_importable(folder)
                return cls("import", text)
            raise InputError(f"model {path}: there is no such file: {KNOWN}")
        kind = kind_of_file(path)
        if kind != "pickle":
            return cls(kind, path)
        if not allow_pickle:
            raise PickleError(f"model {path} {PICKLE_NOTE}")
        return cls(kind, path, sha256_of(path))

    @cached_property
    def loaded(self) -> LoadedModel:
        """The model, read or imported.

        Raises
        ------
        InputError
            It cannot be read.
        """
        table: Any = MODELS(self._keys(self.place))
        found: LoadedModel = table.loaded()
        return found

    def written(self, folder: Path) -> dict[str, Any]:
        """The keys of [model] for a job file in a folder."""
        if self.kind == "mlflow":
            return self._keys(self.place)
        return self._keys(as_written(self.place, folder))

    def _keys(self, place: str) -> dict[str, Any]:
        if self.kind == "import":
            return {"kind": self.kind, "function": self.place}
        keys: dict[str, Any] = {"kind": self.kind, "path": place}
        if self.kind == "pickle":
            keys |= {"allow_pickle": True, "sha256": self.sha256}
        return keys

    @property
    def names(self) -> Sequence[str] | None:
        """The names of the columns that it was fitted on; None if it does not store them."""
        return feature_names_of(self.loaded)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes as the model names or numbers them; none of a model that is no classifier."""
        known = self.loaded.classes or of_estimator(self.loaded.predict, "classes_")
        return () if known is None else tuple(map(str, known))

    @property
    def width(self) -> int | None:
        """The number of columns that it was fitted on; None if it does not store it."""
        return n_columns_of(self.loaded)

    @property
    def is_of_trees(self) -> bool:
        """Whether it is explained as a tree ensemble, by `dshap.values.Trees`."""
        return is_ensemble(self.loaded.model)

    @property
    def missing(self) -> str:
        """The treatment of missing values to propose."""
        if self.kind in TAKES_NAN:
            return "pass"
        return "refuse"


def kind_of_file(path: str) -> str:
    """The kind of model in a file, by its first bytes and its name.

    Raises
    ------
    InputError
        It is of no known kind.
    """
    with open(path, "rb") as file:
        head = file.read(len(LIGHTGBM))
    if head == LIGHTGBM:
        return "lightgbm"
    end = Path(path).suffix.lower()
    if end in ENDS:
        return ENDS[end]
    if head.startswith(PICKLE):
        return "pickle"
    raise InputError(f"model {path} is of no known kind: {KNOWN}")
