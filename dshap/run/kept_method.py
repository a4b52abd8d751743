"""A method that stays the same in all runs of a nightly job, whatever rows they explain.

An ordinary run learns some things from its rows: the choices of a design from pilots, the range of
the predictions, and the tiles.  Here these are learned once, from the data of the value function,
and stored.  No column is left out because it is constant in the rows of one run.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dshap.attributors.choice import (
    check_kinds,
    check_options,
    design_of,
    learns,
    needs_numbers,
    only_kind,
    reads_data,
)
from dshap.attributors.compatibility import not_together
from dshap.attributors.method import Method
from dshap.core.errors import InputError, StoreMismatchError
from dshap.core.fixed_words import DesignName
from dshap.core.options import RunOptions
from dshap.core.places import Place
from dshap.core.records import digest_of
from dshap.core.types import Design, Explained, RowReader
from dshap.cube import read_prepared
from dshap.engine.planner import tiling_of
from dshap.run.difference import names_that_differ
from dshap.run.identity import method_identity, settle
from dshap.run.learned_method import (
    DataSummary,
    LearnedMethod,
    plan_to_learn,
    refuse_other_content,
)
from dshap.run.learning import with_stored_choices
from dshap.run.session import Session
from dshap.run.versions import Writer
from dshap.tables import open_data

NO_DATA = DataSummary(0, (), "refuse", "")
"""The data of a closed form of the model alone."""


@dataclass(frozen=True)
class Wanted:
    """The request to fix a method: value function, design and options."""

    value: Explained
    """The value function; its data are the rows that everything is learned from."""
    session: Session
    """Its options are the options of later runs."""
    design: Any
    seed: int
    model_sha256: str
    """The digest of the file of the model; "" identifies a black box by its predictions."""

    def method(self, n_rows: int) -> tuple[Method, RunOptions]:
        """The method before anything is learned, and the options that it leaves."""
        asked = self.session.options
        without_pairs = replace(asked, interactions=False)  # they follow from the same states
        settled = settle(self.value, without_pairs, self.design, self.seed, n_rows)
        method = settled.method.with_value(self.value)
        options = replace(settled.options, interactions=asked.interactions)
        if options.interactions:
            method.with_interactions()  # refuses if there are none
        if options.tol is None:  # with tol a row takes as many coalitions as its own error asks for
            method = method.checking()
        return method, options

    def identity(self, method: Method, options: RunOptions, data: DataSummary) -> dict[str, Any]:
        """Plain values that identify the method; a file of a model counts as its digest."""
        of_value = method.value_fingerprint()
        if self.model_sha256:
            of_value.pop("predictions", None)
            of_value["model_file"] = self.model_sha256
        return method_identity(method, self.value, options, of_value, data)


def fixed_method(
    value: Explained,
    session: Session,
    folder: Place,
    *,
    design: Design | Callable[[int], Design] | DesignName = "auto",
    seed: int = 0,
    n_rows: int,
    method: str | None = None,
    model_sha256: str = "",
) -> LearnedMethod:
    """Fix the method of a value function for all later runs, or open a fixed method.

    Parameters
    ----------
    value : the value function; everything is learned from its data
    session : the session, with the options of the later runs
    folder : the folder of the methods of a job; each has a folder named METHOD, the digest of all
        that identifies a method
    design, seed : as in `Explanation.of`
    n_rows : the number of rows of the first run, which decides whether each row gets a Gaussian
        process of its own, or all rows share one because this would be too slow
    method : METHOD of an earlier run, whose states are opened without reading a row of the data.
        None learns them, or opens those learned from the same data before.
    model_sha256 : the digest of the model's file, which identifies the model; "" identifies a black
        box by its predictions for the data

    Returns
    -------
    LearnedMethod
        Its `digest` is METHOD.  Give it to `Explanation.of` with any rows and the same options.

    Raises
    ------
    InputError
        The method would depend on the rows, because of the value function or an option.
    StoreMismatchError
        The stored method of that name has a different model, value function, design or option.
    """
    wanted = Wanted(value, session, design_of(value, design), seed, model_sha256)
    check_kinds(value, wanted.design)
    _refuse_by_rows(value, session.options)
    if method is not None:
        return _opened(wanted, folder / method)
    return _learned(wanted, folder, n_rows)


def _refuse_by_rows(value: Explained, options: RunOptions) -> None:
    """Raise an InputError for a method that depends on the rows, or has no states to store."""
    check_options(value, options)
    if only_kind(value) == "texts":
        raise InputError(
            f"{type(value).__name__} has a player for each token of the longest text, so that "
            "every table needs a separate method: explain the texts without [incremental]"
        )
    if options.stochastic:
        raise not_together("stochastic", "prepared", path="a method that stays the same")
    if options.missing == "pass" and needs_numbers(value):
        raise not_together("missing", "learned", verb="explain")


def _data_of(wanted: Wanted) -> tuple[RowReader | None, DataSummary]:
    """Open the data of the value function, and take their census; no reader if it needs none."""
    value = wanted.value
    if not reads_data(value):
        return None, NO_DATA
    missing = wanted.session.options.missing
    reader, census = open_data(
        value,
        wanted.session,
        missing=missing,
        names=None,
        learns=learns(value),
        needs_numbers=needs_numbers(value),
    )
    return reader, DataSummary.of(reader, census)


def _learned(
    wanted: Wanted, folder: Place, n_rows: int, damaged: Place | None = None
) -> LearnedMethod:
    """Learn the missing states of the method; return it with the choices of its design.

    `damaged` is the place of a method that is learned again.
    """
    reader, data = _data_of(wanted)
    method, options = wanted.method(n_rows)
    tiling = tiling_of(method.work(), max(n_rows, 1), data.n_rows, options)
    options = replace(options, coalition_tile=tiling.coalition_tile, row_span=tiling.row_span)
    identity = wanted.identity(method, options, data)
    path = folder / digest_of(identity)
    fixed = replace(LearnedMethod.of(method, path, identity, data, tiling), identity=identity)
    if damaged not in (None, path):
        raise StoreMismatchError(
            f"{damaged} is damaged, and its value function was given other data than it was "
            "learned from: fix another method"
        )
    refuse_other_content(path)
    if not _is_whole(wanted, fixed):
        names: tuple[str, ...] = ()
        if reader is not None:
            plan = plan_to_learn(method, reader, options)
            names = fixed.learn(wanted.session, plan, reader)
        fixed.keep(names, identity=identity, n_rows=n_rows)
    return _with_choices(fixed)


def _is_whole(wanted: Wanted, fixed: LearnedMethod) -> bool:
    """Whether everything is there; damaged files are removed, and reported."""
    say = wanted.session.progress.say
    return fixed.is_whole(lambda text: say(f"{fixed.path.name}: {text}"))


def _with_choices(fixed: LearnedMethod) -> LearnedMethod:
    """The method with the choices that its design has made from pilots.

    Raises
    ------
    InputError
        It could not choose, as the model explains none of the rows of the data that it asked for.
    """
    chosen, is_settled = with_stored_choices(fixed.method, fixed.states_in(fixed.states))
    if not is_settled:
        raise InputError(
            "the design uses rows of the data for its choices, and none of these rows can be "
            "explained: correct the data, or give a design that chooses nothing "
            '("kernelshap")'
        )
    return replace(fixed, chosen=chosen)


def _opened(wanted: Wanted, path: Place) -> LearnedMethod:
    """Open the method that an earlier night has fixed."""
    refuse_other_numerics(path)
    content = _described(path)
    if content is None:
        raise InputError(f"{path} contains no method that is fixed: leave method out to fix one")
    method, options = wanted.method(content["n_rows"])
    identity = content["identity"]
    fixed = replace(LearnedMethod.read(method, path, content), identity=identity)
    now = wanted.identity(method, fixed.tiled(options), fixed.data)
    _refuse_other_method(path, identity, json.loads(json.dumps(now)))
    if not _is_whole(wanted, fixed):
        return _learned(wanted, path.parent, content["n_rows"], path)
    if fixed.data.n_rows:
        fixed.refuse_other_model("learned", "fix another method")
    return _with_choices(fixed)


def _described(path: Place) -> dict[str, Any] | None:
    """The description of the method at `path`; None if no method is fixed there."""
    content = read_prepared(path)
    if content is None or "identity" not in content:
        return None
    return content


def refuse_other_numerics(path: Place) -> None:
    """Raise a StoreMismatchError if a version with other numerics has fixed the method at `path`.

    No row is read.  Nothing is raised if no method is there.
    """
    content = _described(path)
    if content is not None:
        writer = Writer.of(content, content["identity"])
        writer.refuse_other(f"the method in {path} was learned")


def _refuse_other_method(path: Place, was: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise unless two identities are the same, the predictions of a black box excepted."""
    of_value = names_that_differ(was["value"], now["value"], {"predictions"})
    of_options = names_that_differ(was["options"], now["options"])
    of_others = names_that_differ(was, now, {"value", "options"})
    other = [
        *of_others,
        *(f"option {name}" for name in of_options),
        *(f"value {name}" for name in of_value),
    ]
    if other:
        raise StoreMismatchError(
            f"the method in {path} differs from the one of now in {', '.join(other)}"
        )
