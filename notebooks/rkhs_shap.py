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
# # RKHS-SHAP: interventional or observational?
#
# A Shapley value needs a definition of an absent column, and for correlated columns two definitions differ.
# *Interventional*: the absent columns are drawn from the table, whatever the present columns are. *Observational*:
# they are drawn from their distribution given the present columns, E[f(X) | X_S = x_S]. RKHS-SHAP computes both in
# closed form for kernel models, and uses conditional mean embeddings for the observational values. This notebook
# compares both with true values.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dshap
from dshap.kernels import RBF, Nystrom

COLOURS = ["#33658a", "#f26419"]
rng = np.random.default_rng(0)

# %% [markdown]
# ## A column that the model does not use
#
# x1 and x2 are correlated, and the target is x1. x3 is noise.

# %%
n, correlation = 2_000, 0.9
x = rng.normal(size=(n, 3))
x[:, 1] = correlation * x[:, 0] + np.sqrt(1 - correlation**2) * x[:, 1]
X = pd.DataFrame(x, columns=["x1", "x2", "x3"])
model = dshap.models.KernelRidge(RBF(3.0), Nystrom(200), penalty=1e-6).fit(X, X["x1"])

values = {
    "interventional": dshap.values.KernelInterventional(model, X),
    "observational": dshap.values.KernelObservational(model, X, Nystrom(150)),
}
cubes = {
    name: dshap.explain(value, X, design="exact", progress=False) for name, value in values.items()
}
magnitude = pd.DataFrame(
    {
        name: abs(cube.attribution).mean("instance").isel(output=0).to_series()
        for name, cube in cubes.items()
    }
)
print(magnitude.round(3))

# %% [markdown]
# Interventional values are true to the model: x2 gets nearly nothing. Observational values are true to the data: x2
# predicts x1 up to noise, so it receives a share. For normal columns with correlation ρ the shares are known. x2 adds
# ρ x₂ to the empty coalition, and nothing to the coalition of x1. So φ₂ = ρ x₂ / 2, and φ₁ is the rest.

# %%
phi = {name: cube.attribution.to_numpy()[:, :, 0] for name, cube in cubes.items()}
true = np.column_stack(
    [X["x1"] - correlation * X["x2"] / 2, correlation * X["x2"] / 2, 0 * X["x3"]]
)
error = float(np.abs(phi["observational"] - true).mean())
print(
    f"mean |error| of the observational values: {error:.3f}, of values of mean size {np.abs(true[:, :2]).mean():.2f}"
)
assert error < 0.05
assert magnitude.loc["x2", "interventional"] < 0.05

figure, panels = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", sharey=True)
for axes, name, colour in zip(panels, phi, COLOURS, strict=True):
    axes.scatter(X["x2"], phi[name][:, 1], s=4, color=colour)
    axes.set(title=name, xlabel="x2")
    axes.spines[["top", "right"]].set_visible(False)
panels[0].set_ylabel("attribution of x2")

# %% [markdown]
# ## A banana
#
# A normal distribution cannot describe columns whose dependence is a curve. Such are the Banana data of the paper: X1
# is normal with variance 10, X2 = q(X1² − 10) + noise, and f = q(X1² − 10) + X2. An embedding learns the curve from
# the rows.

# %%
q = 0.1
z = rng.normal(size=(n, 2)) * [np.sqrt(10), 1.0]
bend = q * (z[:, 0] ** 2 - 10)
banana = pd.DataFrame({"X1": z[:, 0], "X2": bend + z[:, 1]})
target = bend + banana["X2"]
model = dshap.models.KernelRidge(RBF(), Nystrom(200), penalty=1e-6).fit(banana, target)

values = {
    "interventional": dshap.values.KernelInterventional(model, banana),
    "observational": dshap.values.KernelObservational(model, banana, Nystrom(150)),
    "observational, as if normal": dshap.values.Gaussian(model.predict, banana, n_samples=40),
}
some = banana[:500]
of_x1 = {
    name: dshap.explain(value, some, design="exact", progress=False)
    .attribution.sel(feature="X1")
    .to_numpy()[:, 0]
    for name, value in values.items()
}

# %% [markdown]
# True values for comparison: the interventional value is φ₁ = q(X1² − 10). The observational value needs E[q(X1² − 10)
# | X2], an integral over X1, which is computed on a grid here.

# %%
grid = np.linspace(-30, 30, 4_001)
curve = q * (grid**2 - 10)
density = np.exp(
    -(grid**2) / 20 - (some["X2"].to_numpy()[:, None] - curve) ** 2 / 2
)  # (rows, grid)
expected = (density @ curve) / density.sum(axis=1)  # E[bend | X2]
v1, v2, v12 = 2 * bend[:500], some["X2"] + expected, target[:500]
truth = {"interventional": bend[:500], "observational": (v12 + v1 - v2) / 2}


def r2(true, estimate):
    return 1 - np.square(true - estimate).sum() / np.square(true - true.mean()).sum()


figure, panels = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained", sharey=True)
for axes, (name, phi1) in zip(panels, of_x1.items(), strict=True):
    kind = name.split(",")[0]
    axes.scatter(some["X1"], truth[kind], s=14, color="#cccccc", label="true")
    axes.scatter(some["X1"], phi1, s=4, color=COLOURS[kind == "observational"], label="estimated")
    axes.set(title=f"{name}\nR² {r2(truth[kind], phi1):.3f}", xlabel="X1")
    axes.spines[["top", "right"]].set_visible(False)
panels[0].set_ylabel("attribution of X1")
panels[0].legend(frameon=False)
assert r2(truth["observational"], of_x1["observational"]) > 0.98

# %% [markdown]
# ## How good are conditional values if the truth is unknown?
#
# MSE_v is the mean of (f(x) − v_S(x))² over rows and coalitions. The true conditional expectation has the smallest
# MSE_v, so MSE_v ranks value functions on any table. Measure it on rows that were not used for fitting.

# %%
fresh = rng.normal(size=(1_000, 2)) * [np.sqrt(10), 1.0]
fresh = pd.DataFrame({"X1": fresh[:, 0], "X2": q * (fresh[:, 0] ** 2 - 10) + fresh[:, 1]})
for name, value in values.items():
    print(f"{name:28s} {dshap.mse_v(value, fresh, progress=False)}")

# %% [markdown]
# Which kind you need depends on your question: what does the model do with its inputs (interventional), or what do the
# data reveal about its predictions (observational)? `workflows/rkhs_shap` repeats the experiments of the paper.
