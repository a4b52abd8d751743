"""Build the site into build/site, or the folder given, and check it; status 1 if anything is amiss."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import main as sphinx_build

from website.checks import check
from website.notebooks import FailedNotebooksError
from website.sources import OWN, ROOT, lay_out


def build(site: Path) -> int:
    """Build the site anew; the number of its faults, each of which is printed."""
    sources = site.with_name(f"{site.name}-sources")
    copies = site.with_name("jupyter_execute")  # of the notebooks, which myst-nb keeps there
    for folder in (site, sources):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        lay_out(sources)
    except FailedNotebooksError as error:
        print(error, file=sys.stderr)
        return 1
    settings = ["-c", str(OWN), "-d", str(sources / ".doctrees")]
    if sphinx_build(["-q", "-n", "-W", "--keep-going", *settings, str(sources), str(site)]):
        return 1
    faults = check(site)
    for fault in faults:
        print(fault, file=sys.stderr)
    for folder in (sources, copies):
        shutil.rmtree(folder, ignore_errors=True)
    return len(faults)


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"
    sys.exit(min(build(place.resolve()), 1))
