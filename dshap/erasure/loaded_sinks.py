"""Sinks: the lines of erased rows leave the tables and folders that the job loads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from dshap.core.errors import DshapError
from dshap.erasure.work import ErasureWork, HoldsRows
from dshap.history.run_record import read_records
from dshap.jobfile.schema import Job
from dshap.steps.sink_targets import sink_in


class LoadedSinks(HoldsRows):
    """The sinks of the job, and those that only earlier runs have loaded, which are named."""

    noun = "lines of sinks"

    def find(self, work: ErasureWork) -> set[int]:
        """The keys that lines have, such as those of persons who left the store long ago."""
        job = work.job
        found: set[int] = set()
        if job is None:
            return found
        for table in job.sink:
            with contextlib.suppress(DshapError):  # it is named when its lines are to go
                found |= sink_in(job, table).find_keys(work.keys.columns, job.job.name)
        return found

    def erase(self, work: ErasureWork) -> None:
        reached = set() if work.job is None else set(self._erase_in(work, work.job))
        for target in sorted(_loaded(work) - reached):
            work.left.append(f"{target}, which earlier runs have loaded")

    def _erase_in(self, work: ErasureWork, job: Job) -> Iterator[str]:
        """Remove the lines from each sink of a job; yields its whole address, reached or not."""
        for table in job.sink:
            sink = sink_in(job, table)
            name = f"[[sink]] {table.name or sink.label}"
            yield sink.describe()
            try:
                n_lines = sink.forget(work.keys.columns, job.job.name)
            except DshapError as error:
                work.left.append(f"{name} ({error})")
                continue
            work.sinks[name] = n_lines
            work.count(self.noun, n_lines)


def _loaded(work: ErasureWork) -> set[str]:
    """The targets that runs of the store have loaded, as their records name them."""
    return {
        str(result["relation_name"])
        for record in read_records(work.store)
        if record.is_over
        for result in record.named("sink")
        if result["status"] in ("success", "no-op") and result["relation_name"]
    }
