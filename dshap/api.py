"""The public functions: `explain`, `fit`, `prepare` and others; no numerics."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, Unpack

from dshap.core.annotations import (
    ClientLike,
    HasPredict,
    KeyLike,
    PathLike,
    Predict,
    TableLike,
    TargetLike,
)
from dshap.core.capabilities import is_of_texts
from dshap.core.errors import DoesNotFitError, EmptyTableError, InputError, LockedError, shown
from dshap.core.fixed_words import DesignName, MissingRule
from dshap.core.options import RULES, ExplainOptions, LearnOptions
from dshap.core.printing import format_bytes
from dshap.core.rows import column_bytes, read_columns
from dshap.core.rules import checked
from dshap.core.scales import scale_of
from dshap.core.types import Design, Explained, RowReader
from dshap.cube import empty_cube, open_cube, read_job, states_of
from dshap.cube.columns import category_orders, column_variables
from dshap.cube.methods import offer, summary_line
from dshap.models import KernelModel
from dshap.predictors.times import times_of
from dshap.report.what_if.keeping import keep_what_if
from dshap.run.description import described, described_by_call
from dshap.run.explanation import Explanation
from dshap.run.fitting import fit_models
from dshap.run.given_models import value_of_given
from dshap.run.in_memory import ExplanationInMemory, ExplanationOfWorkers
from dshap.run.measuring import Measurable, measure, measured_quality, open_held_out
from dshap.run.preparation import prepare_value
from dshap.run.prepared_states import Prepared
from dshap.run.quality import Quality
from dshap.run.session import Session, open_session
from dshap.storage.running import is_running
from dshap.tables import check_targets, open_rows, said_left_out, take_census
from dshap.tables.background import background_of
from dshap.tables.frame_index import with_index
from dshap.tables.reader import LaidOut
from dshap.values import Background

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "choose_background",
    "explain",
    "fit",
    "fit_path",
    "mse_v",
    "open_cube",
    "prepare",
]
IN_MEMORY_BYTES = 2 << 30
"""The largest cube, in bytes of attributions and columns, that store=None computes."""


PICTURES = (
    "bar",
    "beeswarm",
    "dependence",
    "force",
    "heatmap",
    "interactions",
    "waterfall",
)
"""The functions of `dshap.report` that draw a cube: their first parameter is `cube`, and they draw
in the axes `ax`."""
offer("dshap.report", *PICTURES, "diff")
offer("dshap.report.shap_values", "to_shap")
offer("dshap.analysis.reason_sentences", "sentences")
offer("dshap.sinks.frames", "to_frame")


def explain(
    value: Explained | Prepared | HasPredict | Predict,
    rows: TableLike,
    *,
    design: Design | Callable[[int], Design] | DesignName = "auto",
    store: PathLike | None = None,
    client: ClientLike | None = None,
    key: KeyLike | None = None,
    tol: float | None = None,
    max_coalitions: int | None = None,
    compute: bool = True,
    classes: Sequence[str | int] | None = None,
    quality: TableLike | None = None,
    what_if: bool = False,
    columns: Mapping[str, Mapping[str, object]] | None = None,
    card: Mapping[str, str | float | date | Sequence[str]] | None = None,
    keep_rows: bool | None = None,
    progress: bool | None = None,
    **options: Unpack[ExplainOptions],
) -> xr.Dataset:
    """Compute the Shapley values of every row, as an attribution cube.

    Computes phi (n, d, k) = finish(Σ_S v_S(x) score_S): the design chooses coalitions and scores,
    the value function gives the value of a coalition.

    Parameters
    ----------
    value : a value function of `dshap.values`; one that `prepare` prepared: then nothing is fitted
        any more; an attributor, rows in and attributions out (`dshap.Attributor`); or a model:

        - a fitted tree ensemble of XGBoost, LightGBM, CatBoost or scikit-learn, short for
          `dshap.values.Trees(ensemble)`;
        - a model of `dshap.models`, short for `dshap.values.KernelInterventional(model, rows)`;
        - any other fitted model (a scikit-learn pipeline, an MLflow pyfunc), or a function such as
          `model.predict_proba`: `dshap.values.Marginal` of its `predict_proba`, else of its `predict`,
          with 100 of the rows as the background: chosen by `choose_background` if all columns are
          numbers, else spread over the table.  A line of progress names this choice.
    rows : the instances: a path of Parquet files (file, folder, glob or a list of them), numpy
        array, pandas DataFrame, pyarrow table or record batch, polars frame, DuckDB relation
        (Arrow's C stream protocol), Dask array or dataframe, xarray Dataset or DataArray,
        `deltalake.DeltaTable`, `pyarrow.dataset.Dataset`, `polars.LazyFrame`, or a source of
        `dshap.sources`.  Columns are matched by name wherever the value function knows
        names.  For `Tokens`, texts of any lengths: lists, an array padded at the end, or a table or
        path with a column of texts.
    design : "auto", "exact", "kriging", "kernelshap", "permutation", "quadrature" or a design of
        `dshap.designs`.  For texts also a design without its graph, such as
        `designs.local(order=2)`, or a function, length -> design.  "auto" is exact where there are
        at most `max_coalitions` coalitions, else kriging with that many (kernelshap for more than
        1,024 players or 4,096 coalitions).
    store : path, optional
        Folder of the cube, readable while it grows: the same call again resumes after a crash.
        None returns a cube in the memory of this process, with the same values as in a store, and
        the explained columns beside them, for pictures; ``keep_rows=False`` leaves these out.
        More than 2 GiB of attributions and columns are refused before anything is computed: give
        a path.  A call that fails or is interrupted leaves no result.  States that are learned
        are in memory up to 256 MiB, the others in temporary files (`TMPDIR`); on a cluster the
        workers write the whole cube there, and it is read into memory at the end.
    client : distributed.Client or the address of a scheduler (`tls://…`), optional
        None: the current Dask client if there is one, else this process.  The scheduler must be
        able to reach `store` and `rows` by path on every worker.
    key : str, list of str, mapping or pandas.Index, optional
        Column(s) of the rows that name them; for arrays a mapping name -> values; for a data frame
        also an index.  The index of a data frame is the key without being asked for if it has a name,
        no value twice, and integers, texts or times.
    tol : float, optional
        Tolerance: coalitions are drawn in rounds for a row, in each output, until the attributions
        of all players at once are known to 2.09 tol of their range with 95 %: the row's largest
        std_error is then tol/1.5 (8 players) to tol/1.9 (60 players) of the range.  The cube
        contains `n_coalitions (instance)`, and `relative_error (instance, output)`, that largest
        std_error over the range.  The error of draws (`Gaussian`, `Copula`) and of few background
        rows is in both, but no row waits for it, as coalitions do not lower it: `n_samples` and
        more background rows do.
    max_coalitions : int, default 2,048
        The number at which rounds end and above which "auto" samples; a design with more
        coalitions is refused.
    quality : rows that nothing was learned from, optional
        MSE_v on these rows goes into the cube's attribute `mse_v`, by coalition size too; see
        `mse_v`.
    what_if : store the model too, for the what-if of `dshap.report.page`: small linear
        models, kernels and path-dependent tree ensembles.  The store then contains the model and,
        of kernels, rows of the table.  A line of progress gives the reason where there is no
        what-if.  The same call on a finished store adds it.
    columns : mapping, optional
        The dictionary of columns, for pictures, pages, tables and messages: column, or group of
        columns, key or output -> a mapping with `label`, `unit`, `format` (of Python, such as
        ".0%", or "year"), `description`, `order` (of its categories), `values` (value -> text) and
        `direction` ("higher is better", "lower is better").  A data frame may have one in its
        `attrs["columns"]`, too.  It is stored with the cube and changes no number: another
        dictionary is no reason to refuse a store.  None leaves that of the store.
    card : mapping, optional
        The card of the model: `purpose`, `owner`, `audience`, `limitations` and others of
        `dshap.core.model_card.CARD_FIELDS`, as texts.  It is stored as the dictionary is.
    compute : False creates the store with its plan, every row pending, and computes nothing
    classes : list of str or int, optional
        The classes of a model to explain, in the order of the outputs.  None explains all of them,
        and of a tree ensemble of two classes the second.  For a tree ensemble that does not name its
        classes, such as a booster of XGBoost, the names of all.
    keep_rows : bool, optional
        Whether to store the explained columns: in the Dataset without a store, else in the group
        `rows` of the store.  None: yes without a store (but for texts), no with one.
    progress : show rate and time left, on standard error or in one line of a notebook; None: on a
        terminal and in a notebook
    missing : {"refuse", "skip", "pass"}, default "refuse"
        What to do with rows that contain NaN or infinity: refuse the run, skip these rows, or pass
        them to the model.
    dtype : {"float64", "float32"}, default "float64"
        The type in which attributions are stored; sums are float64 in any case.
    units : str, default "1"
        The unit of the model's output, such as "EUR", for the cube's attributes and for pictures.
    interactions : bool, default False
        Adds `interaction (instance, feature, feature_other, output)`: half the Shapley interaction
        index of each pair, main effects on the diagonal, rows summing to the attribution (designs
        exact and kriging; `Trees` without a background).
    codes : mapping, optional
        Reason codes: code -> the players that it groups, ``{"C01": ["debt", "limit"]}``; each
        player has one code.  The cube then has the standard errors of their differences.
    undo_codes : bool, optional
        Adds `reason_code_undone (instance, reason_code, output)`: v(N) − v(N without the players of
        the code), which needs one more coalition for each code.
    stochastic : bool, default False
        Set it for a model whose predictions of the same rows differ from call to call, which is
        refused otherwise (`Marginal`): each coalition is predicted twice, v(N) and v(∅) 20 times,
        and std_error includes the noise, even for exact designs.
    instance_tile, coalition_tile, coalition_groups, micro_rows, row_span : int, optional
        Sizes of tasks, which the plan chooses by default: the rows of one task of the evaluation;
        the coalitions that are prepared together; the number of tasks for the coalitions of one
        instance tile; the rows that are evaluated at once; the rows of one task of the sums over
        the data.
    memory_limit : int or str, optional
        The memory of one worker process, in bytes or like "3GiB"; a plan that needs more is
        refused.
    wait : float, default 120
        The seconds that a cluster may be without a worker before the run gives up.
    scratch : str, optional
        The folder for temporary files of a run whose store is in a bucket; workers on other
        machines must see it too.  None: the system's folder for temporary files.

    Returns
    -------
    xarray.Dataset
        `attribution (instance, feature, output)`, `prediction`, `base_value`, `status`; see
        `dshap.open_cube`.  Their attribute `scale` names the scale of the numbers, such as
        "probability", "log-odds" or "unit of the target" (docs/value_functions.md lists all).
        Without a store also `row_COLUMN (instance)`, the explained columns in
        their own dtypes, whose `long_name` is the column's name.  A table without rows gives a
        cube without instances, and nothing is written.

    Raises
    ------
    InputError
        Bad rows, model or options, or an option of another name; nothing is written.
    DoesNotFitError
        A worker's memory, or this process's, is too small; nothing is started.
    StoreMismatchError
        The store contains another run; the message shows the differences.
    LockedError
        Another process runs on this store.
    FailedBlocksError
        Some rows have no attribution; the others are in the store, and the same call retries.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import dshap
    >>> X = np.random.default_rng(0).normal(size=(90, 2))
    >>> value = dshap.values.Marginal(lambda x: x[:, 0] * x[:, 1], X[:20])
    >>> dshap.explain(value, X).attribution.dims
    ('instance', 'feature', 'output')
    >>> labels = np.array(["basic", "gold", "silver"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    >>> model = RandomForestClassifier(n_estimators=3).fit(X, labels)
    >>> dshap.explain(model, X, classes=["gold", "silver"]).output.values.tolist()
    ['gold', 'silver']
    >>> dshap.explain(model.predict_proba, X, classes=["gold"]).sizes["instance"]
    90
    """
    (compute,) = checked(compute=compute)
    what_if = _checked_what_if(what_if, store)
    description = described_by_call(columns, card)
    given, prepared = _with_states(value)
    keeps_columns, stores_columns = _where_columns_go(keep_rows, store, given)
    asked = {
        **options,
        "max_coalitions": max_coalitions,
        "tol": tol,
        "keep_rows": stores_columns,
    }
    with open_session(store, client, progress, asked) as (path, session):
        game = value_of_given(given, rows, classes, session)
        rows, key = with_index(rows, key, session.progress.say)
        if read_job(path.parent) is not None and is_running(path.parent):
            raise LockedError(f"{path.parent} is locked by a running job: wait for it")
        try:
            explanation = _kind_of(store, session).of(
                game, rows, path, session, design=design, key=key, prepared=prepared
            )
        except EmptyTableError:
            session.progress.say("no rows to explain: nothing is computed, and nothing is written")
            names = () if is_of_texts(game) else game.players.names
            outputs = game.link.outputs(game.model.output_names)
            return empty_cube(names, outputs, scale_of(game))
        explanation = described(explanation, description, rows)
        if store is None:
            _check_in_memory(explanation, keeps_columns)
        if quality is None:
            held_out = None
        else:
            held_out = open_held_out(quality, explanation, session)
        if compute:
            explanation.run(session).raise_on_failed()
            _finish(explanation, session, held_out, what_if)
        else:
            explanation.create()
        beside: dict[str, xr.Variable] = {}
        if keeps_columns:
            of_rows = read_columns(explanation.work.rows)
            beside = column_variables(of_rows, category_orders(rows), explanation.layout.flags)
        cube = explanation.dataset(beside)
        if compute and session.shows_progress:
            session.progress.say(f"{summary_line(cube)}; cube.dshap shows more")
        return cube


def _finish(
    explanation: Measurable, session: Session, held_out: RowReader | None, what_if: bool
) -> None:
    """Do what was asked for beyond the attributions: measure MSE_v, store the model for a page."""
    if held_out is not None:
        measure(explanation, held_out, session)
    if what_if and isinstance(explanation, Explanation):
        reason = keep_what_if(explanation, session)
        if reason:
            session.progress.say(f"no what-if: {reason}")


def _with_states(value: Any) -> tuple[Any, Prepared | None]:
    """Separate what is explained from its prepared states, if it has any."""
    if isinstance(value, Prepared):
        return value.value, value
    return value, None


def _where_columns_go(given: bool | None, store: object, value: object) -> tuple[bool, bool]:
    """Whether the explained columns go into the Dataset, and whether into the store.

    Without a store they go into the Dataset, but for texts, whose tokens are in it.
    """
    has_columns = store is None and not is_of_texts(value)
    if given is None:
        return has_columns, False
    keep_rows = RULES["keep_rows"]("keep_rows", given)
    return keep_rows and has_columns, keep_rows and not has_columns


def _checked_what_if(given: Any, store: Any) -> bool:
    """Whether to store the model for a page, which needs a store."""
    (what_if,) = checked(what_if=given)
    if what_if and store is None:
        raise InputError("what_if keeps the model in a store: give store=")
    return bool(what_if)


def prepare(
    value: Explained,
    rows: TableLike | None = None,
    design: Design | DesignName = "auto",
    store: PathLike | None = None,
    *,
    client: ClientLike | None = None,
    progress: bool | None = None,
    **options: Unpack[LearnOptions],
) -> Prepared:
    """Learn once all that does not depend on an instance, for any number of runs.

    `explain(prepared, new_rows)` then fits nothing.

    Parameters
    ----------
    value : a value function that learns from its data (`KernelInterventional`,
        `KernelObservational`, `ConditionalRegression`, `Gaussian`, `Trees` with a background)
    rows : the data to learn from, in any form of the rows of `explain`; None: those of the value
        function
    design : "auto", "exact", "kernelshap" or a design of `dshap.designs`
    store : path of a folder for the states; the same call again resumes after a crash, and computes
        nothing where all states exist
    client, progress : as in `explain`
    max_coalitions, missing, memory_limit, wait, scratch : as in `explain`
    instance_tile, coalition_tile, row_span, micro_rows : as in `explain`

    Returns
    -------
    Prepared
        Open it again with `dshap.open_prepared(store, value)`.  Constant columns remain players:
        later rows may vary where the data do not.

    Raises
    ------
    InputError, DoesNotFitError, StoreMismatchError, LockedError
        As in `explain`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import dshap
    >>> rows = np.random.default_rng(0).normal(size=(40, 2))
    >>> value = dshap.values.Gaussian(lambda x: x[:, 0] * x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     prepared = dshap.prepare(value, store=f"{folder}/states", progress=False)
    ...     monday = dshap.explain(prepared, rows[:3])
    ...     tuesday = dshap.explain(prepared, rows[3:])
    >>> monday.sizes["instance"], tuesday.sizes["instance"]
    (3, 37)
    """
    if store is None:
        raise InputError("prepare needs store=, the path of a folder that the states are kept in")
    with open_session(store, client, progress, options) as (path, session):
        return prepare_value(value, rows, design, path, session)


def mse_v(
    value: Explained | Prepared,
    rows: TableLike,
    *,
    design: Design | DesignName = "auto",
    client: ClientLike | None = None,
    progress: bool | None = None,
    **options: Unpack[LearnOptions],
) -> Quality:
    """Measure how well conditional values are estimated: MSE_v, the smaller the better.

    MSE_v is the mean of (f(x) − v_S(x))² over rows and over proper coalitions, which are all but
    the empty and the full one.  It needs no true values.

    The expectation v_S(x) = E[f(X) | X_S = x_S] has the least MSE_v of all functions of x_S, for
    any distribution of the rows.  Of two value functions, the one with the smaller MSE_v is
    therefore closer to it, if neither learned from the rows that you give.  Interventional values
    do not estimate this expectation, and usually have a larger MSE_v.  A link makes no difference:
    MSE_v compares f(x) with the expectation before the link.

    Parameters
    ----------
    value : a value function, or a prepared one
    rows : rows that nothing was learned from, in any form that `explain` accepts
    design : the design whose proper coalitions are averaged over, weighted by size such that every
        proper coalition counts alike; "auto": all of them where they are at most `max_coalitions`.
        From a sample it is an estimate, interpolated for sizes without a coalition.
    client, progress : as in `explain`
    max_coalitions, missing, memory_limit, wait, scratch : as in `explain`
    instance_tile, coalition_tile, row_span, micro_rows : as in `explain`

    Returns
    -------
    Quality

    Notes
    -----
    Source: Frye et al., Shapley explainability on the data manifold (2021), equation 11; Olsen et
    al., A comparative study of methods for estimating model-agnostic Shapley value explanations
    (2024).

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> train, test = np.random.default_rng(0).normal(size=(2, 100, 2))
    >>> value = dshap.values.Marginal(lambda x: x[:, 0] + x[:, 1], train)
    >>> quality = dshap.mse_v(value, test, progress=False)
    >>> quality.n_rows, quality.mse.shape
    (100, (1,))
    >>> bool(0.5 < quality.mse[0] < 2)  # v_S misses one of two columns of variance 1
    True
    """
    with open_session(None, client, progress, options) as (path, session):
        prepared = value
        if not isinstance(prepared, Prepared):
            prepared = prepare_value(prepared, None, design, path.with_name("prepared"), session)
        return measured_quality(prepared, rows, states_of(path, prepared.path), session)


def _kind_of(
    store: PathLike | None, session: Session
) -> type[Explanation] | type[ExplanationInMemory]:
    """The kind of an explanation: in a store, in memory, or of workers of a cluster."""
    if store is not None:
        return Explanation
    if session.is_local:
        return ExplanationInMemory
    return ExplanationOfWorkers


def _check_in_memory(explanation: Measurable, keeps_columns: bool) -> None:
    """Raise a `DoesNotFitError` where attributions and stored columns do not fit in memory."""
    layout = explanation.layout
    size = 8 * layout.n_rows * len(layout.players) * len(layout.outputs)
    of_columns = keeps_columns * column_bytes(explanation.work.rows)
    allowed = f"store=None allows {format_bytes(IN_MEMORY_BYTES)}"
    if size > IN_MEMORY_BYTES:
        raise DoesNotFitError(
            f"the attributions take {format_bytes(size)}, and {allowed}: give store= a path"
        )
    if size + of_columns > IN_MEMORY_BYTES:
        raise DoesNotFitError(
            f"the attributions take {format_bytes(size)}, the explained columns beside them "
            f"{format_bytes(of_columns)}, and {allowed}: give store= a path, or "
            "keep_rows=False"
        )


def fit[AnyModel: KernelModel](
    model: AnyModel,
    rows: TableLike,
    target: TargetLike | None,
    *,
    features: list[str] | None = None,
    client: ClientLike | None = None,
    missing: MissingRule = "refuse",
    progress: bool | None = None,
) -> AnyModel:
    """Fit a model on all rows of a table, on a cluster: the same bits as `model.fit`.

    Parameters
    ----------
    model : KernelRidge or KernelLogistic
        Not changed; the fitted model is returned.
    rows, client, progress : as in `explain`
    target : column name(s) of the table; for an array or a data frame also the values, (n,) or (n,
        k); None for a source that was opened with its target.  It contains numbers: for labels of
        another type use `KernelLogistic.fit`
    features : columns to fit on; None: all number columns but the target
    missing : "refuse" or "skip" rows with NaN or infinity, in a feature or in the target

    Raises
    ------
    InputError
        Bad rows or options.
    DoesNotFitError
        A worker's memory is too small for the sums.

    Examples
    --------
    >>> import pandas as pd
    >>> import dshap
    >>> houses = pd.DataFrame({"rooms": [1.0, 2.0, 3.0, 4.0], "price": [10.0, 20.0, 30.0, 40.0]})
    >>> embedding = dshap.kernels.Nystrom(4)
    >>> model = dshap.models.KernelRidge(penalty=1e-9, embedding=embedding, holdout=0.0)
    >>> fitted = dshap.fit(model, houses, "price", progress=False)
    >>> fitted.predict(houses[["rooms"]].to_numpy()).round(3).tolist()
    [10.0, 20.0, 30.0, 40.0]
    """
    with _fitting(model, rows, target, features, client, missing, progress) as (session, reader):
        (fitted,) = fit_models(session, model, reader)
    return fitted


def fit_path[AnyModel: KernelModel](
    model: AnyModel,
    rows: TableLike,
    target: TargetLike | None,
    strengths: Sequence[float],
    *,
    features: list[str] | None = None,
    client: ClientLike | None = None,
    missing: MissingRule = "refuse",
    progress: bool | None = None,
) -> list[AnyModel]:
    """Fit a model for each of several strengths of its Shapley penalty.

    It is `model.fit_path` for any table, on a cluster.

    Parameters
    ----------
    model : KernelRidge or KernelLogistic with `shapley=`
    strengths : (s,) of at least 0
    rows, target, features, client, missing, progress : as in `fit`

    Returns
    -------
    list of s fitted models

    Raises
    ------
    InputError, DoesNotFitError
        As in `fit`; also for a model without a penalty, or a strength below 0.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> penalty = dshap.models.ShapleyPenalty(player=1, strength=1.0)
    >>> embedding = dshap.kernels.Nystrom(20)
    >>> model = dshap.models.KernelRidge(penalty=1e-3, embedding=embedding, shapley=penalty)
    >>> path = dshap.fit_path(model, x, x.sum(axis=1), strengths=[0.0, 100.0], progress=False)
    >>> size = [dshap.models.mean_squared_attribution(each, x, x, penalty)[0] for each in path]
    >>> bool(size[1] < size[0] / 10)
    True
    """
    if isinstance(model, KernelModel):
        model.checked_strengths(strengths)  # before any table is opened
    with _fitting(model, rows, target, features, client, missing, progress) as (session, reader):
        return list(fit_models(session, model, reader, strengths))


@contextmanager
def _fitting(
    model: Any,
    rows: Any,
    target: Any,
    features: list[str] | None,
    client: Any,
    missing: MissingRule,
    progress: bool | None,
) -> Iterator[tuple[Session, RowReader]]:
    """Open a session and the rows that a model is fitted to."""
    if not isinstance(model, KernelModel):
        raise InputError(
            f"model is {shown(model)}: give dshap.models.KernelRidge(...) or KernelLogistic(...)"
        )
    if RULES["missing"]("missing", missing) == "pass":
        raise InputError(
            'missing = "pass" is for black boxes: a kernel model is fitted with "refuse" or "skip"'
        )
    with open_session(None, client, progress, {}) as (_, session):
        reader = open_rows(rows, session, features=features, target=target, missing=missing)
        if not reader.has_target:
            raise InputError(
                "there is no target to fit: name its column, or open the source with target="
            )
        check_targets(take_census(reader, session, takes_nan=False), missing)
        yield session, reader


def choose_background(
    rows: TableLike,
    n_background: int = 100,
    *,
    method: Literal["thinning", "kmeans", "stratified", "random"] = "thinning",
    features: Sequence[str] | None = None,
    client: ClientLike | None = None,
    missing: MissingRule = "refuse",
    seed: int = 0,
) -> Background:
    """Choose few weighted rows that represent a table: a background for `dshap.values.Marginal`.

    Parameters
    ----------
    rows, client : as in `dshap.explain`; every row counts, or 131,072 that are spread over a longer
        table
    n_background : int
        The number of rows to choose; repeated ones are merged and their weights added.  The result
        knows the number of rows of the table, so that `std_error` of `Marginal` includes how far
        values over few rows may be from those over all: with 20 of 900 rows attributions were off
        by 5 to 29 %.
    method : {"thinning", "kmeans", "stratified", "random"}
        "thinning": kernel herding towards the mean embedding of all rows, equal weights;
        "kmeans": the rows nearest to k-means centres, each weighted by the share of the table
        nearest to it; "stratified": one row of each cell of a partition by halving, weighted by
        the cell's share; "random": rows drawn at random.  All choose among 10,000 rows drawn with
        the seed.  `std_error` is that of random rows, and too large for the others
        (docs/errors.md).
    features : columns, in order, of numbers or of times; None: all number columns (give them where
        the table has a target)
    missing : "refuse" or "skip" rows with NaN or infinity
    seed : int

    Returns
    -------
    Background
        `rows`, `weights`, and `discrepancy`: the maximum mean discrepancy between them and *all*
        rows, beside that of as many random rows.

    Raises
    ------
    InputError
        Bad rows or options.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> X = np.random.default_rng(0).normal(size=(900, 2))
    >>> background = dshap.choose_background(X, 20)
    >>> background.rows.shape, background.n_rows
    ((20, 2), 900)
    >>> value = dshap.values.Marginal(lambda x: x[:, 0] * x[:, 1], background)
    >>> "std_error" in dshap.explain(value, X[:5])
    True
    """
    if RULES["missing"]("missing", missing) == "pass":
        raise InputError(
            'missing = "pass" leaves NaN in the rows, and distances need numbers: use "refuse" or '
            '"skip"'
        )
    with open_session(None, client, False, {}) as (_, session):
        times = times_of(rows) or features
        reader = open_rows(rows, session, features=features, missing=missing, times=times)
        if isinstance(reader, LaidOut) and reader.left_out:
            warnings.warn(
                "choose_background takes columns of numbers and leaves out "
                f"{said_left_out(reader.left_out)}: a model "
                "that takes them needs rows with them, Marginal(predict, frame.sample(100)), or, "
                "of times, their names "
                "in features",
                RuntimeWarning,
                stacklevel=2,
            )
        take_census(reader, session, takes_nan=False)
        return background_of(reader, session.learn, n_background, method, seed)
