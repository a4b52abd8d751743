"""Facts about the rows of a job, stored beside its store: samples, categories, a census, a fit."""

from __future__ import annotations

from dshap.core.places import Place
from dshap.cube.arrays import is_job_store
from dshap.cube.reference_copy import FINISHED, mark_of, states_of
from dshap.erasure.work import ErasureWork, HoldsRows

WITH_ROWS = ("background", "categories", "census", "classes", "model", "sample")
"""The first words of the names of facts that contain rows, texts, or extremes of columns."""


class JobFacts(HoldsRows):
    """The facts in the store of a job; the next run computes each of them again."""

    noun = "facts"

    def erase(self, work: ErasureWork) -> None:
        if not is_job_store(work.store):  # the states of a cube go with its rows
            return
        states = states_of(work.store)
        gone = [name for name in states.names() if name.partition("-")[0] in WITH_ROWS]
        for name in gone:
            states.remove(name)
        _list_again(work.store)
        work.count(self.noun, len(gone))


def _list_again(store: Place) -> None:
    """List the files left beside the cubes, where a finished run has listed it."""
    mark = mark_of(store)
    content = mark.whole_one(FINISHED)
    if content is not None:
        now = {**content, "states": list(states_of(store).names())}
        if now != content:
            mark.put_over(FINISHED, now)
