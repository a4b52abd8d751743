"""`dshap.Explainer`: the calls of the shap package, which return a `shap.Explanation` for plots."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dshap.api import explain
from dshap.core.annotations import ClientLike, HasPredict, KeyLike, PathLike, Predict, TableLike
from dshap.core.errors import InputError
from dshap.core.fixed_words import DesignName, LinkName, Scale
from dshap.core.options import CubeOptions
from dshap.core.records import FloatArray
from dshap.core.types import Design, Explained, Link
from dshap.models import KernelModel
from dshap.predictors.named import columns_by_name
from dshap.report.shap_values import by_output, explanation_of, require_shap
from dshap.run.given_models import kernel_model_of, marginal_of_classes
from dshap.tables.sources import kind_of
from dshap.trees.tree_kinds import is_ensemble
from dshap.values import KernelInterventional, Marginal
from dshap.values.background import Background
from dshap.values.trees import as_value

if TYPE_CHECKING:
    import shap


class ExplainerOptions(CubeOptions, total=False):
    """Options, by keyword, of a call of `Explainer`, which `dshap.explain` describes."""

    store: PathLike | None
    key: KeyLike | None
    tol: float | None
    columns: Mapping[str, Mapping[str, object]] | None
    card: Mapping[str, str | float | date | Sequence[str]] | None
    keep_rows: bool | None
    progress: bool | None


class Explainer:
    """Explain models with the calls of ``shap.Explainer``: create it once, then call it with rows.

    A predict function is explained by interventional values, and a tree ensemble by TreeSHAP.  The
    result is a ``shap.Explanation``, which the plots of shap accept.

    Parameters
    ----------
    model : callable, fitted model or value function
        One of these:

        - a predict function, rows -> (n,) or (n, k); for a classifier give its `predict_proba`;
        - a model with `predict` that is not a classifier;
        - a fitted `dshap.models.KernelRidge` or `KernelLogistic`, which is explained in closed form;
        - a tree ensemble of XGBoost, LightGBM, CatBoost or scikit-learn, which needs no masker.  See
          `dshap.values.Trees`: boosted classifiers of two classes are explained on the scale of
          log-odds, those of more classes by their scores;
        - a value function of `dshap.values`, which has its own background.
    masker : array, data frame, `Background`, shap masker with `data`, path or collection
        The background: the rows from which absent columns get their values, such as ``X[:100]``.
    link : "identity", "logit", a link of `dshap.values`, or ``shap.links.logit``
        The function of a prediction that is explained: ``"logit"`` explains log-odds in place of
        probabilities.
    feature_names, output_names, players : as in `dshap.values.Marginal`
    classes : list of str or int, optional
        The classes of a classifier to explain, in the order that the outputs shall have.  None
        explains all.
    scale : str, optional
        The scale of the numbers that a predict function returns, such as "log-odds"; see
        `dshap.values.Marginal`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import dshap
    >>> X = np.random.default_rng(0).normal(size=(90, 2))
    >>> labels = np.array(["basic", "gold", "silver"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    >>> model = RandomForestClassifier(n_estimators=3).fit(X, labels)
    >>> dshap.Explainer(model)(X).values.shape  # TreeSHAP, as shap.Explainer(model)(X)
    (90, 2, 3)
    >>> dshap.Explainer(model.predict_proba, X[:20], classes=["gold"])(X).values.shape
    (90, 2)
    >>> dshap.Explainer(lambda x: x[:, 0], X[:20])(X, interactions=True).values.shape
    (90, 2, 2)
    """

    def __init__(
        self,
        model: Explained | HasPredict | Predict,
        masker: Background | TableLike | shap.maskers.Masker | None = None,
        *,
        link: LinkName | Link | Callable[[ArrayLike], ArrayLike] = "identity",
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        players: Mapping[str, Sequence[str | int]] | None = None,
        classes: Sequence[str | int] | None = None,
        scale: Scale | None = None,
    ) -> None:
        if isinstance(model, Explained):
            given = {
                "masker": masker,
                "classes": classes,
                "feature_names": feature_names,
                "output_names": output_names,
                "players": players,
                "scale": scale,
            }
            # refused, as they would have no effect: the value function was made with its own
            named = [name for name, each in given.items() if each is not None] + ["link"] * (
                link != "identity"
            )
            if named:
                raise InputError(
                    f"a value function has its own {' and '.join(named)}: leave "
                    f"{' and '.join(named)} out"
                )
            self.value: Explained = model
            return
        if masker is None and is_ensemble(model):
            _refuse_given(link != "identity", "link", "Trees explains margins")
            _refuse_given(scale is not None, "scale", "Trees states its own")
            self.value = as_value(
                model,
                classes,
                players=players,
                feature_names=feature_names,
                output_names=output_names,
            )
            return
        if masker is None:
            raise InputError(
                "masker is missing: give background rows, like dshap.Explainer(model.predict, "
                "X[:100])"
            )
        background: Any = masker
        if type(masker).__module__.startswith("shap."):
            background = background.data
            if feature_names is None:
                feature_names = getattr(masker, "feature_names", None)
        options: dict[str, Any] = {"players": players, "output_names": output_names}
        if isinstance(model, KernelModel):
            if _link_of(link) != "identity":
                raise InputError(
                    "link= is for predict functions: give one, such as model.predict_proba, in place "
                    "of the model"
                )
            if scale is not None:
                raise InputError(f"{type(model).__name__} states its own scale: leave scale out")
            chosen = kernel_model_of(model, classes)
            self.value = KernelInterventional(chosen, background, **options)
        else:
            value = Marginal(
                _predict_of(model),
                background,
                feature_names=feature_names,
                link=_link_of(link),
                scale=scale,
                **options,
            )
            self.value = marginal_of_classes(value, classes)

    def __call__(
        self,
        X: TableLike,
        *,
        max_evals: int | None = None,
        design: Design | DesignName = "auto",
        client: ClientLike | None = None,
        interactions: bool = False,
        **options: Unpack[ExplainerOptions],
    ) -> shap.Explanation:
        """Explain rows.

        Parameters
        ----------
        X : array, data frame, or any table that `dshap.explain` takes
        max_evals : int, optional
            The most coalitions for each row (`max_coalitions` of `dshap.explain`).  If there are at
            most this many coalitions, all are evaluated.
        interactions : bool, default False
            Whether to return the interactions of all pairs of columns, in the form that shap uses:
            half the Shapley interaction index of each pair, and main effects on the diagonal.
        design, client : as in `dshap.explain`
        store, key, tol, columns, card, keep_rows, progress : as in `dshap.explain`
        missing, dtype, units, codes, undo_codes, stochastic : as in `dshap.explain`
        instance_tile, coalition_tile, coalition_groups, micro_rows : as in `dshap.explain`
        row_span, memory_limit, wait, scratch : as in `dshap.explain`

        Returns
        -------
        shap.Explanation
            `values` (n, d), or (n, d, k) for several outputs; with interactions (n, d, d) or (n, d,
            d, k); `base_values` (n,) or (n, k); `data` (n, columns); and `error_std` if the
            attributions have standard errors.

        Raises
        ------
        InputError
            The shap package is not installed.
        DshapError
            As in `dshap.explain`.
        """
        require_shap()
        start = time.perf_counter()
        cube = explain(
            self.value,
            X,
            design=design,
            client=client,
            max_coalitions=max_evals,
            interactions=interactions,
            **options,
        )
        explanation = explanation_of(cube, _data_of(X, self.value), interactions)
        explanation.compute_time = time.perf_counter() - start
        return explanation

    def shap_values(
        self,
        X: TableLike,
        *,
        max_evals: int | None = None,
        design: Design | DesignName = "auto",
        client: ClientLike | None = None,
        **options: Unpack[ExplainerOptions],
    ) -> FloatArray:
        """Explain rows, and return only the array of attributions.

        The shap package is not needed.

        Parameters
        ----------
        X, max_evals, design, client : as in a call of the explainer
        store, key, tol, columns, card, keep_rows, progress : as in `dshap.explain`

        Returns
        -------
        array
            Attributions (n, d), or (n, d, k) for several outputs.

        Raises
        ------
        InputError
            Interactions were asked for: only a call of the explainer returns them.
        DshapError
            The errors of `dshap.explain`.

        Examples
        --------
        >>> import numpy as np
        >>> import dshap
        >>> rows = np.random.default_rng(0).normal(size=(100, 3))
        >>> explainer = dshap.Explainer(lambda x: x[:, 0] - 2 * x[:, 1], rows)
        >>> explainer.shap_values(rows[:5], progress=False).shape
        (5, 3)
        """
        given: Mapping[str, object] = options
        if given.get("interactions"):
            raise InputError(
                "shap_values gives attributions: leave interactions out, or call the explainer, "
                "like explainer(X, interactions=True).values"
            )
        return by_output(
            explain(
                self.value, X, design=design, client=client, max_coalitions=max_evals, **options
            )["attribution"].values
        )


def _refuse_given(is_given: bool, name: str, why: str) -> None:
    """Raise an error if an option is given that does not apply."""
    if is_given:
        raise InputError(
            f"{name} is given, and {why}: leave {name} out, or give a masker and a predict function"
        )


def _predict_of(model: Any) -> Callable[[FloatArray], Any]:
    """The predict function of a model."""
    if hasattr(model, "predict"):
        if hasattr(model, "classes_"):
            raise InputError(
                f"{type(model).__name__} is a classifier: name the method to explain, like "
                "dshap.Explainer(model.predict_proba, X[:100])"
                + (
                    ", or leave masker out for TreeSHAP: dshap.Explainer(model)"
                    if is_ensemble(model)
                    else ""
                )
            )
        predict: Callable[[FloatArray], Any] = model.predict
        return predict
    if callable(model):
        return model
    raise InputError(
        f"model is {type(model).__name__}: give a predict function, or a model that has predict"
    )


def _link_of(link: Any) -> LinkName | Link:
    """The name of a link of shap, which is a function; a link of dshap unchanged."""
    is_of_shap = callable(link) and not isinstance(link, Link)
    if is_of_shap:
        return getattr(link, "__name__", "identity")
    return link


def _data_of(X: Any, value: Explained) -> Any:
    """The explained values (n, d) in memory, where every player is one column; else None."""
    if value.players.members.sum(axis=1).max() > 1:
        return None
    match kind_of(X):
        case "data frame":
            names = value.model.feature_names
            return (columns_by_name(X, names) if names else X).to_numpy()
        case "array" | "list":
            return np.asarray(X)
    return None
