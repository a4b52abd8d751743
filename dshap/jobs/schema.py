"""The job file: one frozen record for each table, checked whole before anything is opened.

What a table may hold follows from what it stands for: `MODELS`, `VALUES`, `DESIGNS` and `CLUSTERS`
name what is constructed, a line a kind, and the keys are the parameters there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, create_model, model_validator

from dshap import designs
from dshap.core.options import RULES, WAIT_S, RunOptions, parse_bytes
from dshap.core.types import Design
from dshap.jobs.arguments import CHOSEN_BACKGROUND, DESIGN_PARTS, MODEL_PARTS, VALUE_PARTS
from dshap.jobs.fields import (
    Count,
    FolderName,
    InstanceKey,
    Names,
    NotEmpty,
    Penalty,
    Seed,
    Target,
    options_of,
)
from dshap.jobs.kinds import CODE, Kinds, KindTable, Made, Table, one_kind
from dshap.jobs.paths import PicturePath, StorePath, TablePath
from dshap.jobs.texts import TEXT_PARTS, TextTable, check_of_texts, with_chains
from dshap.tables.synthetic import MAX_ROWS

__all__ = [
    "CLUSTERS",
    "DESIGNS",
    "MODELS",
    "SOURCES",
    "VALUES",
    "ExplainTable",
    "FittedModel",
    "TABLES",
    "Job",
]


class JobTable(Table):
    """[job]"""

    name: NotEmpty
    store: StorePath
    """Path of the Zarr store; each explanation is a group in it."""
    seed: Seed = 0
    """Landmarks, held-out rows, sampled background and coalitions; a design may have its own."""
    dtype: Literal["float64", "float32"] = "float64"
    """Stored type of the attributions; sums are always float64."""


class ParquetTable(KindTable):
    """[source] kind = "parquet"."""

    path: TablePath
    """File, folder or glob."""
    key: Names = ()
    """Column(s) that name a row."""
    target: Target | None = None
    """What the model is fitted to."""
    features: Names | None = None
    """All number columns but key and target where left out.  Times and dates of an imported model
    where named."""
    missing: Literal["refuse", "skip", "pass"] = "refuse"


class SyntheticRows(KindTable):
    """[source] kind = "synthetic": a made-up table, which the workers compute where they would
    read."""

    name: Literal["powerlifting"]
    """Results of powerlifting meets, a lifter a row."""
    rows: Annotated[int, Field(ge=1, le=MAX_ROWS)] = 200_000
    seed: Seed = 0
    key: Names = ("lift_id",)
    target: Target | None = "deadlift_kg"
    features: Names | None = None
    """All columns but `lift_id`, `deadlift_kg`, key and target where left out."""

    @property
    def missing(self) -> str:
        """Nothing is missing in a made-up table."""
        return "refuse"


SOURCES = Kinds(
    "kind",
    {"parquet": ParquetTable, "synthetic": SyntheticRows, "texts": TextTable},
    KindTable,
    not_built=("csv", "delta", "duckdb", "postgresql", "sql", "zarr"),
)


class FittedModel(KindTable):
    """A kernel model that the job fits.  Of classes the decision function is explained: the
    log-odds of the second of two, or one output a class."""

    penalty: Penalty = "validate"
    holdout: float = Field(default=0.1, ge=0.0, lt=1.0)


class ImportedModel(KindTable):
    """[model] kind = "import": a predict function, or for value = "trees" a fitted ensemble, of
    code that the user installed."""

    function: Annotated[str, Field(pattern=CODE)]
    """"package.module:name", rows (n, columns) -> (n,) or (n, k)."""


NOT_OFFERED = dict.fromkeys(("intercept", "max_iter", "standardize", "tol", "unseen"))
"""Options of a model that a job file has not."""
MODELS = Kinds(
    "kind",
    {
        "kernel_ridge": "dshap.models:KernelRidge",
        "kernel_logistic": "dshap.models:KernelLogistic",
        "import": ImportedModel,
    },
    FittedModel,
    MODEL_PARTS,
    particular={"kernel_ridge": NOT_OFFERED, "kernel_logistic": NOT_OFFERED},
    not_built=("lightgbm", "onnx", "pickle", "skops", "xgboost"),
)


class ExplainTable(Made):
    """[[explain]]"""

    name: FolderName
    """Of the cube in the store."""
    value: str
    players: dict[str, list[str]] | None = None
    """A name for several columns that are one player."""

    @model_validator(mode="after")
    def _check_players(self) -> ExplainTable:
        if self.players is not None and "players" not in self.parts:
            raise ValueError(
                f'players belongs to values of coalitions; of "{self.value}" every column is one: '
                "leave it out"
            )
        return self

    @property
    def n_quality_rows(self) -> int | None:
        """Rows that MSE_v is measured on, where that is asked for."""
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
    },
    ExplainTable,
    VALUE_PARTS,
    particular={
        "marginal": {"background": CHOSEN_BACKGROUND},
        "tokens": TEXT_PARTS,
        "trees": dict.fromkeys(("background", "feature_names")),
    },
    not_built=("linear_gaussian",),
    takes_others=True,
)

GROWING = ("auto", "kernelshap", "kriging")
INSTEAD = {
    "auto": "give max_coalitions",
    "exact": "every coalition is taken: leave it out",
    "quadrature": "no coalition is listed: leave it out",
}
"""Design that takes no number -> what to give instead of one."""
HINTS = {
    "n_coalitions": ", at least twice the number of features",
    "n_permutations": ", an even number",
}


class DesignTable(KindTable):
    """[design]: kind "auto", "quadrature" (the closed form of "kernel_interventional"), or one that
    is constructed."""

    max_coalitions: Count | None = None
    """Of "auto"; with `tol`, where rounds end."""
    tol: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Rounds: largest std_error over the range of a row's attributions at which it takes no more
    coalitions."""
    seed: Seed | None = None
    """The job's where left out."""

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
    """Options of a design that have no default."""
    fields = DESIGNS.record({"kind": kind}).model_fields.items()
    return [name for name, option in fields if option.is_required() and name != "kind"]


def _instead(kind: str) -> str:
    """What to give a design in the place of a number that belongs to another."""
    return INSTEAD.get(kind) or f"give {' and '.join(_needed(kind)) or 'none'}"


def _design(given: Any) -> Any:
    """The record of [design].  Options of other kinds are let through where they are at their
    default."""
    if not isinstance(given, Mapping):
        return DESIGNS(given)
    kind = given.get("kind", "auto")
    kept = dict(given)
    here = DESIGNS.record(given).model_fields
    for name in [name for name in given if name not in here]:
        homes = DESIGNS.with_key(name)
        if homes and given[name] == DESIGNS.records[homes[0]].model_fields[name].default:
            del kept[name]
        elif homes:
            belongs = f"{name} belongs to kind = " + " or ".join(f'"{home}"' for home in homes)
            is_number = DESIGNS.records[homes[0]].model_fields[name].is_required()
            raise ValueError(
                f'{belongs}; with "{kind}" {_instead(kind)}'
                if is_number
                else f'{belongs}, not to "{kind}": leave it out'
            )
    for name in _needed(kind):
        if name not in given:
            raise ValueError(f'kind = "{kind}" needs {name}{HINTS.get(name, "")}')
    return DESIGNS(kept)


class ClusterTable(KindTable):
    """[cluster] of any kind but "none"."""

    wait: Annotated[float, Field(ge=0.0)] = WAIT_S
    """Seconds that it may be without a worker; `dshap run --wait` comes first."""


CLUSTERS = Kinds(
    "kind",
    {
        "local": "dshap.jobs.executor:local",
        "python": "dshap.jobs.executor:python",
        "scheduler": "dshap.jobs.executor:scheduler",
        "none": KindTable,
    },
    ClusterTable,
    not_built=("gateway", "kubernetes", "slurm", "ssh"),
)
ELSEWHERE = ("missing", "max_coalitions", "dtype", "tol", "wait")
"""Options of a run that other tables have."""
Run = create_model("Run", __base__=Table, **options_of(RunOptions, RULES, ELSEWHERE))  # type: ignore[call-overload]
"""[run]: how the run is cut and stored; see `dshap.core.options.RunOptions`."""


class Report(Table):
    """[report]: what `dshap run` shows at its end."""

    picture: PicturePath | None = None
    """Path of a PNG of the rankings."""
    instance: InstanceKey | None = None
    """Key of the row that is broken down (its position where there is no key); the first row where
    left out."""


class Job(Table):
    """A job file, checked."""

    job: JobTable
    source: Annotated[Any, BeforeValidator(SOURCES)]
    model: Annotated[Any, BeforeValidator(MODELS)]
    explain: Annotated[list[Annotated[Any, BeforeValidator(VALUES)]], Field(min_length=1)]
    design: Annotated[Any, BeforeValidator(_design)] = DESIGNS({})
    cluster: Annotated[Any, BeforeValidator(CLUSTERS)] = KindTable(kind="none")
    run: Annotated[Any, BeforeValidator(Run.model_validate)] = Run()
    report: Report = Report()

    @model_validator(mode="before")
    @classmethod
    def _with_chains(cls, given: Any) -> Any:
        return with_chains(given, DESIGNS.with_key("graph"))

    @model_validator(mode="after")
    def _check(self) -> Job:
        names = [explain.name for explain in self.explain]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two [[explain]] are named {twice[0]!r}: give each a name of its own")
        check_of_texts(self)
        if self.is_imported:
            self._check_imported()
        else:
            self._check_fitted()
        return self

    def _check_fitted(self) -> None:
        kind = f'[model] kind = "{self.model.kind}"'
        target = self.source.target
        if target is None:
            raise ValueError(f"[source] target is missing: {kind} is fitted to it")
        if self.model.kind == "kernel_logistic" and not isinstance(target, str):
            raise ValueError(
                f"[source] target = {list(target)}: {kind} takes one column of classes"
            )
        if self.source.missing == "pass":
            raise ValueError(
                '[source] missing = "pass" is for models that take NaN: use "refuse" or "skip"'
            )
        for explain in self.explain:
            if explain.value == "trees":
                raise ValueError(
                    f'[[explain]] {explain.name}: value "trees" explains a fitted ensemble: give '
                    "[model] kind = "
                    '"import" and function = "package.module:name", the place of the model'
                )
            if self.model.embedding == "fourier" and "landmarks" in _of_the_model(explain):
                raise ValueError(
                    f'[[explain]] {explain.name} landmarks = "model": the model has Fourier '
                    "features and no landmarks; "
                    "give a number"
                )

    def _check_imported(self) -> None:
        if self.is_of_trees and any(explain.value != "trees" for explain in self.explain):
            raise ValueError(
                '[[explain]] value = "trees" takes a fitted ensemble, and the others a predict '
                "function: make two jobs"
            )
        for explain in self.explain:
            place = f"[[explain]] {explain.name}"
            if "model" in explain.parts and explain.value != "trees":
                fitted = [
                    name for name, record in VALUES.records.items() if "model" in record.parts
                ]
                others = " or ".join(
                    f'"{name}"' for name in VALUES.known if name == "trees" or name not in fitted
                )
                raise ValueError(
                    f'{place}: value "{explain.value}" explains kernel models; with [model] kind = '
                    '"import" use '
                    f"value = {others}"
                )
            for key in _of_the_model(explain):
                raise ValueError(
                    f'{place} {key} = "model": [model] kind = "import" has none; give one of its '
                    "own"
                )
            if self.source.missing == "pass" and "quality_rows" in dict(explain):
                raise ValueError(
                    f'{place}: value "{explain.value}" learns from the rows, which must then be '
                    "free of NaN; with "
                    '[source] missing = "pass" use value = "marginal"'
                )

    @property
    def is_imported(self) -> bool:
        """The model is not fitted by the job."""
        return bool(self.model.kind == "import")

    @property
    def is_of_texts(self) -> bool:
        """The rows are texts."""
        return bool(self.source.kind == "texts")

    @property
    def is_of_trees(self) -> bool:
        """[model] function names a fitted ensemble."""
        return any(explain.value == "trees" for explain in self.explain)

    def options(self) -> RunOptions:
        """The options of a run that every explanation shares."""
        return RunOptions.of(
            {
                **dict(self.run),
                "missing": self.source.missing,
                "max_coalitions": self.design.max_coalitions,
                "tol": self.design.tol,
                "dtype": self.job.dtype,
                "wait": dict(self.cluster).get("wait", WAIT_S),
            }
        )

    def design_of(self, n_players: int) -> Design | str:
        """The design of [design] for so many players; "auto" and "quadrature" by name."""
        is_named = type(self.design) is DesignTable
        design: Design | str = (
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
        """Bytes of one worker, where the job says so."""
        given = [dict(self.cluster).get("memory_limit"), self.run.memory_limit]
        return min((parse_bytes(limit) for limit in given if limit is not None), default=None)

    @property
    def n_threads(self) -> int:
        """Of one worker, where the job says so."""
        return dict(self.cluster).get("threads", 1)


def _of_the_model(explain: ExplainTable) -> list[str]:
    """The keys that ask for a part of the model's."""
    return [key for key in ("landmarks", "kernel") if dict(explain).get(key) == "model"]


TABLES: Mapping[str, Kinds] = {
    "job": one_kind(JobTable),
    "source": SOURCES,
    "model": MODELS,
    "explain": VALUES,
    "design": DESIGNS,
    "cluster": CLUSTERS,
    "run": one_kind(Run),
    "report": one_kind(Report),
}
"""Table of a job file -> what it may be."""
