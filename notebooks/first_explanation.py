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
# A kernel ridge predicts the bike rentals of an hour. Which column moves the prediction, and by how much? Shapley
# values share the distance between a prediction and the mean prediction among the columns. They need a notion of
# *absent column*, and there is more than one: this notebook compares two, one of them computed in two ways.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import dshap

ROOT = next(
    folder
    for folder in [Path.cwd(), *Path.cwd().parents]
    if (folder / "workflows" / "data").is_dir()
)
COLUMNS = ["yr", "mnth", "hr", "workingday", "weathersit", "temp", "hum"]
hours = pd.read_parquet(ROOT / "workflows" / "data" / "bike_hour.parquet")
hours[["dteday", *COLUMNS, "count"]].head()

# %% [markdown]
# **The model.** A Gaussian kernel with a length-scale for each column, 150 landmarks, all hours in the sums. A tenth of
# the hours is held out; the R² is theirs. Length-scales can be chosen by validation (`RBF("validate")`, as
# `workflows/bike_sharing.toml` does); given ones fit in a second.

# %%
kernel = dshap.kernels.RBF([3.0, 12.0, 1.7, 0.8, 4.0, 0.8, 1.5])
model = dshap.models.KernelRidge(kernel, dshap.kernels.Nystrom(150), penalty=1e-5, holdout=0.1)
model.fit(hours[COLUMNS], hours["count"])
print(model.report_)

# %% [markdown]
# **Interventional values.** An absent column takes the values of background rows, whatever the others say. `Marginal`
# does this for any predict function, by calling it: its cost grows with the background.

# %%
some = hours.sample(300, random_state=0).sort_values("instant")
background = hours[COLUMNS].sample(40, random_state=1)
marginal = dshap.values.Marginal(model.predict, background)
by_calls = dshap.explain(marginal, some, key="instant", design="exact", units="rentals per hour")
print(by_calls)

# %% [markdown]
# For kernel models the same values have a closed form. Same background, same numbers, no call of the model:

# %%
closed_form = dshap.values.KernelInterventional(model, background)
cube = dshap.explain(closed_form, some, key="instant", design="exact")
difference = float(abs(cube.attribution - by_calls.attribution).max())
print(f"largest difference: {difference:.1e} rentals per hour")
assert difference < 1e-6

# %% [markdown]
# So the background can be every hour there is, at the price of one pass over the table.

# %%
interventional = dshap.explain(
    dshap.values.KernelInterventional(model, hours),
    some,
    key="instant",
    design="exact",
    units="rentals per hour",
)

# %% [markdown]
# **Observational values.** An absent column takes the values that go with those that are present: learnt from the table
# by a conditional mean embedding. A January hour then stands for a cold one even where `temp` is absent.

# %%
embedding = dshap.kernels.Nystrom(60)
observational = dshap.explain(
    dshap.values.KernelObservational(model, data=hours, embedding=embedding, penalty=1e-4),
    some, key="instant", design="exact", units="rentals per hour",
)  # fmt: skip

# %% [markdown]
# **What differs.** Mean |attribution| of each column. Columns that go with others gain under observational values, at
# the cost of those they go with: humidity tells the hour, the month tells the temperature. Those that stand alone
# (`yr`, `workingday`, `weathersit`) keep theirs.

# %%
explanations = {"interventional": interventional, "observational": observational}
ranking = pd.DataFrame(
    {
        name: abs(own.attribution).mean("instance").isel(output=0).to_series()
        for name, own in explanations.items()
    }
).sort_values("interventional")
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
ranking.plot.barh(
    ax=axes, xlabel="mean |attribution| (rentals per hour)", ylabel="", color=["#33658a", "#f26419"]
)
axes.spines[["top", "right"]].set_visible(False)

# %% [markdown]
# **One column, hour by hour.** The attribution of `hr` against `hr`: commuting hours on working days, midday on others.

# %%
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
of_hr = interventional.attribution.sel(feature="hr").isel(output=0)
points = axes.scatter(some["hr"], of_hr, c=some["workingday"], s=14, cmap="coolwarm")
axes.set(xlabel="hr", ylabel="attribution of hr (rentals per hour)")
axes.legend(points.legend_elements()[0], ["free day", "working day"], frameon=False)

# %% [markdown]
# **One hour**, the busiest of these. Base value plus attributions is the prediction, under either notion: efficiency.

# %%
row = int(interventional.prediction.values.argmax())
one = pd.DataFrame(
    {
        name: own.attribution.isel(instance=row, output=0).to_series()
        for name, own in explanations.items()
    }
)
one.insert(0, "value", some[COLUMNS].iloc[row])
base = {name: float(own.base_value[0]) for name, own in explanations.items()}
prediction = float(interventional.prediction.isel(instance=row, output=0))
for name in explanations:
    assert abs(base[name] + one[name].sum() - prediction) < 1e-6
print(f"base value {base['interventional']:.1f}, prediction {prediction:.1f} rentals per hour")
one.round(1)

# %% [markdown]
# From here: `store="attributions.zarr"` keeps the cube and makes a run resumable, `client=` puts it on a Dask cluster,
# and `dshap run workflows/bike_sharing.toml` does all this for every hour with two commands.
