"""The retention of rows: which runs are so old that their cubes, parts and keys are removed.

However old they are, these stay: the run whose cube is the current one, the baseline of checks, an
unfinished run, and a run whose sinks are not loaded.  Records stay, with the rankings in them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta

from dshap.core.places import Place
from dshap.core.run_ids import started_at
from dshap.cube import current_of, remove_run
from dshap.cube import runs_of as cubes_of
from dshap.history.baselines import Baselines, has_loaded_sinks, is_baseline
from dshap.history.run_folders import RunFolders, runs_with_rows
from dshap.history.run_record import RunFacts, read_record
from dshap.run.session import Session


@dataclass(frozen=True)
class Retention:
    """The rule of [retention] for the runs of a store, at the end of one of them."""

    store: Place
    span: timedelta | None
    """The age from which a run's rows are removed; None: never."""
    facts: RunFacts
    """The run that ends now."""
    explained: Collection[str]
    """The names of the explanations."""

    def remove_old(self, session: Session) -> None:
        """Remove the cubes, parts and keys of runs that are old enough, and that nothing needs."""
        if self.span is None:
            return
        in_use = self._in_use()
        for explain in self.explained:
            for run_id in self._old(cubes_of(self.store / explain), in_use):
                session.workspace.confirm()
                remove_run(self.store / explain, run_id)
        with_rows = [run.run_id for run in runs_with_rows(self.store)]
        for run_id in self._old(with_rows, in_use):
            session.workspace.confirm()
            RunFolders(self.store, run_id).drop_rows()

    def _old(self, runs: Collection[str], in_use: Collection[str]) -> Iterator[str]:
        """The runs among these that are old enough, over and loaded, and that nothing needs."""
        now = started_at(self.facts.run_id)
        for run_id in runs:
            is_old = self.span is not None and now - started_at(run_id) > self.span
            if is_old and run_id not in in_use and self._is_loaded(run_id):
                yield run_id

    def _is_loaded(self, run_id: str) -> bool:
        """Whether a run is over, and all of its sinks were loaded."""
        record = read_record(self.store, run_id)
        return record is not None and record.is_over and has_loaded_sinks(record)

    def _in_use(self) -> set[str]:
        """The run that ends now, the runs whose cubes are read, and the baselines of checks."""
        found = {self.facts.run_id}
        baselines = Baselines(self.store, self.facts.run_id)
        for explain in self.explained:
            found.add(current_of(self.store / explain) or "")
            if not is_baseline(self.facts):
                found |= set(baselines.cubes_of(explain))
        return found
