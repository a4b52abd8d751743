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
# # Texts: which words decide about a review?
#
# A row can be a text of any length. Each token is a player, and the padding token replaces absent tokens. The reviews
# here are generated from a few words, so that a small model can learn them. They contain one difficulty of real texts:
# "not" reverses the word after it, which no single word shows.

# %%
import numpy as np
import pandas as pd
from IPython.display import Image
from sklearn.linear_model import LogisticRegression

import dshap

# %% [markdown]
# **Reviews** consist of one or two opinions and some filling words. A review is likely to be positive if the sum of
# its opinions is positive.

# %%
rng = np.random.default_rng(0)
FILLING = ["the", "film", "was", "and", "its", "music", "plot", "is", "so", "a"]
OPINIONS = {"great": 2.0, "good": 1.0, "fine": 0.5, "slow": -0.8, "bad": -1.5, "awful": -2.5}
WORDS = ["<pad>", "not", *FILLING, *OPINIONS]


def review() -> tuple[list[str], float]:
    """The words of a review, and the sum of its opinions."""
    words = list(rng.choice(FILLING, rng.integers(3, 7)))
    total = 0.0
    for opinion in rng.choice(list(OPINIONS), rng.integers(1, 3), replace=False):
        said = [str(opinion)]
        sign = 1.0
        if rng.random() < 0.4:
            said = ["not", *said]
            sign = -1.0
        place = int(rng.integers(len(words) + 1))
        words[place:place] = said
        total += sign * OPINIONS[opinion]
    return words, total


texts, totals = zip(*(review() for _ in range(4_000)), strict=True)
liked = np.array(totals) + rng.logistic(size=len(totals)) > 0
print(" ".join(texts[0]), "→", "liked" if liked[0] else "not liked")

# %% [markdown]
# **The model** is a logistic regression on the number of each word, and of each word after "not". Its input are token
# ids, padded at the end.

# %%
LONGEST = 12
ids_of = {word: place for place, word in enumerate(WORDS)}


def counts_of(ids: np.ndarray) -> np.ndarray:
    """How often each word stands in each text, alone and behind "not"."""
    one_hot = np.eye(len(WORDS))[ids]
    behind_not = one_hot[:, 1:] * (ids[:, :-1, None] == ids_of["not"])
    return np.hstack([one_hot[:, :, 1:].sum(axis=1), behind_not[:, :, 1:].sum(axis=1)])


padded = np.zeros((len(texts), LONGEST), int)
for row, words in enumerate(texts):
    padded[row, : len(words)] = [ids_of[word] for word in words]
model = LogisticRegression(C=10.0, max_iter=1_000).fit(counts_of(padded[:3_000]), liked[:3_000])
print(f"held-out accuracy {model.score(counts_of(padded[3_000:]), liked[3_000:]):.3f}")


# %%
def predict(ids: np.ndarray) -> np.ndarray:
    """The probability that a review liked the film."""
    return model.predict_proba(counts_of(ids))[:, 1]


# %% [markdown]
# **Texts of all lengths in one run.** The coalitions of a text are sets of its tokens, so short texts are explained
# exactly. With `link="logit"` the attributions are in log-odds, in which the effects of words add up.

# %%
value = dshap.values.Tokens(
    predict, WORDS, longest=LONGEST, link="logit", output_names=["likes it"]
)
some = [list(words) for words in texts[3_000:3_400]]
cube = dshap.explain(value, some, units="log-odds")
cube

# %% [markdown]
# **Some reviews** with "not". Red words raise the log-odds that the film is liked, blue words lower them; the number
# is the log-odds of the review. "not" and the word after it share their common effect.

# %%
lengths = cube["length"].values
has_not = [row for row, words in enumerate(some) if "not" in words and lengths[row] >= 7]
shown = [
    dshap.report.sentence(cube, row, label=f"{float(cube['prediction'][row, 0]):+.1f}")
    for row in has_not[:4]
]
Image(dshap.report.sentence_picture(shown, "reviews.png"), width=700)

# %% [markdown]
# **All reviews.** `to_frame` has one line for each token. The mean attribution of a word, with and without "not"
# before it, shows what the model has learned.

# %%
tokens = cube.dshap.to_frame("long")
before = tokens.groupby("row")["value"].shift()
tokens["is negated"] = before.eq("not")
opinions = tokens[tokens["value"].isin(list(OPINIONS))]
means = opinions.pivot_table("attribution", "value", "is negated").loc[list(OPINIONS)]
assert means.loc["great", False] > 0.5 > means.loc["great", True]
means.round(2)

# %% [markdown]
# The attributions and the base value add up to the log-odds of each review, whatever its length.

# %%
total = tokens.groupby("row")["attribution"].sum().to_numpy() + cube["base_value"].values[:, 0]
assert np.abs(total - cube["prediction"].values[:, 0]).max() < 1e-9
pd.Series(lengths).value_counts().sort_index().rename("texts of each length")

# %% [markdown]
# Next: `docs/texts.md` describes tokenizers, replacements other than padding, and how to read files of texts block by
# block.
