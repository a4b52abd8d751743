"""Constructor arguments that TOML cannot express, and the keys they are built from.

Such are a fitted model, a kernel, an embedding, a background, a link.  `DESIGN_PARTS`,
`VALUE_PARTS` and `MODEL_PARTS` define for each argument, by its name, how it is built and which
keys it adds to a table, so that any class with this argument can be named in a job file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from pydantic import Field, model_validator

from dshap import designs, kernels, values
from dshap.core.duck_typing import has_member
from dshap.core.errors import DoesNotFitError, InputError
from dshap.core.printing import format_bytes
from dshap.core.records import FloatArray
from dshap.core.types import Link, RowReader
from dshap.core.vocabulary import Ids
from dshap.engine import Executor
from dshap.jobfile.fields import (
    Background,
    Count,
    EvenCount,
    GivenLengthscale,
    Landmarks,
    Lengthscale,
    Names,
    NotEmpty,
    Penalty,
    PlayerGraph,
    Seed,
    one_of,
    type_of,
)
from dshap.jobfile.kinds import ConstructedArgument, Table
from dshap.kernels.nystrom import SELECTIONS
from dshap.models import (
    ExpansionSum,
    FourierExpansion,
    KernelExpansion,
    KernelModel,
    ShapleyPenalty,
    from_sklearn,
)
from dshap.models.adapters.model_files import LoadedModel
from dshap.models.shapley_penalty import COALITIONS
from dshap.models.shapley_penalty import VALUES as SHAPLEY_VALUES
from dshap.predictors.frames import Frame
from dshap.predictors.predict_function import wants_frames
from dshap.tables.background import METHODS
from dshap.tables.reader import categories_of
from dshap.tables.synthetic import MAX_ROWS
from dshap.values.links import CLIP

MAX_BACKGROUND_BYTES = 1 << 30
"""The largest background in the memory of every worker."""
Expansion = KernelExpansion | FourierExpansion
Model = KernelModel | Expansion | LoadedModel
"""The type of a model: a fitted kernel model, a placeholder in a plan, or a model that is given."""
KERNELS: Mapping[str, Callable[[Any], kernels.Kernel]] = {
    "rbf": kernels.RBF,
    "laplacian": kernels.Laplacian,
    "matern12": partial(kernels.Matern, 0.5),
    "matern32": partial(kernels.Matern, 1.5),
    "matern52": partial(kernels.Matern, 2.5),
}


class SourceRows(Protocol):
    """The rows of [source], from which backgrounds and samples are drawn."""

    @property
    def reader(self) -> RowReader:
        """The reader of all rows."""
        ...

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        ...

    @property
    def target_names(self) -> tuple[str, ...]:
        """The target columns, empty if there is none."""
        ...

    @property
    def frame(self) -> Frame | None:
        """The form of the rows as data frames of their own types; None if they have none."""
        ...

    def sample(self, n_rows: int) -> FloatArray:
        """A seeded sample (b, columns) of the rows without NaN."""
        ...

    def background(self, n_rows: int, method: str, executor: Executor) -> values.Background:
        """Choose weighted rows that represent the table."""
        ...

    def texts(self, n_texts: int) -> list[Ids]:
        """The token ids of a seeded sample of texts."""
        ...


@dataclass(frozen=True)
class Context:
    """The rest of a job, beside a table's own keys, from which the table's object is built."""

    table: SourceRows
    seed: int
    """The seed of the job."""
    model_kind: str
    """`kind` of [model]."""
    model: Model | None = None
    """The model: fitted, a placeholder, or given; None while the model itself is constructed."""
    classes: tuple[str, ...] | None = None
    """The names of the classes of a model that is given, where the job lists them."""
    executor: Executor | None = None
    """The executor of passes over the table; None for a plan, where a background is drawn at
    random."""


class SyntheticKeys(Table):
    """The keys of generated rows, which are computed on the workers."""

    name: Literal["powerlifting"]
    """The generator: results of powerlifting meets, one lifter per row."""
    rows: Annotated[int, Field(ge=1, le=MAX_ROWS)] = 200_000


SOURCE_PARTS: Mapping[str, ConstructedArgument] = {
    name: ConstructedArgument(lambda _, roles, name=name: roles.get(name))  # type: ignore[misc]
    for name in ("categories", "times")
}
"""Parameter of a reader that follows from the job's model -> how it is built."""
SYNTHETIC_PARTS: Mapping[str, ConstructedArgument | None] = {
    "name": ConstructedArgument(lambda given, _: given.name, SyntheticKeys),
    "n_rows": ConstructedArgument(lambda given, _: given.rows, SyntheticKeys),
}
"""Parameter of the reader of generated rows -> how it is built."""


class LearningKeys(Table):
    """Keys of a value function that learns from the table."""

    quality_rows: Count | None = None
    """The number of rows on which MSE_v, the mean of (f − v_S)² over rows and coalitions, is
    measured: rows that were held out of the fit, if the model has any."""


class EmbeddingKeys(Table):
    """Keys of a kernel's embedding: landmarks, or random Fourier features."""

    embedding: Literal["nystrom", "fourier"] = "nystrom"
    landmarks: Landmarks = 256
    """The number of landmarks of embedding = "nystrom"."""
    selection: one_of(SELECTIONS) = "kmeans++"  # type: ignore[valid-type]
    """How landmarks are chosen: far from each other, evenly, or by ridge leverage scores."""
    features: EvenCount = 256
    """The number of real features of embedding = "fourier": a cosine and a sine per frequency."""

    @model_validator(mode="after")
    def _check_embedding(self) -> EmbeddingKeys:
        for key, home in EMBEDDING_OF.items():
            if key in self.model_fields_set and self.embedding != home:
                if self.embedding == "fourier":
                    instead = "features"
                else:
                    instead = "landmarks"
                raise ValueError(
                    f'{key} belongs to embedding = "{home}"; with "{self.embedding}" give {instead}'
                )
        if self.landmarks == "model" and "selection" in self.model_fields_set:
            raise ValueError(
                'landmarks = "model" takes the landmarks of the model: leave selection out'
            )
        return self


EMBEDDING_OF = {
    "landmarks": "nystrom",
    "selection": "nystrom",
    "rank_tolerance": "nystrom",
    "features": "fourier",
}


class KernelKeys(Table):
    """Keys of the kernel of a value function."""

    kernel: one_of(("model", *KERNELS)) | None = None  # type: ignore[valid-type]
    """The kernel; by default that of the fitted model, or "rbf" if the model has none."""
    lengthscale: GivenLengthscale = "median"
    """The length-scale, if the kernel is not that of the model."""

    @model_validator(mode="after")
    def _check_kernel(self) -> KernelKeys:
        if "lengthscale" in self.model_fields_set and self.kernel in (None, "model"):
            raise ValueError('lengthscale needs a kernel: name one, like kernel = "rbf"')
        return self


class LinkKeys(Table):
    """Keys of the link of a predict function."""

    link: one_of(values.LINKS) = "identity"  # type: ignore[valid-type]
    """The function by which expectations of probabilities are transformed."""
    link_class: NotEmpty | None = None
    """The class for "log_odds" and "log_probability"; by default each row's predicted class."""
    clip: type_of(CLIP) = 0.0  # type: ignore[valid-type]
    """Expectations are moved into [clip, 1 − clip] before the link; with 0, expectations of 0 or 1
    are refused."""

    @model_validator(mode="after")
    def _check_link(self) -> LinkKeys:
        if self.link_class is not None and self.link not in ("log_odds", "log_probability"):
            raise ValueError(
                'link_class belongs to link = "log_odds" or "log_probability", not to '
                f'"{self.link}"'
            )
        if self.clip and self.link == "identity":
            raise ValueError('clip belongs to a link of probabilities, like link = "logit"')
        return self


class BackgroundKeys(LearningKeys):
    """Keys of a background."""

    background: Background = "all"
    """The background: "all" rows of the table, read by spans, or this number of them."""


class ChosenBackgroundKeys(Table):
    """Keys of a background whose rows may have weights."""

    background: Background = 100
    """The background: "all" rows of the table, read by spans, or this number of them.

    A number means a sample of the table: std_error then includes the expected difference between
    values over the sample and values over all rows.
    """
    selection: one_of(METHODS) = "thinning"  # type: ignore[valid-type]
    """How background rows are chosen; see `dshap.choose_background`.

    By default rows are drawn at random if a column has text or categories, or NaN with [source]
    missing = "pass": the other methods need distances.
    """

    @model_validator(mode="after")
    def _check_selection(self) -> ChosenBackgroundKeys:
        if self.background == "all" and "selection" in self.model_fields_set:
            raise ValueError(
                'selection chooses a number of background rows, and background = "all" takes every '
                "row: leave selection out"
            )
        return self


class TreeBackgroundKeys(Table):
    """The key of the background of trees."""

    background: Background | None = None
    """The background: "all" rows of the table, or a number of them.  If left out, values are
    path-dependent."""


class CategoriesKeys(Table):
    """The key of the categories of a model that did not store them."""

    categories: dict[str, list[str | int | float]] | None = None
    """Column -> its categories in the order of their codes, for XGBoost before 3.1 and ordered
    categories of LightGBM."""


class GraphKeys(Table):
    """The key of a design's graph."""

    graph: PlayerGraph
    """The graph of the players, in the order of the columns."""


class ShapleyTable(Table):
    """The table [model.shapley]: a penalty in the fit that makes one player's attributions small.

    See `dshap.models.ShapleyPenalty`.
    """

    player: Names
    """The player: a column, or a list of columns that form one player."""
    strength: float = Field(ge=0.0, allow_inf_nan=False)
    value: one_of(SHAPLEY_VALUES) = "interventional"  # type: ignore[valid-type]
    landmarks: Landmarks = "model"
    """The landmarks of value = "observational": those of the model, or a number."""
    penalty: Penalty = "validate"
    """The penalty of the regressions of value = "observational"."""
    n_coalitions: type_of(COALITIONS) | None = None  # type: ignore[valid-type]

    @model_validator(mode="after")
    def _check_value(self) -> ShapleyTable:
        for key in ("landmarks", "penalty"):
            if key in self.model_fields_set and self.value != "observational":
                raise ValueError(f'{key} belongs to value = "observational": leave it out')
        return self


class ShapleyKeys(Table):
    """The key of a Shapley penalty of a model that the job fits."""

    shapley: ShapleyTable | None = None


class SeedKeys(Table):
    """The key of a seed."""

    seed: Seed | None = None
    """The seed; by default that of the job."""


class ModelKernelKeys(Table):
    """Keys of the kernel of a model that the job fits."""

    kernel: one_of(KERNELS) = "rbf"  # type: ignore[valid-type]
    lengthscale: Lengthscale = "validate"


class ModelEmbeddingKeys(EmbeddingKeys):
    """Keys of the embedding of a model that the job fits."""

    landmarks: Count = 500
    features: EvenCount = 500


def optional_expansion(model: Any) -> Expansion | None:
    """The expansion that a kernel model reduces to; None for a predict function."""
    match model:
        case KernelModel():
            return optional_expansion(model.expansion_)
        case KernelExpansion() | FourierExpansion():
            return model
    return None


def _embedding(given: Any, context: Context) -> kernels.Embedding:
    """Build the embedding: landmarks, those of the model on request, or random Fourier features."""
    if given.embedding == "fourier":
        return kernels.Fourier(given.features, context.seed)
    if given.landmarks == "model":
        expansion = optional_expansion(context.model)
        assert isinstance(expansion, KernelExpansion)
        return kernels.Nystrom(landmarks=expansion.landmarks)
    return kernels.Nystrom(given.landmarks, given.selection, context.seed)


def _kernel(given: Any, context: Context) -> kernels.Kernel | kernels.ProductKernel:
    """Build the kernel: that of the model, where there is one and no other is named."""
    expansion = optional_expansion(context.model)
    if given.kernel in (None, "model") and expansion is not None and expansion.kernel is not None:
        return expansion.kernel
    return KERNELS[given.kernel or "rbf"](given.lengthscale)


def _link(given: Any, context: Context) -> Link:
    options: dict[str, Any] = {} if given.link == "identity" else {"clip": given.clip}
    if given.link_class is not None:
        options["of"] = given.link_class
    return values.LINKS[given.link](**options)


def _predict(given: Any, context: Context) -> Callable[..., Any]:
    """The function that a value function calls: for a kernel model `predict` of its expansion.

    Of a classifier it is the decision function.
    """
    match context.model:
        case LoadedModel(predict=predict):
            return predict
    expansion = optional_expansion(context.model)
    assert expansion is not None
    return expansion.predict


def _background(given: Any, context: Context) -> Any:
    """The background: the table itself for all rows, else a seeded sample without NaN.

    The sample (b, columns) is a data frame where columns contain text, categories or times or the
    model accepts data frames, else an array.  All rows of a table with text or categories are in
    the memory of every worker, as one data frame has all categories.
    """
    rows = given.background
    table = context.table
    if rows == "all":
        n_rows = table.n_rows
    else:
        n_rows = min(rows, table.n_rows)
    listed = categories_of(table.reader)
    if n_rows == table.n_rows and not listed:
        return table.reader
    size = 8 * n_rows * len(table.reader.feature_names)
    if size > MAX_BACKGROUND_BYTES:
        raise DoesNotFitError(
            f"[[explain]] background = {rows!r}: {n_rows:,} rows take {format_bytes(size)} on "
            "every worker, at most "
            f"{format_bytes(MAX_BACKGROUND_BYTES)} allowed: give a smaller number of rows"
        )
    sample = table.sample(n_rows)
    frame = table.frame
    if frame is not None and (frame.categories or frame.times or _wants_frames(given, context)):
        return frame.rebuilt(sample)
    return sample


def _wants_frames(given: Any, context: Context) -> bool:
    """Whether the model is called with data frames, by the job or as it was fitted on them."""
    match context.model:
        case LoadedModel(predict=predict):
            arrays = dict(given).get("arrays")
            return arrays is False or (arrays is None and wants_frames(predict))
    return False


def _data(given: Any, context: Context) -> RowReader:
    """The table, as the data that a value function learns from."""
    if listed := categories_of(context.table.reader):
        names = ", ".join(listed)
        raise InputError(
            f'[[explain]] value = "{given.value}" learns from numbers, and {names} contains text '
            "or "
            'categories: use value = "marginal", or leave the column out of the model'
        )
    return context.table.reader


def _chosen_background(given: Any, context: Context) -> Any:
    """The background: weighted rows that represent the table, or rows drawn at random."""
    if context.executor is None or not _is_chosen(given, context):
        return _background(given, context)
    table = context.table
    if why := _no_distances(table):
        raise InputError(
            f'[[explain]] selection = "{given.selection}" compares numbers, and {why}: take '
            'selection = "random"'
        )
    found = table.background(min(given.background, table.n_rows), given.selection, context.executor)
    if _wants_frames(given, context):
        return replace(found, frame=table.frame)
    return found


def _is_chosen(given: Any, context: Context) -> bool:
    """Whether the background is chosen to represent the table, and not drawn at random.

    Distances need numbers: without a `selection` in the job, a table with text, categories or NaN
    gets random rows.  All rows need no choice.
    """
    table = context.table
    if given.background == "all" or given.background >= table.n_rows:
        return False
    if "selection" not in given.model_fields_set and _no_distances(table):
        return False
    return bool(given.selection != "random")


def _no_distances(table: SourceRows) -> str:
    """Why the rows of a table have no distances; empty if they have."""
    if listed := categories_of(table.reader):
        return f"{', '.join(listed)} contains text or categories"
    if table.reader.missing == "pass":
        return '[source] missing = "pass" leaves NaN in the rows'
    return ""


def _sample_of(given: Any, context: Context) -> int | None:
    """The number of rows of the table that a background drawn at random is a sample of.

    None if the background is the whole table, or if it knows its table.
    """
    n_rows = context.table.n_rows
    is_all = given.background == "all" or given.background >= n_rows
    if is_all or (context.executor is not None and _is_chosen(given, context)):
        return None
    return n_rows


def _output_names(given: Any, context: Context) -> tuple[str, ...] | None:
    """Names of the outputs: the targets of a ridge, the classes that the job names, else None.

    Kernel models name their outputs themselves, by scale and class, such as "score of a".
    """
    if context.model_kind == "kernel_ridge":
        return context.table.target_names
    if optional_expansion(context.model) is not None:
        return None
    return context.classes


def _model(given: Any, context: Context) -> Any:
    """The model of a value function of kernel models."""
    match context.model:
        case LoadedModel(model=KernelModel() | KernelExpansion() | FourierExpansion() as model):
            return model
        case LoadedModel(model=ExpansionSum() as model):
            return model
        case LoadedModel(model=model) if has_member(model, "fit"):
            return from_sklearn(model)
        case LoadedModel():
            raise InputError(
                f'[[explain]] {given.name}: value "{given.value}" explains kernel models, and '
                f'[model] kind = "{context.model_kind}" gives none: use value = "marginal", '
                '"conditional_regression", "gaussian" or "copula", which take any function'
            )
    return context.model


def _fitted(given: Any, context: Context) -> Any:
    """The model that is given to the job: a tree ensemble, or one with `coef_`."""
    assert isinstance(context.model, LoadedModel)
    return context.model.model


def _tree_background(given: Any, context: Context) -> Any:
    """The table itself for all rows, else a seeded sample without NaN; None: path-dependent."""
    if given.background is None:
        return None
    table = context.table
    if given.background == "all" or given.background >= table.n_rows:
        return table.reader
    sample = table.sample(given.background)
    if table.frame is not None:
        return table.frame.rebuilt(sample)
    return sample


def _seed(given: Any, context: Context) -> int:
    if given.seed is None:
        return context.seed
    return given.seed


def _shapley(given: Any, context: Context) -> ShapleyPenalty | None:
    """Build the Shapley penalty of a model, None without one; landmarks default to the model's."""
    table = given.shapley
    seed = context.seed
    if table is None:
        return None
    if table.landmarks == "model":
        embedding = None
    else:
        embedding = kernels.Nystrom(table.landmarks, seed=seed)
    options = table.strength, table.value, embedding, table.penalty, table.n_coalitions
    return ShapleyPenalty(list(table.player), *options, seed)


def _graph(given: Any, rest: tuple[int, int]) -> designs.Graph:
    """Build the graph of a design: a chain of all players, or a grid."""
    return designs.graph_of({"chain": rest[0]} if given.graph == "chain" else given.graph)


DESIGN_PARTS: Mapping[str, ConstructedArgument] = {
    "d": ConstructedArgument(lambda given, rest: rest[0]),
    "graph": ConstructedArgument(_graph, GraphKeys),
    "n_players": ConstructedArgument(lambda given, rest: rest[0]),
    "seed": ConstructedArgument(lambda given, rest: rest[1]),
}
"""Parameter of a design -> how it is built from the number of players and the seed."""
VALUE_PARTS: Mapping[str, ConstructedArgument] = {
    "background": ConstructedArgument(_background, BackgroundKeys),
    "data": ConstructedArgument(_data, LearningKeys),
    "embedding": ConstructedArgument(_embedding, EmbeddingKeys),
    "feature_names": ConstructedArgument(lambda given, context: context.table.reader.feature_names),
    "kernel": ConstructedArgument(_kernel, KernelKeys),
    "link": ConstructedArgument(_link, LinkKeys),
    "model": ConstructedArgument(_model),
    "output_names": ConstructedArgument(_output_names),
    "players": ConstructedArgument(lambda given, context: given.players),
    "predict": ConstructedArgument(_predict),
    "seed": ConstructedArgument(_seed, SeedKeys),
}
"""Parameter of a value function -> how it is built."""
TREE_PARTS: Mapping[str, ConstructedArgument | None] = {
    "background": ConstructedArgument(_tree_background, TreeBackgroundKeys),
    "categories": ConstructedArgument(lambda given, context: given.categories, CategoriesKeys),
    "classes": ConstructedArgument(lambda given, context: context.classes),
    "feature_names": ConstructedArgument(lambda given, context: context.table.reader.feature_names),
    "model": ConstructedArgument(_fitted),
    "output_names": None,
    "players": ConstructedArgument(lambda given, context: given.players),
}
"""Parameter of the value function of trees -> how it is built."""
LINEAR_PARTS: Mapping[str, ConstructedArgument | None] = {
    "coef": ConstructedArgument(_fitted),
    "covariance": None,
    "intercept": None,
    "mean": None,
    "transform": None,
}
"""Parameter of the value function of linear models -> how it is built."""
MARGINAL_PARTS: Mapping[str, ConstructedArgument | None] = {
    "background": ConstructedArgument(_chosen_background, ChosenBackgroundKeys),
    "sample_of": ConstructedArgument(_sample_of),
}
"""Parameter of the interventional values of any function -> how it is built."""
MODEL_PARTS: Mapping[str, ConstructedArgument] = {
    "embedding": ConstructedArgument(_embedding, ModelEmbeddingKeys),
    "kernel": ConstructedArgument(_kernel, ModelKernelKeys),
    "seed": ConstructedArgument(lambda given, context: context.seed),
    "shapley": ConstructedArgument(_shapley, ShapleyKeys),
}
"""Parameter of a model that the job fits -> how it is built."""


def model_of(given: Any, context: Context) -> KernelModel:
    """Build the kernel model of [model], not fitted.

    Raises
    ------
    InputError
        Options that cannot fit the table.
    """
    reader = context.table.reader
    kernel = MODEL_PARTS["kernel"].make(given, context)
    if kernel.is_resolved:
        kernel.bind(len(reader.feature_names))
    if given.embedding == "nystrom" and given.landmarks > reader.n_rows:
        raise InputError(
            f"[model] landmarks = {given.landmarks}: the table has {reader.n_rows} rows, give at "
            "most that"
        )
    model: KernelModel = given.made(context)
    if model.shapley is not None:
        model.shapley.positions(len(reader.feature_names), reader.feature_names)
    return model


def placeholder(given: Any, reader: RowReader, n_outputs: int) -> Expansion:
    """A model of zeros with the requested number of features: enough for a plan."""
    columns = len(reader.feature_names)
    names = reader.feature_names
    kernel = kernels.RBF(1.0).bind(columns)
    if given.embedding == "fourier":
        # each frequency gives a cosine and a sine
        frequencies = np.tile(np.arange(1.0, given.features // 2 + 1)[:, None], columns)
        zeros = np.zeros((len(frequencies), n_outputs))
        return FourierExpansion(frequencies, zeros[:, 0], zeros, zeros[0], names, kernel=kernel)
    r = given.landmarks
    return KernelExpansion(
        kernel, np.zeros((r, columns)), np.zeros((r, n_outputs)), np.zeros(n_outputs), names
    )
