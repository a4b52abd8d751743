"""The job file: one frozen record for each table, checked whole before anything is opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dshap.jobs.fields import (
    Background,
    Count,
    EvenCount,
    FolderName,
    InstanceKey,
    Landmarks,
    Lengthscale,
    Memory,
    Names,
    OwnLengthscale,
    Penalty,
    Place,
    Seed,
    Target,
    Text,
)
from dshap.options import RunOptions, parse_bytes

__all__ = [
    "NOT_BUILT",
    "Cluster",
    "CopulaValue",
    "Design",
    "Explain",
    "GaussianValue",
    "ImportedModel",
    "Interventional",
    "Job",
    "KernelLogisticModel",
    "KernelRidgeModel",
    "LinkedTable",
    "LocalCluster",
    "MarginalValue",
    "NoCluster",
    "Observational",
    "ParquetTable",
    "PythonCluster",
    "Regression",
    "Scheduler",
    "Source",
    "SyntheticRows",
    "TreesValue",
]

NOT_BUILT: Mapping[str, tuple[str, ...]] = {
    "source": ("csv", "delta", "duckdb", "postgresql", "sql", "zarr"),
    "model": ("lightgbm", "onnx", "pickle", "skops", "xgboost"),
    "explain": ("linear_gaussian",),
    "design": ("connected", "connected_regression", "local", "myerson"),
    "cluster": ("gateway", "kubernetes", "slurm", "ssh"),
}
"""table -> kinds of the design that this version knows by name only."""


class Table(BaseModel):
    """Base of every table: frozen, unknown keys refused, numbers are not taken from text."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class JobTable(Table):
    """[job]"""

    name: Text
    store: Place
    """Path of the Zarr store; each explanation is a group in it."""
    seed: Seed = 0
    """Landmarks, held-out rows, sampled background and coalitions; a design may have its own."""
    dtype: Literal["float64", "float32"] = "float64"
    """Stored type of the attributions; sums are always float64."""


class ParquetTable(Table):
    """[source] kind = "parquet"."""

    kind: Literal["parquet"]
    path: Place
    """File, folder or glob."""
    key: Names = ()
    """Column(s) that name a row."""
    target: Target | None = None
    """What the model is fitted to."""
    features: Names | None = None
    """All number columns but key and target where left out."""
    missing: Literal["refuse", "skip", "pass"] = "refuse"


class SyntheticRows(Table):
    """[source] kind = "synthetic": a made-up table, which the workers compute where they would read."""

    kind: Literal["synthetic"]
    name: Literal["powerlifting"]
    """Results of powerlifting meets, a lifter a row."""
    rows: Count = 200_000
    seed: Seed = 0
    key: Names = ("lift_id",)
    target: Target | None = "deadlift_kg"
    features: Names | None = None
    """All columns but `lift_id`, `deadlift_kg`, key and target where left out."""

    @property
    def missing(self) -> str:
        """Nothing is missing in a made-up table."""
        return "refuse"


Source = Annotated[ParquetTable | SyntheticRows, Field(discriminator="kind")]


class EmbeddedTable(Table):
    """Base of the tables with features of a kernel: landmarks, or random Fourier features."""

    embedding: Literal["nystrom", "fourier"] = "nystrom"
    landmarks: Landmarks = 256
    """Of embedding = "nystrom"."""
    selection: Literal["kmeans++", "uniform", "leverage"] = "kmeans++"
    """How landmarks are chosen: far from each other, evenly over rows, or by ridge leverage scores."""
    features: EvenCount = 256
    """Of embedding = "fourier": real ones, a cosine and a sine for each frequency."""

    @model_validator(mode="after")
    def _check_embedding(self) -> EmbeddedTable:
        for key, home in EMBEDDING_OF.items():
            if key in self.model_fields_set and self.embedding != home:
                instead = "features" if self.embedding == "fourier" else "landmarks"
                raise ValueError(f'{key} belongs to embedding = "{home}"; with "{self.embedding}" give {instead}')
        if self.landmarks == "model" and "selection" in self.model_fields_set:
            raise ValueError('landmarks = "model" takes those of the model: leave selection out')
        return self


EMBEDDING_OF = {"landmarks": "nystrom", "selection": "nystrom", "rank_tolerance": "nystrom", "features": "fourier"}


class KernelTable(EmbeddedTable):
    """Base of the kernel models that the job fits."""

    landmarks: Count = 500
    features: EvenCount = 500
    kernel: Literal["rbf", "laplacian", "matern12", "matern32", "matern52"] = "rbf"
    lengthscale: Lengthscale = "validate"
    penalty: Penalty = "validate"
    holdout: float = Field(default=0.1, ge=0.0, lt=1.0)
    sample_size: Count = 20_000


class KernelRidgeModel(KernelTable):
    """[model] kind = "kernel_ridge": numbers."""

    kind: Literal["kernel_ridge"]


class KernelLogisticModel(KernelTable):
    """[model] kind = "kernel_logistic": the classes that the numbers of the target stand for.

    The decision function is explained: the log-odds of the second of two classes, or one output a class.
    """

    kind: Literal["kernel_logistic"]


class ImportedModel(Table):
    """[model] kind = "import": a predict function, or for value = "trees" a fitted ensemble, of code that the user
    installed."""

    kind: Literal["import"]
    function: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")]
    """"package.module:name", rows (n, columns) -> (n,) or (n, k)."""


Model = Annotated[KernelRidgeModel | KernelLogisticModel | ImportedModel, Field(discriminator="kind")]


class ExplainTable(Table):
    """Base of the tables [[explain]]."""

    name: FolderName
    """Of the cube in the store."""
    players: dict[str, list[str]] | None = None
    """A name for several columns that are one player."""


class LinkedTable(ExplainTable):
    """Base of those that call a predict function."""

    link: Literal["identity", "logit", "log_odds", "log_probability", "expected_log_probability"] = "identity"
    """What the expectations of probabilities are turned into."""
    link_class: Text | None = None
    """Of "log_odds" and "log_probability": the output; the predicted class of each row where left out."""
    clip: float = Field(default=0.0, ge=0.0, le=0.1)
    """Of a link: expectations are moved into [clip, 1 − clip]; 0: those of 0 or 1 are refused."""

    @model_validator(mode="after")
    def _check_link(self) -> LinkedTable:
        if self.link_class is not None and self.link not in ("log_odds", "log_probability"):
            raise ValueError(f'link_class belongs to link = "log_odds" or "log_probability", not to "{self.link}"')
        if self.clip and self.link == "identity":
            raise ValueError('clip belongs to a link of probabilities, like link = "logit"')
        return self


class LearntTable(ExplainTable):
    """Base of those that learn from the table."""

    quality_rows: Count | None = None
    """Measure MSE_v, mean (f − v_S)² over coalitions, on so many rows: held out of the fit where the model has such."""


class Interventional(LearntTable):
    """[[explain]] value = "kernel_interventional"."""

    value: Literal["kernel_interventional"]
    background: Background = "all"
    n_background: Count = 500
    """Rows of it that a closed form keeps (design "quadrature", or "auto" above 12 players)."""
    tolerance: float = Field(default=1e-6, gt=0.0)
    """Largest error of a closed form by its number of nodes, in standard deviations of the predictions."""


class Observational(LearntTable, EmbeddedTable):
    """[[explain]] value = "kernel_observational"."""

    value: Literal["kernel_observational"]
    penalty: Penalty = "validate"
    """ "validate": one for each coalition."""
    rank_tolerance: float = Field(default=1e-6, gt=0.0, lt=1.0)
    centred: bool = False
    """Shrink to the interventional value as the penalty grows, not to the intercept."""
    with_interventional: bool = False
    """Interventional values too, in the same pass, as further outputs."""


class Regression(LearntTable, LinkedTable, EmbeddedTable):
    """[[explain]] value = "conditional_regression": any model."""

    value: Literal["conditional_regression"]
    kernel: Literal["model", "rbf", "laplacian", "matern12", "matern32", "matern52"] | None = None
    """Of the regressions: that of the fitted model where left out, "rbf" where there is none."""
    lengthscale: OwnLengthscale = "median"
    """Of a kernel that is not the model's."""
    penalty: Penalty = "validate"
    """ "validate": one for each coalition."""
    rank_tolerance: float = Field(default=1e-6, gt=0.0, lt=1.0)
    precision: Literal["float64", "float32"] = "float64"
    """Of the sums of products; float32 is refused where it errs by more than 1e-3 standard deviations."""

    @model_validator(mode="after")
    def _check_kernel(self) -> Regression:
        if "lengthscale" in self.model_fields_set and self.kernel in (None, "model"):
            raise ValueError('lengthscale belongs to a kernel of its own: name one, like kernel = "rbf"')
        return self


class NormalTable(LearntTable, LinkedTable):
    """Base of those that draw from a conditional normal distribution: any model."""

    n_samples: EvenCount = 1_000
    """Draws for each row and coalition."""
    ridge: float = Field(default=0.0, ge=0.0)
    """Added to the diagonal of the correlation matrix: for columns that determine one another."""
    seed: Seed | None = None
    """Of the draws; the job's where left out."""


class GaussianValue(NormalTable):
    """[[explain]] value = "gaussian": columns taken as jointly normal."""

    value: Literal["gaussian"]


class CopulaValue(NormalTable):
    """[[explain]] value = "copula": normal scores taken as jointly normal, margins as they are."""

    value: Literal["copula"]


class MarginalValue(LinkedTable):
    """[[explain]] value = "marginal"."""

    value: Literal["marginal"]
    background: Background = 100
    """"all" rows of the table, read by spans, or as many."""
    selection: Literal["random", "thinning", "kmeans", "stratified"] = "random"
    """How a number of rows is chosen; see `dshap.choose_background`."""

    @model_validator(mode="after")
    def _check_selection(self) -> MarginalValue:
        if self.background == "all" and "selection" in self.model_fields_set:
            raise ValueError('selection belongs to a number of background rows; "all" are taken: leave it out')
        return self


class TreesValue(ExplainTable):
    """[[explain]] value = "trees": a fitted ensemble of XGBoost, LightGBM or scikit-learn, path-dependent."""

    value: Literal["trees"]

    @model_validator(mode="after")
    def _check_players(self) -> TreesValue:
        if self.players is not None:
            raise ValueError('players belongs to values of coalitions; of "trees" every column is one: leave it out')
        return self


Explain = Annotated[
    Interventional | Observational | Regression | GaussianValue | CopulaValue | MarginalValue | TreesValue,
    Field(discriminator="value"),
]


INSTEAD = {
    "auto": "give max_coalitions",
    "kernelshap": "give n_coalitions",
    "kriging": "give n_coalitions",
    "permutation": "give n_permutations",
    "exact": "every coalition is taken: leave it out",
    "quadrature": "no coalition is listed: leave it out",
}
"""kind of design -> what to give instead of a number that belongs to another kind."""
COUNTED = {
    "max_coalitions": ("auto",),
    "n_coalitions": ("kernelshap", "kriging"),
    "n_permutations": ("permutation",),
}
"""number -> the kinds of design that it belongs to."""
GROWING = ("auto", "kernelshap", "kriging")


class Design(Table):
    """[design]"""

    kind: Literal["auto", "exact", "kernelshap", "kriging", "permutation", "quadrature"] = "auto"
    """"quadrature": the closed form of "kernel_interventional"; "auto" takes it above 12 players."""
    n_coalitions: Count | None = None
    max_coalitions: Count | None = None
    """Of "auto"; with `tol`, where rounds end."""
    tol: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Rounds: largest std_error over the range of a row's attributions at which it takes no more coalitions."""
    n_permutations: Count | None = None
    sampling: Literal["leverage", "kernel"] = "leverage"
    paired: bool = True
    antithetic: bool = True
    decay: Annotated[float, Field(gt=0, le=1)] | Literal["pilot"] = "pilot"
    """Of kriging: variance of an order of interactions over that of the odd order below."""
    n_replicates: Annotated[int, Field(ge=0, le=100)] = 20
    """Jackknife groups of the standard errors; 0: none."""
    seed: Seed | None = None
    """The job's where left out."""

    @model_validator(mode="after")
    def _check(self) -> Design:
        for name, kinds in COUNTED.items():
            is_end_of_rounds = name == "max_coalitions" and self.tol is not None and self.kind in GROWING
            if getattr(self, name) is not None and self.kind not in kinds and not is_end_of_rounds:
                own = " or ".join(f'"{kind}"' for kind in kinds)
                raise ValueError(f'{name} belongs to kind = {own}; with "{self.kind}" {INSTEAD[self.kind]}')
        if self.kind in ("kernelshap", "kriging") and self.n_coalitions is None:
            raise ValueError(f'kind = "{self.kind}" needs n_coalitions, at least twice the number of features')
        if self.tol is not None and self.kind not in GROWING:
            raise ValueError(f'tol belongs to a design that grows ({", ".join(GROWING)}), not to "{self.kind}"')
        if self.decay != "pilot" and self.kind != "kriging":
            raise ValueError(f'decay belongs to kind = "kriging", not to "{self.kind}": leave it out')
        if self.kind == "permutation" and self.n_permutations is None:
            raise ValueError('kind = "permutation" needs n_permutations, an even number')
        return self


class LocalCluster(Table):
    """[cluster] kind = "local": processes of this machine."""

    kind: Literal["local"]
    workers: Count | None = None
    """One a core where left out."""
    memory_limit: Memory | None = None
    """Of one worker."""
    threads: Count = 1


class PythonCluster(Table):
    """[cluster] kind = "python": a file of the user's with `client(workers, memory_limit)`."""

    kind: Literal["python"]
    file: Place
    workers: Count | None = None
    memory_limit: Memory | None = None


class Scheduler(Table):
    """[cluster] kind = "scheduler": one that runs already."""

    kind: Literal["scheduler"]
    address: Text


class NoCluster(Table):
    """[cluster] kind = "none": this process."""

    kind: Literal["none"] = "none"


Cluster = Annotated[LocalCluster | PythonCluster | Scheduler | NoCluster, Field(discriminator="kind")]


class Run(Table):
    """[run]: how the run is cut and stored; see `dshap.options.RunOptions`."""

    keep_rows: bool = False
    interactions: bool = False
    stochastic: bool = False
    """The model may answer differently when it is asked again."""
    units: Text = "1"
    instance_tile: Count | None = None
    coalition_tile: Count | None = None
    coalition_groups: Count | None = None
    micro_rows: Count | None = None
    row_span: Count | None = None
    memory_limit: Memory | None = None


class Report(Table):
    """[report]: what `dshap run` shows at its end."""

    picture: Place | None = None
    """Path of a PNG of the rankings."""
    instance: InstanceKey | None = None
    """Key of the row that is broken down (its position where there is no key); the first row where left out."""


ANY_MODEL = ("marginal", "conditional_regression", "gaussian", "copula", "trees")
"""Values of a model that is imported."""


class Job(Table):
    """A job file, checked."""

    job: JobTable
    source: Source
    model: Model
    explain: Annotated[list[Explain], Field(min_length=1)]
    design: Design = Design()
    cluster: Cluster = NoCluster()
    run: Run = Run()
    report: Report = Report()

    @model_validator(mode="after")
    def _check(self) -> Job:
        names = [explain.name for explain in self.explain]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two [[explain]] are named {twice[0]!r}: give each a name of its own")
        if isinstance(self.model, ImportedModel):
            self._check_imported()
        else:
            self._check_fitted(self.model)
        return self

    def _check_fitted(self, model: KernelTable) -> None:
        kind = f'[model] kind = "{self.model.kind}"'
        if self.source.target is None:
            raise ValueError(f"[source] target is missing: {kind} is fitted to it")
        if isinstance(model, KernelLogisticModel) and not isinstance(self.source.target, str):
            raise ValueError(f"[source] target = {list(self.source.target)}: {kind} takes one column of classes")
        if self.source.missing == "pass":
            raise ValueError('[source] missing = "pass" is for models that take NaN: use "refuse" or "skip"')
        for explain in self.explain:
            if isinstance(explain, TreesValue):
                raise ValueError(
                    f'[[explain]] {explain.name}: value "trees" explains a fitted ensemble: give [model] kind = '
                    '"import" and function = "package.module:name", the place of the model'
                )
            if model.embedding == "fourier" and getattr(explain, "landmarks", None) == "model":
                raise ValueError(
                    f'[[explain]] {explain.name} landmarks = "model": the model has Fourier features and no landmarks; '
                    "give a number"
                )

    def _check_imported(self) -> None:
        if self.is_of_trees and not all(isinstance(explain, TreesValue) for explain in self.explain):
            raise ValueError(
                '[[explain]] value = "trees" takes a fitted ensemble, and the others a predict function: make two jobs'
            )
        for explain in self.explain:
            place = f"[[explain]] {explain.name}"
            if explain.value not in ANY_MODEL:
                others = " or ".join(f'"{name}"' for name in ANY_MODEL)
                raise ValueError(
                    f'{place}: value "{explain.value}" explains kernel models; with [model] kind = "import" use '
                    f"value = {others}"
                )
            for key in ("landmarks", "kernel"):
                if getattr(explain, key, None) == "model":
                    raise ValueError(f'{place} {key} = "model": [model] kind = "import" has none; give one of its own')
            if self.source.missing == "pass" and isinstance(explain, LearntTable):
                raise ValueError(
                    f'{place}: value "{explain.value}" learns from the rows, which must then be free of NaN; with '
                    '[source] missing = "pass" use value = "marginal"'
                )

    @property
    def is_of_trees(self) -> bool:
        """[model] function names a fitted ensemble."""
        return any(isinstance(explain, TreesValue) for explain in self.explain)

    def options(self) -> RunOptions:
        """The options of a run that every explanation shares."""
        return RunOptions.of(
            {
                **self.run.model_dump(),
                "missing": self.source.missing,
                "max_coalitions": self.design.max_coalitions,
                "tol": self.design.tol,
                "dtype": self.job.dtype,
            }
        )

    @property
    def design_seed(self) -> int:
        return self.job.seed if self.design.seed is None else self.design.seed

    @property
    def memory_limit(self) -> int | None:
        """Bytes of one worker, where the job says so."""
        given = [getattr(self.cluster, "memory_limit", None), self.run.memory_limit]
        return min((parse_bytes(limit) for limit in given if limit is not None), default=None)
