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
# # Correlated columns, explained in two ways
#
# Temperature and month go together, and so do humidity and the hour of the day. What is an *absent* column then? Under
# interventional values it takes the values of background rows, whatever the others say; under observational ones those
# that go with the columns that are present. This notebook explains one model both ways, and shows what differs.

# %%
from pathlib import Path

import pandas as pd

import dshap

ROOT = next(
    folder
    for folder in [Path.cwd(), *Path.cwd().parents]
    if (folder / "workflows" / "data").is_dir()
)
COLUMNS = ["yr", "mnth", "hr", "workingday", "weathersit", "temp", "hum"]
hours = pd.read_parquet(ROOT / "workflows" / "data" / "bike_hour.parquet")
hours[COLUMNS].corr(method="spearman").round(2)

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
# **Interventional values** of kernel models have a closed form, so that the background is every hour there is.
# `Marginal` gives the same numbers for any predict function, by calling it, at a cost that grows with the background:

# %%
some = hours.sample(1_500, random_state=0).sort_values("instant")
options = {"key": "instant", "design": "exact", "units": "rentals per hour", "progress": False}
background = hours[COLUMNS].sample(40, random_state=1)
by_calls = dshap.explain(dshap.values.Marginal(model.predict, background), some[:50], **options)
closed_form = dshap.values.KernelInterventional(model, background)
difference = abs(
    dshap.explain(closed_form, some[:50], **options).attribution - by_calls.attribution
)
print(f"largest difference: {float(difference.max()):.1e} rentals per hour")
assert float(difference.max()) < 1e-6

# %%
interventional = dshap.explain(dshap.values.KernelInterventional(model, hours), some, **options)

# %% [markdown]
# **Observational values.** An absent column takes the values that go with those that are present: learnt from the table
# by a conditional mean embedding. A January hour then stands for a cold one even where `temp` is absent.

# %%
embedding = dshap.kernels.Nystrom(60)
conditional = dshap.values.KernelObservational(model, hours, embedding=embedding, penalty=1e-4)
observational = dshap.explain(conditional, some, **options)

# %% [markdown]
# **Side by side.** Columns that go with others gain under observational values, at the cost of those they go with:
# humidity tells the hour, the month tells the temperature. Those that stand alone (`yr`, `workingday`, `weathersit`)
# keep theirs; r is the correlation of both attributions.

# %%
explanations = {"interventional": interventional, "observational": observational}
axes = dshap.report.compare(explanations)

# %% [markdown]
# **Humidity, both ways**, coloured by the hour. To the model it means little: interventional attributions are small.
# But dry hours are those of the afternoon, so that observational attributions carry what humidity tells of the hour.

# %%
interventional.dshap.dependence("hum", colour="hr")

# %%
observational.dshap.dependence("hum", colour="hr")

# %% [markdown]
# **One hour**, the busiest of these. Base value plus attributions is the prediction, under either notion: efficiency.

# %%
row = int(interventional.prediction.argmax("instance")[0])
one = pd.DataFrame(
    {
        name: cube.attribution.isel(instance=row, output=0).to_series()
        for name, cube in explanations.items()
    }
)
one.insert(0, "value", some[COLUMNS].iloc[row])
base = {name: float(cube.base_value[0]) for name, cube in explanations.items()}
prediction = float(interventional.prediction.isel(instance=row, output=0))
for name in explanations:
    assert abs(base[name] + one[name].sum() - prediction) < 1e-6
print(f"base value {base['interventional']:.1f}, prediction {prediction:.1f} rentals per hour")
one.round(1)

# %% [markdown]
# Which is right? Interventional values say what the *model* does with a column, observational ones what the column
# *tells* of the prediction. `docs/value_functions.md` helps to choose, and `dshap.mse_v` measures how good an
# estimate of the second is.
