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
)
from dshap.attributors.base import BaseAttributor as Attributor
from dshap.attributors.linear import linear_transform
from dshap.core.errors import DshapError
from dshap.core.images import image_players, image_rows
from dshap.designs.coalitions import BaseDesign as Design
from dshap.report.shap_values import to_shap
from dshap.run.prepared_states import open_prepared
from dshap.run.table_drift import mmd_drift
from dshap.shap_compat import Explainer
from dshap.sinks.frames import to_frame
from dshap.values.base import PredictedValue as ValueFunction

__version__: str
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
