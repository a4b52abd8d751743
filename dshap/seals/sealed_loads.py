"""The loads of sinks that a statement names: the cube and the rows that each was made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date

from dshap.core.places import Place
from dshap.core.records import BoolArray
from dshap.cube.arrays import read_run
from dshap.cube.current import has_nights
from dshap.history.key_joins import KeyJoins
from dshap.history.row_history import NightHistory
from dshap.history.run_folders import RunFolders, made_by
from dshap.seals.attestations import read_envelope
from dshap.seals.statement import Resource
from dshap.seals.subjects import LOAD
from dshap.sinks.line_digests import digest_of_load
from dshap.sinks.records import LastLoad, RowHistory, SingleRun, Sink


@dataclass(frozen=True)
class SealedLoad:
    """A load of a sink, as the statement of a run names it."""

    store: Place
    run_id: str
    subject: Resource

    @property
    def name(self) -> str:
        """The name of the sink in the record of the run."""
        return self.subject.name.removeprefix(f"{LOAD}/")

    @property
    def is_of_backfill(self) -> bool:
        return bool(self.subject.annotations["backfill"])

    @property
    def last(self) -> LastLoad:
        """The date of the load, and the run since which it wrote changed rows."""
        day = str(self.subject.annotations["as_of"])
        since = str(self.subject.annotations["since"])
        return LastLoad(date.fromisoformat(day) if day else None, since)

    @property
    def cube(self) -> Place:
        """The place of the cube that was loaded, which may be gone."""
        folder = self.store / self._explain
        if has_nights(folder):
            return folder / str(self.subject.annotations["cube"]).rpartition("/")[2]
        return folder

    @property
    def _explain(self) -> str:
        return str(self.subject.annotations["explain"])

    @property
    def is_there(self) -> bool:
        """Whether the cube is there."""
        return read_run(self.cube) is not None

    def history(self, joins: KeyJoins) -> RowHistory:
        """The runs that computed the rows of the cube."""
        cube = self.cube
        if has_nights(cube.parent):
            return NightHistory(RunFolders(self.store, cube.name), self._explain, joins)
        method = str((read_run(cube) or {}).get("method"))
        return SingleRun(made_by(self.store, self._explain, self.run_id), method)

    def digest(self, sink: Sink, history: RowHistory) -> tuple[str, int] | None:
        """The digest and the number of the lines that the load writes now.

        None if the run since which rows were written is not known any more.
        """
        chosen: BoolArray | None = None
        if self.last.since:
            chosen = history.changed_since(self.last.since, history.method)
            if chosen is None:
                return None
        return digest_of_load(sink, self.cube, history, chosen, as_of=self.last.as_of)

    def renewed(self, sink: Sink, joins: KeyJoins) -> Resource:
        """The subject of the load with the lines that its cube has now.

        It stays as it is if these cannot be computed: the cube is gone, or the run since which
        rows were written.
        """
        if not self.is_there:
            return self.subject
        found = self.digest(sink, self.history(joins))
        if found is None:
            return self.subject
        digest, n_lines = found
        about = {**self.subject.annotations, "lines": n_lines}
        return replace(self.subject, digest={"sha256": digest}, annotations=about)


def loads_of(store: Place, run_id: str) -> Iterator[SealedLoad]:
    """The loads that the statement of a run names; none if it has no statement.

    Raises
    ------
    ValueError
        The statement cannot be read.
    """
    envelope = read_envelope(store, run_id)
    if envelope is None:
        return
    for given in envelope.statement["subject"]:
        subject = Resource.read(given)
        if subject.annotations.get("kind") == LOAD:
            yield SealedLoad(store, run_id, subject)
