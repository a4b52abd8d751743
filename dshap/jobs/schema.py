"""The job file: one frozen record for each table, checked whole before anything is opened."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dshap.options import RunOptions, parse_bytes

__all__ = [
    "NOT_BUILT",
    "Cluster",
    "Design",
    "Explain",
    "ImportedModel",
    "Interventional",
    "Job",
    "KernelRidgeModel",
    "LocalCluster",
    "MarginalValue",
    "NoCluster",
    "Observational",
    "PythonCluster",
    "Scheduler",
]

NOT_BUILT: Mapping[str, tuple[str, ...]] = {
    "source": ("csv", "delta", "duckdb", "postgresql", "sql", "zarr"),
    "model": ("lightgbm", "onnx", "pickle", "skops", "xgboost"),
    "explain": ("conditional_regression", "copula", "gaussian", "linear_gaussian"),
    "design": ("connected", "connected_regression", "local", "myerson", "permutation"),
    "cluster": ("gateway", "kubernetes", "slurm", "ssh"),
}
"""table -> kinds of the design that this version knows by name only."""
RESERVED_NAMES = ("rows", "state")
"""Names inside a store that no explanation can take."""


def _as_names(given: Any) -> Any:
    """One name, or a list of them, as a tuple."""
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError('give a column name, or a list of names like ["hr", "temp"]')
    return tuple(names)


def _one_or_more_names(given: Any) -> Any:
    """A single name stays one: it is one output, (n,)."""
    names = _as_names(given)
    return names[0] if isinstance(given, str) else names


def _number_or(*words: str, or_list: bool = False) -> BeforeValidator:
    """A positive number or one of these words; with `or_list` one number a column too."""
    allowed = ", ".join(f'"{word}"' for word in words) + " or a positive number"
    allowed += ", or a list of one a column" if or_list else ""

    def check(given: Any) -> Any:
        numbers = given if or_list and isinstance(given, list) and given else [given]
        if given in words or all(_is_number(number) and number > 0 for number in numbers):
            return tuple(map(float, numbers)) if numbers is given else given
        raise ValueError(f"give {allowed}")

    return BeforeValidator(check)


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool)


def _rows_or_all(given: Any) -> Any:
    if given != "all" and (not isinstance(given, int) or isinstance(given, bool) or given < 1):
        raise ValueError('give "all" or a number of rows of at least 1')
    return given


def _folder_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise ValueError("it names a folder of the store: letters, digits, '_', '-' and '.', a letter or digit first")
    if name in RESERVED_NAMES:
        raise ValueError(f"{' and '.join(map(repr, RESERVED_NAMES))} belong to the store: choose another name")
    return name


def _as_key(given: Any) -> Any:
    parts = given if isinstance(given, list) else [given]
    if not parts or not all(isinstance(part, str | int) and not isinstance(part, bool) for part in parts):
        raise ValueError('give the key of a row: a number, a text like "2011-01-01", or a list of one a key column')
    return tuple(parts)


def _memory(given: Any) -> Any:
    parse_bytes(given)
    return given


Names = Annotated[tuple[str, ...], BeforeValidator(_as_names)]
Target = Annotated[str | tuple[str, ...], BeforeValidator(_one_or_more_names)]
Lengthscale = Annotated[str | float | tuple[float, ...], _number_or("validate", "median", or_list=True)]
Penalty = Annotated[str | float, _number_or("validate")]
Background = Annotated[str | int, BeforeValidator(_rows_or_all)]
Memory = Annotated[str | int, BeforeValidator(_memory)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]
Place = Annotated[Text, AfterValidator(os.path.expanduser)]
"""A path, in which "~" is the home folder."""


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


class Source(Table):
    """[source]"""

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


class KernelRidgeModel(Table):
    """[model] kind = "kernel_ridge": fitted by the job."""

    kind: Literal["kernel_ridge"]
    landmarks: Count = 500
    kernel: Literal["rbf", "laplacian", "matern12", "matern32", "matern52"] = "rbf"
    lengthscale: Lengthscale = "validate"
    penalty: Penalty = "validate"
    holdout: float = Field(default=0.1, ge=0.0, lt=1.0)
    sample_size: Count = 20_000


class ImportedModel(Table):
    """[model] kind = "import": a predict function of code that the user installed."""

    kind: Literal["import"]
    function: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")]
    """"package.module:name", rows (n, columns) -> (n,) or (n, k)."""


class Interventional(Table):
    """[[explain]] value = "kernel_interventional"."""

    value: Literal["kernel_interventional"]
    name: Annotated[str, AfterValidator(_folder_name)]
    players: dict[str, list[str]] | None = None
    background: Background = "all"


class Observational(Table):
    """[[explain]] value = "kernel_observational"."""

    value: Literal["kernel_observational"]
    name: Annotated[str, AfterValidator(_folder_name)]
    players: dict[str, list[str]] | None = None
    landmarks: Count = 256
    selection: Literal["kmeans++", "uniform"] = "kmeans++"
    penalty: float = Field(default=1e-4, gt=0.0)
    rank_tolerance: float = Field(default=1e-6, gt=0.0, lt=1.0)


class MarginalValue(Table):
    """[[explain]] value = "marginal"."""

    value: Literal["marginal"]
    name: Annotated[str, AfterValidator(_folder_name)]
    players: dict[str, list[str]] | None = None
    background: Background = 100


Explain = Annotated[Interventional | Observational | MarginalValue, Field(discriminator="value")]


class Design(Table):
    """[design]"""

    kind: Literal["auto", "exact", "kernelshap"] = "auto"
    n_coalitions: Count | None = None
    max_coalitions: Count | None = None
    sampling: Literal["leverage", "kernel"] = "leverage"
    paired: bool = True
    seed: Seed | None = None
    """The job's where left out."""

    @model_validator(mode="after")
    def _check(self) -> Design:
        if self.n_coalitions is not None and self.kind != "kernelshap":
            raise ValueError(f'n_coalitions belongs to kind = "kernelshap"; with "{self.kind}" ' + (
                "every coalition is taken: leave it out" if self.kind == "exact" else "give max_coalitions"
            ))  # fmt: skip
        if self.max_coalitions is not None and self.kind != "auto":
            raise ValueError(f'max_coalitions belongs to kind = "auto"; with "{self.kind}" ' + (
                "every coalition is taken: leave it out" if self.kind == "exact" else "give n_coalitions"
            ))  # fmt: skip
        if self.kind == "kernelshap" and self.n_coalitions is None:
            raise ValueError('kind = "kernelshap" needs n_coalitions, at least twice the number of features')
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
    instance: Annotated[tuple[str | int, ...], BeforeValidator(_as_key)] | None = None
    """Key of the row that is broken down (its position where there is no key); the first row where left out."""


class Job(Table):
    """A job file, checked."""

    job: JobTable
    source: Source
    model: Annotated[KernelRidgeModel | ImportedModel, Field(discriminator="kind")]
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
        if isinstance(self.model, KernelRidgeModel):
            self._check_fitted()
        elif kernel := [explain for explain in self.explain if explain.value != "marginal"]:
            raise ValueError(
                f'[[explain]] {kernel[0].name}: value "{kernel[0].value}" explains kernel models; '
                'with [model] kind = "import" use value = "marginal"'
            )
        return self

    def _check_fitted(self) -> None:
        if self.source.target is None:
            raise ValueError('[source] target is missing: [model] kind = "kernel_ridge" is fitted to it')
        if self.source.missing == "pass":
            raise ValueError('[source] missing = "pass" is for models that take NaN: use "refuse" or "skip"')

    def options(self) -> RunOptions:
        """The options of a run that every explanation shares."""
        return RunOptions.of(
            {
                **self.run.model_dump(),
                "missing": self.source.missing,
                "max_coalitions": self.design.max_coalitions,
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
