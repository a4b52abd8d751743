"""The model of a job's runs: given to the job, or fitted by it to the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from dshap.core.errors import InputError, unknown_name
from dshap.core.types import RowReader
from dshap.engine import Stage
from dshap.jobfile.arguments import Context, Model, model_of, placeholder
from dshap.jobfile.model_tables import (
    GivenModel,
    ImportedModel,
    ModelFileTable,
    given_model,
    sha256_of_given,
)
from dshap.jobfile.schema import ExplainTable, Job
from dshap.jobinput.outputs_of_job import outputs_of_loaded
from dshap.models.adapters.model_files import LoadedModel, feature_names_of, n_columns_of
from dshap.run.fitting import fit_stages
from dshap.tables import Census, check_targets
from dshap.trees.tree_kinds import is_ensemble


class PlannedModel(NamedTuple):
    """A model to plan with, before anything is fitted."""

    model: Model
    fit: tuple[Stage, ...]
    """The stages of the fit; none if the job fits no model."""


class JobModel(ABC):
    """The model of a job's runs.

    Parameters
    ----------
    job : the job
    """

    needs_rows: ClassVar[bool]
    """Whether the model is fitted to rows, so that an empty table has none."""
    number: ClassVar[str]
    """The words for a column of numbers that it accepts, in messages."""

    def __init__(self, job: Job) -> None:
        self.job = job

    @abstractmethod
    def describe(self) -> str:
        """Load the model, and return the remark of `dshap check` about it."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str] | None:
        """The names of the columns that it was fitted on; None if it has none, or is not fitted."""

    @property
    @abstractmethod
    def width(self) -> int | None:
        """The number of columns that it accepts; None if that is unknown, or it is not fitted."""

    @abstractmethod
    def columns(self) -> Sequence[str] | None:
        """The columns that are explained; None for all columns of numbers.

        Raises
        ------
        InputError
            [source] features names other columns than the model knows.
        """

    @property
    @abstractmethod
    def takes_times(self) -> bool:
        """Whether columns of times may be features."""

    @abstractmethod
    def listed(self, listed: Callable[[Sequence[str]], Sequence[str]]) -> dict[str, tuple[()]]:
        """Column of text or categories -> its values, empty as yet; `listed` finds such columns."""

    @abstractmethod
    def classes(self, model: Any) -> Any:
        """The names of the classes of the model that explanations are made of; None for none."""

    @abstractmethod
    def outputs(self, explain: ExplainTable) -> tuple[str, ...] | None:
        """The outputs of an explanation; None if only rows show them.

        Raises
        ------
        InputError
            The model cannot be read, or is no tree ensemble if the explanation is one of trees.
        """

    @property
    @abstractmethod
    def holdout(self) -> float:
        """The share of the rows that the fit leaves out."""

    @property
    @abstractmethod
    def sha256(self) -> str:
        """The SHA-256 of its file; empty if it is in none."""

    @abstractmethod
    def check(self, census: Census, reader: RowReader) -> None:
        """Raise an `InputError` about rows that it cannot be fitted to."""

    @abstractmethod
    def planned(self, context: Callable[[], Context], n_targets: Callable[[], int]) -> PlannedModel:
        """The model to plan with, for a table; `n_targets` counts columns or classes."""

    @abstractmethod
    def of_run(self, fitted: Callable[[], Model]) -> Model:
        """The model of a run; `fitted` fits it to the rows, or finds it fitted."""

    def __str__(self) -> str:
        """The model with the key that names it."""
        match self.job.model:
            case ModelFileTable(path=path):
                return f'the model of [model] path = "{path}"'
            case ImportedModel(function=function):
                return f'the model of [model] function = "{function}"'
        return f'[model] kind = "{self.job.model.kind}"'


class FittedByJob(JobModel):
    """A model that the job fits to the rows."""

    needs_rows = True
    number = "a number"

    def describe(self) -> str:
        return "the run fits it"

    @property
    def names(self) -> Sequence[str] | None:
        return None

    @property
    def width(self) -> int | None:
        return None

    def columns(self) -> Sequence[str] | None:
        given: Sequence[str] | None = dict(self.job.source).get("features")
        return given

    @property
    def takes_times(self) -> bool:
        return False

    def listed(self, listed: Callable[[Sequence[str]], Sequence[str]]) -> dict[str, tuple[()]]:
        return {}

    def classes(self, model: Any) -> Any:
        return None

    def outputs(self, explain: ExplainTable) -> tuple[str, ...] | None:
        return None

    @property
    def holdout(self) -> float:
        return float(self.job.model.holdout)

    @property
    def sha256(self) -> str:
        return ""

    def check(self, census: Census, reader: RowReader) -> None:
        check_targets(census, reader.missing)

    def planned(self, context: Callable[[], Context], n_targets: Callable[[], int]) -> PlannedModel:
        n = n_targets()
        reader = context().table.reader
        if self.job.model.kind == "kernel_logistic" and n == 2:
            n_outputs = 1
        else:
            n_outputs = n
        fits = fit_stages(model_of(self.job.model, context()), reader, n)
        return PlannedModel(placeholder(self.job.model, reader, n_outputs), fits)

    def of_run(self, fitted: Callable[[], Model]) -> Model:
        return fitted()


class GivenToJob(JobModel):
    """A fitted model that is given to the job."""

    needs_rows = False
    number = "the number that the model was fitted on"

    @property
    def loaded(self) -> LoadedModel:
        return given_model(self.job.model)

    def describe(self) -> str:
        file = self.loaded.file
        if file is None:
            return "it loads"
        loads = "it loads"
        if file.path != dict(self.job.model).get("path"):
            loads += f" as {file.path}"  # the version of an alias
        return f"{loads}, SHA-256 {file.sha256[:SHOWN_DIGITS]}…"

    @property
    def names(self) -> Sequence[str] | None:
        return feature_names_of(self.loaded)

    @property
    def width(self) -> int | None:
        return n_columns_of(self.loaded)

    def columns(self) -> Sequence[str] | None:
        """The columns that the model was fitted on, in its order; those of [source] otherwise."""
        given: Sequence[str] | None = dict(self.job.source).get("features")
        known = self.names
        if known is None or given is None:
            return known or given
        if other := [name for name in given if name not in known]:
            raise InputError(
                f"[source] features names a column that {self} was not fitted on: "
                f"{unknown_name('column', other[0], known)} Leave features out: the model has the "
                "names of its columns"
            )
        if absent := [name for name in known if name not in given]:
            raise InputError(
                f"[source] features lacks column {absent[0]!r}, which {self} was fitted on: leave "
                "features out, because the model has the names of its columns"
            )
        return known

    @property
    def takes_times(self) -> bool:
        """Trees accept only numbers."""
        return not self.job.is_of_trees and not is_ensemble(self.loaded.model)

    def listed(self, listed: Callable[[Sequence[str]], Sequence[str]]) -> dict[str, tuple[()]]:
        columns = self.columns()
        if columns is None:
            return {}
        return dict.fromkeys(listed(columns), ())

    def classes(self, model: Any) -> Any:
        return self.job.model.classes or model.classes

    def outputs(self, explain: ExplainTable) -> tuple[str, ...] | None:
        return outputs_of_loaded(self.loaded, self.job.model.classes, explain)

    @property
    def holdout(self) -> float:
        return 0.0

    @property
    def sha256(self) -> str:
        return sha256_of_given(self.job.model)

    def check(self, census: Census, reader: RowReader) -> None:
        """It is fitted: any rows are explained."""

    def planned(self, context: Callable[[], Context], n_targets: Callable[[], int]) -> PlannedModel:
        return PlannedModel(self.loaded, ())

    def of_run(self, fitted: Callable[[], Model]) -> Model:
        return self.loaded


SHOWN_DIGITS = 12
"""The digits of a SHA-256 that a line shows."""


def model_of_job(job: Job) -> JobModel:
    """The model of a job's runs, by the kind of its table [model]."""
    match job.model:
        case GivenModel():
            return GivenToJob(job)
    return FittedByJob(job)
