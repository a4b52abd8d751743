"""Release dshap: build the packages, try each in an empty environment, and tag the commit.

    python -m tests.release --check  # everything except the tag
    python -m tests.release

The packages stay in dist/.  Nothing is uploaded and no tag is pushed.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

import dshap
from tests.pages import ROOT

BUILT_WITH = "build>=1.2"
NEEDED = ("xgboost-cpu", "scikit-learn")
"""The packages that README asks for beside dshap[report]; the CPU build is the smaller one."""


def git(folder: Path, *words: str) -> str:
    """The output of a git command in a folder; a failure raises."""
    return subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def faults_of(folder: Path, version: str, *, is_check: bool) -> list[str]:
    """Reasons not to release the checkout in `folder` as `version`."""
    faults = []
    changed = git(folder, "status", "--porcelain").splitlines()
    if changed:
        faults.append(f"{len(changed)} files are not committed, such as {changed[0][3:]}")
    if git(folder, "tag", "--list", f"v{version}"):
        faults.append(f"the tag v{version} exists: set the next version in pyproject.toml")
    stated = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["version"]
    if stated != version:
        faults.append(f"pyproject.toml has version {stated}, dshap.__version__ is {version}")
    if not is_check:
        (heading,) = re.findall(
            rf"^## {re.escape(version)}.*$", (folder / "CHANGELOG.md").read_text(), re.MULTILINE
        ) or ["no heading"]
        if not re.search(r"\(\d{4}-\d\d-\d\d\)$", heading):
            faults.append(f"CHANGELOG.md has {heading!r}: put the date there, as (2026-01-31)")
    return faults


def first_example(readme: str) -> str:
    """The Python blocks of the first section of README, as one script."""
    section = re.split(r"^## ", readme, flags=re.MULTILINE)[1]
    blocks = re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert "dshap.explain(" in "".join(blocks), "README begins with another example"
    return "\n".join(blocks)


def run(*words: str | Path, folder: Path | None = None) -> None:
    """Run a command, which prints to the terminal; a failure raises."""
    subprocess.run(list(map(str, words)), check=True, cwd=folder)


def environment(folder: Path, *packages: str | Path) -> Path:
    """Make a new virtual environment with some packages; return its folder of programs."""
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    quiet = ("--quiet", "--disable-pip-version-check")
    pins = ("-c", ROOT / "constraints.txt")
    run(programs / "python", "-m", "pip", "install", *quiet, *pins, *packages)
    return programs


def build(folder: Path) -> list[Path]:
    """Build the sdist, and the wheel from it, into dist/."""
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    programs = environment(folder, BUILT_WITH)
    run(programs / "python", "-m", "build", "--outdir", dist, ROOT)
    return sorted(dist.iterdir())


def try_package(package: Path, folder: Path) -> None:
    """Install a package into an empty environment and run README's first example with it."""
    programs = environment(folder / "environment", f"{package}[report]", *NEEDED)
    empty = folder / "empty"
    empty.mkdir()
    script = folder / "example.py"
    expected = f"import dshap\n\nassert dshap.__version__ == {dshap.__version__!r}\n"
    script.write_text(expected + first_example((ROOT / "README.md").read_text()))
    run(programs / "dshap", "--version", folder=empty)
    # isolated: neither PYTHONPATH nor this checkout may lend it a module
    run(programs / "python", "-I", script, folder=empty)


def build_and_try() -> None:
    """Build the packages and try each; a failure raises."""
    with tempfile.TemporaryDirectory(prefix="dshap-release-") as scratch:
        for number, package in enumerate(build(Path(scratch) / "build")):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            try_package(package, folder)
            print(f"{package.name}: {package.stat().st_size:,} bytes, README's first example runs")


def main(words: list[str]) -> int:
    """Check, build, try and tag; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="make no tag")
    is_check = parser.parse_args(words).check
    version = dshap.__version__
    faults = faults_of(ROOT, version, is_check=is_check)
    if faults:
        print(f"dshap {version} is not released:", *faults, sep="\n- ", file=sys.stderr)
        return 1
    try:
        build_and_try()
    except subprocess.CalledProcessError as error:
        print(f"dshap {version} is not released: {shlex.join(error.cmd)} failed", file=sys.stderr)
        return 1
    if is_check:
        print(f"dshap {version} can be released")
        return 0
    git(ROOT, "tag", "--annotate", f"v{version}", "--message", f"dshap {version}")
    print(f"tagged v{version}: push the tag and upload dist/")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
