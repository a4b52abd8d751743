"""Facts of a run for the record of its loads: model, libraries and checks."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from dshap import __version__
from dshap.sinks import LoadAbout
from dshap.steps.under_way import RunUnderWay

LIBRARIES = {
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "onnx": "onnxruntime",
    "skops": "scikit-learn",
    "pickle": "scikit-learn",
}
"""Kind of model -> the distribution whose version its predictions depend on."""


def about_load(run: RunUnderWay) -> LoadAbout:
    """The facts of a run that its loads state."""
    model = run.job.model
    named = dict(model)
    place = named.get("function") or named.get("path") or ""
    checks = [f"{each.name}: {each.status}" for each in run.facts.checks]
    return LoadAbout(f"{model.kind} {place}".strip(), _library(model.kind), "; ".join(checks))


def _library(kind: str) -> str:
    """The versions of dshap and of the library of a kind of model, as far as it is installed."""
    words = [f"dshap {__version__}"]
    if name := LIBRARIES.get(kind):
        try:
            words.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            words.append(name)
    return ", ".join(words)
