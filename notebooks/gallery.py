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
# # Every picture, with its code
#
# Each function takes a cube from `dshap.explain` or `dshap.open_cube`, or the path of a store. It draws into new axes,
# or into yours with `ax=`, and returns the axes. [Pictures](../docs/pictures.md) describes what each picture shows,
# and how its numbers are computed.
#
# The model is a kernel ridge regression for the number of bikes that are hired in an hour. All 17,379 hours are
# explained.

# %%
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import xgboost
from IPython.display import Image
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

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
#
# Points to the right of 0 raise the number of bikes. Warm hours (red) have more hires, humid hours fewer.

# %%
axes = dshap.report.beeswarm(cube)

# %% [markdown]
# ## Mean |attribution|: `bar`

# %%
axes = dshap.report.bar(cube)

# %% [markdown]
# ## One feature against its column: `dependence`
#
# The function chooses the column for the colour: the one that explains most of the differences within an hour. Working
# days (red) have peaks at 8 and at 17 o'clock, free days (blue) have one peak in the afternoon.

# %%
axes = dshap.report.dependence(cube, "hour")

# %% [markdown]
# ## One row in steps: `waterfall`

# %%
axes = dshap.report.waterfall(cube, 8_000)

# %% [markdown]
# ## One row on a line: `force`

# %%
axes = dshap.report.force(cube, 8_000)

# %% [markdown]
# ## Segments side by side: `bar(by=)`

# %%
axes = dshap.report.bar(cube, by="working day")

# %% [markdown]
# ## Segments in a table: `heatmap`

# %%
axes = dshap.report.heatmap(cube, "hour:12")

# %% [markdown]
# ## Two explanations: `compare`
#
# The upper bars show what the model does with its inputs, the lower bars what the data reveal about its predictions.

# %%
observational = dshap.values.KernelObservational(model, X, dshap.kernels.Nystrom(100))
by_data = dshap.explain(observational, X, units="bikes an hour")
axes = dshap.report.compare({"interventional": cube, "observational": by_data})

# %% [markdown]
# ## The nights of a job: `over_runs`
#
# A job with trees of XGBoost runs four times, each time on all hours up to then. Which features matter changes with
# the seasons.

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
for n_hours in (1_500, 6_000, 12_000, 17_379):
    numbered[:n_hours].to_parquet(folder / "hours.parquet")
    subprocess.run([sys.executable, "-m", "dshap", "run", folder / "bikes.toml", "-q"], check=True)
axes = dshap.report.over_runs(folder / "store")

# %% [markdown]
# ## Pairs of features: `interactions`

# %%
some = X.sample(1_000, random_state=0)
pairs = dshap.explain(value, some, design="exact", interactions=True, units="bikes an hour")
axes = dshap.report.interactions(pairs)

# %% [markdown]
# ## Drift of rows: `drift_bars`
#
# The picture compares hours of spring with hours of autumn: which columns have drifted, and what share of the whole
# drift each column has.

# %%
season = hours["mnth"].map({4: "spring", 5: "spring", 10: "autumn", 11: "autumn"})
spring, autumn = (X[season == name].sample(800, random_state=0) for name in ("spring", "autumn"))
axes = dshap.report.drift_bars(dshap.mmd_drift(spring, autumn))

# %% [markdown]
# ## Words of a text: `sentence_picture`
#
# Red words raise the score of the film, blue words lower it. "not" reverses the word after it, so the two words share
# their common effect.

# %%
EFFECTS = {"<pad>": 0.0, "not": 0.0, "a": 0.0, "film": 0.2, "and": 0.0, "good": 1.5, "slow": -1.0,
           "very": 0.4, "music": 0.1}  # fmt: skip
effects = np.array([*EFFECTS.values()])


def liking(ids):
    """Add up the effects of words; one behind "not" counts against."""
    return (np.where(np.roll(ids == 1, 1, axis=1), -1.0, 1.0) * effects[ids]).sum(axis=1)


reviews = ["a very good film", "slow and not a very good film", "not slow and very good music"]
texts = dshap.values.Tokens(liking, [*EFFECTS], longest=8, tokenizer=str.split)
of_words = dshap.explain(texts, reviews)
shown = [dshap.report.sentence(of_words, row, label=f"review {row + 1}") for row in range(3)]
Image(dshap.report.sentence_picture(shown, "words.png"), width=600)

# %% [markdown]
# ## Pixels of an image: `heat_picture`
#
# A model distinguishes 3 from 8. Red pixels are evidence for a 3, blue pixels for an 8: on the left, where an 8 closes
# its loops.

# %%
digits = load_digits()
threes_and_eights = np.isin(digits.target, (3, 8))
images = digits.images[threes_and_eights]
is_three = digits.target[threes_and_eights] == 3
players = dshap.image_players(8, 8)
pixels = dshap.image_rows(images)
classifier = LogisticRegression(C=0.01, max_iter=1_000).fit(pixels, is_three)
of_pixels = dshap.explain(
    dshap.values.Marginal(classifier.decision_function, pixels.mean(axis=0)[None], players=players),
    pixels[:4],
    design=dshap.designs.permutation(64, 100),
)
heats = [
    dshap.report.heat_map(
        of_pixels, row, images[row] / 16, players, label="a 3" if is_three[row] else "an 8"
    )
    for row in range(4)
]
Image(dshap.report.heat_picture(heats, "pixels.png"), width=600)
