"""The boosting rounds that predictions of XGBoost and LightGBM use, after early stopping."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dshap.core.duck_typing import estimator_of, has_member, of_estimator

BEST = "best_iteration"
"""Attribute of an XGBoost booster: the best round of early stopping, counted from 0."""
FOUND = "early_stopping_found"
"""Attribute with the best round of a booster that predicts with all its rounds."""


@dataclass(frozen=True)
class BoostingRounds:
    """The boosting rounds of a model."""

    used: int
    """The number of rounds, from the first on, whose sum its predictions are."""
    fitted: int
    """How many rounds it has."""
    best: int = 0
    """The number of rounds that early stopping found best; 0 if it was not used."""

    @property
    def note(self) -> str:
        """A line for plan and record; empty if all rounds are used and none is better."""
        if self.used < self.fitted:
            return f"explained with {self.used} of {self.fitted} rounds, the best by early stopping"
        if 0 < self.best < self.fitted:
            return (
                f"explained with {self.used} of {self.fitted} rounds, as a booster predicts; early "
                f"stopping found {self.best} the best: booster[:{self.best}].save_model(...) saves "
                "these"
            )
        return ""


def rounds_note(predict: Any) -> str:
    """The note on the rounds of a tree ensemble, given itself or by its predict function.

    It is empty for other models.
    """
    noted = of_estimator(predict, "rounds_note")
    if noted is not None:
        return str(noted)
    model = estimator_of(predict)
    rounds = ROUNDS.get(type(model).__module__.split(".")[0])
    if rounds is None or not has_member(model, "predict"):
        return ""
    return rounds(model).note


def xgboost_rounds(model: Any) -> BoostingRounds:
    """The rounds of a model of XGBoost.

    The scikit-learn classes predict with the best rounds of early stopping, a booster with all.
    """
    is_estimator = has_member(model, "get_booster")
    if is_estimator:
        booster = model.get_booster()
    else:
        booster = model
    fitted = int(booster.num_boosted_rounds())
    given = booster.attr(BEST)
    found = given or booster.attr(FOUND)
    if found is None or of_estimator(model, "booster") == "gblinear":
        return BoostingRounds(fitted, fitted)
    best = int(found) + 1
    if is_estimator and given is not None:
        return BoostingRounds(min(best, fitted), fitted, best)
    return BoostingRounds(fitted, fitted, best)


def use_all_rounds(booster: Any) -> None:
    """Let an XGBoost booster predict with all its rounds, inside of a scikit-learn class too."""
    if found := booster.attr(BEST):
        booster.set_attr(**{BEST: None, FOUND: found})


def lightgbm_rounds(model: Any) -> BoostingRounds:
    """The rounds of a model of LightGBM: the best of early stopping, where there are any."""
    booster = of_estimator(model, "booster_") or model
    fitted = int(booster.current_iteration())
    best = int(booster.best_iteration)
    if 0 < best < fitted:
        return BoostingRounds(best, fitted, best)
    return BoostingRounds(fitted, fitted)


ROUNDS: Mapping[str, Callable[[Any], BoostingRounds]] = {
    "xgboost": xgboost_rounds,
    "lightgbm": lightgbm_rounds,
}
"""Package -> the rounds of its models."""
