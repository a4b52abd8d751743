from dshap.predictors.expansion import Expansion, ExpansionModel, expansion_model
from dshap.predictors.frames import Frame
from dshap.predictors.linear import LinearModel
from dshap.predictors.named import NamedModel
from dshap.predictors.predict_function import PredictFunction

__all__ = [
    "Expansion",
    "ExpansionModel",
    "Frame",
    "LinearModel",
    "NamedModel",
    "PredictFunction",
    "expansion_model",
]
