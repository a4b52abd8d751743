# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Gallery
#
# Every picture with the code that draws it. All take a cube, that of `dshap.explain` or of `dshap.open_cube`, or the
# path of a store; they draw into axes of your own with `ax=`, and return them. What each shows, and from which numbers:
# [Pictures](../docs/pictures.md).
#
# The model is a kernel ridge of the bikes that are hired in an hour; all 17,379 hours are explained.

# %%
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import xgboost

import dshap

ROOT = next(
    folder
    for folder in [Path.cwd(), *Path.cwd().parents]
    if (folder / "workflows" / "data").is_dir()
)
NAMES = {"yr": "year", "hr": "hour", "workingday": "working day", "weathersit": "weather",
         "temp": "temperature", "hum": "humidity", "windspeed": "wind"}  # fmt: skip
hours = pd.read_parquet(ROOT / "workflows" / "data" / "bike_hour.parquet").rename(columns=NAMES)
X = hours[[*NAMES.values()]]
kernel = dshap.kernels.RBF([3.0, 1.7, 0.8, 4.0, 0.8, 1.5, 2.0])
model = dshap.models.KernelRidge(kernel, dshap.kernels.Nystrom(150), penalty=1e-5)
model.fit(X, hours["count"])

value = dshap.values.KernelInterventional(model, X)
cube = dshap.explain(value, X, units="bikes an hour")

# %% [markdown]
# ## Every feature: `beeswarm`

# %%
axes = dshap.report.beeswarm(cube)

# %% [markdown]
# ## Mean |attribution|: `bar`

# %%
axes = dshap.report.bar(cube)

# %% [markdown]
# ## One feature against its column: `dependence`
#
# The second column, by colour, is found: the one by which attributions differ most at the same hour.

# %%
axes = dshap.report.dependence(cube, "hour")

# %% [markdown]
# ## One row: `waterfall` and `force`

# %%
axes = dshap.report.waterfall(cube, 8_000)

# %%
axes = dshap.report.force(cube, 8_000)

# %% [markdown]
# ## Segments of the rows: `bar(by=)` and `heatmap`

# %%
axes = dshap.report.bar(cube, by="working day")

# %%
axes = dshap.report.heatmap(cube, "hour:12")

# %% [markdown]
# ## Two explanations: `compare`
#
# What the model does with its inputs, above; what the data say about its predictions, below.

# %%
observational = dshap.values.KernelObservational(model, X, dshap.kernels.Nystrom(100))
by_data = dshap.explain(observational, X, units="bikes an hour")
axes = dshap.report.compare({"interventional": cube, "observational": by_data})

# %% [markdown]
# ## The nights of a job: `over_runs`
#
# A job explains the hours so far, trees of XGBoost this time; as winter turns to summer and winter again, other
# features matter.

# %%
folder = Path(tempfile.mkdtemp())
xgboost.XGBRegressor(n_estimators=50).fit(X, hours["count"]).save_model(folder / "bikes.json")
(folder / "bikes.toml").write_text(
    """
    [job]
    name = "bikes"
    store = "store"
    [source]
    kind = "parquet"
    path = "hours.parquet"
    key = "hour number"
    [model]
    kind = "xgboost"
    path = "bikes.json"
    [[explain]]
    name = "trees"
    value = "trees"
    [incremental]
    strategy = "digest"
    [run]
    units = "bikes an hour"
    """
)
numbered = X.assign(**{"hour number": range(len(X))})
for n_hours in (1_500, 4_500, 7_500, 12_000, 17_379):
    numbered[:n_hours].to_parquet(folder / "hours.parquet")
    subprocess.run([sys.executable, "-m", "dshap", "run", folder / "bikes.toml", "-q"], check=True)
axes = dshap.report.over_runs(folder / "store")

# %% [markdown]
# ## Pairs of features: `interactions`

# %%
some = X.sample(1_000, random_state=0)
pairs = dshap.explain(value, some, design="exact", interactions=True, units="bikes an hour")
axes = dshap.report.interactions(pairs)
