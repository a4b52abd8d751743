"""The outputs of a job's explanations before a row is read, if the model alone determines them."""

from __future__ import annotations

from dshap.core.duck_typing import of_estimator
from dshap.core.scales import PROBABILITY
from dshap.jobfile.schema import ExplainTable
from dshap.models.adapters.model_files import LoadedModel
from dshap.predictors.predict_scale import explained_method, output_names_of
from dshap.values import Trees

BY_CLASS = "predict_proba"
"""The method of an estimator whose outputs are the probabilities of its classes."""


def outputs_of_loaded(
    loaded: LoadedModel, classes: tuple[str, ...] | None, explain: ExplainTable
) -> tuple[str, ...] | None:
    """The outputs of an explanation by a fitted model; None if only rows show them.

    Trees have names of their margins, and classifiers names of their classes.  For any other
    function the outputs are counted in its first predictions.

    Parameters
    ----------
    loaded : the model
    classes : the names that the job gives its classes, if it does
    explain : a table [[explain]] of the job

    Raises
    ------
    InputError
        The model is no tree ensemble, and the explanation is one of trees.
    """
    keys = dict(explain)
    if explain.value == "trees":
        names = classes or loaded.classes
        value = Trees(loaded.model, classes=names, categories=keys.get("categories"))
        return value.link.outputs(value.model.output_names)
    if explain.value != "marginal" or keys.get("link", "identity") != "identity":
        return None
    return classes or _classes_of(loaded)


def _classes_of(loaded: LoadedModel) -> tuple[str, ...] | None:
    """The outputs of a classifier whose probabilities are explained; None for another function."""
    if loaded.classes is not None:
        return loaded.classes
    classes = of_estimator(loaded.predict, "classes_")
    if classes is None or explained_method(loaded.predict) != BY_CLASS:
        return None
    return output_names_of(loaded.predict, len(classes), PROBABILITY)
