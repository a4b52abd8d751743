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
    """Split the prediction of every row among its columns: the Shapley values, as a cube.

    The attributions of a row add up to its prediction minus the base value.  They are computed as
    phi (n, d, k) = finish(Σ_S v_S(x) score_S), for n rows, d players and k outputs.  The value
    function gives the value v_S(x) of a coalition S, and the design gives the coalitions, their
    scores and the final step.

    Parameters
    ----------
    value : value function, Prepared, attributor or model
        What is explained: a value function of `dshap.values`; the result of `prepare`, from which
        the run reads all that it would learn; an attributor of your own, which computes the
        attributions of rows (`dshap.Attributor`); or a model:

        - a fitted tree ensemble of XGBoost, LightGBM, CatBoost or scikit-learn, short for
          `dshap.values.Trees(ensemble)`;
        - a model of `dshap.models`, short for `dshap.values.KernelInterventional(model, rows)`;
        - any other fitted model (a scikit-learn pipeline, an MLflow pyfunc), or a function such as
          `model.predict_proba`.  It is short for `dshap.values.Marginal` of the model's
          `predict_proba`, or of its `predict` if it has no `predict_proba`.  The background is 100
          of the rows: `choose_background` chooses them if all columns are numbers; otherwise they
          are spread over the table.  A line of progress shows this choice.
    rows : table, or path of a table
        The rows to explain: a path of Parquet files (file, folder, glob or a list of them), numpy
        array, pandas DataFrame, pyarrow table or record batch, polars frame, DuckDB relation
        (Arrow's C stream protocol), Dask array or dataframe, xarray Dataset or DataArray,
        `deltalake.DeltaTable`, `pyarrow.dataset.Dataset`, `polars.LazyFrame`, or a source of
        `dshap.sources`.  Columns are matched by name if the value function has the names of its
        columns, else by position.  For `Tokens`, give texts of any lengths: lists, an array padded
        at the end, or a table or path with a column of texts.
    design : str, design or callable, default "auto"
        "auto", "exact", "kriging", "kernelshap", "permutation", "quadrature" or a design of
        `dshap.designs`.  "auto" evaluates all coalitions if there are at most `max_coalitions`.
        Otherwise it samples `max_coalitions` of them, for `kriging`, or for `kernelshap` if there
        are more than 1,024 players or `max_coalitions` is above 4,096.  For texts, whose lengths
        differ, give also a design without its graph, such as `designs.local(order=2)`, or a
        function that returns the design of a length.
    store : path, optional
        Folder of the cube, such as "build/loans".  You can read it while it grows, and the same
        call again resumes after a crash.  None returns a cube in the memory of this process, with
        the same values as in a store and with the explained columns, which pictures need
        (``keep_rows=False`` leaves them out).  Without a store, more than 2 GiB of attributions
        and columns are refused before anything is computed, and a call that fails or is
        interrupted leaves no result.  Learned states of up to 256 MiB then stay in memory, and
        larger ones go into temporary files (`TMPDIR`).  On a cluster the workers write the whole
        cube into temporary files, and this process reads it into memory at the end.
    client : distributed.Client or the address of a scheduler (`tls://…`), optional
        The cluster that computes.  None uses the current Dask client, or this process if there is
        no client.  Every worker must be able to open `store` and `rows` by the same paths.
    key : str, list of str, mapping or pandas.Index, optional
        The column or columns that identify a row, such as "customer_id".  For arrays, give a
        mapping name -> values; for a data frame you may also give an index.  If you give no key,
        the index of a data frame is the key, provided that it has a name and different values that
        are integers, texts or times.
    tol : float between 0 and 1, optional
        Tolerance, such as 0.02: the number of coalitions is then chosen for each row.  They are
        drawn in rounds until, for each output, all attributions of the row are known to within
        2.09 tol times their range, simultaneously with 95 % confidence.  The largest std_error of
        the row is then tol/1.5 (8 players) to tol/1.9 (60 players) of the range.  The cube stores
        `n_coalitions (instance)`, and in `relative_error (instance, output)` the largest std_error
        divided by the range.  `std_error` and `relative_error` include the error of random draws
        (`Gaussian`, `Copula`) and of few background rows, but the rounds do not continue for it,
        because more coalitions do not lower it: raise `n_samples`, or give more background rows.
    max_coalitions : int, default 2,048
        The most coalitions of a row: "auto" samples if there are more, rounds of `tol` end there,
        and a design with more coalitions is refused.
    quality : table or path of a table, optional
        Rows from which nothing was learned.  The cube's attribute `mse_v` then has MSE_v on these
        rows, in all and for each coalition size; see `dshap.mse_v`.
    what_if : bool, default False
        Store the model too, so that readers of the page (`dshap.report.page`) can change the values
        of a row.  This works for small linear models, kernel models and path-dependent tree
        ensembles; for others a line of progress shows the reason.  The store then contains the
        model and, for a kernel model, rows of the table.  The same call on a finished store adds
        it.
    columns : mapping, optional
        The dictionary of columns: how pictures, pages, tables and messages name a column, a group
        of columns, a key or an output.  It maps this name to a mapping with any of `label`, `unit`,
        `format` (of Python, such as ".0%", or "year"), `description`, `order` (of its categories),
        `values` (value -> text) and `direction` ("higher is better", "lower is better").  You can
        also set it as `attrs["columns"]` of a data frame.  It is stored with the cube and changes
        no number, so that a store with a different dictionary is not refused.  None leaves the
        dictionary of the store unchanged.
    card : mapping, optional
        The card of the model, a text for each of `purpose`, `owner`, `audience`, `limitations` and
        other fields of `dshap.core.model_card.CARD_FIELDS`.  It is stored like the dictionary.
    compute : bool, default True
        False creates the store with its plan and marks every row as pending, and computes nothing.
    classes : list of str or int, optional
        The classes of a classifier to explain, in the order that the outputs shall have, such as
        ["gold", "silver"].  None explains all classes; for a tree ensemble of two classes, only the
        second.  If a tree ensemble does not name its classes, such as a booster of XGBoost, give
        the names of all.
    keep_rows : bool, optional
        Whether to store the explained columns: in the group `rows` of the store or, without a
        store, in the Dataset.  None stores them if there is no store (never for texts).
    progress : bool, optional
        Whether to show rate and time left, on standard error or in one line of a notebook.  None
        shows them on a terminal and in a notebook.
    missing : {"refuse", "skip", "pass"}, default "refuse"
        What to do with rows that contain NaN or infinity: refuse the run, skip these rows, or pass
        them to the model.
    dtype : {"float64", "float32"}, default "float64"
        The type in which attributions are stored; sums are float64 in any case.
    units : str, default "1"
        The unit of the model's output, such as "EUR", for the cube's attributes and for pictures.
    interactions : bool, default False
        Adds `interaction (instance, feature, feature_other, output)`: half the Shapley interaction
        index of each pair of players, and the main effect of each player on the diagonal, so that
        each row of the matrix adds up to the attribution.  It needs the design "exact" or
        "kriging", or `Trees`.
    codes : mapping, optional
        Reason codes: code -> the players that it groups, ``{"C01": ["debt", "limit"]}``; each
        player has one code.  The cube then has the standard error of the difference of any two
        codes.
    undo_codes : bool, optional
        Adds `reason_code_undone (instance, reason_code, output)`: v(N) − v(N without the players of
        the code), the change of the prediction when these players are taken away together.  It
        needs one more coalition for each code.
    stochastic : bool, default False
        Set it for a model whose predictions of the same rows differ from call to call; `Marginal`
        refuses such a model otherwise.  Each coalition is predicted twice, v(N) and v(∅) 20 times,
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
        How many seconds a run waits for a worker while the cluster has none, before it fails.
    scratch : str, optional
        The folder for temporary files of a run whose store is in a bucket; workers on other
        machines must be able to open it.  None: the system's folder for temporary files.

    Returns
    -------
    xarray.Dataset
        `attribution (instance, feature, output)`, `prediction`, `base_value`, `status`; see
        `dshap.open_cube`.  Their attribute `scale` is the scale of the numbers, such as
        "probability", "log-odds" or "unit of the target" (docs/value_functions.md lists all).
        Without a store there is also a variable `row_COLUMN (instance)` for each explained column,
        in its dtype; its `long_name` is the name of the column.  A table without rows gives a
        cube without instances, and nothing is written.

    Raises
    ------
    InputError
        The rows, the model or an option is not valid, or an option is unknown; nothing is written.
    DoesNotFitError
        The memory of a worker, or of this process, is too small; nothing is started.
    StoreMismatchError
        The store contains a different run; the message shows the differences.
    LockedError
        Another process writes into this store.
    FailedBlocksError
        Some rows have no attribution; the others are in the store, and the same call again
        computes the missing ones.

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
        # the path may be the cube of a job, whose lock is on the folder above
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
        # before the run: a mistake in these rows is not found only after hours of computing
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
        raise InputError("what_if stores the model: give store=")
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
    """Learn once all that does not depend on an explained row, for any number of runs.

    `explain(prepared, new_rows)` then reads these states and fits nothing.

    Parameters
    ----------
    value : value function
        A value function that learns from its data: `KernelInterventional`, `KernelObservational`,
        `ConditionalRegression`, `Gaussian`, or `Trees` with a background.
    rows : table or path of a table, optional
        The data to learn from, in any form that `explain` accepts.  None: the data of the value
        function.
    design : str or design, default "auto"
        "auto", "exact", "kernelshap" or a design of `dshap.designs`.
    store : path
        Folder for the states.  The same call again resumes after a crash, and computes nothing if
        all states exist.
    client, progress : as in `explain`
    max_coalitions, missing, memory_limit, wait, scratch : as in `explain`
    instance_tile, coalition_tile, row_span, micro_rows : as in `explain`

    Returns
    -------
    Prepared
        Open it again with `dshap.open_prepared(store, value)`.  Columns that are constant in the
        data remain players, because they may vary in rows that are explained later.

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
        raise InputError("prepare needs store=, the path of a folder for the states")
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
    """Measure how well a value function estimates conditional expectations: MSE_v.

    Smaller is better.  MSE_v is the mean of (f(x) − v_S(x))² over rows and over the proper
    coalitions, which are all except the empty and the full one.  It is in squared units of f, and
    it needs no true values.

    The expectation v_S(x) = E[f(X) | X_S = x_S] has the least MSE_v of all functions of x_S, for
    any distribution of the rows.  Of two value functions, the one with the smaller MSE_v is
    therefore closer to it, if neither learned from the rows that you give.  Interventional values
    do not estimate this expectation, and usually have a larger MSE_v.  A link makes no difference:
    MSE_v compares f(x) with the expectation before the link.

    Parameters
    ----------
    value : value function or Prepared
    rows : table or path of a table
        Rows from which nothing was learned, in any form that `explain` accepts.
    design : str or design, default "auto"
        The design whose proper coalitions are averaged over.  "auto" uses all coalitions if there
        are at most `max_coalitions`.  From a sample, MSE_v is an estimate: coalitions are weighted
        by their size, so that the sample counts like all proper coalitions, and sizes without a
        coalition are interpolated.
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
    # workers are other processes, which cannot write into arrays of this one
    return ExplanationOfWorkers


def _check_in_memory(explanation: Measurable, keeps_columns: bool) -> None:
    """Raise a `DoesNotFitError` if attributions and stored columns do not fit in memory."""
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
            f"the attributions take {format_bytes(size)}, and the explained columns take "
            f"{format_bytes(of_columns)}, and {allowed}: give store= a path, or keep_rows=False"
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
    """Fit a kernel model on all rows of a table of any size, on a cluster if you have one.

    The fitted model is bit for bit the same as that of `model.fit`, which needs the rows in
    memory.

    Parameters
    ----------
    model : KernelRidge or KernelLogistic
        It is not changed.
    rows, client, progress : as in `explain`
    target : str, list of str, array or None
        The name of the target's column, or several names.  For an array or a data frame you may
        also give the values, (n,) or (n, k); for a source that was opened with its target, None.
        Targets are numbers; for labels of a different type use `KernelLogistic.fit`.
    features : list of str, optional
        The columns to fit on.  None: all columns of numbers except the target.
    missing : {"refuse", "skip"}, default "refuse"
        What to do with rows that have NaN or infinity in a feature or in the target: refuse the
        table, or skip these rows.

    Returns
    -------
    KernelRidge or KernelLogistic
        The fitted model.

    Raises
    ------
    InputError
        The rows or an option is not valid.
    DoesNotFitError
        The memory of a worker is too small for the sums.

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
    """Fit one model for each of several strengths of its Shapley penalty.

    It is `model.fit_path` for tables of any size, on a cluster if you have one.  The fits share
    passes over the rows, so that s models cost less than s calls of `fit`.

    Parameters
    ----------
    model : KernelRidge or KernelLogistic with `shapley=`
        It is not changed.
    strengths : (s,) of float
        Each at least 0, such as [0.0, 1.0, 100.0]; they replace the strength of the penalty.
    rows, target, features, client, missing, progress : as in `fit`

    Returns
    -------
    list of KernelRidge or KernelLogistic
        The s fitted models, in the order of `strengths`.

    Raises
    ------
    InputError, DoesNotFitError
        As in `fit`; also if the model has no penalty, or a strength is below 0.

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
    rows, client : as in `dshap.explain`
        All rows are used; of a table of more than 131,072 rows, this many, spread over the table.
    n_background : int, default 100
        The number of rows to choose; repeated rows are merged and their weights added.  The result
        stores the number of rows of the table, so that `std_error` of `Marginal` includes the
        difference to be expected between values over these few rows and values over all rows.
    method : {"thinning", "kmeans", "stratified", "random"}, default "thinning"
        How the rows are chosen, among 10,000 rows drawn with the seed:

        - "thinning": kernel herding towards the mean embedding of all rows, with equal weights;
        - "kmeans": the rows nearest to k-means centres, each weighted by the share of the table
          that is nearest to it;
        - "stratified": one row of each cell of a partition by halving, weighted by the share of
          the cell;
        - "random": rows drawn at random.

        `std_error` is estimated as for random rows, and therefore too large for the three other
        methods (docs/errors.md).
    features : sequence of str, optional
        The columns, in this order; they contain numbers or times.  None: all columns of numbers.
        Give the columns if the table has a target, which would otherwise be one of them.
    missing : {"refuse", "skip"}, default "refuse"
        What to do with rows that contain NaN or infinity.
    seed : int, default 0

    Returns
    -------
    Background
        Its `rows`, their `weights`, and `discrepancy`: the maximum mean discrepancy between the
        chosen rows and *all* rows, next to that of the same number of random rows.

    Raises
    ------
    InputError
        The rows or an option is not valid.

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
                "choose_background reads only columns of numbers and leaves out "
                f"{said_left_out(reader.left_out)}: a model that takes these columns needs "
                "background rows that have them, as in Marginal(predict, frame.sample(100)); for "
                "columns of times, name them in features",
                RuntimeWarning,
                stacklevel=2,
            )
        take_census(reader, session, takes_nan=False)
        return background_of(reader, session.learn, n_background, method, seed)
