"""Kernel machines: fitted as sums over rows, reduced to one form."""

from dshap.models.adapters import from_sklearn
from dshap.models.expansion import FourierExpansion, KernelExpansion
from dshap.models.expansion_sum import ExpansionSum
from dshap.models.gpytorch import from_gpytorch
from dshap.models.kernel_model import KernelModel
from dshap.models.logistic import KernelLogistic, LogisticStep
from dshap.models.report import Convergence, FitReport
from dshap.models.ridge import KernelRidge, TunedRidge

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
    "TunedRidge",
    "from_gpytorch",
    "from_sklearn",
]
