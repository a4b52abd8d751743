from dshap.models.adapters.gpytorch import from_gpytorch
from dshap.models.adapters.scikit_learn import from_sklearn
from dshap.models.attribution_bounds import (
    Robustness,
    attribution_bound,
    conditional_amplification,
    rkhs_norm,
    robustness,
)
from dshap.models.expansion import FourierExpansion, KernelExpansion
from dshap.models.expansion_sum import ExpansionSum
from dshap.models.kernel_model import KernelModel
from dshap.models.logistic import KernelLogistic, LogisticStep
from dshap.models.report import Convergence, FitReport, PlayerReport
from dshap.models.ridge import KernelRidge, TunedRidge
from dshap.models.shapley import mean_squared_attribution
from dshap.models.shapley_penalty import ShapleyPenalty

__all__ = [
    "Convergence",
    "ExpansionSum",
    "FitReport",
    "FourierExpansion",
    "KernelExpansion",
    "KernelLogistic",
    "KernelModel",
    "KernelRidge",
    "LogisticStep",
    "PlayerReport",
    "Robustness",
    "ShapleyPenalty",
    "TunedRidge",
    "attribution_bound",
    "conditional_amplification",
    "from_gpytorch",
    "from_sklearn",
    "mean_squared_attribution",
    "rkhs_norm",
    "robustness",
]
