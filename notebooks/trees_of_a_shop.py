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
# A shop knows for each order how it was paid, where it was sent, what it contains, and whether it was returned. Which
# orders are returned, and for which reasons? Like most tables, this one has numbers, categories and missing values;
# XGBoost, the model here, accepts all of them.

# %%
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import xgboost

import dshap

# %% [markdown]
# **The orders** are generated. Clothes are returned more often, above all if they are paid by invoice. Long-standing
# customers return less, and so do customers with a discount.

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
# **The model** is fitted to the columns as they are, with categories and missing values.

# %%
columns = ["payment", "goods", "country", "price", "discount", "tenure"]
model = xgboost.XGBClassifier(n_estimators=50, max_depth=3, enable_categorical=True)
model.fit(orders[columns], came_back)

# %% [markdown]
# **Every order, in one call.** `Trees` explains the log-odds of a tree ensemble in closed form, without a background
# and without sampling. The number of the order is the key of the row.

# %%
value = dshap.values.Trees(model)
cube = dshap.explain(value, orders, key="order_id", missing="pass")
cube.dshap

# %%
cube.dshap.beeswarm()

# %% [markdown]
# Categories have no order, so their points are grey in the picture above. The next picture shows the attributions for
# each value of a category.

# %%
cube.dshap.dependence("payment", colour="goods")

# %% [markdown]
# **Segments.** The picture shows the mean |attribution| of every column for each kind of goods. The payment matters
# most for clothes.

# %%
cube.dshap.heatmap("goods", magnitude=True)

# %%
means = cube.dshap.to_frame("long").groupby(["feature", "value"])["attribution"].mean()
of_goods = means["goods"].sort_values()
assert of_goods.index[-1] == "clothes"
of_goods.round(2)

# %% [markdown]
# **Reasons of one order**, selected by its key: the order with the largest predicted probability of a return.

# %%
likeliest = int(cube["order_id"][int(cube["prediction"].argmax("instance")[0])])
cube.dshap.waterfall(likeliest)

# %% [markdown]
# **Reasons of all orders** as a table: the two columns that matter most for each order. `dshap export STORE --to
# reasons.parquet --shape top_k --k 2` writes the same table from a store of any size, and a `[[sink]]` in a job file
# loads it into a database every night.

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
# **Comparison with all orders.** So far, an absent column meant that at each decision on it both branches counted,
# weighted by the numbers of training rows in them. With a background, an absent column gets the values of other
# orders, here of all orders. dshap counts their patterns of decisions once, so all orders as background cost no more
# than a hundred. Both kinds of values differ if columns depend on each other.

# %%
against_all = dshap.explain(
    dshap.values.Trees(model, background="all"), orders, key="order_id", missing="pass"
)
mean = float(model.predict(orders[columns], output_margin=True).mean())
assert abs(float(against_all["base_value"][0]) - mean) < 1e-5
(against_all["attribution"] - cube["attribution"]).std("instance").to_series().round(3)

# %% [markdown]
# **Partial dependence** comes from the same counts: the mean log-odds of all orders if all of them had this price. The
# picture shows it together with the attributions; thin lines are 200 single orders.

# %%
counts = Path(tempfile.mkdtemp()) / "counts"
prepared = dshap.prepare(
    dshap.values.Trees(model, orders[columns]), store=counts, missing="pass", progress=False
)
dshap.report.dependence(against_all, "price", partial_dependence=prepared)
