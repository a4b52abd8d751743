"""Sinks: the lines of erased rows are removed from the tables and folders that runs have loaded."""

from __future__ import annotations

import contextlib

from dshap.core.errors import DshapError
from dshap.erasure.work import ErasureWork, HoldsRows
from dshap.history.run_record import read_records


class LoadedSinks(HoldsRows):
    """The sinks of every target, as the job and the runs name them; others are named."""

    noun = "lines of sinks"

    def find(self, work: ErasureWork) -> set[int]:
        """The keys that lines have, such as those of persons who left the store long ago."""
        found: set[int] = set()
        for job, _, sink in work.jobs.sinks(_loaded(work)):
            with contextlib.suppress(DshapError):  # it is named when its lines are to go
                found |= sink.find_keys(work.keys.columns, job.job.name)
        return found

    def erase(self, work: ErasureWork) -> None:
        loaded = _loaded(work)
        reached = set()
        for job, short, sink in work.jobs.sinks(loaded):
            place = sink.describe()
            reached.add(place)
            name = f"[[sink]] {short}"
            if name in work.sinks:  # of another target
                name = f"{name}, {place}"
            try:
                n_lines = sink.forget(work.keys.columns, job.job.name)
            except DshapError as error:
                work.left.append(f"{name} ({error})")
                continue
            work.sinks[name] = n_lines
            work.count(self.noun, n_lines)
        for place in sorted(loaded - reached):
            work.left.append(f"{place}, which earlier runs have loaded")


def _loaded(work: ErasureWork) -> set[str]:
    """The targets that runs of the store have loaded, as their records name them."""
    return {
        str(result["relation_name"])
        for record in read_records(work.store)
        if record.is_over
        for result in record.named("sink")
        if result["status"] in ("success", "no-op") and result["relation_name"]
    }
