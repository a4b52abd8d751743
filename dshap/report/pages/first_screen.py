"""The first screen of a page: five plain sentences; some of them differ by output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dshap.analysis.accuracy import accuracy
from dshap.analysis.rankings import Ranking, features_of
from dshap.core.places import Place
from dshap.core.printing import counted, label, printable
from dshap.core.records import FloatArray
from dshap.core.scales import OF_CLASSES, PROBABILITY, unit_words
from dshap.cube import cube_status, read_run
from dshap.cube.blocks import CubeArrays
from dshap.cube.reader import written_at
from dshap.report.pages.figures import total_of
from dshap.report.pages.page_numbers import joined, percent, short_number
from dshap.report.pages.page_texts import PageTexts, class_of
from dshap.report.pages.probabilities import TRANSFORMS, transform_of

SAID = frozenset(
    {"purpose", "owner", "contact", "audience", "model", "target", "source", "period", "population"}
)
"""The fields of a model's card that the sentences have."""
ROUNDING = 1e-3
"""The largest gap between a prediction and the sum of its parts, as a part of the mean size of the
largest, that is rounding to a reader."""
TEXT = 200
"""The most characters of a text of the user in a sentence."""
MODEL_KINDS: Mapping[str, str] = {
    "xgboost": "boosted trees of XGBoost",
    "lightgbm": "boosted trees of LightGBM",
    "catboost": "boosted trees of CatBoost",
    "sklearn": "an estimator of scikit-learn",
    "scikit-learn": "an estimator of scikit-learn",
    "skops": "an estimator of scikit-learn",
    "onnx": "a model in a file of ONNX",
    "kernel_ridge": "a kernel ridge regression",
    "kernel_logistic": "a kernel logistic regression",
    "import": "a Python function",
    "pickle": "an estimator of scikit-learn",
}
"""Library or kind of a job's model -> words."""
MODELS_OF_VALUES: Mapping[str, str] = {
    "trees": "an ensemble of decision trees",
    "linear_gaussian": "a linear model",
    "kernel_interventional": "a kernel model",
    "kernel_observational": "a kernel model",
    "tokens": "a model of texts",
}
"""Value function -> the models that it explains, in words."""
OTHER_ROWS = "filled in from other rows, whatever the values of the other columns"
LIKE_ROWS = (
    "averaged over rows that are alike in the remaining columns, so that correlated columns share "
    "their influence"
)
BY_BRANCHES = "averaged over the branches of the trees, in the proportions of the training rows"
ABSENT: Mapping[str, str] = {
    "marginal": OTHER_ROWS,
    "kernel_interventional": OTHER_ROWS,
    "interventional": OTHER_ROWS,
    "path-dependent": BY_BRANCHES,
    "kernel_observational": LIKE_ROWS,
    "conditional_regression": LIKE_ROWS,
    "gaussian": LIKE_ROWS,
    "copula": LIKE_ROWS,
    "observational": LIKE_ROWS,
    "tokens": "replaced by a reference word",
}
"""Value function, or its kind -> how a value was replaced that was treated as unknown."""


@dataclass(frozen=True)
class FirstScreen:
    """The five sentences; `drives` and `sure` have one for each output."""

    what: str
    """The sentence about what was explained: model, prediction, rows, source and period."""
    whom: str
    """The sentence about the owner of the model and its users."""
    drives: tuple[str, ...]
    """For each output: its predictions, and what moves them."""
    sure: tuple[str, ...]
    """For each output: how sure the shares are."""
    limits: str
    """The sentence about the limits of these numbers."""


def first_screen(
    cubes: Mapping[str, Place],
    card: Mapping[str, str],
    about: Mapping[str, str],
    outputs: Sequence[tuple[str, Sequence[Ranking]]],
    predictions: Sequence[str],
    texts: PageTexts,
) -> FirstScreen:
    """Write the sentences of the first screen.

    Parameters
    ----------
    cubes : explanation -> path of its cube
    card : field of the model's card -> text
    about : facts about the run, heading -> text
    outputs : each output of the page, with the rankings of the explanations that have it
    predictions : for each of them, its predictions in words (`prediction_words`)
    texts : the names of the features
    """
    first = next(iter(cubes.values()))
    said = {name: label(text, TEXT) for name, text in card.items()}
    return FirstScreen(
        _what(first, said, about, [output for output, _ in outputs]),
        _whom(said),
        tuple(
            f"{words}{_drives(given[0], texts)}"
            for words, (_, given) in zip(predictions, outputs, strict=True)
        ),
        tuple(_sure(cubes, given, texts) for _, given in outputs),
        _limits(cubes),
    )


def _what(
    path: Place, card: Mapping[str, str], about: Mapping[str, str], outputs: Sequence[str]
) -> str:
    arrays = CubeArrays(path)
    status = cube_status(path)
    rows = f"all {counted(status.n_rows, 'row')}"
    if status.ok < status.n_rows:
        rows = f"{status.ok:,} of {counted(status.n_rows, 'row')}"
    source = card.get("source") or label(about.get("table", ""), TEXT)
    said = f"The model, {_model(path, card, about)}, predicts {_target(arrays, card, outputs)}; "
    said += f"this page explains its predictions for {rows}"
    said += f" of {source}" * bool(source)
    said += _after(" (", card.get("population"), ")")
    return f"{said}, {_period(path, card, about)}."


def _model(path: Place, card: Mapping[str, str], about: Mapping[str, str]) -> str:
    if "model" in card:
        return card["model"]
    known = about.get("model kind", "")
    if known:
        return MODEL_KINDS.get(known, label(known))
    return MODELS_OF_VALUES.get(_value_of(path).get("value", ""), "a Python function")


def _value_of(path: Place) -> Mapping[str, Any]:
    """The fingerprint of the value function of a cube."""
    identity: Mapping[str, Any] = (read_run(path) or {}).get("fingerprint", {})
    value: Mapping[str, Any] = identity.get("value", {})
    return value


def _target(arrays: CubeArrays, card: Mapping[str, str], outputs: Sequence[str]) -> str:
    is_of_classes = arrays.scale in (*OF_CLASSES, PROBABILITY)
    names = joined([f"“{class_of(each)}”" for each in outputs])
    if "target" in card:
        if is_of_classes and len(outputs) > 1:
            return f"{card['target']}: {names}"
        return card["target"]
    if not is_of_classes:
        return names
    nouns = ("probability", "probabilities")
    if not transform_of(arrays):
        nouns = ("score", "scores")
    return f"the {nouns[len(outputs) > 1]} of {names}"


def _period(path: Place, card: Mapping[str, str], about: Mapping[str, str]) -> str:
    """The day or the time that the predictions are of."""
    if "period" in card:
        return f"for {card['period']}"
    if about.get("day"):
        return f"for {about['day']}"
    moment = written_at(path)
    if moment is None:
        return "at a time that is not recorded"
    return f"computed on {moment:%Y-%m-%d}"


def _whom(card: Mapping[str, str]) -> str:
    """A sentence about the owner and the users of the model; its purpose is in the title."""
    owner = card.get("owner", "")
    made = "The model has no named owner"
    if owner:
        made = f"The model's owner is {owner}{_after(' (', card.get('contact'), ')')}"
    audience = _after(", and it is for ", card.get("audience"))
    return f"{made}{audience}."


def _after(before: str, text: str | None, behind: str = "") -> str:
    """The text with `before` and `behind` around it; empty without a text."""
    if not text:
        return ""
    return f"{before}{text}{behind}"


def prediction_words(arrays: CubeArrays, place: int, sample: FloatArray, units: str) -> str:
    """The mean of the predictions (s, k) of one output, and the range of half of them, in words."""
    if not len(sample):
        return ""
    name = transform_of(arrays)
    if name:
        values = TRANSFORMS[name](sample)[:, place]
        mean, low, high = (percent(each) for each in (values.mean(), *_middle(values)))
        of = f" of “{class_of(arrays.outputs[place])}”"
        return f"The mean predicted probability{of} is {mean}, and half of the rows have {low} to {high}; "
    values = sample[:, place]
    words = unit_words(units, arrays.scale)
    mean, low, high = (short_number(each) for each in (values.mean(), *_middle(values)))
    unit = f" {label(words)}" * bool(words)
    return f"The mean prediction is {mean}{unit}, and half of the rows have {low} to {high}; "


def _middle(values: FloatArray) -> tuple[float, float]:
    low, high = np.quantile(values, [0.25, 0.75]).tolist()
    return low, high


def _drives(ranking: Ranking, texts: PageTexts) -> str:
    """The features that move predictions most, with their share of all movement."""
    names = features_of([ranking])[:3]
    total = total_of(ranking)
    share = sum(ranking.magnitude[name] for name in names) / total
    if not sum(ranking.magnitude.values()):
        return "no column moves predictions."
    if len(names) == 1:
        return f"{texts.quoted(names[0])} alone moves predictions."
    said = joined([texts.quoted(name) for name in names])
    return f"{said} move predictions most: together {percent(share)} of all movement."


def _sure(cubes: Mapping[str, Place], given: Sequence[Ranking], texts: PageTexts) -> str:
    """The errors of the shares, and their limits."""
    ranking = given[0]
    model = "this page does not show how often the model is right."
    largest = features_of([ranking])[0]
    half = ranking.half_width(largest) / total_of(ranking)
    reach = f"the share of {texts.quoted(largest)} is within ± {percent(half, 1)} of all movement"
    if not ranking.has_errors:
        said = f"The shares are exact for these rows{_additivity(cubes, ranking, largest)}"
        if ranking.has_intervals:
            said += f"; for other rows like these, {reach} in 19 of 20 cases"
        return f"{said}; {model}"
    if not np.isfinite(half):
        return f"The shares are estimates of unknown error; {model}"
    return f"The shares are estimates: {reach} in 19 of 20 cases; {model}"


def _additivity(cubes: Mapping[str, Place], ranking: Ranking, largest: str) -> str:
    """Words for parts that add up to each prediction; empty if they do not, or it is not known."""
    gap = accuracy({"": next(iter(cubes.values()))})[""]["residual"]
    if not gap or max(gap) > ROUNDING * ranking.magnitude[largest]:
        return ""
    return ", and the attributions of every row add up to its prediction"


def _limits(cubes: Mapping[str, Place]) -> str:
    return (
        "These numbers show how the model uses its columns, not what causes the outcome, and not "
        "whether the model is fair.  To measure a column, its value was treated as unknown and "
        f"{'; or '.join(_absences(cubes))}."
    )


def _absences(cubes: Mapping[str, Place]) -> Iterator[str]:
    """Yield in words how explanations replace unknown values, each kind once."""
    found: dict[str, list[str]] = {}
    for name, path in cubes.items():
        value = _value_of(path)
        keys = (value.get("absent"), value.get("kind"), value.get("value"))
        known = [ABSENT[key] for key in keys if isinstance(key, str) and key in ABSENT]
        meaning = next(iter(known), "replaced by the rule of its value function")
        if value.get("value") == "trees" and value.get("absent") != "path-dependent":
            meaning = OTHER_ROWS
        found.setdefault(meaning, []).append(label(name))
    for meaning, names in found.items():
        yield f"{meaning}{f' ({printable(joined(names))})' * (len(found) > 1)}"
