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
# # Trees of a shop: categories, segments, reasons
#
# A shop knows of each order how it was paid, where it goes, what is in it, and whether it came back. Which orders
# come back, and what is the reason of each? The columns are numbers, categories and gaps, as tables of shops are; the
# model is XGBoost, which takes them so.

# %%
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import xgboost

import dshap

# %% [markdown]
# **The orders** are made up: clothes paid by invoice come back, above all those of new customers; a discount keeps
# them.

# %%
rng = np.random.default_rng(0)
N = 20_000
orders = pd.DataFrame(
    {
        "order_id": np.arange(1, N + 1),
        "payment": pd.Categorical(rng.choice(["card", "invoice", "wallet"], N, p=[0.5, 0.3, 0.2])),
        "goods": pd.Categorical(rng.choice(["books", "clothes", "garden", "toys"], N)),
        "country": pd.Categorical(rng.choice(["AT", "DE", "FR", "NL"], N, p=[0.2, 0.5, 0.2, 0.1])),
        "price": rng.lognormal(3.5, 0.7, N).round(2),
        "discount": rng.choice([0.0, 0.1, 0.2, 0.3], N, p=[0.6, 0.2, 0.1, 0.1]),
        "tenure": np.where(rng.random(N) < 0.15, np.nan, rng.gamma(2.0, 1.5, N).round(1)),
    }
)
is_clothes = orders["goods"] == "clothes"
log_odds = (
    -2.2
    + 1.4 * is_clothes
    + 0.9 * ((orders["payment"] == "invoice") & is_clothes)
    + 0.35 * np.log(orders["price"] / 30)
    - 3.0 * orders["discount"]
    - 0.25 * orders["tenure"].fillna(0.0)
)
came_back = rng.random(N) < 1 / (1 + np.exp(-log_odds))
orders.head()

# %% [markdown]
# **The model**, on the columns as they are: categories and gaps included.

# %%
columns = ["payment", "goods", "country", "price", "discount", "tenure"]
model = xgboost.XGBClassifier(n_estimators=50, max_depth=3, enable_categorical=True)
model.fit(orders[columns], came_back)

# %% [markdown]
# **Every order, in one call.** `Trees` explains the log-odds of an ensemble in closed form: no background, no sampling.
# The order's number is the key of its row.

# %%
value = dshap.values.Trees(model)
cube = dshap.explain(value, orders, key="order_id", missing="pass")
cube.dshap

# %%
cube.dshap.beeswarm()

# %% [markdown]
# Categories have no order, so their swarms are grey: what a category does is seen against its values.

# %%
cube.dshap.dependence("payment", colour="goods")

# %% [markdown]
# **Segments.** Mean |attribution| of every column in each kind of goods: how an order is paid matters most for clothes.

# %%
cube.dshap.heatmap("goods", magnitude=True)

# %%
means = cube.dshap.to_frame("long").groupby(["feature", "value"])["attribution"].mean()
of_goods = means["goods"].sort_values()
assert of_goods.index[-1] == "clothes"
of_goods.round(2)

# %% [markdown]
# **Reasons of one order**, by its key: that which is likeliest to come back.

# %%
likeliest = int(cube["order_id"][int(cube["prediction"].argmax("instance")[0])])
cube.dshap.waterfall(likeliest)

# %% [markdown]
# **Reasons of all orders**, as a table for those who work with it: the two columns that matter most for each. `dshap
# export STORE --to reasons.parquet --shape top_k --k 2` writes the same from a store of any size, and a `[[sink]]` of
# a job file loads it into a database every night.

# %%
reasons = cube.dshap.to_frame("top_k", k=2)
reasons[["order_id", "rank", "feature", "value", "attribution", "prediction"]].head(6).round(2)

# %%
first = reasons[reasons["rank"] == 1]
total = cube["attribution"].sum("feature") + cube["base_value"]
assert len(first) == N
assert float(abs(total - cube["prediction"]).max()) < 1e-3
first["feature"].value_counts()

# %% [markdown]
# **Against all orders.** So far an absent column went both ways at each decision, by the training rows that had gone
# there. With a background it takes the values of other orders, here of all of them: their patterns of decisions are
# counted once, so that the whole table costs no more than a hundred rows. The two differ where columns depend on each
# other.

# %%
against_all = dshap.explain(
    dshap.values.Trees(model, background="all"), orders, key="order_id", missing="pass"
)
mean = float(model.predict(orders[columns], output_margin=True).mean())
assert abs(float(against_all["base_value"][0]) - mean) < 1e-5
(against_all["attribution"] - cube["attribution"]).std("instance").to_series().round(3)

# %% [markdown]
# **Partial dependence** comes from the same counts: the mean log-odds of all orders, had they this price, over the
# attributions; thin lines are 200 orders.

# %%
counts = Path(tempfile.mkdtemp()) / "counts"
prepared = dshap.prepare(
    dshap.values.Trees(model, orders[columns]), store=counts, missing="pass", progress=False
)
dshap.report.dependence(against_all, "price", partial_dependence=prepared)
