"""The table of a job, and facts about it, which are stored and valid while its files do not change.

Each fact is a record.  Its name is a digest of the table's stamp (`RowReader.stamp`; for files:
sizes, times, footers and the roles of the columns), of the version of dshap, and of the kind of
fact.  If the files change, the stamp differs: the facts are computed again, and compared with those
that the store was made from.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from typing import Any

import numpy as np

from dshap import __version__
from dshap.core.errors import InputError, times_refused
from dshap.core.records import FloatArray, Record, digest_of
from dshap.core.rows import read_sample, sample_positions, spans
from dshap.core.types import RowReader
from dshap.core.vocabulary import Ids
from dshap.engine import Executor, LoopExecutor, learn_from
from dshap.jobfile.arguments import Context
from dshap.jobfile.schema import Job
from dshap.jobinput.job_columns import check_width
from dshap.jobinput.job_model import model_of_job
from dshap.jobinput.table_versions import files_of
from dshap.models.labels import MAX_CLASSES
from dshap.predictors.frames import Frame
from dshap.predictors.times import times_of
from dshap.run.versions import numerics
from dshap.storage.sealed_files import StateFolder
from dshap.tables import Census, TextFiles
from dshap.tables.background import background_of
from dshap.tables.categories import found_categories
from dshap.tables.files import TICK_NS
from dshap.tables.parquet import ParquetSource
from dshap.tables.reader import CodedReader, categories_of
from dshap.values.background import Background

KEPT_BYTES = 16 << 20
"""The largest record that is stored; a larger sample is read again."""


class JobRows:
    """The opened table of [source], with facts that follow from its rows.

    Parameters
    ----------
    job : Job
    states : StateFolder, optional
        The states of the job's store, where there is one: facts of an earlier run are read from
        it.
    trusts_files : bool
        Whether equal stamps mean equal files; False: everything is read again.
    """

    def __init__(
        self, job: Job, states: StateFolder | None = None, *, trusts_files: bool = True
    ) -> None:
        self.job = job
        self.reader = _opened(job)
        self._states = states
        self._trusts_files = trusts_files
        self._stamp = self.reader.stamp
        self._found: dict[str, Record] = {}
        match self.reader:
            case CodedReader(categories=listed) as coded if listed:
                self.reader = coded.with_categories(self._categories(tuple(listed)))

    @property
    def n_rows(self) -> int:
        return self.reader.n_rows

    @property
    def target_names(self) -> tuple[str, ...]:
        """The target columns, empty if there is none."""
        return self.reader.target_names

    def context(self, model: Any = None, executor: Executor | None = None) -> Context:
        """The inputs from which the objects of the job's other tables are built."""
        classes = model_of_job(self.job).classes(model)
        return Context(self, self.job.job.seed, self.job.model.kind, model, classes, executor)

    def check_kinds(self, value: Any) -> None:
        """Refuse columns of text and of times if a value function needs numbers."""
        unknown = sorted(categories_of(self.reader).keys() - value.model.categories.keys())
        if unknown:
            raise InputError(
                f"column {unknown[0]!r} of the source contains text or categories, and the model "
                "takes numbers there: correct its values, or cast it in the query"
            )
        for name, kind in times_of(self.reader).items():
            if name not in times_of(value.model):
                raise times_refused(name, kind, f"column {name!r} contains times ({kind})")

    def reader_of(self, value: Any) -> RowReader:
        """The reader of all rows, coded by the categories that a value function knows."""
        self.check_kinds(value)
        if not value.model.categories:
            return self.reader
        if not isinstance(self.reader, ParquetSource):
            raise InputError(
                f'[source] kind = "{self.job.source.kind}" contains numbers, and the model takes '
                "categories: name a Parquet table"
            )
        return self.reader.with_categories(value.model.categories)

    @cached_property
    def frame(self) -> Frame | None:
        """The form of the rows as data frames of their own types; None for made-up rows, and texts.

        Categories are those of all rows.
        """
        if not isinstance(self.reader, ParquetSource):
            return None
        names = self.reader.feature_names
        return Frame(
            self.reader.template(names), names, categories_of(self.reader), times_of(self.reader)
        )

    def _categories(self, names: Sequence[str]) -> dict[str, tuple[Any, ...]]:
        """Column of text or of categories -> its sorted values, from a pass over these columns."""

        def find() -> Record:
            alone = {"features": names, "target": None, "key": (), "missing": "pass"}
            columns = _with(self.job.source, **alone).made({"categories": dict.fromkeys(names, ())})
            found = found_categories(columns, partial(learn_from, LoopExecutor()))
            content = json.dumps(found).encode()
            return Record({"content": np.frombuffer(content, np.uint8)})

        record = self._record("categories", {"columns": list(names)}, find)
        content = json.loads(record["content"].tobytes())
        return {name: tuple(values) for name, values in content.items()}

    def texts(self, n_texts: int) -> list[Ids]:
        """The token ids of a seeded sample of the rows, for a table of texts."""
        assert isinstance(self.reader, TextFiles)
        return self.reader.texts(sample_positions(self.n_rows, n_texts, self.job.job.seed))

    def kept_census(self) -> Census | None:
        """The stored census of an earlier run, or None."""
        record = self._known(self._name("census", {}))
        if record is None:
            return None
        content = json.loads(record["content"].tobytes())
        return Census(**content | {"low": tuple(content["low"]), "high": tuple(content["high"])})

    def keep_census(self, census: Census) -> None:
        content = json.dumps(asdict(census), sort_keys=True).encode()
        self._found[self._name("census", {})] = Record(
            {"content": np.frombuffer(content, np.uint8)}
        )

    def n_targets(self) -> int:
        """The number of target columns, or of classes, which are counted in the table."""
        if self.job.model.kind != "kernel_logistic":
            return len(self.reader.target_names)

        def find() -> Record:
            return Record({"n": np.array(n_classes(self.job, self.reader))})

        return int(self._record("classes", {}, find)["n"])

    def sample(self, n_rows: int) -> FloatArray:
        """A seeded sample (b, columns) of the rows without NaN."""

        def find() -> Record:
            return Record({"x": read_sample(self.reader, n_rows, self.job.job.seed)["x"]})

        return self._record("sample", {"rows": n_rows, "seed": self.job.job.seed}, find)["x"]

    def background(self, n_rows: int, method: str, executor: Executor) -> Background:
        """Choose weighted rows that represent the table; see `dshap.choose_background`."""

        def find() -> Record:
            found = background_of(
                self.reader, partial(learn_from, executor), n_rows, method, self.job.job.seed
            )
            discrepancies = np.array([found.discrepancy, found.discrepancy_of_random])
            return Record(
                {"rows": found.rows, "weights": found.weights, "discrepancies": discrepancies}
            )

        record = self._record(
            "background", {"rows": n_rows, "method": method, "seed": self.job.job.seed}, find
        )
        names = self.reader.feature_names
        return Background(
            record["rows"],
            record["weights"],
            names,
            method,
            self.n_rows,
            discrepancy=float(record["discrepancies"][0]),
            discrepancy_of_random=float(record["discrepancies"][1]),
            times=times_of(self.reader),
        )

    def keep(self) -> list[str]:
        """Store the facts in the store, which exists by now; return names of damaged records."""
        if self._stamp is None or self._states is None:
            return []
        small = {
            name: record for name, record in self._found.items() if record.nbytes <= KEPT_BYTES
        }
        damaged = self._states.mend(small)
        for name in small.keys() - set(self._states.names()):
            self._states.put(name, small[name])
        return damaged

    def _record(self, what: str, options: Mapping[str, Any], find: Callable[[], Record]) -> Record:
        """A fact from an earlier run, or found now."""
        name = self._name(what, options)
        record = self._known(name)
        if record is None:
            self._found[name] = find()
        else:
            self._found[name] = record
        return self._found[name]

    def _known(self, name: str) -> Record | None:
        if name in self._found:
            return self._found[name]
        if self._trusts_files and self._stamp is not None:
            states = self._states
        else:
            states = None
        if states is not None and states.is_whole(name):
            found: Record = states.get(name, Record)
            return found
        return None

    def _name(self, what: str, options: Mapping[str, Any]) -> str:
        made_by = {"numerics": numerics(), "version": __version__}
        return f"{what}-{digest_of({'table': self._stamp, 'made_by': made_by, **options})}"


def open_table(job: Job) -> RowReader:
    """Open the table of [source] and check its columns; reads no row, except of texts.

    The columns are those that a given model was fitted on, where it knows them.  Those with text
    or categories are opened with empty lists of them.
    """
    source = job.source
    roles: dict[str, Any] = {}
    model = model_of_job(job)
    features = model.columns()
    if features is not None:
        source = _with(source, features=features)
    if model.takes_times:
        roles["times"] = features
    files = files_of(source)
    if files is not None:
        roles["categories"] = model.listed(files.listed)
    reader: RowReader = source.made(roles)
    check_width(job, reader.feature_names)
    return reader


def _with(source: Any, **roles: Any) -> Any:
    """The table [source] with other roles of the columns."""
    return source.model_copy(update=roles)


def n_classes(job: Job, reader: RowReader) -> int:
    """Count the classes of the target in a pass over that column.

    Raises
    ------
    InputError
        More values than classes, or one only.
    """
    alone = {"features": reader.target_names, "target": None, "key": (), "missing": "pass"}
    column = _with(job.source, **alone).made({})
    classes = np.zeros(0)
    for start, stop in spans(0, column.n_rows):
        found = column.read(start, stop).x[:, 0]
        classes = np.union1d(classes, found[np.isfinite(found)])
        if len(classes) > MAX_CLASSES:  # a target of numbers: it need not be read to its end
            break
    if not 2 <= len(classes) <= MAX_CLASSES:
        count = f"more than {MAX_CLASSES}" if len(classes) > MAX_CLASSES else len(classes)
        raise InputError(
            f'[source] target "{reader.target_names[0]}" contains {count} different values: '
            "[model] kind = "
            f'"kernel_logistic" takes 2 to {MAX_CLASSES} classes; for numbers use kind = '
            '"kernel_ridge"'
        )
    return len(classes)


def _opened(job: Job) -> RowReader:
    """Open the table; if its files were written just now, wait until they can have a stamp."""
    reader = open_table(job)
    # a second write within one tick of the clock would leave the time of the file as it is, so that
    # a file so young has no stamp
    if reader.stamp is None:
        time.sleep(TICK_NS / 1e9)
        reader = open_table(job)
    return reader
