"""Predictors of functions, tree ensembles, linear models and expansions, with names and checks."""

from dshap.predictors.expansion import Expansion, ExpansionModel, expansion_model
from dshap.predictors.frames import Frame
from dshap.predictors.linear import LinearModel
from dshap.predictors.named import NamedModel
from dshap.predictors.predict_function import PredictFunction
from dshap.predictors.tree_model import TreeModel

__all__ = [
    "Expansion",
    "ExpansionModel",
    "Frame",
    "LinearModel",
    "NamedModel",
    "PredictFunction",
    "TreeModel",
    "expansion_model",
]
