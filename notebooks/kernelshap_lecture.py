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
# # KernelSHAP, step by step
#
# A lecture uses KernelSHAP to explain one prediction: the number of bike rentals on one day, predicted from humidity,
# temperature and wind speed. This notebook does the five steps by hand and compares them with dshap: coalitions,
# mapped rows, weights, regression, values. With three columns there are only eight coalitions, so nothing is sampled
# and every step fits into a table.

# %%
from math import comb
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dshap

ROOT = next(
    folder
    for folder in [Path.cwd(), *Path.cwd().parents]
    if (folder / "workflows" / "data").is_dir()
)
COLUMNS = ["hum", "temp", "ws"]
hours = pd.read_parquet(ROOT / "workflows" / "data" / "bike_hour.parquet")
means = hours.groupby("dteday")[["hum", "temp", "windspeed"]].mean()
days = pd.DataFrame(
    {
        "hum": 100 * means["hum"],  # %
        "temp": 47 * means["temp"] - 8,  # degrees Celsius
        "ws": 67 * means["windspeed"],  # km/h
        "count": hours.groupby("dteday")["count"].sum(),
    }
)
print(f"{len(days)} days, {days['count'].mean():.0f} rentals a day")

# %% [markdown]
# **The model** is a black box: any function from rows to predictions will do. The lecture does not describe its model;
# here it is a kernel ridge regression. The explained day is the lecture's, 19 February 2012: 51.6 % humidity, 5.1 °C,
# 17.0 km/h.

# %%
model = dshap.models.KernelRidge(
    dshap.kernels.RBF(), dshap.kernels.Nystrom(150), penalty=1e-3, holdout=0.2
)
model.fit(days[COLUMNS], days["count"])
x = days.loc["2012-02-19", COLUMNS].to_numpy(float)
print(f"held-out R² {model.r2_[0]:.2f}; this day: {model.predict(x[None])[0]:.0f} rentals predicted, "
      f"{days.loc['2012-02-19', 'count']} counted")  # fmt: skip

# %% [markdown]
# **Step 1: coalitions.** A coalition is the set of columns that are present. A mask writes a coalition in ones and
# zeros.

# %%
design = dshap.designs.exact(3)
order = np.argsort([mask.sum() * 10 + np.flatnonzero(mask).sum() for mask in design.masks])
masks = design.masks[order]
names = [", ".join(np.array(COLUMNS)[mask]) or "∅" for mask in masks]
table = pd.DataFrame(masks.astype(int), index=names, columns=COLUMNS)
print(table)

# %% [markdown]
# **Step 2: mapped rows.** The model needs a number in every column. A mapped row has the value of x where the mask is
# 1, and the value of a second row where the mask is 0. The lecture takes 3 August 2012 as the second row: 64.3 %, 28.0
# °C, 14.5 km/h.

# %%
other = days.loc["2012-08-03", COLUMNS].to_numpy(float)
mapped = pd.DataFrame(np.where(masks, x, other), index=names, columns=COLUMNS)
mapped.assign(prediction=model.predict(mapped.to_numpy())).round(1)

# %% [markdown]
# The choice of a single second row is arbitrary. So the value of a coalition is the mean prediction over many second
# rows, here over all days. The value function `Marginal` computes this mean.

# %%
background = days[COLUMNS].to_numpy()
values = np.array([model.predict(np.where(mask, x, background)).mean() for mask in masks])
table.assign(value=values.round(1))

# %% [markdown]
# **Step 3: weights.** Of p columns, a coalition with s columns has the weight (p − 1) / (C(p, s) s (p − s)) of the
# Shapley kernel. Coalitions with one column, or with all but one, have the largest weights. The empty and the full
# coalition would have an infinite weight, and become constraints. With three columns, the six remaining coalitions
# have the weight 1/3; the picture shows that with twelve columns, coalitions of medium size have nearly none.


# %%
def shapley_kernel(p, s):
    return (p - 1) / (comb(p, s) * s * (p - s)) if 0 < s < p else np.inf


weights = np.array([shapley_kernel(3, mask.sum()) for mask in masks])
print(table.assign(weight=weights.round(2)))
figure, axes = plt.subplots(figsize=(6, 2.8), layout="constrained")
axes.bar(range(1, 12), [shapley_kernel(12, s) for s in range(1, 12)], color="#33658a")
axes.set(
    xlabel="columns present, of 12",
    ylabel="weight of one coalition",
    yscale="log",
    xticks=range(1, 12),
)
axes.spines[["top", "right"]].set_visible(False)

# %% [markdown]
# **Step 4: regression.** Fit a linear model of the mask, g(z) = φ₀ + Σ φⱼ zⱼ, by weighted least squares. The
# constraints are φ₀ = v(∅) and Σ φⱼ = v(N) − v(∅), where N is the set of all columns. They determine the last
# coefficient, so p − 1 coefficients have to be solved for.

# %%
inner = np.isfinite(weights)
z, w = masks[inner].astype(float), weights[inner]
start, total = values[0], values[-1] - values[0]
target = values[inner] - start - z[:, -1] * total
difference = z[:, :-1] - z[:, -1:]
left = np.linalg.solve(difference.T @ (w[:, None] * difference), difference.T @ (w * target))
phi = np.append(left, total - left.sum())
print(
    f"g(z) = {start:.0f} "
    + " ".join(f"{each:+.0f}·z_{name}" for each, name in zip(phi, COLUMNS, strict=True))
)

# %% [markdown]
# **Step 5: values.** The coefficients are the Shapley values. dshap does all five steps for any number of rows, and
# its numbers are the same. From the lecture's eight values the regression computes the lecture's attributions, 34,
# −1654 and −323.

# %%
cube = dshap.explain(dshap.values.Marginal(model.predict, background), x[None], design="exact")
by_dshap = cube.attribution.to_numpy()[0, :, 0]
assert np.allclose(phi, by_dshap)

lecture = {
    "∅": 4515,
    "hum": 4635,
    "temp": 3087,
    "ws": 4359,
    "hum, temp": 3060,
    "temp, ws": 2623,
    "hum, ws": 4450,
}
lecture["hum, temp, ws"] = 2573
of_lecture = design.operator[order].T @ [
    lecture[name] for name in names
]  # the regression as one matrix
assert np.allclose(of_lecture, [34.0, -1653.5, -322.5])
pd.DataFrame(
    {"by hand": phi, "dshap": by_dshap, "the lecture's model": of_lecture}, index=COLUMNS
).round(1)

# %% [markdown]
# **The plot** leads from the mean prediction to the prediction of this day. The cold lowers the prediction most, the
# wind lowers it too, and dry air raises it. The lecture's model agrees on cold and wind, but gives humidity almost
# nothing.

# %%
figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
rank = np.argsort(abs(phi))
ends = start + np.cumsum(np.append(0.0, phi[rank]))
colours = np.where(phi[rank] > 0, "#f26419", "#33658a")
axes.barh([f"{COLUMNS[j]} = {x[j]:.1f}" for j in rank], phi[rank], left=ends[:-1], color=colours)
for place, j in enumerate(rank):
    axes.annotate(f"{phi[j]:+.0f}", (max(ends[place], ends[place + 1]), place), (4, 0), textcoords="offset points",
                  va="center")  # fmt: skip
axes.axvline(start, color="#888888", linestyle=":")
axes.axvline(ends[-1], color="#444444")
axes.set(xlabel=f"rentals: mean prediction {start:.0f}, this day {ends[-1]:.0f}")
axes.margins(x=0.15)
axes.spines[["top", "right"]].set_visible(False)

# %% [markdown]
# With more columns, there are 2^p coalitions. `dshap.designs.kernelshap(p, n_coalitions)` samples some of them.
# `kriging`, the default, gets more accurate attributions from the same number of coalitions: see `docs/designs.md`.
