"""`dshap init`: the text of a first job file, from a table, a model, and proposals for the rest."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from dshap.core.errors import InputError, unknown_name
from dshap.jobfile.reading import read_job_file
from dshap.jobs.first_model import FirstModel, PickleError
from dshap.jobs.first_source import (
    FirstSource,
    address_written,
    as_written,
    number_columns,
    proposed_key,
)
from dshap.storage.disk import whole_file

NO_SINK = "none"
"""The answer that asks for no sink."""
EXPLANATION = "reasons"
NO_KEY = "none"
"""The answer for rows without a key."""
BUILD = "build"
"""The folder beside the job file for the files of runs."""


@dataclass(frozen=True)
class FirstJob:
    """The answers to the questions of `dshap init`, from which it writes a job file."""

    name: str
    source: FirstSource
    table: str
    """The table of a database; empty for a query, and for files."""
    query: str
    columns: Mapping[str, Any]
    """Column -> its Arrow type."""
    model: FirstModel
    key: Sequence[str]
    sink: str
    """A table of the database, or a folder for rows of files; "none" for no sink."""
    given_features: Sequence[str] = ()
    """The columns to explain, if the model has no names of columns; empty for all of numbers."""

    def check(self) -> None:
        """Check that the table has the key and the columns of the model.

        Raises
        ------
        InputError
            It lacks one of them, a key is a feature, or a sink has no key.
        """
        for name in self.key:
            if name not in self.columns:
                raise InputError(f"key: {unknown_name('column', name, self.columns)}")
        for name in self.model.names or ():
            if name not in self.columns:
                raise InputError(
                    f"the rows lack a column that {self.model.place} was fitted on: "
                    f"{unknown_name('column', name, self.columns)}"
                )
            if name in self.key:
                raise InputError(
                    f"key {name!r} is a column that the model was fitted on: give another"
                )
        width = self.model.width
        if width not in (None, len(self.features)):
            raise InputError(
                f"{self.model.place} takes {width} columns and does not name them, and the rows have "
                f"{len(self.features)} columns of numbers beside the key: give --features, in the order "
                "of the fit"
            )
        if self.has_sink and not self.key:
            raise InputError("a sink needs rows with a key: give --key, or --sink none")

    @property
    def has_sink(self) -> bool:
        return self.sink != NO_SINK

    @property
    def features(self) -> Sequence[str]:
        """The columns that are explained."""
        if self.model.names is not None:
            return self.model.names
        if self.given_features:
            return self.given_features
        return [name for name in number_columns(self.columns) if name not in self.key]

    def write(self, path: Path, *, replaces: bool) -> None:
        """Write the job file, and read it back as `dshap run` does.

        Raises
        ------
        InputError
            The file is there and is not to be replaced, or its folder is not.
        """
        refuse_file(path, replaces=replaces)
        text = self.text(path.parent)
        before = path.read_text(encoding="utf-8") if path.exists() else None
        with whole_file(path) as private:
            private.write_text(text, encoding="utf-8")
        try:
            read_job_file(path)
        except InputError:
            if before is None:
                path.unlink()
            else:
                path.write_text(before, encoding="utf-8")
            raise

    def text(self, folder: Path) -> str:
        """The text of the job file in a folder, with a comment on every choice."""
        parts = [
            HEAD,
            self._job(),
            self._source(folder),
            self._model(folder),
            self._explain(),
            self._nights(),
            self._sink(folder),
            self._report(),
            self._targets(),
        ]
        return "\n".join(part for part in parts if part)

    def _job(self) -> str:
        store = f"{BUILD}/{self.name}"
        return f"""[job]
name = {_text(self.name)}
store = {_text(store)}  # cubes, records of runs; a folder beside this file, or s3://bucket/name
"""

    def _source(self, folder: Path) -> str:
        keys = self.source.written(folder, self.table, self.query)
        lines = ["[source]", *_lines(keys)]
        if self.key:
            lines.append(
                f"key = {_list(self.key)}  # unique in every row; it names the row in the results"
            )
        else:
            lines.append('# key = ["id"]  # a column that is unique in every row')
        if self.model.names is None:
            lines.append(f"features = {_list(self.features)}  # in the order of the fit")
        else:
            lines.append(
                f"# features: the {len(self.features)} columns that the model was fitted on"
            )
        lines.append(
            f"missing = {_text(self.model.missing)}  # of missing values: refuse, skip (the row), or pass "
            "(to the model)"
        )
        return "\n".join(lines) + "\n"

    def _model(self, folder: Path) -> str:
        lines = ["[model]", *_lines(self.model.written(folder))]
        if self.model.classes:
            lines.append(
                f"# classes = {_list(self.model.classes)}  # the names of the classes, in this order: "
                "write yours"
            )
        return "\n".join(lines) + "\n"

    def _explain(self) -> str:
        if self.model.is_of_trees:
            return f"""[[explain]]
name = {_text(EXPLANATION)}
value = "trees"  # exact, on the margin; with background = "all": against the rows of the table
"""
        return f"""[[explain]]
name = {_text(EXPLANATION)}
value = "marginal"  # calls the model; `dshap plan --probe 100` estimates how long that takes
background = 100  # rows that fill in absent columns: more rows are more accurate, and take longer
"""

    def _nights(self) -> str:
        if not self.key:
            return ""
        return """[incremental]
strategy = "digest"  # each run explains the rows that changed since the run before
"""

    def _sink(self, folder: Path) -> str:
        if not self.has_sink:
            return ""
        if self.source.is_database:
            uri = address_written(self.source.given, folder)
            place = [f"uri = {_text(uri)}", f"table = {_text(self.sink)}"]
        else:
            place = [f"path = {_text(as_written(self.sink, folder))}"]
        lines = [
            "[[sink]]",
            'name = "reasons"',
            *place,
            'shape = "top_k"  # a line for each of the k strongest columns of a row; or wide, or long',
            "k = 3",
        ]
        return "\n".join(lines) + "\n"

    def _report(self) -> str:
        return f"""[report]
page = {_text(f"{BUILD}/{self.name}.html")}
"""

    def _targets(self) -> str:
        lines = [
            "# dshap run JOB --target dev: the same job with other places, so that a trial touches nothing",
            "[targets.dev]",
            f'"job.store" = {_text(f"{BUILD}/{self.name}_dev")}',
            f'"report.page" = {_text(f"{BUILD}/{self.name}_dev.html")}',
        ]
        if self.has_sink:
            key = "table" if self.source.is_database else "path"
            place = self.sink if self.source.is_database else f"{BUILD}/{Path(self.sink).name}"
            lines.append(f'"sink.reasons.{key}" = {_text(f"{place}_dev")}')
        return "\n".join(lines) + "\n"

    def lines(self, job_file: str) -> list[str]:
        """The lines for people: the written files, and the next commands."""
        features = self.features
        named = ", ".join(features[:6]) + ("…" if len(features) > 6 else "")
        where = " ".join(filter(None, [self.source.describe(), self.table or self.query]))
        how = "its trees" if self.model.is_of_trees else "calls of it against 100 background rows"
        lines = [
            f"job file: {job_file}",
            f"source: {where}; key {', '.join(self.key) or 'none'}; {len(features)} features: {named}",
            f"model: {self.model.kind} {self.model.place}, explained by {how}",
            f"sink: {self.sink}",
        ]
        if self.source.has_secret:
            lines.append(
                "the password of the address is not in the file: set PGPASSWORD, or have it in ~/.pgpass"
            )
        commands = ("check {}", "plan {} --probe 100", "run {} --sample 1000", "run {}")
        shown = [f"dshap {command.format(shlex.quote(job_file))}" for command in commands]
        return [*lines, "next:", *(f"    {command}" for command in shown)]

    def to_dict(self, path: Path) -> dict[str, Any]:
        return {
            "job_file": str(path),
            "name": self.name,
            "source": self.source.describe(),
            "table": self.table,
            "query": self.query,
            "key": list(self.key),
            "features": list(self.features),
            "model": {"kind": self.model.kind, "place": self.model.place},
            "sink": self.sink if self.has_sink else None,
        }


class Questions(Protocol):
    """Asks the questions of `dshap init`, on a terminal or by options."""

    def answer(self, option: str, given: str | None, question: str, proposal: str = "") -> str:
        """The value of an option; if it was not given, the answer to a question."""
        ...

    def agrees(self, question: str) -> bool:
        """Whether the answer is yes."""
        ...


def first_job(
    path: Path,
    given: Mapping[str, str | None],
    query: str,
    questions: Questions,
    *,
    allow_pickle: bool = False,
) -> FirstJob:
    """Ask for table and model, propose the rest, and check the answers.

    Parameters
    ----------
    path : the job file that will be written
    given : option -> its value, None if it is to be asked for
    query : a query in the place of a table; empty for none
    questions : Questions
    allow_pickle : whether a model that is a pickle may be read

    Raises
    ------
    InputError
        A place where nothing is, a kind that is not known, or columns that do not fit.
    """
    folder = path.absolute().parent
    where = questions.answer(
        "--source", given["--source"], "Database (an address), or path of Parquet or CSV files"
    )
    source = FirstSource.of(where)
    table = _table(source, given["--table"], query, questions)
    columns = source.columns(table, query)
    what = questions.answer(
        "--model", given["--model"], "Model: path of its file, or package.module:name"
    )
    model = _model(what, folder, questions, allow_pickle)
    own = model.names or ()
    proposal = proposed_key(columns, own, table)
    key = questions.answer(
        "--key", given["--key"], "Key column, or columns with commas between", proposal or NO_KEY
    )
    name = questions.answer("--name", given["--name"], "Name of the job", _name(source, table))
    job = FirstJob(
        name,
        source,
        table,
        query,
        columns,
        model,
        () if key == NO_KEY else _names(key),
        NO_SINK,
        _names(given["--features"] or ""),
    )
    if key == NO_KEY:
        proposal = NO_SINK
    elif source.is_database:
        proposal = f"{name}_reasons"
    else:
        proposal = os.path.relpath(folder / BUILD / f"{name}_reasons")
    what = "Table" if source.is_database else "Folder"
    question = f"{what} for the results, or none"
    job = replace(job, sink=questions.answer("--sink", given["--sink"], question, proposal))
    job.check()
    return job


def _table(source: FirstSource, given: str | None, query: str, questions: Questions) -> str:
    """The table of a database; empty for a query, and for files."""
    if not source.is_database:
        if given or query:
            raise InputError(f"--table and --query belong to a database, not to {source.given}")
        return ""
    if query:
        if given:
            raise InputError("--table and --query: give one of them")
        return ""
    tables = source.tables()
    if given is None and len(tables) > 1:
        given = questions.answer("--table", None, f"Table or view, one of {', '.join(tables)}")
    return source.checked_table(given or "", tables)


def _model(what: str, folder: Path, questions: Questions, allow_pickle: bool) -> FirstModel:
    """The model; a pickle only if its reader trusts it."""
    try:
        return FirstModel.of(what, folder, allow_pickle=allow_pickle)
    except PickleError:
        if questions.agrees(
            f"{what} is a pickle, which runs code when it is read: do you trust it?"
        ):
            return FirstModel.of(what, folder, allow_pickle=True)
        raise


def _name(source: FirstSource, table: str) -> str:
    """The name of a job on a table: letters, digits, - and _ of the table's or the file's name."""
    named = table.rpartition(".")[2]
    if not named and not source.is_database:
        named = Path(source.given.rstrip("/*")).name.partition(".")[0]
    return re.sub(r"[^\w-]+", "_", named).strip("_") or "job"


def _names(text: str) -> tuple[str, ...]:
    """The names in a text, with commas between."""
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


HEAD = """# A job of dshap, as `dshap init` wrote it; every key: docs/job_files.md, or `dshap schema`.
"""


def refuse_file(path: Path, *, replaces: bool) -> None:
    """Raise an `InputError` if a job file cannot be written."""
    if path.exists() and not replaces:
        raise InputError(f"{path} exists: give another name, or --force to replace it")
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the name of a file, like {path / 'job.toml'}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"there is no folder {path.parent}: make it, or give another place")


def _lines(keys: Mapping[str, Any]) -> list[str]:
    """Keys and values as TOML."""
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()]


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list(names: Sequence[str]) -> str:
    return json.dumps(list(names), ensure_ascii=False)
