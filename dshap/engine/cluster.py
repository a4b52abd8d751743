"""The Dask executor: runs the reductions of the plain loop on a cluster.

Its worker plugin sends the context of a run to every worker and sets up memory and compiled code.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
import math
import operator
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import cloudpickle
from distributed import Client, Future, Reschedule, WorkerPlugin, as_completed
from distributed.client import FutureCancelledError, FuturesCancelledError
from distributed.comm.core import CommClosedError

from dshap import loops
from dshap.core.errors import InputError, InterruptedRunError, NotSentError
from dshap.core.options import WAIT_S
from dshap.core.places import Place
from dshap.core.records import FAN_IN, TreeSum
from dshap.core.rows import spans
from dshap.core.threads import one_blas_thread
from dshap.core.user_code import told_by_workers
from dshap.engine.backlog import is_adaptive, window_of
from dshap.engine.clients import SENT_AWAY, await_workers
from dshap.engine.clusters.inspection import (
    ended_on_purpose,
    refuse_other_versions,
    refuse_other_versions_than,
    refuse_unseen,
    versions_here,
    with_other_versions,
)
from dshap.engine.graph import (
    Call,
    OnDone,
    OnFailed,
    Reduction,
    WritePart,
    partition_tasks,
)
from dshap.engine.lifetimes import WATCH_S, Patience, say_nothing
from dshap.engine.packs import Ended, PackSize, ended

M_MMAP_THRESHOLD = -3
M_TRIM_THRESHOLD = -1
"""The numbers by which mallopt(3) knows its parameters M_MMAP_THRESHOLD and M_TRIM_THRESHOLD."""
KEPT_BYTES = 64 << 20
"""Bytes of freed memory that a worker does not return to the system between tasks.

Mapping and zeroing this much memory again takes some 10 ms.
"""

ATTEMPTS = 5
"""How often a request to all workers is repeated while workers are lost."""
PAUSE_S = 1.0
"""Seconds between two attempts, in which the scheduler notices that a worker is gone."""

WORKER_LOG = logging.getLogger("distributed.worker")

# of a worker process: run -> its context.  A task has the name of its run only, so that the model
# and the states are not sent with every task
_contexts: dict[str, Any] = {}


@dataclass(frozen=True)
class _Promise:
    """A pending sum of `parts` (from left to right) that a worker will compute.

    Leaves are collected until there are `FAN_IN` of them; sums are submitted without waiting for
    more.  `TreeSum` adds promises as it adds numbers, so that the cluster sums in the same order as
    the plain loop, and gives the same bits.
    """

    parts: tuple[Future, ...]
    submit: Callable[..., Future]
    is_leaf: bool = True

    def __add__(self, other: _Promise) -> _Promise:
        total = _Promise((*self.parts, other.future), self.submit, is_leaf=False)
        waits = other.is_leaf and len(total.parts) < FAN_IN
        if waits:
            return total
        return replace(total, parts=(total.future,))

    @property
    def future(self) -> Future:
        """The future of the sum; an addition that is still collecting parts is submitted."""
        if len(self.parts) == 1:
            return self.parts[0]
        return self.submit(add_parts, *self.parts, step=0.5)


@dataclass(frozen=True)
class _Batch:
    """Submitted tasks that count as running until their last future is done."""

    future: Future
    n_tasks: int
    reduction: Reduction | None = None
    """The reduction that this future is the result of; None if more of it follows."""

    @property
    def is_last(self) -> bool:
        """Whether this is the last future of its reduction."""
        return self.reduction is not None

    def end(
        self, fetch: Callable[[Future], Any], on_done: OnDone, on_failed: OnFailed | None
    ) -> None:
        """Call back with the result or the error of a reduction whose future is done.

        `fetch` returns the result of a future, or raises its error.  An error before the last batch
        ends the run here, unless there is an `on_failed`, which then receives it.
        """
        if self.reduction is None:
            if on_failed is None and self.future.status == "error":
                fetch(self.future)
            return
        try:
            result = fetch(self.future)
        except Exception as error:
            # a finished result may be lost with its worker and fail when it is computed
            # anew: ask again
            if on_failed is None or self.future.status != "error":
                raise
            on_failed(self.reduction, error)
        else:
            on_done(self.reduction, result)


@dataclass(frozen=True, kw_only=True)
class _Pack(_Batch):
    """One submitted task that is several reductions without leaves."""

    reductions: Sequence[Reduction]
    learn: Callable[[Ended], None]
    """Called with the pack once it has ended."""

    @property
    def is_last(self) -> bool:
        return True

    def end(
        self, fetch: Callable[[Future], Any], on_done: OnDone, on_failed: OnFailed | None
    ) -> None:
        assert on_failed is not None
        try:
            pack: Ended = fetch(self.future)
        except Exception as error:
            if self.future.status != "error":
                raise
            for reduction in self.reductions:
                on_failed(reduction, error)
            return
        self.learn(pack)
        for reduction, outcome in zip(self.reductions, pack.outcomes, strict=True):
            if outcome.error is None:
                on_done(reduction, outcome.result)
            else:
                on_failed(reduction, outcome.error)


@dataclass
class _Window:
    """The submitted batches that have not ended, and the number of tasks that they may have."""

    size: int = 0
    running: dict[Future, _Batch] = field(default_factory=dict)
    n_tasks: int = 0

    @property
    def room(self) -> int:
        return self.size - self.n_tasks

    def add(self, batch: _Batch) -> None:
        self.running[batch.future] = batch
        self.n_tasks += batch.n_tasks

    def end(self, future: Future) -> _Batch:
        batch = self.running.pop(future)
        self.n_tasks -= batch.n_tasks
        return batch


def _n_last(reduction: Reduction) -> int:
    """The number of leaves in the last chain, the leaves of leaves not counted."""
    if reduction.chain == 1:
        return 0
    # 1 to `chain`: a last chain that is full counts in full, not as 0
    return (len(reduction.leaves) - 1) % reduction.chain + 1 if reduction.leaves else 0


class DaskExecutor:
    """The executor on a Dask cluster.

    It submits a limited number of tasks at a time, collects results as they complete, and goes on
    when a worker is lost.

    Parameters
    ----------
    client : distributed.Client
    wait_s : float, default 120
        How many seconds it waits for a worker while the cluster has none, before it gives up.
    say : callable, optional
        A function that is called as `Events.say`: with a line of text if the executor waits for
        workers or has lost one, and with facts about a lost worker as keywords.
    lifetime_s : float, optional
        Seconds after which a worker ends itself.  None: workers have no walltime.
    seen : mapping, optional
        Folders or buckets that every worker must be able to open: a noun for messages, such as
        "store", -> the path.
    grows : bool, default False
        Whether the cluster starts workers when tasks wait.  This is assumed in any case if its
        client has called `adapt`, or if it has no worker yet.

    Examples
    --------
    >>> from distributed import Client
    >>> from dshap.engine import DaskExecutor
    >>> one_worker = {"n_workers": 1, "threads_per_worker": 2, "processes": False}
    >>> with Client(**one_worker, dashboard_address=None) as client:
    ...     executor = DaskExecutor(client)
    ...     facts = executor.is_local, executor.n_threads
    >>> facts
    (False, 2)
    """

    is_local = False

    def __init__(
        self,
        client: Client,
        wait_s: float = WAIT_S,
        say: Callable[..., None] | None = None,
        lifetime_s: float | None = None,
        seen: Mapping[str, Place] | None = None,
        grows: bool = False,
    ) -> None:
        if client.status != "running":
            raise InputError(
                f"the Dask client is {client.status}: connect a new one, or give client=None"
            )
        self.client = client
        self._say = say or say_nothing
        self._wait_s = wait_s
        # a cluster without workers must see tasks before it starts any, as one that adapts does
        self._grows = grows or not client.nthreads() or is_adaptive(client)
        await_workers(client, wait_s, self._say)
        self._patience = Patience(lifetime_s, wait_s, self._say)
        self._seen = seen or {}
        self._is_checked = False
        self._workers = set[str](client.nthreads())
        self._n_threads = 0
        self._counted_at = -math.inf
        self._n_lost = 0
        self._pack_size = PackSize()
        self._strangers = set[str]()

    def run(
        self,
        context: object,
        reductions: Iterable[Reduction],
        on_done: OnDone,
        on_failed: OnFailed | None = None,
    ) -> None:
        run = f"dshap-{uuid.uuid4().hex[:12]}"
        self._await_workers()
        self._check_workers()
        self._send(run, context)
        try:
            self._run(run, iter(reductions), on_done, on_failed)
        # dshap cancels nothing here: the connection was lost
        except (FutureCancelledError, FuturesCancelledError) as error:
            raise _gone(error) from error
        except OSError as error:
            # every result is asked of the scheduler; a client may still report "running" when
            # that fails
            if self.client.status == "running" and not isinstance(error, CommClosedError):
                raise
            raise _gone(error) from error
        # the context is large (a model, states): workers drop it even if the run has failed
        finally:
            with contextlib.suppress(OSError):  # the scheduler is gone, and its plugin
                self.client.unregister_worker_plugin(run)

    def _await_workers(self) -> None:
        """Wait for a worker: between two stages a cluster may have scaled down to none."""
        try:
            await_workers(self.client, self._wait_s, self._say)
        except OSError as error:
            raise _gone(error) from error

    def _check_workers(self) -> None:
        """Refuse workers that cannot do the tasks, before the first; late ones refuse themselves."""
        if self._is_checked:
            return
        self._asked_of_all(lambda: refuse_other_versions(self.client))
        if self._seen:
            self._asked_of_all(lambda: refuse_unseen(self.client, self._seen))
        self._is_checked = True

    def _asked_of_all(self, ask: Callable[[], object]) -> None:
        """Send a request to all workers, and repeat it if a worker is lost meanwhile."""
        for _ in range(ATTEMPTS):
            try:
                ask()
                return
            except OSError as error:
                lost = error
            time.sleep(PAUSE_S)
            try:
                self._has_workers()
            except OSError as error:
                raise _gone(error) from error
        raise _gone(lost) from lost

    def _send(self, run: str, context: Any) -> None:
        # tried here first, to tell a model that cannot be pickled from workers that cannot read it
        try:
            plugin = ContextPlugin(run, context)
            cloudpickle.dumps(plugin)
        except Exception as error:
            raise NotSentError(
                f"the model or the rows cannot be sent to workers ({error}): define predict in a "
                "module, without open "
                "files, locks or connections"
            ) from error
        try:
            self._asked_of_all(lambda: self.client.register_plugin(plugin, name=run))
        except InterruptedRunError:
            raise
        except Exception as error:
            raise NotSentError(
                f"the workers cannot take the model or the rows: {told_by_workers(error)}"
            ) from error

    def _run(
        self, run: str, reductions: Iterator[Reduction], on_done: OnDone, on_failed: OnFailed | None
    ) -> None:
        window = _Window()
        if on_failed is None:
            batches = self._batches(run, reductions)
        else:
            batches = self._packs(run, reductions, window)
        finished = as_completed(loop=self.client.loop)

        # while the last tasks of a batch run, those of the next keep the other workers busy
        def fill_window() -> None:
            window.size = window_of(self._n_threads_now(), self._grows)
            while window.room > 0 or len(window.running) == 1:
                batch = next(batches, None)
                if batch is None:
                    return
                window.add(batch)
                finished.add(batch.future)

        try:
            fill_window()
            for futures in self._patience.completed(finished, self._is_manned):
                batches_ended = [window.end(future) for future in futures]
                # one request for all that ended together; with one for each, quick tasks wait for
                # the client
                fetch = self._fetch_of([batch.future for batch in batches_ended if batch.is_last])
                for batch in batches_ended:
                    batch.end(fetch, on_done, on_failed)
                    if batch.is_last:  # others are yet to be added
                        batch.future.release()
                fill_window()
            self._has_workers()  # reports those that were lost since they were counted
        finally:
            if window.running:
                # tasks that still wait would go on to write blocks after the run has reported its
                # end
                self.client.cancel(list(window.running), force=True)

    def _n_threads_now(self) -> int:
        """The threads of all workers, counted again once a second, as workers come and go."""
        now = time.monotonic()
        if now - self._counted_at >= WATCH_S or not self._workers:
            self._has_workers()
        return self._n_threads

    def each_partition(self, parts: Sequence[object], write: WritePart) -> list[int]:
        futures = self.client.compute(partition_tasks(parts, write))
        return [int(count) for count in self.results(futures)]

    def results(self, futures: Sequence[Future]) -> list[Any]:
        """The results of futures once all have ended.

        Raises
        ------
        InterruptedRunError
            The cluster has had no worker for the seconds that it may be without.
        """
        finished = as_completed(futures, loop=self.client.loop)
        for _ in self._patience.completed(finished, self._is_manned):
            pass
        return [self._fetched(future) for future in futures]

    def _fetch_of(self, futures: Sequence[Future]) -> Callable[[Future], Any]:
        """A function that returns the result of each of some futures, which are fetched together."""
        ended = {future.key: future for future in futures if future.status == "finished"}
        found: dict[Any, Any] = {}
        if len(ended) > 1:
            found = self._patience.answer(
                # results that were lost with their worker are left out here; `_fetched` asks for
                # them anew
                lambda: self.client.gather(ended, errors="skip"),
                self._is_manned,
            )

        def fetch(future: Future) -> Any:
            if future.key in found:
                return found[future.key]
            return self._fetched(future)

        return fetch

    def _fetched(self, future: Future) -> Any:
        """The result of a future that has ended."""
        return self._patience.answer(future.result, self._is_manned)

    def _has_workers(self) -> bool:
        """Whether a worker is there; also report the lost workers."""
        workers = self.client.nthreads()
        self._counted_at = time.monotonic()
        self._n_threads = sum(workers.values())
        self.tell_lost(set(workers))
        return bool(workers)

    def _is_manned(self) -> bool:
        """Whether a worker is there, asked of a scheduler that may be gone."""
        try:
            return self._has_workers()
        except OSError as error:
            raise _gone(error) from error

    def tell_lost(self, workers: set[str]) -> None:
        """Report each worker that has disappeared, once; not those that the cluster ended itself."""
        gone = self._workers - workers
        lost = sorted(gone - ended_on_purpose(self.client, gone))
        new = workers - self._workers
        self._workers = workers
        what_follows = "others do its tasks"
        if not workers:
            what_follows = "its tasks wait for a new worker"
        for address in lost:
            self._n_lost += 1
            counts = f"workers lost: {self._n_lost}, left: {len(workers)}"
            self._say(
                f"worker {address} is lost ({counts}): {what_follows}",
                event="worker_lost",
                worker=address,
                lost=self._n_lost,
                left=len(workers),
            )
        self._send_away(new)

    def _send_away(self, late: set[str]) -> None:
        """End workers that came late and have different versions than this process.

        Their results could differ in the last bits.
        """
        if not late:
            return
        strangers = late & with_other_versions(self.client)
        if strangers:
            self._strangers |= strangers
            # before they retire: a pod reads this list once its worker has ended, and else starts
            # it again
            self.client.set_metadata(SENT_AWAY, sorted(self._strangers))
            self.client.retire_workers(sorted(strangers), close_workers=True, remove=True)
            self._say(
                f"worker {', '.join(sorted(strangers))} has different versions from this process: it is "
                "not used"
            )

    def _batches(
        self, run: str, reductions: Iterator[Reduction], first: int = 0
    ) -> Iterator[_Batch]:
        """Submit one reduction after the other, a batch of tasks with each step.

        `first` is the number of reductions before these, which go first.
        """
        for number, reduction in enumerate(reductions, first):
            submit = functools.partial(self._submit, -number)
            last = yield from self._submitted(run, reduction, submit)
            yield _Batch(last, _n_last(reduction) or 1, reduction)

    def _packs(
        self, run: str, reductions: Iterator[Reduction], window: _Window
    ) -> Iterator[_Batch]:
        """Submit reductions, each of which may fail without the others.

        Reductions of a single task are submitted together, as many as the window has room for, and
        quick ones in packs.
        """
        number = 0
        following = next(reductions, None)
        while following is not None:
            if following.leaves:
                yield from self._batches(run, iter([following]), number)
                number += 1
                following = next(reductions, None)
                continue
            n_left = 1 + operator.length_hint(reductions)
            size = self._pack_size.of(self._n_threads, n_left, self._grows)
            alone = list[Reduction]()
            while (
                following is not None
                and not following.leaves
                and len(alone) < max(1, window.room) * size
            ):
                alone.append(following)
                following = next(reductions, None)
            packs = [alone[start:stop] for start, stop in spans(0, len(alone), size)]
            futures = self.client.map(
                functools.partial(call_pack, run),
                [[reduction.finish for reduction in pack] for pack in packs],
                priority=-number,
                pure=False,
            )
            for pack, future in zip(packs, futures, strict=True):
                yield _Pack(future, 1, reductions=pack, learn=self._pack_size.learn)
            number += len(packs)

    def _submitted(
        self, run: str, reduction: Reduction, submit: Callable[..., Future]
    ) -> Generator[_Batch, None, Future]:
        """Submit the leaves, the fixed tree of their sums, and the final step; return its future.

        The leaves of each chain are a batch, except those of the last chain, which belong to the
        batch of the final step.
        """
        leaves = reduction.leaves
        sums = TreeSum[_Promise](chain=1)
        for start, stop in spans(0, len(leaves), reduction.chain):
            chain = TreeSum[_Promise]()
            for leaf in leaves[start:stop]:
                if isinstance(leaf, Reduction):
                    future = yield from self._submitted(run, leaf, submit)
                    if n_last := _n_last(leaf):
                        yield _Batch(future, n_last)
                else:
                    future = submit(call_task, run, leaf, step=0.0)
                chain.add(_Promise((future,), submit))
            total = chain.total()
            if stop < len(leaves) and reduction.chain > 1:
                yield _Batch(total.future, stop - start)
            sums.add(total)
        inputs = sums.total().future if leaves else None
        # a larger priority runs first: earlier reductions before later ones, and inside of one its
        # sums and finish (half a step more) before further leaves, so that partial sums do not
        # pile up
        return submit(call_task, run, reduction.finish, inputs, step=0.5)

    def _submit(
        self, priority: float, function: Callable[..., Any], *args: Any, step: float
    ) -> Future:
        return self.client.submit(function, *args, priority=priority + step, pure=False)

    @property
    def workers(self) -> Mapping[str, int]:
        """The number of workers when they were counted last, and of those lost so far."""
        return {"workers": len(self._workers), "workers_lost": self._n_lost}

    @property
    def n_threads(self) -> int:
        return max(self.client.nthreads().values(), default=1)

    @property
    def memory_limit(self) -> int | None:
        """The smallest memory limit of any worker, in bytes; None if no worker has one."""
        limits = [
            worker["memory_limit"]
            for worker in self.client.scheduler_info(n_workers=-1)["workers"].values()
        ]
        return min((limit for limit in limits if limit), default=None)


def _gone(error: BaseException) -> InterruptedRunError:
    return InterruptedRunError(
        f"the scheduler does not answer any more ({type(error).__name__}): finished blocks stay in "
        "the store, run the same command again on a cluster that is up"
    )


class ContextPlugin(WorkerPlugin):
    """A worker plugin that stores the context of a run on every worker, and compiles the loops.

    It is a plugin, and not a task, because Dask sets up restarted and late workers by it too.
    """

    def __init__(self, name: str, context: Any) -> None:
        self.name = name
        self.context = context
        self.versions = versions_here()

    def setup(self, worker: Any) -> None:
        """Set up a worker.

        One with different versions gets no context, and the client ends it.
        """
        # first, so that a worker of other versions gets no context and can do no task of the run
        refuse_other_versions_than(self.versions)
        _keep_freed_memory()
        loops.warm_up()
        WORKER_LOG.addFilter(_is_no_failed_block)
        _contexts[self.name] = self.context

    def teardown(self, worker: Any) -> None:
        _contexts.pop(self.name, None)
        if not _contexts:
            WORKER_LOG.removeFilter(_is_no_failed_block)


def _is_no_failed_block(record: logging.LogRecord) -> bool:
    """False for Dask's log entry about a failed task of dshap: the run reports the reason once."""
    message = record.getMessage()
    return not (message.startswith("Compute Failed") and call_task.__name__ in message)


def _keep_freed_memory() -> None:
    """Let glibc reuse freed arrays of up to 32 MiB and leave `KEPT_BYTES` at the end of its heap.

    Dask's nanny sets MALLOC_TRIM_THRESHOLD_, which also freezes the mmap threshold at 128 KiB:
    every temporary array above it is then mapped and zeroed anew, and numpy kernels are twice as
    slow (a fit six times).
    """
    with contextlib.suppress(OSError, AttributeError):  # without glibc nothing is set
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 32 << 20)
        libc.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


class _Mallinfo(ctypes.Structure):
    """The struct that mallinfo2(3) returns; `fordblks` counts the free bytes of all arenas."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def _give_back() -> None:
    """Return freed memory to the system when glibc has more than `KEPT_BYTES` of it.

    glibc by itself returns only the end of its heap, so a worker would grow over its lifetime.
    """
    with contextlib.suppress(OSError, AttributeError):  # not glibc, or before 2.33
        libc = ctypes.CDLL(None)
        libc.mallinfo2.restype = _Mallinfo
        if libc.mallinfo2().fordblks > KEPT_BYTES:
            libc.malloc_trim(0)


def call_task(run: str, call: Call, *inputs: Any) -> Any:
    """Call the function of a task, on a worker that has the context of the run."""
    if run not in _contexts:  # another worker does it
        raise Reschedule
    with one_blas_thread():
        result = call.function(_contexts[run], *inputs, *call.args)
    _give_back()
    return result


def call_pack(run: str, calls: Sequence[Call]) -> Ended:
    """Call the functions of several tasks; an error of one does not stop the others."""
    if run not in _contexts:
        raise Reschedule
    context = _contexts[run]
    with one_blas_thread():
        pack = ended(
            [functools.partial(call.function, context, None, *call.args) for call in calls]
        )
    _give_back()
    return pack


def add_parts(*parts: Any) -> Any:
    """Add the results of several tasks."""
    total = functools.reduce(operator.add, parts)
    _give_back()
    return total
