"""The schema of job files: one frozen record for each table, checked before anything is opened.

The keys of a table follow from the object that it describes: `MODELS`, `VALUES`, `DESIGNS` and
`CLUSTERS` name a class or function for each kind, and its parameters are the keys.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from dshap import designs
from dshap.core.addresses import safe_value
from dshap.core.environment import with_environment
from dshap.core.fixed_words import DesignName
from dshap.core.html import table_html
from dshap.core.options import RULES, WAIT_S, RunOptions, parse_bytes
from dshap.core.printing import shortened
from dshap.core.types import Design
from dshap.cube.described import Description
from dshap.engine.clusters.worker import WorkerOptions
from dshap.jobfile.arguments import (
    DESIGN_PARTS,
    LINEAR_PARTS,
    MARGINAL_PARTS,
    MODEL_PARTS,
    SOURCE_PARTS,
    SYNTHETIC_PARTS,
    TREE_PARTS,
    VALUE_PARTS,
)
from dshap.jobfile.check_tables import CHECKS, check_checks
from dshap.jobfile.cluster_tables import CLUSTERS, NoCluster, WorkerTable, refuse_unused
from dshap.jobfile.described_tables import (
    CardTable,
    ColumnsTable,
    GivenColumns,
    GivenSentences,
    SentencesTable,
    described_by_tables,
)
from dshap.jobfile.ending_tables import NotifyTable, SealTable
from dshap.jobfile.fields import (
    Count,
    FolderName,
    Holdout,
    InstanceKey,
    Names,
    NotEmpty,
    Penalty,
    Seed,
    options_of,
    type_of,
)
from dshap.jobfile.kinds import Kinds, KindTable, Made, Table, one_kind, record_of
from dshap.jobfile.model_tables import (
    GivenModel,
    ImportedModel,
    LightGBMTable,
    MlflowTable,
    OnnxTable,
    PickleTable,
    SkopsTable,
    XGBoostTable,
)
from dshap.jobfile.night_tables import IncrementalTable, PrepareTable, RetentionTable
from dshap.jobfile.paths import PagePath, PicturePath, StorePath
from dshap.jobfile.segment_columns import check_columns, column_requests
from dshap.jobfile.sink_tables import (
    SINKS,
    books_of,
    check_code_books,
    check_sink_names,
    check_sinks,
)
from dshap.jobfile.source_tables import CsvTable, HeldTable, SpooledTable, SqlTable
from dshap.jobfile.text_tables import TEXT_FILES_PARTS, TEXT_PARTS, with_chains
from dshap.sinks import CubeFacts
from dshap.sinks.code_books import CodeBook
from dshap.tables.sources import IN_FILES, READERS
from dshap.warehouse import kinds


class JobSection(Table):
    """The table [job]."""

    name: NotEmpty
    store: StorePath
    """The path of the Zarr store; each explanation is a group in it."""
    seed: Seed = 0
    """The seed of landmarks, held-out rows, sampled backgrounds and coalitions; [design] seed
    replaces it for coalitions."""
    dtype: type_of(RULES["dtype"]) = "float64"  # type: ignore[valid-type]
    """The stored type of the attributions; sums are always float64."""
    keep_runs: Count = 7
    """With [incremental], the number of runs whose cubes and rows are kept; records always stay."""


SOURCES = Kinds(
    "kind",
    {**READERS, **kinds.READ_ONCE, "sql": SqlTable, "csv": CsvTable},
    KindTable,
    SOURCE_PARTS,
    particular={"synthetic": SYNTHETIC_PARTS, "texts": TEXT_FILES_PARTS},
    bases=dict.fromkeys(IN_FILES, HeldTable) | dict.fromkeys(kinds.READ_ONCE, SpooledTable),
    not_built=("zarr",),
)


READ_ONCE = (*IN_FILES, *kinds.READ_ONCE)
"""Kinds of tables whose rows a job with [incremental] reads once and stores."""


class FittedModel(KindTable):
    """A kernel model that the job fits.

    For classes the decision function is explained: the log-odds of the second of two classes, or a
    score for each class if there are more.
    """

    penalty: Penalty = "validate"
    holdout: Holdout = 0.1


MODELS = Kinds(
    "kind",
    {
        "kernel_ridge": "dshap.models:KernelRidge",
        "kernel_logistic": "dshap.models:KernelLogistic",
        "import": ImportedModel,
        "xgboost": XGBoostTable,
        "lightgbm": LightGBMTable,
        "onnx": OnnxTable,
        "skops": SkopsTable,
        "pickle": PickleTable,
        "mlflow": MlflowTable,
    },
    FittedModel,
    MODEL_PARTS,
)


class ExplainTable(Made):
    """A table [[explain]]."""

    name: FolderName
    """The name of the explanation, and of its cube in the store."""
    value: str
    players: dict[str, list[str]] | None = None
    """Name of a player -> its columns."""

    @model_validator(mode="after")
    def _check_players(self) -> ExplainTable:
        if self.players is not None and "players" not in self.parts:
            raise ValueError(
                f'players belongs to value functions with coalitions; with value = "{self.value}" '
                "every column is a player: leave players out"
            )
        return self

    @property
    def n_quality_rows(self) -> int | None:
        """The number of rows on which MSE_v is measured; None if it is not."""
        return dict(self).get("quality_rows")


VALUES = Kinds(
    "value",
    {
        "kernel_interventional": "dshap.values:KernelInterventional",
        "kernel_observational": "dshap.values:KernelObservational",
        "marginal": "dshap.values:Marginal",
        "conditional_regression": "dshap.values:ConditionalRegression",
        "gaussian": "dshap.values:Gaussian",
        "copula": "dshap.values:Copula",
        "tokens": "dshap.values:Tokens",
        "trees": "dshap.values:Trees",
        "linear_gaussian": "dshap.values:LinearGaussian",
    },
    ExplainTable,
    VALUE_PARTS,
    particular={
        "marginal": MARGINAL_PARTS,
        "tokens": TEXT_PARTS,
        "trees": TREE_PARTS,
        "linear_gaussian": LINEAR_PARTS,
    },
    takes_others=True,
)

OF_GIVEN = {"trees": "ensemble", "linear_gaussian": "linear model"}
"""Value function of a model that no job fits -> the kind of that model."""
GROWING = ("auto", "kernelshap", "kriging")
INSTEAD = {
    "auto": "give max_coalitions",
    "exact": "every coalition is taken: leave it out",
    "quadrature": "no coalition is listed: leave it out",
}
"""Design that accepts no number of coalitions -> what to do instead of giving one."""
HINTS = {
    "n_coalitions": ", at least twice the number of features",
    "n_permutations": ", an even number",
}


class DesignTable(KindTable):
    """The table [design]: "auto", "quadrature", or the base of a kind that is constructed.

    "quadrature" is the closed form of "kernel_interventional".
    """

    max_coalitions: Count | None = None
    """The most coalitions for kind "auto"; with `tol`, the number at which rounds end."""
    tol: type_of(RULES["tol"]) | None = None  # type: ignore[valid-type]
    """The tolerance, such as 0.02: coalitions are added to a row until its largest std_error,
    divided by the range of its attributions, is small enough."""
    seed: Seed | None = None
    """The seed; by default that of the job."""

    @model_validator(mode="after")
    def _check(self) -> DesignTable:
        is_growing = self.kind in GROWING
        if (
            self.max_coalitions is not None
            and self.kind != "auto"
            and (self.tol is None or not is_growing)
        ):
            raise ValueError(
                f'max_coalitions belongs to kind = "auto"; with "{self.kind}" {_instead(self.kind)}'
            )
        if self.tol is not None and not is_growing:
            raise ValueError(
                f'tol belongs to a design that grows ({", ".join(GROWING)}), not to "{self.kind}"'
            )
        return self


DESIGNS = Kinds(
    "kind",
    {"auto": DesignTable, **designs.KINDS, "quadrature": DesignTable},
    DesignTable,
    DESIGN_PARTS,
    default="auto",
    takes_others=True,
)


def _needed(kind: str) -> list[str]:
    """Options of a design without a default."""
    fields = DESIGNS.record({"kind": kind}).model_fields.items()
    return [name for name, option in fields if option.is_required() and name != "kind"]


def _instead(kind: str) -> str:
    """Advice on what to give a design instead of a number that belongs to another."""
    return INSTEAD.get(kind) or f"give {' and '.join(_needed(kind)) or 'none'}"


def _design(given: Any) -> Any:
    """Validate [design]; options of other kinds are let through at their default."""
    if not isinstance(given, Mapping):
        return DESIGNS(given)
    kind = given.get("kind", "auto")
    kept = dict(given)
    here = DESIGNS.record(given).model_fields
    for name in [name for name in given if name not in here]:
        homes = DESIGNS.with_key(name)
        if homes and given[name] == DESIGNS.record_of(homes[0]).model_fields[name].default:
            del kept[name]
        elif homes:
            belongs = f"{name} belongs to kind = " + " or ".join(f'"{home}"' for home in homes)
            is_number = DESIGNS.record_of(homes[0]).model_fields[name].is_required()
            raise ValueError(
                f'{belongs}; with "{kind}" {_instead(kind)}'
                if is_number
                else f'{belongs}, not to "{kind}": leave it out'
            )
    for name in _needed(kind):
        if name not in given:
            raise ValueError(f'kind = "{kind}" needs {name}{HINTS.get(name, "")}')
    return DESIGNS(kept)


ELSEWHERE = ("missing", "max_coalitions", "dtype", "tol", "wait", "codes", "undo_codes")
"""Options of a run that belong to other tables."""
Run = record_of("Run", (Table,), options_of(RunOptions, RULES, ELSEWHERE))
"""The table [run]: how the run is divided into tasks and stored; see
`dshap.core.options.RunOptions`."""


class Report(Table):
    """The table [report]: the results that `dshap run` shows at its end."""

    picture: PicturePath | None = None
    """The path of a PNG of the rankings."""
    page: PagePath | None = None
    """The path of an HTML page, as `dshap report` writes it."""
    mlflow: bool = False
    """Whether the page is also logged to MLflow, in a run of the experiment with the job's name."""
    instance: InstanceKey | None = None
    """The key of the row that is shown in detail, or its position if there is no key; by default
    the first row."""
    segments: Names = ()
    """Columns for whose values mean |attribution| is shown, each with at most 200 values; "age:5"
    divides numbers into 5 bins with about the same number of rows."""
    what_if: bool = False
    """Whether readers of the page can change the values of a row, and see its new prediction and
    exact attributions: for small linear models, kernel models and path-dependent tree ensembles.
    Store and page then contain the model and, for kernel models, rows of the table."""

    @model_validator(mode="after")
    def _check_mlflow(self) -> Report:
        if self.mlflow and self.page is None:
            raise ValueError("mlflow = true logs the page: give page, the path of the page, too")
        return self


class Job(Table):
    """A checked job file."""

    job: JobSection
    source: Annotated[Any, BeforeValidator(SOURCES)]
    model: Annotated[Any, BeforeValidator(MODELS)]
    explain: Annotated[list[Annotated[Any, BeforeValidator(VALUES)]], Field(min_length=1)]
    design: Annotated[Any, BeforeValidator(_design)] = DESIGNS({})
    cluster: Annotated[Any, BeforeValidator(CLUSTERS)] = NoCluster(kind="none")
    worker: WorkerTable = WorkerTable()
    run: Annotated[Any, BeforeValidator(Run.model_validate)] = Run()
    report: Report = Report()
    incremental: IncrementalTable = IncrementalTable()
    prepare: PrepareTable = PrepareTable()
    retention: RetentionTable = RetentionTable()
    check: list[Annotated[Any, BeforeValidator(CHECKS)]] = Field(default=[])
    sink: list[Annotated[Any, BeforeValidator(SINKS)]] = Field(default=[])
    seal: SealTable = SealTable()
    notify: NotifyTable = NotifyTable()
    columns: GivenColumns = ColumnsTable()
    card: Annotated[Any, BeforeValidator(CardTable.model_validate)] = CardTable()
    sentences: GivenSentences = SentencesTable()

    def _repr_html_(self) -> str:
        """The keys that the job sets, as a table; secrets are masked."""
        given = self.model_dump(mode="json", exclude_unset=True)
        several = [(f"[[{table}]]", each) for table in SEVERAL for each in given.pop(table, ())]
        tables = [*((f"[{table}]", held) for table, held in given.items()), *several]
        rows = [
            [table, name, _value_shown(name, value)]
            for table, held in tables
            for name, value in held.items()
        ]
        return table_html(f"Job {self.job.name}", ("table", "key", "value"), rows, n_texts=3)

    @model_validator(mode="before")
    @classmethod
    def _with_chains(cls, given: Any) -> Any:
        return with_chains(given, partial(DESIGNS.with_key, "graph"))

    @model_validator(mode="after")
    def _check(self) -> Job:
        names = [explain.name for explain in self.explain]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two [[explain]] are named {twice[0]!r}: give each a name of its own")
        refuse_unused(self.cluster, self.worker)
        _check_texts(self)
        if self.is_given:
            self._check_given()
        else:
            self._check_fitted()
        check_columns(
            column_requests(self.report.segments, self.report.what_if, self.is_incremental),
            is_of_texts=self.is_of_texts,
            keeps_columns=self.keeps_columns,
        )
        self._check_incremental()
        check_checks(self.check, {explain.name: explain for explain in self.explain})
        check_sinks(self.sink, [explain.name for explain in self.explain])
        check_code_books(self.sink, [explain.name for explain in self.explain])
        check_sink_names(self.sink, self._named_facts)
        return self

    def _check_incremental(self) -> None:
        if not self.is_incremental:
            if self.prepare.every is not None:
                raise ValueError(
                    "[prepare] every belongs to runs that keep the learned method: give "
                    '[incremental] strategy = "digest" too, or leave it out'
                )
            if self.retention.days is not None:
                raise ValueError(
                    "[retention] days removes the cubes of earlier runs, and this job has one cube that "
                    'all runs share: give [incremental] strategy = "digest" too, or leave it out'
                )
            return
        if not dict(self.source).get("key"):
            raise ValueError(
                "[source] key is missing: [incremental] finds the rows of the run before by their "
                "key"
            )
        if self.source.kind not in READ_ONCE:
            raise ValueError(
                f'[incremental] keeps the rows of each run, and [source] kind = "{self.source.kind}" '
                f"generates them: name one of {', '.join(READ_ONCE)}, or leave it out"
            )

    def _check_fitted(self) -> None:
        kind = f'[model] kind = "{self.model.kind}"'
        target = self.target
        if target is None:
            raise ValueError(f"[source] target is missing: {kind} is fitted to it")
        if self.model.kind == "kernel_logistic" and not isinstance(target, str):
            raise ValueError(
                f"[source] target = {list(target)}: {kind} takes one column of classes"
            )
        if self.missing == "pass":
            raise ValueError(
                '[source] missing = "pass" is for models that take NaN: use "refuse" or "skip"'
            )
        for explain in self.explain:
            if explain.value in OF_GIVEN:
                raise ValueError(
                    f'[[explain]] {explain.name}: value "{explain.value}" explains a fitted '
                    f'{OF_GIVEN[explain.value]}: give [model] kind = "import" and function = '
                    '"package.module:name", the place of the model, or the kind and path of its '
                    "file"
                )
            if self.model.embedding == "fourier" and "landmarks" in _of_the_model(explain):
                raise ValueError(
                    f'[[explain]] {explain.name} landmarks = "model": the model has Fourier '
                    "features and no landmarks; "
                    "give a number"
                )

    def _check_given(self) -> None:
        for explain in self.explain:
            place = f"[[explain]] {explain.name}"
            for key in _of_the_model(explain):
                raise ValueError(
                    f'{place} {key} = "model": [model] kind = "{self.model.kind}" has none; give '
                    "a value"
                )
            if self.missing == "pass" and "quality_rows" in dict(explain):
                raise ValueError(
                    f'{place}: value "{explain.value}" learns from the rows, which must then be '
                    "free of NaN; with "
                    '[source] missing = "pass" use value = "marginal"'
                )

    @property
    def is_given(self) -> bool:
        """Whether a fitted model is given to the job, which then fits none."""
        return isinstance(self.model, GivenModel)

    @property
    def keeps_columns(self) -> bool:
        """Whether cubes store the explained columns: on request, and if a sink has their values."""
        return bool(self.run.keep_rows) or any(sink.has_values for sink in self.sink)

    @property
    def _named_facts(self) -> CubeFacts:
        """The facts about cubes that the job file names; features only where players are columns.

        A given model may know its columns: then they decide whether one is misspelt in [source].
        """
        source = dict(self.source)
        features = tuple(source.get("features") or ())
        if self.is_given or any(explain.players for explain in self.explain):
            features = ()
        keys = dict.fromkeys(source.get("key") or (), "int64")
        return CubeFacts(keys, features, ("",), is_of_texts=self.is_of_texts)

    @property
    def is_incremental(self) -> bool:
        """Whether each run writes a cube of its own, and carries unchanged rows into it."""
        return self.incremental.strategy == "digest"

    @property
    def target(self) -> Any:
        """The target column(s), None if [source] names none or its kind has none."""
        return dict(self.source).get("target")

    @property
    def missing(self) -> str:
        """The treatment of rows with missing values; kinds of tables without them refuse them."""
        return dict(self.source).get("missing", "refuse")

    @property
    def is_of_texts(self) -> bool:
        """Whether the rows are texts."""
        return bool(self.source.kind == "texts")

    @property
    def is_of_trees(self) -> bool:
        """Whether an explanation is of trees."""
        return any(explain.value == "trees" for explain in self.explain)

    @property
    def description(self) -> Description:
        """The description of the columns and the model, which cubes store."""
        return described_by_tables(self.columns, self.card, self.sentences)

    def code_books(self, explain: str) -> list[tuple[CodeBook, bool]]:
        """The code books of the sinks of an explanation, and whether their reasons are undone."""
        return books_of(self.sink, explain, self.explain[0].name)

    def options(self) -> RunOptions:
        """The options of a run, shared by all explanations."""
        return RunOptions.of(
            {
                **dict(self.run),
                "keep_rows": self.keeps_columns,
                "missing": self.missing,
                "max_coalitions": self.design.max_coalitions,
                "tol": self.design.tol,
                "dtype": self.job.dtype,
                "wait": dict(self.cluster).get("wait", WAIT_S),
            }
        )

    def design_of(self, n_players: int) -> Design | DesignName:
        """Build the design for `n_players` players; "auto" and "quadrature" stay names."""
        is_named = type(self.design) is DesignTable
        design: Design | DesignName = (
            self.design.kind if is_named else self.design.made((n_players, self.design_seed))
        )
        return design

    @property
    def design_seed(self) -> int:
        if self.design.seed is None:
            return self.job.seed
        return int(self.design.seed)

    @property
    def memory_limit(self) -> int | None:
        """The memory limit of one worker in bytes, where the job sets one."""
        given = [
            dict(self.cluster).get("memory_limit"),
            self.run.memory_limit,
            self.worker_options.process_memory,
        ]
        return min((parse_bytes(limit) for limit in given if limit is not None), default=None)

    @property
    def n_threads(self) -> int:
        """The threads of one process of a worker, 1 where the job does not set them."""
        return dict(self.cluster).get("threads") or self.worker_options.threads

    @property
    def worker_options(self) -> WorkerOptions:
        """The size and surroundings of one worker."""
        return WorkerOptions(**dict(self.worker))


def _value_shown(name: str, value: Any) -> str:
    return shortened(json.dumps(safe_value(name, value), ensure_ascii=False), 120)


def _of_the_model(explain: ExplainTable) -> list[str]:
    """The keys with the value "model", which ask for a part of the model."""
    return [key for key in ("landmarks", "kernel") if dict(explain).get(key) == "model"]


TABLES: Mapping[str, Kinds] = {
    "job": one_kind(JobSection),
    "source": SOURCES,
    "model": MODELS,
    "explain": VALUES,
    "design": DESIGNS,
    "cluster": CLUSTERS,
    "worker": one_kind(WorkerTable),
    "run": one_kind(Run),
    "report": one_kind(Report),
    "incremental": one_kind(IncrementalTable),
    "prepare": one_kind(PrepareTable),
    "retention": one_kind(RetentionTable),
    "check": CHECKS,
    "sink": SINKS,
    "seal": one_kind(SealTable),
    "notify": one_kind(NotifyTable),
    "columns": one_kind(ColumnsTable),
    "card": one_kind(CardTable),
    "sentences": one_kind(SentencesTable),
}
"""Table of a job file -> its kinds."""
SEVERAL = {"explain": "explanation", "check": "check", "sink": "sink"}
"""Table of which a job file may have several, in two brackets -> the noun for one of them."""


def _check_texts(job: Job) -> None:
    """Raise a ValueError if texts meet a value function of columns, or the other way round."""
    for explain in job.explain:
        if (explain.value == "tokens") != job.is_of_texts:
            raise ValueError(
                f'[[explain]] {explain.name}: value = "tokens" explains [source] kind = "texts", '
                "and nothing else "
                "does: give both or neither"
            )
    if job.is_of_texts and not job.is_given:
        raise ValueError(
            '[source] kind = "texts" is explained by a predict function: give [model] kind = '
            '"import"'
        )


def name_of_one(entry: Mapping[str, Any]) -> str:
    """The name of one of several tables: its own, or of a sink the table or path that it loads."""
    name = str(entry.get("name") or entry.get("table") or entry.get("path") or "")
    with contextlib.suppress(ValueError):  # a variable that is not set is refused later
        return with_environment(name)
    return name
