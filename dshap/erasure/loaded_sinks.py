"""Sinks: the lines of erased rows leave the tables and folders that the job loads."""

from __future__ import annotations

from dshap.core.errors import DshapError
from dshap.erasure.work import ErasureWork, HoldsRows
from dshap.history.run_record import read_records
from dshap.steps.sink_targets import sink_in


class LoadedSinks(HoldsRows):
    """The sinks of the job, and those that only earlier runs have loaded, which are named."""

    noun = "lines of sinks"

    def erase(self, work: ErasureWork) -> None:
        loaded = _loaded(work)
        reached: set[str] = set()
        for table in () if work.job is None else work.job.sink:
            sink = sink_in(work.job, table)
            name = f"[[sink]] {table.name or sink.label}"
            reached.add(sink.describe())
            try:
                n_lines = sink.forget(work.keys.columns, work.job.job.name)
            except DshapError as error:
                work.left.append(f"{name} ({error})")
                continue
            work.sinks[name] = n_lines
            work.count(self.noun, n_lines)
        for target in sorted(loaded - reached):
            work.left.append(f"{target}, which earlier runs have loaded")


def _loaded(work: ErasureWork) -> set[str]:
    """The targets that runs of the store have loaded, as their records name them."""
    return {
        str(result["relation_name"])
        for record in read_records(work.store)
        if record.is_over
        for result in record.named("sink")
        if result["status"] in ("success", "no-op") and result["relation_name"]
    }
