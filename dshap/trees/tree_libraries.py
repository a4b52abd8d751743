"""XGBoost and LightGBM for `Trees`: their own margins and predictions, categories, parsed trees."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np

from dshap.core.duck_typing import of_estimator
from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.core.scales import LOG_ODDS, TARGET
from dshap.predictors.frames import Frame
from dshap.predictors.tree_rounds import BoostingRounds, lightgbm_rounds, xgboost_rounds
from dshap.trees.ensemble import TreeEnsemble
from dshap.trees.lightgbm_trees import lightgbm_ensemble
from dshap.trees.tree_categories import kept_categories
from dshap.trees.tree_scale import own_predictions
from dshap.trees.xgboost_trees import xgboost_ensemble

Categories = Mapping[int, tuple[Any, ...]]
"""Column -> its categories, in the order of their codes."""
OF_OBJECTIVES: Mapping[str, str] = {"binary:logitraw": LOG_ODDS}
"""Objective of XGBoost that predicts its margins -> their scale; else the unit of the target."""
SHOWN = 3
"""The most categories that a message names."""


class Library(Protocol):
    """The protocol of a fitted tree ensemble of one library.

    Rows are float64; categories are codes, NaN if missing.
    """

    n_columns: int
    names: tuple[str, ...] | None
    digest: str
    takes_unseen: bool
    """Whether unseen categories count as missing; if not, the library refuses them."""
    factor: float
    """Factor from the library's own sums of leaves to margins, usually 1."""
    rounds: BoostingRounds
    """The boosting rounds that are explained."""
    missing: float
    """The number that means missing, as NaN does; NaN if there is none."""
    scale_of_margins: str
    """The scale of predictions that are the margins themselves."""

    def coded(self, given: Categories) -> Categories:
        """The columns with codes, with their categories; `given` are the user's lists.

        Raises
        ------
        InputError
            Lists that are missing, or that differ from those that the library stored.
        """
        ...

    def with_threads(self, n_threads: int) -> Self:
        """A copy that uses `n_threads` threads."""
        ...

    def parsed(self) -> TreeEnsemble:
        """The trees that add up to the margins.

        Raises
        ------
        InputError
            Trees that are not read.
        """
        ...

    def predict(self, rows: FloatArray) -> Any:
        """The margins as the library adds them up: (n,) or (n, k)."""
        ...

    def own(self, rows: FloatArray, categories: Categories) -> Any:
        """The model's own predictions, on the user's scale: (n,) or (n, k')."""
        ...


class XGBoostTrees:
    """A booster of XGBoost, with the rounds that its scikit-learn class predicts with."""

    takes_unseen = False
    factor = 1.0

    def __init__(self, model: Any) -> None:
        if hasattr(model, "get_booster"):
            booster = model.get_booster()
        else:
            booster = model
        _refuse_linear(model, booster)
        if booster is model:
            self.estimator = None
        else:
            self.estimator = model
        self.rounds = xgboost_rounds(model)
        self.scale_of_margins = OF_OBJECTIVES.get(_objective_of(booster), TARGET)
        self.missing = _missing_of(self.estimator)
        if booster.feature_names is None:
            self.names = None
        else:
            self.names = tuple(booster.feature_names)
        self.n_columns = int(booster.num_features())
        held = bytes(booster.save_raw("json"))
        # `missing` is an option of the estimator and not in its booster: another one gives other
        # predictions
        if math.isnan(self.missing):
            self.digest = digest_of_bytes(held)
        else:
            self.digest = digest_of_bytes(held + f"missing={self.missing!r}".encode())
        self.booster = _with_threads(booster, 1)
        self.n_threads = 1

    def __getstate__(self) -> dict[str, Any]:
        """The state without the estimator around the booster, which may not be picklable.

        Workers do not need it.
        """
        return {**self.__dict__, "estimator": None}

    def coded(self, given: Categories) -> Categories:
        types = self.booster.feature_types or ()
        marked = [j for j, kind in enumerate(types) if kind == "c"]
        if self.names is None and not given:  # fitted on arrays, which hold codes already
            return {}
        if marked:
            kept = kept_categories(self.booster)
        else:
            kept = {}
        refuse_other_lists(
            {j: kept[j] for j in given if j in kept},
            {j: given[j] for j in given if j in kept},
            self.names,
        )
        if strange := [j for j in given if j not in marked]:
            raise InputError(
                f"categories names {called(self.names, strange[0])}, a column of numbers: leave "
                "it out"
            )
        if unknown := [j for j in marked if j not in kept and j not in given]:
            name = called(self.names, unknown[0])
            raise InputError(
                f"XGBoost did not keep the categories of {name} (it does from version 3.1 on, of "
                "data frames): give "
                f"categories={{{name}: [...]}}, all of them in the order of their codes, as in the "
                "frame of the fit"
            )
        return {j: kept.get(j, given.get(j, ())) for j in marked}

    def with_threads(self, n_threads: int) -> Self:
        if n_threads == self.n_threads:
            return self
        other = copy.copy(self)
        other.booster = _with_threads(self.booster, n_threads)
        other.n_threads = n_threads
        return other

    def _asked(self, rows: FloatArray, **what: bool) -> FloatArray:
        import xgboost

        matrix = xgboost.DMatrix(
            rows,
            missing=self.missing,
            feature_names=None if self.names is None else list(self.names),
            feature_types=self.booster.feature_types,
            enable_categorical=True,
            nthread=self.n_threads,
        )
        # the range is given, as a booster alone predicts with the rounds after an early stop, too
        used = (0, self.rounds.used)
        return np.asarray(
            self.booster.predict(matrix, iteration_range=used, **what), dtype=np.float64
        )

    def parsed(self) -> TreeEnsemble:
        return xgboost_ensemble(self.booster, self.rounds.used, self.missing)

    def predict(self, rows: FloatArray) -> FloatArray:
        return self._asked(rows, output_margin=True)

    def own(self, rows: FloatArray, categories: Categories) -> Any:
        if self.estimator is None:
            return self._asked(rows)
        return own_predictions(self.estimator, table_of(rows, self.names, categories))


class LightGBMTrees:
    """A booster of LightGBM, which applies its best iteration itself."""

    takes_unseen = True
    missing = math.nan
    scale_of_margins = TARGET

    def __init__(self, model: Any) -> None:
        self.booster = getattr(model, "booster_", model)
        self.n_threads = 1
        if self.booster is model:
            self.estimator = None
        else:
            self.estimator = model
        names = tuple(self.booster.feature_name())
        text = self.booster.model_to_string()
        self.n_columns = len(names)
        self._lists = [
            tuple(map(_plain, kept))
            for kept in getattr(self.booster, "pandas_categorical", None) or ()
        ]
        self._marked = _marked_by_lightgbm(text)
        self._ranges = _ranges_of_lightgbm(text)
        is_numbered = all(name == f"Column_{j}" for j, name in enumerate(names))
        if is_numbered and not self._lists:
            self.names = None
        else:
            self.names = names
        self.rounds = lightgbm_rounds(model)
        self.digest = digest_of_bytes(text.encode())
        self.factor = _factor_of_lightgbm(self.rounds, text)

    def __getstate__(self) -> dict[str, Any]:
        """The state without the estimator around the booster, which may not be picklable.

        Workers do not need it.
        """
        return {**self.__dict__, "estimator": None}

    def coded(self, given: Categories) -> Categories:
        lists = self._lists
        if given and not lists:
            raise InputError(
                "categories are lists of pandas categories, and the model was fitted without any: leave "
                "categories out"
            )
        # fitted on numbers: columns split by sets of codes hold codes in the rows too
        if not lists:
            return {}
        if given:
            columns = sorted(given)
        else:
            columns = self._marked
        refuse_other_lists(dict(zip(columns, lists, strict=False)), given, self.names)
        if len(columns) != len(lists) or not all(map(self._may_hold_codes, columns, lists)):
            heads = "; ".join(map(_head, lists))
            raise InputError(
                f"LightGBM keeps the categories of {len(lists)} columns ({heads}) but not the "
                "names of these columns, if some categories are ordered or columns were named as "
                "categorical: give categories={'column': [...]} for all of these columns, in "
                "the order of the codes"
            )
        return dict(zip(columns, lists, strict=True))

    def _may_hold_codes(self, column: int, categories: tuple[Any, ...]) -> bool:
        """Whether the column's training values were codes of a list: −1 (missing) to its end."""
        least, largest = self._ranges.get(column, (0.0, 0.0))
        return least >= -1.0 and largest < len(categories)

    def with_threads(self, n_threads: int) -> Self:
        other = copy.copy(self)
        other.n_threads = n_threads
        return other

    def _asked(self, rows: FloatArray, **what: bool) -> FloatArray:
        return np.asarray(
            self.booster.predict(rows, num_threads=self.n_threads, **what), dtype=np.float64
        )

    def parsed(self) -> TreeEnsemble:
        return lightgbm_ensemble(self.booster, self.rounds.used, self.factor)

    def predict(self, rows: FloatArray) -> FloatArray:
        return self.factor * self._asked(rows, raw_score=True)

    def own(self, rows: FloatArray, categories: Categories) -> Any:
        if self.estimator is None:
            return self._asked(rows)
        return own_predictions(self.estimator, table_of(rows, self.names, categories))


def digest_of_bytes(content: bytes) -> str:
    """The digest of a model's bytes, in hexadecimal."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def table_of(rows: FloatArray, names: Sequence[str] | None, categories: Categories) -> Any:
    """Rows (n, columns) in the form that an estimator was fitted on.

    A data frame if its columns have names.
    """
    if names is None:
        return rows
    return Frame.of_names(tuple(names), {names[j]: kept for j, kept in categories.items()}).rebuilt(
        rows
    )


def _refuse_linear(model: Any, booster: Any) -> None:
    """Raise InputError for an XGBoost booster that is linear and has no trees."""
    kind = json.loads(booster.save_config())["learner"]["gradient_booster"]["name"]
    if kind == "gblinear":
        raise InputError(
            f"{type(model).__name__} with booster = 'gblinear' is a linear model and has no trees: "
            "use "
            "Marginal(model.predict, background)"
        )


def _objective_of(booster: Any) -> str:
    """The name of the objective of an XGBoost booster, such as "binary:logistic"."""
    name: str = json.loads(booster.save_config())["learner"]["objective"]["name"]
    return name


def _missing_of(estimator: Any) -> float:
    """`missing` of XGBoost's scikit-learn classes, which is not part of their booster."""
    given = of_estimator(estimator, "missing")
    if given is None:
        return math.nan
    return float(given)


def _factor_of_lightgbm(rounds: BoostingRounds, text: str) -> float:
    """The factor from sums of leaves to margins.

    Random forests predict the mean of their trees, not the sum, and log-odds are the sums times the
    objective's `sigmoid`.
    """
    factor = 1.0
    if re.search(r"^average_output$", text, re.M):
        factor /= rounds.used
    if sigmoid := re.search(r"^objective=(?:binary|multiclassova)\b.*\bsigmoid:(\S+)", text, re.M):
        factor *= float(sigmoid[1])
    return factor


def _with_threads(booster: Any, n_threads: int) -> Any:
    """A copy of an XGBoost booster with this number of threads."""
    copied = booster.copy()
    copied.set_param({"nthread": n_threads})
    return copied


def _marked_by_lightgbm(text: str) -> list[int]:
    """Columns that are split by sets of codes.

    By default these are all unordered pandas categories.
    """
    found = re.search(r"^\[categorical_feature: ([\d,]+)\]$", text, re.M)
    if found:
        return sorted(map(int, found[1].split(",")))
    return []


def _ranges_of_lightgbm(text: str) -> dict[int, tuple[float, float]]:
    """Column -> its smallest and largest training value; constant columns are left out."""
    found = re.search(r"^feature_infos=(.*)$", text, re.M)
    values = {
        j: list(map(float, info.strip("[]").split(":")))
        for j, info in enumerate(found[1].split(" ") if found else ())
        if info != "none"
    }
    return {j: (min(held), max(held)) for j, held in values.items()}


def refuse_other_lists(kept: Categories, given: Categories, names: Sequence[str] | None) -> None:
    """Raise InputError if a given list differs from the one that the model stores."""
    for j, listed in given.items():
        if kept.get(j) != listed:
            if j in kept:
                known = f"the model keeps {_head(kept[j])}"
            else:
                known = "the model keeps fewer lists"
            raise InputError(
                f"categories of {called(names, j)} are {_head(listed)}, and {known}: give those"
            )


def _head(categories: tuple[Any, ...]) -> str:
    """The first categories of a list in a message, such as ['low', 'mid', 'high']."""
    shown = ", ".join(map(repr, categories[:SHOWN]))
    return f"[{shown}{', …' if len(categories) > SHOWN else ''}]"


def called(names: Sequence[str] | None, j: int) -> str:
    """The name of a column in messages."""
    return repr(names[j] if names is not None else f"x{j}")


def _plain(value: Any) -> Any:
    """A numpy scalar as a Python value; other values unchanged."""
    if isinstance(value, np.generic):
        return value.item()
    return value
