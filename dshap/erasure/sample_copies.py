"""The folder of a sample, `STORE.sample`: it is removed, and the next sample makes it again."""

from __future__ import annotations

from dshap.core.places import Place
from dshap.erasure.work import ErasureWork, HoldsRows
from dshap.storage.folder import Folder

ABOUT = "sample.json"
"""The file that marks a folder as that of a sample, so that the next sample may replace it."""


class SampleCopies(HoldsRows):
    """The sample of a job, with its rows, its cube and its page."""

    noun = "samples"

    def erase(self, work: ErasureWork) -> None:
        place = sample_of(work.store)
        if Folder(place).has_file(ABOUT):
            for name in Folder(place).list():
                if name != ABOUT:
                    Folder(place).delete(name)
            Folder(place.parent).discard_room(place.name)
            work.count(self.noun)


def sample_of(store: Place) -> Place:
    """The folder of the sample of a job with this store."""
    return store.with_name(f"{store.name}.sample")
