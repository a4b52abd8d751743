"""The table of the kinds of places with rows of persons, in the order in which they are erased.

Cubes come before the rows that runs have copied: these rows show which texts only erased rows had.
"""

from __future__ import annotations

from dshap.erasure.job_facts import JobFacts
from dshap.erasure.key_files import KeyFiles
from dshap.erasure.loaded_sinks import LoadedSinks
from dshap.erasure.read_rows import LearnedRows, ReadParts
from dshap.erasure.report_pages import ReportPages
from dshap.erasure.run_texts import RunTexts
from dshap.erasure.sample_copies import SampleCopies
from dshap.erasure.stored_cubes import StoredCubes
from dshap.erasure.work import HoldsRows

PLACES: tuple[HoldsRows, ...] = (
    StoredCubes(),
    JobFacts(),
    RunTexts(),
    LearnedRows(),
    ReadParts(),
    KeyFiles(),
    SampleCopies(),
    LoadedSinks(),
    ReportPages(),
)
"""One line a kind of places.  The contents of each, file by file, are in docs/personal_data.md."""
