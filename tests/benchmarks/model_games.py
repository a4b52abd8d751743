"""Games of real models on real tables, with Shapley values by another way than any design.

Boosted trees: shap's interventional TreeSHAP, or every coalition.  Networks: every coalition.
Support vector machines with a Gaussian kernel: each support vector and background row is a product
over the players, whose Shapley values are the integral over t of Π_{k≠i} (t a_k + (1 − t) b_k) (a_i
− b_i), exact by Gauss–Legendre.  The image's logistic model and the votes are functions of a sum
over the players present (`tests.benchmarks.games.OfSums`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import lgamma
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from dshap.core.records import BoolArray, FloatArray
from tests.benchmarks.games import OfSums, games_of

__all__ = ["MODELS", "ModelGames", "RowGames", "enumerated"]

FITTED_ROWS = 8_000
BLOCK = 1 << 16
"""Mixed rows that a model is called with."""
MAX_TABLE = 16
"""Players up to which every coalition is evaluated once and looked up."""
N_WORDS, N_VOCABULARY = 60, 2_000
N_VOTERS = 30
SIDE = 4
"""Pixels of a patch: 49 patches of an image of 28 × 28."""


class ModelGames(Protocol):
    """One game an instance."""

    name: str

    @property
    def n_players(self) -> int: ...

    @property
    def n_instances(self) -> int: ...

    def values(self, instance: int, masks: BoolArray) -> FloatArray:
        """v (m,) of coalitions (m, d)."""
        ...

    def truth(self, n: int) -> FloatArray:
        """phi (n, d) of the first instances."""
        ...


def enumerated(values: FloatArray) -> FloatArray:
    """phi (d,) from v (2^d,) by the bits of the coalition."""
    d = int(np.log2(len(values)))
    codes = np.arange(1 << d)
    size = sum((codes >> i) & 1 for i in range(d))
    weight = np.array([np.exp(lgamma(s + 1) + lgamma(d - s) - lgamma(d + 1)) for s in range(d)])
    without = [codes[(codes >> i) & 1 == 0] for i in range(d)]
    return np.array(
        [weight[size[own]] @ (values[own | 1 << i] - values[own]) for i, own in enumerate(without)]
    )


def coalitions(d: int) -> BoolArray:
    """(2^d, d) by their bits."""
    return (np.arange(1 << d)[:, None] >> np.arange(d)) & 1 == 1


@dataclass
class RowGames:
    """v_S(x): mean prediction over background rows with the columns of S from x."""

    name: str
    rows: FloatArray
    """(n, d)"""
    background: FloatArray
    """(b, d)"""
    predict: Callable[[FloatArray], FloatArray]
    phi: Callable[[FloatArray, FloatArray], FloatArray] | None = None
    """(rows, background) -> phi (n, d) by another program; None: every coalition."""
    tables: dict[int, FloatArray] = field(default_factory=dict)
    """v (2^d,) of the instances that were asked for."""

    @property
    def n_players(self) -> int:
        return self.rows.shape[1]

    @property
    def n_instances(self) -> int:
        return len(self.rows)

    def evaluated(self, instance: int, masks: BoolArray) -> FloatArray:
        """v (m,) by calling the model."""
        step = max(1, BLOCK // len(self.background))
        parts = []
        for start in range(0, len(masks), step):
            # (m, b, d)
            mixed = np.where(
                masks[start : start + step, None], self.rows[instance], self.background
            )
            predicted = np.asarray(self.predict(mixed.reshape(-1, self.n_players)), dtype=float)
            parts.append(predicted.reshape(len(mixed), -1).mean(axis=1))
        return np.concatenate(parts)

    def values(self, instance: int, masks: BoolArray) -> FloatArray:
        d = self.n_players
        if d > MAX_TABLE:
            return self.evaluated(instance, masks)
        if instance not in self.tables:
            self.tables[instance] = self.evaluated(instance, coalitions(d))
        return np.asarray(self.tables[instance][masks @ (1 << np.arange(d))])

    def truth(self, n: int) -> FloatArray:
        if self.phi is not None:
            return self.phi(self.rows[:n], self.background)
        every = coalitions(self.n_players)
        return np.array([enumerated(self.values(i, every)) for i in range(n)])


def by_tree_shap(model: Any) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """shap's interventional values."""

    def phi(rows: FloatArray, background: FloatArray) -> FloatArray:
        import shap

        explainer = shap.TreeExplainer(model, background, feature_perturbation="interventional")
        return np.asarray(explainer.shap_values(rows, check_additivity=False)).reshape(rows.shape)

    return phi


def machine_of(
    vectors: FloatArray, weights: FloatArray, gamma: float, offset: float
) -> Callable[..., FloatArray]:
    """Σ_j weights_j exp(−gamma |x − vectors_j|²) + offset, by one matrix product."""
    squares = np.square(vectors).sum(axis=1)

    def predict(x: FloatArray) -> FloatArray:
        distances = np.square(x).sum(axis=1)[:, None] + squares - 2 * (x @ vectors.T)
        return np.asarray(np.exp(-gamma * distances) @ weights + offset)

    return predict


def by_products(
    vectors: FloatArray, weights: FloatArray, gamma: float
) -> Callable[..., FloatArray]:
    """Of Σ_j weights_j exp(−gamma |x − vectors_j|²)."""

    def phi(rows: FloatArray, background: FloatArray) -> FloatArray:
        nodes, masses = np.polynomial.legendre.leggauss(rows.shape[1] // 2 + 1)
        out = np.zeros(rows.shape)
        for i, x in enumerate(rows):
            own = np.exp(-gamma * (x - vectors) ** 2)  # (vectors, d)
            for row in background:
                other = np.exp(-gamma * (row - vectors) ** 2)
                for t, mass in zip((nodes + 1) / 2, masses / 2, strict=True):
                    mixed = t * own + (1 - t) * other
                    out[i] += (
                        mass * weights @ (mixed.prod(axis=1, keepdims=True) / mixed * (own - other))
                    )
        return out / len(background)

    return phi


@dataclass
class SumGames:
    """Functions of a sum over the players present."""

    name: str
    games: OfSums

    @property
    def n_players(self) -> int:
        return self.games.weights.shape[1]

    @property
    def n_instances(self) -> int:
        return len(self.games.weights)

    def _of(self, instances: slice) -> OfSums:
        return OfSums(
            self.games.weights[instances], lambda r, sums: self.games.g(r + instances.start, sums)
        )

    def values(self, instance: int, masks: BoolArray) -> FloatArray:
        return self._of(slice(instance, instance + 1)).values(masks)[0]

    def truth(self, n: int) -> FloatArray:
        return self._of(slice(0, n)).shapley


@dataclass
class TextGames:
    """v_S: the model's output for a text of which only the words of S are there; players are its
    first 60 words that the vocabulary has, each once."""

    name: str
    words: np.ndarray
    """(n, 60): columns of the vocabulary."""
    predict: Callable[[FloatArray], FloatArray]
    phi: Callable[[FloatArray, FloatArray], FloatArray]
    """(rows, background) -> (n, vocabulary); the background is the empty text."""

    @property
    def n_players(self) -> int:
        return self.words.shape[1]

    @property
    def n_instances(self) -> int:
        return len(self.words)

    def rows(self, instance: int, masks: BoolArray) -> FloatArray:
        out = np.zeros((len(masks), N_VOCABULARY), dtype=np.float32)
        out[:, self.words[instance]] = masks
        return out

    def values(self, instance: int, masks: BoolArray) -> FloatArray:
        return np.asarray(self.predict(self.rows(instance, masks)), dtype=float)

    def truth(self, n: int) -> FloatArray:
        whole = np.concatenate(
            [self.rows(i, np.ones((1, self.n_players), dtype=bool)) for i in range(n)]
        )
        phi = self.phi(whole.astype(float), np.zeros((1, N_VOCABULARY)))
        return np.take_along_axis(phi, self.words[:n], axis=1)


def table(
    folder: Path, name: str, n: int, n_background: int, scaled: bool
) -> tuple[FloatArray, ...]:
    """Rows to fit on, their targets (scaled to mean 0 and deviation 1), n other rows and a
    background."""
    frame = pd.read_parquet(folder / f"{name}.parquet")
    x = frame[[column for column in frame if str(column).startswith("x")]].to_numpy(float)
    y = frame["y"].to_numpy(float)
    if scaled:
        x, y = (x - x.mean(axis=0)) / x.std(axis=0), (y - y.mean()) / y.std()
    order = np.random.default_rng(0).permutation(len(x))
    fitted = order[:FITTED_ROWS][: len(x) // 2]
    return (
        x[fitted],
        y[fitted],
        x[order[-n_background - n : -n_background]],
        x[order[-n_background:]],
    )


def boosted(name: str) -> Callable[[Path, int], ModelGames]:
    """XGBoost, 200 trees of depth 5; 20 background rows."""

    def make(folder: Path, n: int) -> ModelGames:
        import xgboost

        x, y, rows, background = table(folder, f"uci_{name}", n, 20, scaled=False)
        model = xgboost.XGBRegressor(n_estimators=200, max_depth=5, n_jobs=1).fit(x, y)
        phi = by_tree_shap(model) if rows.shape[1] > MAX_TABLE else None
        return RowGames(f"trees, {name}", rows, background, model.predict, phi)

    return make


def network(
    name: str, hidden: tuple[int, ...], activation: str
) -> Callable[[Path, int], ModelGames]:
    """scikit-learn's perceptron; 5 background rows."""

    def make(folder: Path, n: int) -> ModelGames:
        from sklearn.neural_network import MLPRegressor

        x, y, rows, background = table(folder, f"uci_{name}", n, 5, scaled=True)
        model = MLPRegressor(
            hidden_layer_sizes=hidden, activation=activation, max_iter=300, random_state=0
        ).fit(x, y)
        return RowGames(f"network, {name}", rows, background, model.predict)

    return make


def machine(folder: Path, n: int) -> ModelGames:
    """A support vector machine on 32 columns; 10 background rows."""
    from sklearn.svm import SVR

    x, y, rows, background = table(folder, "uci_pumadyn32nm", n, 10, scaled=True)
    gamma = 1 / x.shape[1]
    model = SVR(gamma=gamma, epsilon=0.5).fit(x[:1_000], y[:1_000])
    parts = model.support_vectors_, model.dual_coef_[0], gamma
    predict = machine_of(*parts, model.intercept_[0])
    return RowGames("SVM, pumadyn32nm", rows, background, predict, by_products(*parts))


def texts(folder: Path, n: int) -> tuple[FloatArray, FloatArray, np.ndarray]:
    """Bags of words of reviews (which of the vocabulary are there), ratings, and 60 words of n
    others."""
    from sklearn.feature_extraction.text import CountVectorizer

    frame = pd.read_parquet(folder / "imdb_reviews.parquet").sample(8_000, random_state=0)
    vectorizer = CountVectorizer(max_features=N_VOCABULARY, stop_words="english", binary=True)
    bags = vectorizer.fit_transform(frame["text"]).astype(np.float32)
    known, tokens = vectorizer.vocabulary_, vectorizer.build_analyzer()
    words = []
    for text in frame["text"][4_000:]:
        own = list(dict.fromkeys(known[token] for token in tokens(text) if token in known))
        if len(own) >= N_WORDS:
            words.append(own[:N_WORDS])
        if len(words) == n:
            break
    return bags[:4_000].toarray(), frame["rating"][:4_000].to_numpy(float), np.array(words)


def bags(folder: Path, n: int) -> tuple[FloatArray, ...]:
    """Which of 60 words 4,000 reviews have, their ratings, the same of n others, and of 20 more as
    a background."""
    x, y, _ = texts(folder, 1)
    telling = np.argsort(
        -np.abs((x - x.mean(axis=0)).T @ (y - y.mean())) / np.sqrt(x.var(axis=0) + 1e-9)
    )[:N_WORDS]
    x = x[:, telling].astype(float)
    return x[: -n - 20], y[: -n - 20], x[-n - 20 : -20], x[-20:]


def bag_trees(folder: Path, n: int) -> ModelGames:
    """XGBoost, 200 trees of depth 5, on 60 columns."""
    import xgboost

    x, y, rows, background = bags(folder, n)
    model = xgboost.XGBRegressor(n_estimators=200, max_depth=5, n_jobs=1).fit(x, y)
    return RowGames("bags of 60 words, trees", rows, background, model.predict, by_tree_shap(model))


def bag_machine(folder: Path, n: int) -> ModelGames:
    """A support vector machine on 60 columns."""
    from sklearn.svm import SVR

    x, y, rows, background = bags(folder, n)
    gamma = 0.05
    model = SVR(gamma=gamma).fit(x[:1_000], y[:1_000])
    parts = model.support_vectors_, model.dual_coef_[0], gamma
    return RowGames(
        "bags of 60 words, SVR",
        rows,
        background,
        machine_of(*parts, model.intercept_[0]),
        by_products(*parts),
    )


def text_trees(folder: Path, n: int) -> ModelGames:
    """XGBoost, 200 trees of depth 5."""
    import xgboost

    x, y, words = texts(folder, n)
    model = xgboost.XGBRegressor(n_estimators=200, max_depth=5, n_jobs=1).fit(x, y)
    return TextGames("60 words, trees", words, model.predict, by_tree_shap(model))


def text_machine(folder: Path, n: int) -> ModelGames:
    """A support vector machine; words that a text does not have are in no coalition."""
    from sklearn.svm import SVR

    x, y, words = texts(folder, n)
    gamma = 0.01
    model = SVR(gamma=gamma).fit(x[:1_500], y[:1_500])
    vectors, weights = np.asarray(model.support_vectors_, dtype=float), model.dual_coef_[0]

    def phi(rows: FloatArray, background: FloatArray) -> FloatArray:
        out = np.zeros(rows.shape)
        for i, row in enumerate(rows):
            there = np.flatnonzero(row)
            absent = np.exp(-gamma * np.square(np.delete(vectors, there, axis=1)).sum(axis=1))
            own = by_products(vectors[:, there], weights * absent, gamma)
            out[i, there] = own(row[None, there], background[:, there])[0]
        return out

    return TextGames(
        "60 words, SVR", words, machine_of(vectors, weights, gamma, model.intercept_[0]), phi
    )


def image(folder: Path, n: int) -> ModelGames:
    """The probability of an 8 against a 3 by a logistic model; patches that are absent have the
    mean image's pixels."""
    from sklearn.linear_model import LogisticRegression

    arrays = np.load(folder / "mnist_3_vs_8.npz")
    x, y = arrays["x_train"].reshape(-1, 28 * 28) / 255, arrays["y_train"]
    model, mean = LogisticRegression(C=0.01, max_iter=500).fit(x, y == y.max()), x.mean(axis=0)
    shifts = ((arrays["x_test"][:n].reshape(n, -1) / 255 - mean) * model.coef_[0]).reshape(
        n, 7, SIDE, 7, SIDE
    )
    weights = np.round(100 * shifts.sum(axis=(2, 4)).reshape(n, 49)).astype(int)
    offset = float(mean @ model.coef_[0] + model.intercept_[0])
    return SumGames(
        "49 patches, logistic",
        OfSums(weights, lambda r, sums: 1 / (1 + np.exp(-offset - sums / 100))),
    )


def voters(folder: Path, n: int) -> ModelGames:
    """30 voters of whole weights."""
    games = games_of("votes", N_VOTERS, n, 0)
    assert isinstance(games, OfSums)
    return SumGames("votes", games)


MODELS: Mapping[str, Callable[[Path, int], ModelGames]] = {
    "keggdirected": boosted("keggdirected"),
    "protein": boosted("protein"),
    "parkinsons": boosted("parkinsons"),
    "svm": machine,
    "elevators": network("elevators", (64,), "tanh"),
    "parkinsons network": network("parkinsons", (32, 32), "relu"),
    "bags by trees": bag_trees,
    "bags by svr": bag_machine,
    "words by trees": text_trees,
    "words by svr": text_machine,
    "image": image,
    "votes": voters,
}
