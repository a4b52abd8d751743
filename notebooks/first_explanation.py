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
# # A first explanation
#
# You have a model and a data frame, and three questions. Which columns matter? What does one of them do? Why does this
# row have this prediction? Here the model is XGBoost, and the table has all hours of two years of bike rentals.

# %%
from pathlib import Path

import pandas as pd
import xgboost

import dshap

ROOT = next(
    folder
    for folder in [Path.cwd(), *Path.cwd().parents]
    if (folder / "workflows" / "data").is_dir()
)
COLUMNS = ["yr", "mnth", "hr", "workingday", "weathersit", "temp", "hum", "windspeed"]
hours = pd.read_parquet(ROOT / "workflows" / "data" / "bike_hour.parquet")
hours[["instant", "dteday", *COLUMNS, "count"]].head()

# %%
model = xgboost.XGBRegressor(n_estimators=60, max_depth=4)
is_held_out = hours.index % 10 == 0
fit_on = hours[~is_held_out]
model.fit(fit_on[COLUMNS], fit_on["count"])
r2 = model.score(hours.loc[is_held_out, COLUMNS], hours.loc[is_held_out, "count"])
print(f"held-out R² {r2:.3f}")

# %% [markdown]
# **Three lines.** The Shapley values of a row divide the difference between its prediction and the mean prediction
# among the columns. `Trees` computes them in closed form for all 17,379 hours. The column `instant`, the number of the
# hour, is the key of the rows.

# %%
value = dshap.values.Trees(model)
cube = dshap.explain(value, hours, key="instant", units="rentals per hour")
axes = dshap.report.beeswarm(cube)

# %% [markdown]
# The picture has a line for each column; the column that matters most is on top. Points to the right of 0 raise the
# rentals of an hour, and red points have a high value of the column. The hour of the day matters most, but rentals do
# not simply rise or fall with it. Warm hours have more rentals, humid hours fewer, and 2012 (`yr` = 1) has more than
# 2011.
#
# The cube contains attributions, predictions and the explained columns. Its pictures are methods of `cube.dshap`.

# %%
cube.dshap

# %% [markdown]
# **One column**: the effect of `hr` for each hour of the day. The line is the mean attribution. The colour shows the
# column that explains most of the differences within an hour, here `workingday`. Commuters ride at 8 and at 17 to 18
# o'clock on working days; on free days people ride at noon.

# %%
cube.dshap.dependence("hr")

# %% [markdown]
# **Two groups** compared: mean |attribution| on free days and on working days.

# %%
cube.dshap.bar(by="workingday")

# %% [markdown]
# **One row**, selected by its key: the busiest hour. The picture leads from the mean prediction at the bottom to the
# prediction of this hour at the top.

# %%
busiest = int(hours["instant"][hours["count"].idxmax()])
cube.dshap.waterfall(busiest)

# %%
row = cube.isel(instance=int((cube["instant"] == busiest).argmax("instance")), output=0)
total = float(row["attribution"].sum() + cube["base_value"][0])
assert abs(total - float(row["prediction"])) < 1e-2
print(f"base value + attributions {total:.1f}, prediction {float(row['prediction']):.1f}")

# %% [markdown]
# **As a table.** `to_frame("top_k", k=2)` has the two columns that matter most for each hour; `"wide"` has one line
# for each row. `cube.dshap.to_shap()` returns a `shap.Explanation`.

# %%
cube.dshap.to_frame("top_k", k=2).head(4)[["instant", "rank", "feature", "value", "attribution"]]

# %% [markdown]
# Next: `store="attributions.zarr"` stores the cube on disk and makes a run resumable, and `client=` runs on a Dask
# cluster. The attributions of correlated columns depend on how an absent column is defined: see the notebook
# `correlated_columns`.
