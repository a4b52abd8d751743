"""The commands of the pages about clusters and buckets are all run, by a script of the project."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.documented.__main__ import missing_programs
from tests.documented.commands import Section, commands_of, is_command
from tests.pages import ROOT, Block


@pytest.mark.parametrize(
    "span",
    [
        'pip install "dshap[slurm]"',
        "dshap run job.toml --cluster slurm",
        "cluster/slurm_here.sh sinfo",
        "kubectl apply -f run.yaml",
    ],
)
def test_a_command_in_a_sentence(span):
    assert is_command(span)


@pytest.mark.parametrize(
    "span",
    [
        "dshap run",
        "dshap cluster manifest",
        "dshap verify --repair",
        "dshap run JOB",
        "dask",
        "sbatch --requeue",
        "--wait",
    ],
)
def test_the_name_of_a_command_is_none(span):
    assert not is_command(span)


def test_the_commands_of_a_block():
    block = Block("sh", "", "a=1  # one\n# none\nb \\\n  c\n\nd\n")
    assert commands_of(block) == ["a=1  # one", "b \\\n  c", "d"]


def test_a_section_ends_where_the_next_begins():
    section = Section.of("docs/stores.md", "In a bucket")
    assert section.blocks
    assert "## " not in section.text
    assert "pip install 'dshap[cloud]'" in section.in_text()


@pytest.mark.systems
@pytest.mark.cluster
@pytest.mark.timeout(3_600)
def test_every_command_of_the_pages_ends_well():
    """A command that is new in a page is run as it stands, unless the script says how."""
    if missing := missing_programs():
        pytest.skip(f"there is no {', no '.join(missing)}")
    for name in ("dask_jobqueue", "asyncssh", "obstore", "kubernetes_validate"):
        pytest.importorskip(name)
    command = [sys.executable, "-m", "tests.documented"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
