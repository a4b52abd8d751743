"""Learning: passes over the rows of a table, on any executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dshap.core.blocks import RowBlock
from dshap.core.capabilities import Accumulates
from dshap.core.records import FloatArray, Moments, Record, n_left_leaves
from dshap.core.rows import SPAN_ROWS, spans
from dshap.core.types import Pass, RecordStore, RowReader
from dshap.engine.graph import Call, Executor, LoopExecutor, Reduction

Span = tuple[int, int]


@dataclass(frozen=True)
class Predictions:
    """Predictions f(x) of a table, span by span; stored if several passes need them."""

    predict: Callable[[FloatArray], FloatArray]
    store: RecordStore
    name: str
    is_kept: bool

    def of(self, block: RowBlock) -> FloatArray:
        """Predictions (good rows, k) of a block; its own, where its reader has them."""
        if block.predictions is not None:
            return block.predictions
        if not self.is_kept:
            return self.predict(block.good)
        name = self.name_of(block.start)
        if not self.store.has(name):
            self.store.put(name, Record({"prediction": self.predict(block.good)}))
        kept: FloatArray = self.store.get(name, Record)["prediction"]
        return kept

    def name_of(self, start: int) -> str:
        """The name of the record of the span that begins at `start`."""
        return f"{self.name}-{start:012d}"

    def are_there(self, spans: Sequence[Span]) -> bool:
        return all(self.store.has(self.name_of(start)) for start, _ in spans)

    def drop(self, spans: Sequence[Span]) -> None:
        for start, _ in spans:
            self.store.remove(self.name_of(start))


@dataclass(frozen=True)
class Learning:
    """Everything that the tasks of passes over one table share."""

    passes: Sequence[Pass]
    names: Sequence[str]
    """For each pass the name of the record with its result."""
    store: RecordStore
    reader: RowReader
    predictions: Predictions | None = None
    kept_spans: int = 0
    """Number of spans of a stored sum, whole chains of the tree; 0: no sums are stored.

    A run that was killed goes on from the stored sums of a pass, each of which replaces the two
    that it is the sum of.
    """

    def sum_name(self, index: int, spans: Sequence[Span]) -> str:
        """The name of the sum of a pass over these spans."""
        of_pass = self.names[index].partition("-")[2]
        return f"sums-{of_pass}-{spans[0][0]:012d}-{spans[-1][1]:012d}"


def learn(
    executor: Executor,
    learning: Learning,
    spans: Sequence[Span],
    todo: Sequence[int],
    on_done: Callable[[], None],
) -> None:
    """Run the passes with the indices `todo` over the spans of the table, and store the results."""

    def reduction(index: int) -> Reduction:
        return _sum_of(learning, index, spans, Call(_keep, (index,)))

    def done(reduction: Reduction, _: None) -> None:
        for name in _kept_names(reduction):
            # only now: if a worker is lost, Dask computes its results again, and these read the
            # stored sums again
            learning.store.remove(name)
        on_done()

    executor.run(learning, [reduction(index) for index in todo], done)


def sums_of_share(
    learning: Learning, spans: Sequence[Span], share: Callable[[int], range]
) -> list[Reduction]:
    """A share of the sums of all passes, to be made and stored, so that `learn` adds what several made.

    The pieces of a pass are the smallest sums that are stored, in the order of the rows.  Those of
    all passes are numbered one pass after the other, and `share` chooses neighbours among so many.
    Neighbours that are a whole sum of the tree are added, and a pass that is all here is finished.
    Sums that are stored are left out.
    """
    n_pieces = _n_pieces(learning, spans)
    mine = share(n_pieces * len(learning.passes))
    return [
        each
        for index, name in enumerate(learning.names)
        if not learning.store.has(name)
        for each in _sums_within(learning, index, spans, index * n_pieces, mine)
    ]


def _n_pieces(learning: Learning, spans: Sequence[Span]) -> int:
    """The number of smallest stored sums of a pass over these spans."""
    if not learning.kept_spans or len(spans) <= learning.kept_spans:
        return 1
    return sum(_n_pieces(learning, half) for half in _halves(spans))


def _sums_within(
    learning: Learning,
    index: int,
    spans: Sequence[Span],
    first: int,
    mine: range,
    is_whole: bool = True,
) -> Iterator[Reduction]:
    """The largest sums of a pass whose pieces, numbered from `first`, are mine and not stored yet.

    If these spans are the whole pass, and all mine, it is finished.
    """
    n_pieces = _n_pieces(learning, spans)
    if not range(max(first, mine.start), min(first + n_pieces, mine.stop)):
        return
    if first in mine and first + n_pieces - 1 in mine:
        name = learning.sum_name(index, spans)
        if is_whole:
            yield _sum_of(learning, index, spans, Call(_keep, (index,)))
        elif not learning.store.has(name):
            yield _sum_of(learning, index, spans, Call(_keep_alone, (name,)))
        return
    for half in _halves(spans):
        yield from _sums_within(learning, index, half, first, mine, is_whole=False)
        first += _n_pieces(learning, half)


def _sum_of(learning: Learning, index: int, spans: Sequence[Span], finish: Call) -> Reduction:
    """The sum of a pass over these spans, from two stored sums if there are enough spans.

    The finish removes those of the two that this run makes, as it can make them again: a cluster
    that loses a worker asks for lost results again.  Those of an earlier run stay until the pass is
    over.
    """
    name = learning.sum_name(index, spans)
    if not learning.kept_spans or len(spans) <= learning.kept_spans:
        return Reduction(name, tuple(Call(_partial, (index, *span)) for span in spans), finish)
    parts = tuple(_kept_or_sum_of(learning, index, half) for half in _halves(spans))
    names = tuple(part.name for part in parts if isinstance(part, Reduction))
    return Reduction(name, parts, replace(finish, args=(*finish.args, *names)), chain=1)


def _kept_names(reduction: Reduction) -> Iterator[str]:
    """The names of the stored sums of an earlier run that a reduction begins from."""
    for leaf in reduction.leaves:
        match leaf:
            case Reduction():
                yield from _kept_names(leaf)
            case Call(function, args) if function is _kept_sum:
                yield args[0]


def _kept_or_sum_of(learning: Learning, index: int, spans: Sequence[Span]) -> Call | Reduction:
    """The stored sum of a pass over these spans, or how it is made and stored."""
    name = learning.sum_name(index, spans)
    if not learning.store.has(name):
        return _sum_of(learning, index, spans, Call(_keep_sum, (name,)))
    for below in _names_below(learning, index, spans):  # what a killed run left
        learning.store.remove(below)
    return Call(_kept_sum, (name,))


def _names_below(learning: Learning, index: int, spans: Sequence[Span]) -> Iterator[str]:
    """The names of the sums that a stored sum replaces."""
    if len(spans) > learning.kept_spans:
        for half in _halves(spans):
            yield learning.sum_name(index, half)
            yield from _names_below(learning, index, half)


def _halves(spans: Sequence[Span]) -> tuple[Sequence[Span], Sequence[Span]]:
    """The spans of the two sums that are added last."""
    left = n_left_leaves(len(spans))
    return spans[:left], spans[left:]


def _partial(learning: Learning, index: int, start: int, stop: int) -> Any:
    return _partial_of(learning.passes[index], learning.reader, learning.predictions, start, stop)


def _partial_of(
    one: Pass, reader: RowReader, predictions: Predictions | None, start: int, stop: int
) -> Any:
    options = {name: name in one.wants for name in ("keys", "target", "columns")}
    block = reader.read(start, stop, **options)
    if predictions is not None and "predictions" in one.wants:
        block = replace(block, predictions=predictions.of(block))
    return one.partial(block)


def _keep(learning: Learning, total: Any, index: int, *parts: str) -> None:
    """Store the result of a pass, and remove sums that were stored on its way."""
    learning.store.put(learning.names[index], learning.passes[index].finish(total))
    for part in parts:
        learning.store.remove(part)


def _keep_sum(learning: Learning, total: Moments, name: str, *parts: str) -> Moments:
    """Store a sum, and remove those that it replaces; return the sum."""
    learning.store.put(name, total)
    for part in parts:
        learning.store.remove(part)
    return total


def _keep_alone(learning: Learning, total: Moments, name: str, *parts: str) -> None:
    """Store a sum that nothing is added to here."""
    _keep_sum(learning, total, name, *parts)


def _kept_sum(learning: Learning, name: str) -> Moments:
    total: Moments = learning.store.get(name, Moments)
    return total


def run_pass(
    executor: Executor,
    one: Pass,
    reader: RowReader,
    spans: Sequence[Span],
    on_done: Callable[[], None] = lambda: None,
) -> Any:
    """Run a pass over these spans, and each pass that follows from it; return the last result."""
    # the finish of a pass may be the next pass, as of Newton's method
    found: Any = one
    while isinstance(found, Pass):
        found = run_once(executor, found, reader, spans)
        on_done()
    return found


def run_once(executor: Executor, one: Pass, reader: RowReader, spans: Sequence[Span]) -> Any:
    """Run a single pass over these spans; return its result, or the pass that follows."""
    if isinstance(one, Accumulates):
        return one.after(run_once(executor, one.step, reader, spans))
    leaves = tuple(Call(_leaf, span) for span in spans)
    return _only(executor, (one, reader), Reduction("pass", leaves, Call(_finish)))


def run_together(
    executor: Executor, passes: Sequence[Pass], reader: RowReader, spans: Sequence[Span]
) -> list[Any]:
    """Run several single passes over the same spans at once; return their results in order."""
    found = dict[str, Any]()

    def done(reduction: Reduction, result: Any) -> None:
        found[reduction.name] = result

    names = [f"pass {index}" for index in range(len(passes))]
    reductions = [
        Reduction(
            name,
            tuple(Call(_leaf_of, (index, *span)) for span in spans),
            Call(_finish_of, (index,)),
        )
        for index, name in enumerate(names)
    ]
    executor.run((tuple(passes), reader), reductions, done)
    return [found[name] for name in names]


def learn_from(executor: Executor, one: Pass, reader: RowReader) -> Any:
    """Run a pass over all rows of a table, and return its result.

    A table of a single span is read in this process, so that no cluster has to start for it.

    Examples
    --------
    >>> import numpy as np
    >>> from dshap.engine import LoopExecutor, learn_from
    >>> from dshap.sources import ArraySource, CensusPass
    >>> source = ArraySource(np.arange(6.0).reshape(3, 2))
    >>> census = learn_from(LoopExecutor(), CensusPass(source.feature_names), source)
    >>> census.n_rows, census.high
    (3, (4.0, 5.0))
    """
    # one span is one task in either executor, so the sums have the same bits
    local = LoopExecutor() if reader.n_rows <= SPAN_ROWS else executor
    return run_pass(local, one, reader, spans(0, reader.n_rows))


def on_a_worker(executor: Executor, function: Callable[[Any], Any], context: Any) -> Any:
    """Run function(context) as a task of the executor, near the files that it reads."""
    return _only(executor, context, Reduction("call", (), Call(_call, (function,))))


def _only(executor: Executor, context: Any, reduction: Reduction) -> Any:
    results: list[Any] = []
    executor.run(context, [reduction], lambda _, result: results.append(result))
    return results[0]


def _leaf(context: tuple[Pass, RowReader], start: int, stop: int) -> Any:
    return _partial_of(*context, None, start, stop)


def _finish(context: tuple[Pass, RowReader], total: Any) -> Any:
    return context[0].finish(total)


def _leaf_of(context: tuple[Sequence[Pass], RowReader], index: int, start: int, stop: int) -> Any:
    passes, reader = context
    return _partial_of(passes[index], reader, None, start, stop)


def _finish_of(context: tuple[Sequence[Pass], RowReader], total: Any, index: int) -> Any:
    return context[0][index].finish(total)


def _call(context: Any, _: None, function: Callable[[Any], Any]) -> Any:
    return function(context)
