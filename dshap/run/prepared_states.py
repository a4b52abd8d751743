"""Value functions prepared once on all their data, for any number of runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dshap.attributors.choice import restored_method
from dshap.attributors.closed_form import ClosedFormAttributor
from dshap.attributors.failing import not_all_failed, sparing, with_bad_rows
from dshap.attributors.made_once import MadeAnew, MadeOnce
from dshap.attributors.method import Method
from dshap.attributors.states import States
from dshap.attributors.tiling import Tiling
from dshap.core.annotations import MatrixLike
from dshap.core.blocks import Attribution, RowBlock
from dshap.core.capabilities import Work, is_of_texts
from dshap.core.errors import InputError, StoreMismatchError, shown
from dshap.core.floats import finite_rows
from dshap.core.html import table_html
from dshap.core.options import RunOptions
from dshap.core.places import Place
from dshap.core.printing import label
from dshap.core.records import FloatArray, Record
from dshap.core.rows import spans
from dshap.core.rules import as_place
from dshap.core.threads import process_threads
from dshap.core.types import Attributor, Explained
from dshap.cube import read_prepared
from dshap.engine import LoopExecutor
from dshap.engine.learn import run_pass
from dshap.engine.plan import PILOT_ROWS
from dshap.engine.planner import tiling_of
from dshap.predictors.times import times_of
from dshap.run.difference import data_said, names_that_differ
from dshap.run.learned_method import PROBE, LearnedMethod
from dshap.run.session import Session
from dshap.run.versions import Writer
from dshap.storage.workspace import Rooms
from dshap.tables import ArraySource, kind_of, open_for, refuse_unknown_categories

ROWS_IN_MEMORY = ("array", "data frame")
"""Kinds of rows that are explained at once, without a plan."""
MOST_SIZES = 64
"""The most numbers of rows whose tiling is cached."""
SHOWN_PLAYERS = 6
"""The most players that a prepared value function names of itself."""
ANOTHER_STORE = "prepare into another store"
"""The remedy for a folder with other content than asked for."""


@dataclass(frozen=True)
class Prepared(LearnedMethod):
    """A value function with everything that it learned from its data, in a folder.

    `dshap.prepare` makes it, and `dshap.open_prepared` opens it again.  Give it to `dshap.explain`
    as the value function, or call `attributor` to explain single rows quickly.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import dshap
    >>> rows = np.random.default_rng(0).normal(size=(40, 2))
    >>> value = dshap.values.Gaussian(lambda x: x[:, 0] * x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     prepared = dshap.prepare(value, store=f"{folder}/states", progress=False)
    ...     cube = dshap.explain(prepared, rows[:3])
    >>> type(prepared).__name__, prepared.value.players.names
    ('Prepared', ('x0', 'x1'))
    """

    def attributor(self) -> PreparedAttributor:
        """Make an object that explains a few rows at a time, quickly, for a service.

        Its `attribute(rows)` returns the same bits that `dshap.explain(prepared, rows)` writes.
        States are read from the folder once and then stay in memory.  Nothing is planned, locked or
        written.

        Whatever `explain` would learn from the rows of a run is learned from the data instead, so
        that the attributions of a row do not depend on the rows next to it: the first rows of the
        data make the choices of a kriging design.  If the values of a row do not vary, its standard
        error comes from the range of the predictions of those rows and of its own.  A category that
        does not occur in the data of the value function is refused.

        Examples
        --------
        >>> import numpy as np
        >>> import dshap
        >>> X = np.random.default_rng(0).normal(size=(200, 3))
        >>> value = dshap.values.Gaussian(lambda x: x[:, 0] * x[:, 1], X, n_samples=40)
        >>> prepared = dshap.prepare(value, design="exact", store="prepared")
        >>> attributor = dshap.open_prepared("prepared", value).attributor()
        >>> attributor.attribute(X[:1]).phi.shape  # (1, players, outputs)
        (1, 3, 1)
        """
        states = replace(self.states_in(self.states, loaded={}), made=MadeOnce())
        method = self.method.without_data().with_landmarks(states)
        session = Session(LoopExecutor(), Rooms(Path()), self.tiled(RunOptions()))
        settled = PreparedAttributor(
            method.with_threads(process_threads()), states, method.work(), self.data.n_rows, session
        )
        return settled.tuned(self.states.get(PROBE, Record)["x"])

    def describe(self) -> str:
        """The value function, its data, its coalitions and its folder, in one line."""
        kind = self.follows_from["value"]["value"]
        return f"{kind} on {self.data.n_rows:,} rows, {self.method.info.n_coalitions:,} coalitions, {self.path}"

    def __repr__(self) -> str:
        return f"Prepared({self.describe()})"

    def _repr_html_(self) -> str:
        names = self.value.players.names
        shown = ", ".join(label(name, 24) for name in names[:SHOWN_PLAYERS])
        facts = {
            "value function": self.follows_from["value"]["value"],
            "players": f"{len(names):,}: {shown}{', …' * (len(names) > SHOWN_PLAYERS)}",
            "data": f"{self.data.n_rows:,} rows",
            "coalitions": f"{self.method.info.n_coalitions:,}",
            "folder": str(self.path),
        }
        use = "dshap.explain(prepared, rows) does not learn again"
        return table_html("Prepared value function", (), facts.items(), [use], n_texts=2)


@dataclass(frozen=True)
class PreparedAttributor:
    """Explain single rows quickly, with states that `dshap.prepare` learned once.

    It needs no plan and no store.  `Prepared.attributor` makes it.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import dshap
    >>> rows = np.random.default_rng(0).normal(size=(40, 2))
    >>> value = dshap.values.Gaussian(lambda x: x[:, 0] * x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     prepared = dshap.prepare(value, store=f"{folder}/states", progress=False)
    ...     attributor = prepared.attributor()
    ...     found = attributor.attribute(rows[:3])
    >>> found.phi.shape, bool(np.allclose(found.phi.sum(axis=1) + found.base, found.prediction))
    ((3, 2, 1), True)
    """

    method: Method
    states: States
    work: Work
    """The costs and sizes by which rows are divided into tiles, before the design made choices."""
    data_rows: int
    """Number of rows from which the states were learned."""
    session: Session
    made: dict[int, tuple[Tiling, Attributor]] = field(default_factory=dict, repr=False)
    """Number of rows -> the tiling of so many rows and its attributor, from the last calls.  The
    attributors share the states in memory and everything computed from them."""

    def attribute(self, rows: MatrixLike) -> Attribution:
        """Compute the attributions of rows, in their order.

        Parameters
        ----------
        rows : (n, columns) array of numbers, or a data frame with the columns of the model

        Returns
        -------
        Attribution
            `phi` (n, players, outputs), `base`, `prediction` (n, outputs), `std_error`, `status`
            (n,), and `reasons`: position of a failed row -> why it failed.  Numbers of failed rows
            are NaN; rows that contain NaN or infinity fail.

        Raises
        ------
        InputError
            The rows are neither an array of numbers nor a data frame, their columns are not those
            of the model, or the model does not accept a row.
        PredictError
            No row could be explained, although some contain no NaN.
        """
        whole = self._as_block(rows)
        tiling, attributor = self._made_for(len(whole.x))
        blocks = [_part_of(whole, *span) for span in spans(0, len(whole.x), tiling.instance_tile)]
        check = self.method.value.model.check
        if check is not None:
            for block in blocks:
                check(block.good)
        return Attribution.joined([_of_block(attributor, block) for block in blocks])

    def _as_block(self, rows: Any) -> RowBlock:
        """All rows in one block, those with NaN or infinity marked."""
        if self._takes_arrays and is_plain(rows, self.method.value.model.n_columns):
            x = np.ascontiguousarray(rows)
            return RowBlock(0, x, finite_rows(x))
        if kind_of(rows) not in ROWS_IN_MEMORY:
            raise InputError(
                f"rows is {shown(rows)}: give an array of numbers (rows, columns) or a data frame, "
                "or call dshap.explain for a table"
            )
        reader = open_for(self.method.value, rows, self.session, missing="skip")
        refuse_unknown_categories(reader, self.session)
        return reader.read(0, reader.n_rows)

    @cached_property
    def _takes_arrays(self) -> bool:
        """Whether the model is called with arrays of numbers: no column has other values."""
        model = self.method.value.model
        return not (is_of_texts(self.method.value) or model.categories or times_of(model))

    def dependence(self, rows: FloatArray, player: int) -> tuple[FloatArray, FloatArray]:
        """The mean prediction (n, k) if one player has the value of each row (n, columns); base (k,).

        Raises
        ------
        InputError
            The value function is not `Trees`.
        """
        _, attributor = self._made_for(1)
        if not isinstance(attributor, ClosedFormAttributor):
            name = type(self.method.value).__name__
            raise InputError(f"partial dependence needs Trees, and the value function is {name}")
        return attributor.dependence(rows, player), attributor.base()

    def tuned(self, data: FloatArray) -> PreparedAttributor:
        """A copy whose design has made its choices from rows (n, columns) of the data."""
        positions = np.linspace(0, len(data) - 1, min(PILOT_ROWS, len(data))).round().astype(int)
        # a pilot loads its tiles one by one, and the design may have other coalitions after it
        states = replace(self.states, loaded=None, made=MadeAnew())
        tiling = self._tiling(len(data))
        method = self.method
        while method.pilot_coalitions:
            choice = run_pass(
                self.session.executor,
                method.pilot(states, tiling),
                ArraySource(data),
                [(position, position + 1) for position in positions],
            )
            if not choice.arrays:
                break
            method = method.tuned(choice)
        return replace(self, method=method)

    def _tiling(self, n_rows: int) -> Tiling:
        """The tiling that `explain` uses for so many rows, with all states in memory."""
        tiling = tiling_of(self.work, n_rows, self.data_rows, self.session.options)
        # not 0, which means that states are read again for each tile
        return replace(tiling, cache_bytes=max(1, tiling.cache_bytes))

    def _made_for(self, n_rows: int) -> tuple[Tiling, Attributor]:
        """The tiling of so many rows, and its attributor."""
        found = self.made.get(n_rows)
        if found is None:
            tiling = self._tiling(n_rows)
            found = tiling, self.method.attributor(self.states, tiling)
            if len(self.made) == MOST_SIZES:  # a service may see requests of any number of rows
                self.made.clear()
            self.made[n_rows] = found
        return found


def is_plain(rows: Any, n_columns: int) -> bool:
    """Whether rows are numbers in the form for models: no reader changes them."""
    if type(rows) is not np.ndarray:
        return False
    is_of_numbers = rows.dtype == np.float64 and rows.ndim == 2
    return is_of_numbers and len(rows) > 0 and rows.shape[1] == n_columns


def _part_of(block: RowBlock, start: int, stop: int) -> RowBlock:
    """The rows start..stop of a block of all rows."""
    return RowBlock(start, block.x[start:stop], block.is_ok[start:stop])


def _of_block(attributor: Attributor, block: RowBlock) -> Attribution:
    """Attributions of all rows of a block; rows that contain NaN or infinity fail."""
    try:
        found = attributor.attribute(block.good)
    except Exception as error:
        found = sparing(error, attributor.attribute, block.good)
    found = not_all_failed(with_bad_rows(found))
    at = np.flatnonzero(block.is_ok)
    bad = dict.fromkeys(np.flatnonzero(~block.is_ok).tolist(), "the row contains NaN or infinity")
    return found.placed(len(block.x), at, bad)


def open_prepared(store: str | Place, value: Explained) -> Prepared:
    """Open the states that `dshap.prepare` stored in a folder.

    Parameters
    ----------
    store : path
        The folder that was given to `prepare`.
    value : value function
        The same value function as for `prepare`, made with the same arguments.  Its data are not
        read.

    Returns
    -------
    Prepared

    Raises
    ------
    InputError
        The folder contains no finished states.
    StoreMismatchError
        The states belong to a different value function or model.
    DamagedError
        A file has changed since it was written: call `prepare` again.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import dshap
    >>> rows = np.random.default_rng(0).normal(size=(40, 2))
    >>> value = dshap.values.Gaussian(lambda x: x[:, 0] * x[:, 1], rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = dshap.prepare(value, store=f"{folder}/states", progress=False)
    ...     again = dshap.open_prepared(f"{folder}/states", value)
    ...     cube = dshap.explain(again, rows[:3])
    >>> cube.sizes["instance"]
    3
    """
    path = as_place("store", store)
    content = read_prepared(path)
    if content is None:
        raise InputError(
            f"{path} contains no prepared value function: make it with dshap.prepare(value, ...)"
        )
    writer = Writer.of(content, content["learnt"])
    writer.refuse_other(f"{path} was prepared", f": {ANOTHER_STORE}")
    method = restored_method(value, content["design"])
    was = content["learnt"]["value"]
    now = json.loads(json.dumps(method.value_fingerprint()))
    # predictions are compared below, by `refuse_other_model`, on rows that were stored: the data
    # of the value function are not read
    names = names_that_differ(was, now, {"predictions"})
    if names:
        raise StoreMismatchError(
            f"{path} was prepared for another value function (it differs in {', '.join(names)}): "
            f"make the value function as it was then, or {ANOTHER_STORE}"
        )
    prepared = Prepared.read(method, path, content)
    prepared.refuse_other_model("prepared", ANOTHER_STORE)
    return prepared


def refuse_other(stored: Prepared, wanted: Prepared) -> Prepared:
    """Give the stored states if they are those asked for; else raise an `InputError`."""
    if stored.data.digest != wanted.data.digest:
        said = data_said("data", stored.data.n_rows, wanted.data.n_rows)
        raise InputError(f"{stored.path} was prepared with another table ({said}): {ANOTHER_STORE}")
    pairs = [
        ("design", stored.method.fingerprint(), wanted.method.fingerprint()),
        ("coalition_tile", stored.coalition_tile, wanted.coalition_tile),
        ("row_span", stored.row_span, wanted.row_span),
    ]
    for name, was, now in pairs:
        if was != now:
            raise InputError(
                f"{stored.path} was prepared with another {name} ({was}, now {now}): "
                f"{ANOTHER_STORE}, or open it with dshap.open_prepared"
            )
    return stored
