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
# # Learning with Shapley values: the regulariser
#
# Attributions explain a model after it is fitted. A *Shapley penalty* uses attributions during the fit: it adds the
# mean squared attribution of one player, a column or a group of columns, to the objective that the fit minimises. With
# interventional values, the model relies less on a column whose distribution may shift later (ISV-REG). With
# observational values, the penalty also includes what correlated columns reveal about the player, as fair learning
# needs (OSV-REG).

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dshap
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelLogistic, KernelRidge, ShapleyPenalty

COLOURS = ["#33658a", "#f26419", "#86bbd8", "#f6ae2d", "#758e4f"]
rng = np.random.default_rng(0)

# %% [markdown]
# **Data.** Five normal columns. x4 and x5 have correlation 0.9, and x5 has the largest coefficient.

# %%
n = 2_000
x = rng.normal(size=(n, 5))
x[:, 4] = 0.9 * x[:, 3] + np.sqrt(1 - 0.9**2) * x[:, 4]
X = pd.DataFrame(x, columns=["x1", "x2", "x3", "x4", "x5"])
y = X @ [1.0, 2.0, 3.0, 4.0, 10.0]
train, test = X[:1_400], X[1_400:]

# %% [markdown]
# **A path of strengths.** One pass over the rows is enough for all strengths of the penalty. Strength 0 is the model
# without a penalty. As the strength grows, the mean squared attribution of x5 falls, on training rows and on held-out
# rows.

# %%
strengths = [0.0, 0.1, 1.0, 10.0, 100.0, 1000.0]
penalty = ShapleyPenalty("x5", 0.0, value="interventional")
ridge = KernelRidge(RBF(), Nystrom(200), penalty=1e-6, holdout=0.2, shapley=penalty)
isv = ridge.fit_path(train, y[:1_400], strengths)
sizes = pd.DataFrame(
    {
        name: [float(getattr(model.report_.shapley, name)[0]) for model in isv]
        for name in ("train", "held_out")
    },
    index=pd.Index(strengths, name="strength"),
)
print(sizes.round(4))
assert (np.diff(sizes["train"]) < 0).all()
assert sizes["train"].iloc[-1] < 0.001 * sizes["train"].iloc[0]

# %% [markdown]
# **Robustness to a shift.** At test time x5 is measured with noise. The noise increases the error of the model without
# a penalty very much, and that of a penalised model hardly at all. In return, a penalised model has a larger error if
# there is no noise, because it uses x4 in place of x5.


# %%
def rmse(model, sigma):
    shifted = test.assign(x5=test["x5"] + sigma * np.random.default_rng(1).normal(size=len(test)))
    return float(np.sqrt(np.mean((model.predict(shifted) - y[1_400:]) ** 2)))


noises = [0.0, 0.5, 1.0, 1.5]
errors = pd.DataFrame(
    [[rmse(model, sigma) for sigma in noises] for model in isv], strengths, noises
)
print(errors.round(2))
assert errors.loc[1000.0, 1.5] < errors.loc[0.0, 1.5] / 2

figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for sigma, colour in zip(noises, COLOURS, strict=False):
    axes.plot(range(len(strengths)), errors[sigma], "o-", color=colour, label=f"σ = {sigma:g}")
axes.set_xticks(range(len(strengths)), [f"{each:g}" for each in strengths])
axes.set(xlabel="strength of the penalty on x5", ylabel="RMSE on test rows")
axes.legend(title="noise in x5", frameon=False)
axes.spines[["top", "right"]].set_visible(False)

# %% [markdown]
# **Correlated columns.** Suppose that x5 is a sensitive column. With ISV-REG the interventional values of x5 vanish,
# but the model uses x4 instead, which reveals x5. So the observational values of x5 remain. OSV-REG reduces the values
# of x4 as well.

# %%
osv = KernelRidge(
    RBF(), Nystrom(200), penalty=1e-6, shapley=ShapleyPenalty("x5", 100.0, value="observational")
)
models = {
    "plain": isv[0],
    "ISV-REG": isv[4],
    "OSV-REG": osv.fit(train, y[:1_400]),
}
kinds = {
    "interventional": lambda model: dshap.values.KernelInterventional(model, train),
    "observational": lambda model: dshap.values.KernelObservational(model, train, Nystrom(150)),
}
figure, panels = plt.subplots(2, 2, figsize=(8, 4.6), layout="constrained", sharex=True)
spread = {}
for column, kind in enumerate(kinds):
    for place, (name, model) in enumerate(models.items()):
        cube = dshap.explain(kinds[kind](model), test[:300], design="exact", progress=False)
        for row, player in enumerate(["x4", "x5"]):
            phi = cube.attribution.sel(feature=player).to_numpy()[:, 0]
            spread[name, f"{kind}, {player}"] = phi.std()
            panels[row, column].hist(phi, bins=np.linspace(-30, 30, 61), histtype="step", color=COLOURS[place],
                                     label=name, linewidth=1.5)  # fmt: skip
            panels[row, column].set_title(f"{kind} values of {player}", fontsize=10)
            panels[row, column].set_ylim(0, 80)
for axes in panels.ravel():
    axes.spines[["top", "right"]].set_visible(False)
panels[0, 0].legend(frameon=False)
for axes in panels[1]:
    axes.set_xlabel("attribution")
spread = pd.Series(spread).unstack(0)[list(models)]
print((spread.div(spread["plain"], axis=0)).round(2))
assert spread.loc["observational, x4", "OSV-REG"] < 0.5 * spread.loc["observational, x4", "plain"]
assert spread.loc["interventional, x4", "ISV-REG"] > 2 * spread.loc["interventional, x4", "plain"]

# %% [markdown]
# **Classes.** The same penalty works with the log-odds of a kernel logistic model, which Newton's method fits. The
# player may be a group of columns.

# %%
labels = np.where(y + 5 * rng.normal(size=n) > 0, "yes", "no")
pair = ShapleyPenalty(["x4", "x5"], 0.0, value="interventional")
logistic = KernelLogistic(RBF(), Nystrom(100), penalty=1e-4, shapley=pair)
for model, strength in zip(
    logistic.fit_path(train, labels[:1_400], [0.0, 0.1, 10.0]), [0.0, 0.1, 10.0], strict=True
):
    accuracy = float((model.predict(test) == labels[1_400:]).mean())
    size = float(model.report_.shapley.train[0])
    print(
        f"strength {strength:4g}: accuracy {accuracy:.3f}, mean squared attribution of x4 and x5 {size:.4f}"
    )

# %% [markdown]
# **How far attributions can move.** The norm of the model limits how much a small change of a row changes any
# attribution (Theorem 6 of the paper): by at most ‖f‖ (4 (1 − k(x, x')))^½. A penalised model does not always have the
# smaller norm, because it may need a more complicated function to avoid x5.

# %%
for name, model in models.items():
    found = dshap.models.robustness(model, test, train, penalty, delta=0.01)
    assert found.n_violations == 0
    print(f"{name}: norm {found.norm[0]:.0f}; {found}")

# %% [markdown]
# `workflows/rkhs_shap` repeats the experiments of the paper with ten seeds, and with a table of people in which sex is
# the sensitive column.
