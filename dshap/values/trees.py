"""Tree ensembles, exactly: their players, and the meaning of absent ones."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dshap.core.annotations import TableLike, TreeEnsemble
from dshap.core.duck_typing import has_member, of_estimator
from dshap.core.errors import InputError, shown
from dshap.core.records import JSON, digest_of
from dshap.core.rows import OfTable
from dshap.core.rules import Whole
from dshap.core.types import replaced
from dshap.predictors.named import fitted_names_of, names_of
from dshap.trees.tree_kinds import is_ensemble
from dshap.trees.tree_model import TreeModel, model_of_trees
from dshap.values.background import Background, checked_weights
from dshap.values.base import TableValue

ALL = "all"
"""The background that is the table which is explained."""
WEIGHT_BITS = 40
"""Bits of the largest weight of a background row."""
INTERVENTIONAL = "interventional"
"""Absent players are those of background rows."""


def as_value(given: Any, classes: Sequence[Any] | None = None, **options: Any) -> Any:
    """The `Trees` of a fitted tree ensemble, of some of its classes; other objects unchanged.

    Parameters
    ----------
    given : fitted tree ensemble, or any other object
    classes : the classes to explain; if the model does not name its classes, the names of all
    **options : further options of `Trees`

    Raises
    ------
    InputError
        Classes that the model does not have, or classes for an object that is not a tree ensemble.
    """
    if classes is None:
        if is_ensemble(given):
            return Trees(given, **options)
        return given
    if not is_ensemble(given):
        raise InputError(
            f"classes goes with a fitted tree ensemble, and value is {shown(given)}: leave "
            "classes out, or name the class where the value function is made"
        )
    if of_estimator(given, "classes_") is None:
        return Trees(given, classes=classes, **options)
    return Trees(given, **options).of_classes(classes)


class Trees(TableValue):
    r"""Exact Shapley values of a fitted tree ensemble, computed from its trees.

    Without a background v_S(x) is path-dependent: if the column of a decision is absent, both
    branches count, weighted by the training rows that went there.  With background rows z the value
    is interventional, v_S(x) = mean over z of the margin of (x_S, z_S̄), as with `Marginal`.  The
    margin is the sum of the outputs of the trees.

    Parameters
    ----------
    model : fitted ensemble of XGBoost, LightGBM, CatBoost or scikit-learn
        A booster, or one of the libraries' classes for scikit-learn; of scikit-learn itself trees,
        forests, gradient boosting (also by histograms) and isolation forests.  Margins are
        explained:

        - the log-odds of a boosted classifier of two classes (the output is named "log-odds of
          CLASS");
        - the scores of the classes of a boosted classifier of three or more ("score of CLASS").
          They are known only up to a constant that all classes share, so that only differences
          between classes have a meaning;
        - the logarithm of Poisson, Gamma and Tweedie predictions ("log of the prediction");
        - the probabilities of scikit-learn's forests;
        - the predictions themselves in all other cases.
    background : "all", int, Background, array (b, columns), data frame or source
        "all" takes the rows that are explained, a number a random sample of them, and a source is
        anything that `dshap.explain` accepts as rows.  Background rows are counted once, by the
        patterns of decisions that they meet, so that any number of them costs the same afterwards.
    weights : array (b,), optional
        Weights of the rows of a background in memory.  They are rounded to multiples of 2⁻⁴⁰ of the
        largest, so that sums do not depend on the order of rows.  With more than four million rows
        they have fewer bits, so that their sum fits into 64 bits.
    players : mapping of a player's name to its columns, optional
        Every column that it does not name is a separate player.
    feature_names : sequence of str, optional
        Names of the columns, if the library changed them (LightGBM replaces blanks by "_").
    output_names : sequence of str, optional
        By default the outputs are named after the margin and its class, as above.
    categories : mapping from column name to its categories, optional
        The categories are in the order of their codes.  Only for a model that was fitted on pandas
        categories and did not store them: XGBoost before 3.1,
        and LightGBM if some categories are ordered (it stores the lists without their columns).
    classes : sequence, optional
        Names of the classes of a classifier, in the order of its probabilities, for `output_names`;
        by default its own `classes_`.

    Raises
    ------
    InputError
        The model is not a tree ensemble; its trees do not add up to its margins; its predictions do
        not follow from its margins by a known link; its categories were not stored; it has linear
        leaves, or starts from another model.

    Notes
    -----
    Method: the path of a leaf tests some players, k of them.  Which of these pass for a row is one of
    2^k patterns.  The values of all patterns of a group of leaves are added up in tables beforehand,
    and a row is looked up in these tables, one number for each group and player.  Trees with too many
    players for tables are integrated by quadrature, which is exact up to 64 players of a leaf.
    Source: Nadel and Wettenstein, From decision trees to Boolean logic: a fast and unified SHAP
    algorithm (AAAI 2026).  The values are those of Lundberg et al., From local explanations to global
    understanding with explainable AI for trees (Nature Machine Intelligence 2, 2020).

    Checks: the trees are read from the library's dump.  Σ φ + base value of each row is compared with
    the margin that the library computes; the cube stores the `largest_gap`, which is rounding (of
    single precision for XGBoost).  On the first rows of every run margins are also compared with the
    model's `predict_proba` or `predict`.  A column that the model never uses gets exactly 0.

    Rounds: after early stopping dshap uses the rounds of the model's `predict`, which are all rounds
    of an XGBoost booster, and those up to the best one in all other cases; the plan shows how many.
    A LightGBM random forest is explained as the mean of its trees, as it predicts, although its
    `raw_score` is their sum.

    Missing values and categories: the number that `missing` of XGBoost's scikit-learn classes names
    counts as missing, as NaN does.  Models fitted on data frames with categories accept any table
    whose columns contain these categories by value, as categories in any order, text or numbers.  An
    unseen category counts as missing with LightGBM and with scikit-learn's histogram boosting, and is
    an error with XGBoost, as in their predictions.

    With ``interactions=True`` the cube has half the Shapley interaction index of each pair, and main
    effects on the diagonal, with a background and without.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> import dshap
    >>> X = np.random.default_rng(0).normal(size=(90, 2))
    >>> model = GradientBoostingRegressor(n_estimators=20).fit(X, X[:, 0] * X[:, 1])
    >>> cube = dshap.explain(dshap.values.Trees(model), X[:5])
    >>> total = cube.attribution.sum("feature") + cube.base_value
    >>> bool(np.allclose(total.values[:, 0], model.predict(X[:5])))
    True
    """

    model: TreeModel
    data_weights: NDArray[np.int64] | None = None
    """(b,): weights of background rows as integers; None: equal weights."""
    how: str
    """The kind of the game: "path-dependent", or "interventional" with a background."""

    def __init__(
        self,
        model: TreeEnsemble,
        background: Literal["all"] | int | Background | TableLike | None = None,
        *,
        weights: ArrayLike | None = None,
        players: Mapping[str, Sequence[str | int]] | None = None,
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        categories: Mapping[str, Sequence[Hashable]] | None = None,
        classes: Sequence[str | int] | None = None,
    ) -> None:
        if isinstance(background, Background):
            if weights is not None:
                raise InputError("weights belong to rows; a Background has its own: leave them out")
            weights = background.weights
            background = background.table(names_of(feature_names, fitted_names_of(model), None))
        explained = model_of_trees(
            model, background, feature_names, output_names, categories, classes
        )
        if note := explained.library.rounds.note:
            self.notes = {"rounds": {"note": note}}
        super().__init__(explained, _data_of(background), players)
        if weights is not None:
            self.data_weights = _whole_weights(weights, background)
        if background is None:
            self.how = "path-dependent"
        else:
            self.how = INTERVENTIONAL

    def of_classes(self, classes: Sequence[str | int]) -> Trees:
        """A copy of this value function that explains only some classes of a classifier.

        Parameters
        ----------
        classes : sequence of str or int
            Names of classes, in the order of the outputs.  A classifier of two classes has one
            output, for the second class; the attributions of the first class are the same times −1.

        Returns
        -------
        Trees

        Raises
        ------
        InputError
            The model is not a classifier, or has no class of this name.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> from dshap.values import Trees
        >>> X = np.random.default_rng(0).normal(size=(90, 2))
        >>> labels = np.array(["basic", "gold", "silver"])[np.digitize(X[:, 0], [-0.5, 0.5])]
        >>> model = RandomForestClassifier(n_estimators=3).fit(X, labels)
        >>> Trees(model).of_classes(["gold", "silver"])
        Trees(2 players: x0, x1; outputs: gold, silver)
        """
        return replaced(self, model=self.model.of_classes(classes))

    def fingerprint(self) -> dict[str, JSON]:
        """The settings and digests that identify the values: equal fingerprints, equal numbers."""
        return {
            "value": "trees",
            **self.model.fingerprint(),
            "absent": self.how,
            "weights": None if self.data_weights is None else digest_of(self.data_weights.tolist()),
            "players": self.players.fingerprint(),
        }


def _data_of(background: Any) -> Any:
    """The background rows; if a word or a number is given, rows of the explained table."""
    if isinstance(background, str) and background == ALL:
        return OfTable()
    if isinstance(background, int | np.integer):
        return OfTable(Whole(1)("background", background))
    return background


def _whole_weights(weights: Any, background: Any) -> NDArray[np.int64]:
    """Weights (b,) as integers, in units of 2⁻⁴⁰ of the largest, or as their sum fits 63 bits."""
    if not has_member(background, "__len__") or isinstance(background, str):
        raise InputError("weights are for a background in memory: give an array or a data frame")
    given = checked_weights(weights, len(background))
    # the sum of all weights has to fit into an int64
    bits = min(WEIGHT_BITS, 62 - len(given).bit_length())
    return np.rint(given * (2.0**bits / given.max())).astype(np.int64)
