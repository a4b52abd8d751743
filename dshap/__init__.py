"""dshap: Shapley values for models on tables that outgrow one machine.

attribution (n, d, k) = finish( sum over coalition tiles of  values (n, m, k) x score (m, d) )
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dshap.core.errors import DshapError

if TYPE_CHECKING:
    from dshap import designs, engine, kernels, models, report, sources, values
    from dshap.analysis.difference.cube_comparison import diff
    from dshap.api import (
        choose_background,
        explain,
        fit,
        fit_path,
        mse_v,
        open_cube,
        prepare,
        to_frame,
        to_shap,
    )
    from dshap.attributors.base import BaseAttributor as Attributor
    from dshap.attributors.linear import linear_transform
    from dshap.core.images import image_players, image_rows
    from dshap.designs.coalitions import BaseDesign as Design
    from dshap.run.prepared_states import open_prepared
    from dshap.run.table_drift import mmd_drift
    from dshap.shap_compat import Explainer
    from dshap.values.base import PredictedValue as ValueFunction

__version__ = "0.3.0"
__all__ = [
    "Attributor",
    "Design",
    "DshapError",
    "Explainer",
    "ValueFunction",
    "choose_background",
    "designs",
    "diff",
    "engine",
    "explain",
    "fit",
    "fit_path",
    "image_players",
    "image_rows",
    "kernels",
    "linear_transform",
    "mmd_drift",
    "models",
    "mse_v",
    "open_cube",
    "open_prepared",
    "prepare",
    "report",
    "sources",
    "to_frame",
    "to_shap",
    "values",
]

_HOMES = {
    "Attributor": "dshap.attributors.base:BaseAttributor",
    "Design": "dshap.designs.coalitions:BaseDesign",
    "Explainer": "dshap.shap_compat",
    "choose_background": "dshap.api",
    "diff": "dshap.analysis.difference.cube_comparison",
    "explain": "dshap.api",
    "fit": "dshap.api",
    "fit_path": "dshap.api",
    "image_players": "dshap.core.images",
    "image_rows": "dshap.core.images",
    "linear_transform": "dshap.attributors.linear",
    "mmd_drift": "dshap.run.table_drift",
    "mse_v": "dshap.api",
    "open_cube": "dshap.api",
    "open_prepared": "dshap.run.prepared_states",
    "prepare": "dshap.api",
    "to_frame": "dshap.api",
    "to_shap": "dshap.api",
    "ValueFunction": "dshap.values.base:PredictedValue",
}
"""Public name -> its module, with ":name" where it has another name there."""
_OF_SHAP = {
    "TreeExplainer": ": dshap.Explainer(ensemble)(X)",
    **dict.fromkeys(
        ("ExactExplainer", "KernelExplainer", "PermutationExplainer", "SamplingExplainer"),
        ": dshap.Explainer(model.predict, X[:100])(X)",
    ),
    "LinearExplainer": ": dshap.values.LinearGaussian(coef, intercept, data=X)",
    "plots": ": shap.plots draw what dshap.Explainer gives",
}
"""Name in the shap package -> the replacement, for the message of an unknown name."""
_FOLDERS = ("designs", "engine", "kernels", "models", "report", "sources", "values")


def __getattr__(name: str) -> Any:
    """Import parts when they are first used, so that the command line answers at once."""
    if name in _FOLDERS:
        return importlib.import_module(f"dshap.{name}")
    if name in _HOMES:
        module, _, inner = _HOMES[name].partition(":")
        return getattr(importlib.import_module(module), inner or name)
    raise AttributeError(f"module 'dshap' has no attribute {name!r}{_OF_SHAP.get(name, '')}")


def __dir__() -> list[str]:
    return sorted(__all__)
