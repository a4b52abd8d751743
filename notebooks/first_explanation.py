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
# A model of one's own on a data frame, and three questions. Which columns matter? What does one of them do? Why this
# prediction, for this row? The model here is XGBoost; the table holds every hour of two years of bike rentals.

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
# **Three lines.** Shapley values share the distance between a prediction and the mean prediction among the columns.
# `Trees` computes them in closed form, for all 17,379 hours; `instant`, the number of the hour, is the key of its row.

# %%
value = dshap.values.Trees(model)
cube = dshap.explain(value, hours, key="instant", units="rentals per hour")
axes = dshap.report.beeswarm(cube)

# %% [markdown]
# A line for each column, the one that matters most on top: to the right what raises the rentals of an hour, red where
# the column is high. The hour of the day is first, and no simple slope; warm hours have more rentals, humid ones fewer,
# and 2012 (`yr` = 1) more than 2011.
#
# The cube holds all of it: attributions, predictions, the columns. Pictures are methods of it.

# %%
cube.dshap

# %% [markdown]
# **One column**: what `hr` does, hour by hour. The line is the mean attribution; the colour is the column by which it
# differs most at the same hour. Commuters ride at 8 and at 17 to 18 o'clock, on working days; on free days people ride
# at noon.

# %%
cube.dshap.dependence("hr")

# %% [markdown]
# **Two groups**, side by side: mean |attribution| on free days and on working days.

# %%
cube.dshap.bar(by="workingday")

# %% [markdown]
# **One row**, the busiest hour, by its key: from the mean prediction at the bottom to its own at the top.

# %%
busiest = int(hours["instant"][hours["count"].idxmax()])
cube.dshap.waterfall(busiest)

# %%
row = cube.isel(instance=int((cube["instant"] == busiest).argmax("instance")), output=0)
total = float(row["attribution"].sum() + cube["base_value"][0])
assert abs(total - float(row["prediction"])) < 1e-2
print(f"base value + attributions {total:.1f}, prediction {float(row['prediction']):.1f}")

# %% [markdown]
# **As a table**, for whatever comes next: the two columns that matter most for each hour, or a line for each row
# (`"wide"`). `cube.dshap.to_shap()` is a `shap.Explanation`.

# %%
cube.dshap.to_frame("top_k", k=2).head(4)[["instant", "rank", "feature", "value", "attribution"]]

# %% [markdown]
# From here: `store="attributions.zarr"` keeps the cube on disk and makes a run resumable, `client=` puts it on a Dask
# cluster. What "absent column" means is a choice, and columns that go together are told differently by each: the
# notebook `correlated_columns`.
