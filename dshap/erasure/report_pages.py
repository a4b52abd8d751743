"""Pages: the page of each job is written again, from the rows that are left in the store."""

from __future__ import annotations

from pathlib import Path

from dshap.core.errors import DshapError
from dshap.cube import cube_paths
from dshap.erasure.work import ErasureWork, HoldsRows
from dshap.history.run_record import read_records
from dshap.jobfile.schema import Job


class ReportPages(HoldsRows):
    """The pages of [report], of every target, and the files of rows beside them."""

    noun = "pages"

    def erase(self, work: ErasureWork) -> None:
        written = set()
        for page, job in work.jobs.pages():
            written.add(page)
            if page.exists():
                self._write_again(work, page, job)
        for page in sorted(work.jobs.unread_pages - written):
            if page.exists():
                work.left.append(f"the page {page}, whose job cannot be read here")

    def _write_again(self, work: ErasureWork, page: Path, job: Job) -> None:
        from dshap import report

        has_rows = page.with_name(f"{page.stem}_rows").is_dir()
        try:
            report.page(
                work.store,
                page,
                all_rows=has_rows,
                segments=job.report.segments,
                what_if=job.report.what_if and _has_models(work),
                about=_about(work),
                force=True,
            )
        except (DshapError, OSError) as error:
            work.left.append(f"the page {page} ({error})")
            return
        work.count(self.noun)


def _has_models(work: ErasureWork) -> bool:
    """Whether every cube that is read still has the model of a what-if."""
    from dshap.report.what_if.keeping import has_what_if

    return all(map(has_what_if, cube_paths(work.store)))


def _about(work: ErasureWork) -> dict[str, str]:
    """The facts about the last run, as a page shows them."""
    over = [each for each in read_records(work.store) if each.is_over]
    if not over:
        return {}
    return {"job": str(over[-1].about.get("job", "")), "run": over[-1].run_id}
