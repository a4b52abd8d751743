"""Every command of docs/clusters.md, and of docs/stores.md about buckets, run on this machine.

    python -m tests.documented [--only WORD]

It prints each command, how it was run and its exit status.  SLURM is brought up by
cluster/slurm_here.sh, hosts are two sshd on loopback, and buckets are moto's.  kubectl, podman and
aws have stand-ins (`stand_ins.py`).  `HOW` names each command that does not run as it stands, with
what is done in its place.  Exit status 1 where a command fails, or is neither run nor named there:
a command that is new in a page is not forgotten.  It needs root, SLURM and sshd (exit status 2).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.buckets import running_s3
from tests.documented.commands import Section, commands_of
from tests.documented.stand_ins import put_on_path
from tests.engine.clusters.ssh_hosts import two_hosts
from tests.pages import ROOT, Block

NEEDED = ("slurmctld", "slurmd", "munged", "unshare", "sshd", "ssh-keygen")
STATUS = "~~~~ exit status "
SLURM = str(ROOT / "cluster" / "slurm_here.sh")
PATIENCE_S = 600
ALL_OK = "dshap status build/array | grep '2,000 ok, 0 pending'"


@dataclass(frozen=True)
class How:
    """How a command is run that does not run as it stands, or does not show that it worked."""

    said: str
    """What is done, in words; printed beside the command."""
    edits: Mapping[str, str] = field(default_factory=dict)
    """Text -> what stands in its place."""
    line: str = ""
    """A command that is run in its place."""
    under: str = ""
    """A program that is given the shell of the commands."""
    before: str = ""
    """Lines that are run before."""
    after: str = ""
    """Lines that are run after, and must succeed."""


EMPTY_QUEUE = 'while [ "$(squeue --noheader)" != "" ]; do sleep 0.2; done'
EXTRA = (
    "python -c \"import importlib.metadata as m; assert '{0}' in m.metadata('dshap')"
    ".get_all('Provides-Extra')\""
)
HOW: Mapping[str, How] = {
    # titled blocks
    "slurm.sh": How(
        "on two virtual nodes of two cores; then all rows are explained",
        edits={"1-64": "1-3", "auto/64": "auto/3", "per-task=4": "per-task=1"},
        under=SLURM,
        before="rm -rf build/array",
        after=f"{EMPTY_QUEUE}; {ALL_OK}",
    ),
    "learn.sh": How(
        "on the same nodes; then one shard explains all rows",
        edits={"1-16": "1-2", "auto/16": "auto/2", "per-task=4": "per-task=1"},
        under=SLURM,
        before="rm -rf build/array",
        after=f"{EMPTY_QUEUE}; dshap run array.toml --shard 1/1 -q; {ALL_OK}",
    ),
    "aws_batch.sh": How(
        "read by aws and by its model of the service; commands run one after the other",
        edits={"size=64": "size=3", "auto/64": "auto/3"},
        before="rm -rf build/array",
        after=ALL_OK,
    ),
    "apply.sh": How("valid by the schemas; each command of the pods is run in mounts like a pod's"),
    "shards.sh": How(
        "valid by the schemas; suspended Jobs are run once they are patched",
        before='rm -rf "$DSHAP_STAND_INS/volume-shared"',
    ),
    "copy.sh": How(
        "to another name: in_a_bucket.py has taken the first",
        edits={"s3://my-bucket/team/cube.zarr": "s3://my-bucket/team/copy.zarr"},
    ),
    "image.sh": How(
        "each line of cluster/Containerfile is carried out in mounts; nothing is pushed",
        before=f"cd {ROOT}",
    ),
    # commands in sentences
    "dshap run job.toml --cluster office.toml": How(
        "run above, with a store of its own", line="true"
    ),
    "dshap run job.toml --cluster slurm": How(
        "by clusters/slurm.toml, the page's file with the names of the two nodes",
        line="dshap run job.toml --cluster slurm --set job.store=slurm.zarr",
        under=SLURM,
        before="mkdir clusters; mkdir logs; cp slurm.toml clusters",
    ),
    "cluster/slurm_here.sh dshap run job.toml --cluster cluster/slurm_here.toml": How(
        "as it stands, beside a link to cluster/", before=f"ln -s {ROOT}/cluster; rm -rf lifts.zarr"
    ),
    "dshap run job.toml --shard auto/64": How(
        "as the last pod of an Indexed Job", before="export JOB_COMPLETION_INDEX=63"
    ),
    **{
        f"pip install {quote}dshap[{extra}]{quote}": How(
            f"the installed dshap has the extra {extra}", line=EXTRA.format(extra)
        )
        for extra, quote in (("slurm", '"'), ("ssh", '"'), ("gateway", '"'), ("cloud", "'"))
    },
    "pip install dshap": How("the image above is made of its wheel", line="true"),
}
"""Title of a block, or command of a sentence -> how it is run.  What is not named is run as it stands."""
PROFILES = {
    "office.toml": "",
    "slurm.toml": "",
    "pods.toml": "",
    "growing.toml": "",
    "sized.toml": "",
    "pool.toml": "",
    "hosts.toml": "dshap run job.toml --cluster hosts.toml --set job.store=hosts.zarr",
    "gateway.toml": "dshap job job.toml --cluster gateway.toml",
}
"""Profile of the page -> a command that takes it, where the page has none.  A gateway is not started."""
SIZES = {
    "workers = 8": "workers = 2",
    "cores = 16": "cores = 1",
    "cores = 8": "cores = 1",
    "cores = 4": "cores = 1",
    '"64GiB"': '"2GiB"',
    '"32GiB"': '"2GiB"',
    '"16GiB"': '"2GiB"',
}
"""Sizes of workers, and what this machine has."""


@dataclass(frozen=True)
class Ended:
    """A command and how it ended."""

    place: str
    line: str
    said: str
    status: int
    printed: str

    def __str__(self) -> str:
        said = f"\n      {self.said}" if self.said else ""
        shown = self.line.replace("\n", "\n      ")
        return f"{self.status:4}  {shown}  [{self.place}]{said}"


class Story:
    """The commands of a section, run in a folder in the order in which they stand."""

    def __init__(self, folder: Path, only: str = "") -> None:
        self.folder = folder
        self.only = only
        self.edits: dict[str, dict[str, str]] = {}
        """Title of a file -> texts, and what stands in their places here."""
        self.ended: list[Ended] = []
        stand_ins = put_on_path(folder)
        kept = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        programs, _, rest = stand_ins["PATH"].partition(os.pathsep)
        path = os.pathsep.join([programs, str(Path(sys.executable).parent), rest])
        self.environment = {**kept, **stand_ins, "PATH": path, "MPLBACKEND": "agg"}
        self.work = folder / "work"
        self.work.mkdir()

    def tell(self, section: Section) -> None:
        """Run all of a section."""
        first = len(self.ended)
        for block in section.blocks:
            self.run_block(section, block)
        ran = {ended.line for ended in self.ended[first:]}
        for line in section.in_text():
            if line not in ran:
                self._run(f"{section.page}, in a sentence", [line], HOW.get(line, How("")))

    def run_block(self, section: Section, block: Block) -> None:
        place = f"{section.page}, {block.title or block.language}"
        if block.title:
            self._write(block)
        if block.language == "sh":
            self._run(place, commands_of(block), HOW.get(block.title, How("")))
        if block.language == "python" and not (block.title and is_module(block)):
            self._python(place, block)
        if block.language == "toml" and "[cluster]" in block.text:
            line = PROFILES[block.title]
            if line:
                self._run(place, [line], How("the page shows the profile"))

    def _write(self, block: Block) -> None:
        text = block.text
        for old, new in self.edits.get(block.title, {}).items():
            assert old in text, f"{block.title} has no longer {old!r}"
            text = text.replace(old, new)
        if block.title in PROFILES:
            for old, new in SIZES.items():
                text = text.replace(old, new)
        (self.work / block.title).write_text(text)

    def _python(self, place: str, block: Block) -> None:
        """A block of Python, after the blocks without a title that stand above it."""
        file = self.folder / "block.py"
        before = file.read_text() if file.exists() else ""
        file.write_text(f"{before}\n{block.text}")
        self._run(place, [f'python -c "$(cat {file})"'], How(block.text.strip().splitlines()[-1]))
        if block.title:
            file.write_text(before)

    def _run(self, place: str, lines: list[str], how: How) -> None:
        """Run commands in one shell, and print how each ended."""
        given = [how.line or _edited(line, how.edits) for line in lines]
        if self.only and not any(self.only in line for line in [place, *given]):
            return
        marked = [f"{line}\necho '{STATUS}'$?" for line in [*given, how.after or "true"]]
        script = "\n".join([how.before, *marked])
        shell = [how.under] if how.under else []
        began = time.monotonic()
        done = subprocess.run(
            [*shell, "bash", "-c", script],
            cwd=self.work,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=PATIENCE_S,
        )
        parts = re.split(rf"^{STATUS}(\d+)\n", done.stdout, flags=re.MULTILINE)
        statuses = [int(status) for status in parts[1::2]] + [done.returncode or 1] * len(marked)
        after = statuses[len(lines)]
        for line, ran, status, printed in zip(
            lines, given, statuses[: len(lines)], [*parts[0::2], *[""] * len(lines)], strict=False
        ):
            said = "; ".join(filter(None, ["" if ran == line else ran, how.said]))
            self.ended.append(Ended(place, line, said, status or after, printed))
            print(self.ended[-1], flush=True)
        if after or any(statuses[: len(lines)]):
            print(done.stdout, flush=True)
        print(f"      {time.monotonic() - began:.0f} s", flush=True)


def _edited(line: str, edits: Mapping[str, str]) -> str:
    for old, new in edits.items():
        line = line.replace(old, new)
    return line


def is_module(block: Block) -> bool:
    """Whether a block of Python is a file that a job imports."""
    return block.text.startswith("def ")


def missing_programs() -> list[str]:
    """The programs that are needed and not there."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    missing = [name for name in NEEDED if shutil.which(name, path=path) is None]
    if os.geteuid() != 0:
        missing.append("root, who starts their daemons")
    return missing


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="commands with this word alone")
    only = parser.parse_args(words).only
    if missing := missing_programs():
        print(f"tests.documented: there is no {', no '.join(missing)}", file=sys.stderr)
        return 2
    ended: list[Ended] = []
    for story in (_clusters, _buckets):
        with tempfile.TemporaryDirectory(prefix="documented-") as folder:
            ended += story(Path(folder), only)
    failed = [each for each in ended if each.status]
    print(f"{len(ended)} commands, {len(failed)} failed")
    for each in failed:
        print(each)
    gone = () if only else sorted(set(HOW) - names_of(ended))
    for name in gone:
        print(f"no page has {name}: take it out of HOW")
    return int(bool(failed or gone))


def names_of(ended: list[Ended]) -> set[str]:
    """The titles of blocks and the commands that were met."""
    return {each.place.rpartition(", ")[2] for each in ended} | {each.line for each in ended}


def _clusters(folder: Path, only: str) -> list[Ended]:
    section = Section.of("docs/clusters.md")
    story = Story(folder, only)
    with two_hosts(_made(folder / "hosts")) as hosts:
        names = ", ".join(f'"{name}"' for name in hosts.names)
        story.edits["hosts.toml"] = {
            '"node1", "me@node2:2222"': names,
            "10.0.0.5": "127.0.0.1",
            '"~/.ssh/id_ed25519"': f'"{hosts.client_key}"\nknown_hosts = "{hosts.known_hosts}"',
            "/opt/dshap/bin/python": sys.executable,
        }
        story.edits["slurm.toml"] = {
            '"long"': '"here"',
            '"ib0"': '"lo"',
            "--constraint=avx512": "--comment=avx512",
            "module load python/3.13": "echo module load python/3.13",
            '"/scratch"': f'"{folder}"',
            "wait = 3600": "wait = 120",
        }
        # workers stay this long after their run
        story.edits["pods.toml"] = {'secret = "dshap-tls"': 'secret = "dshap-tls"\nwait = 30'}
        story.tell(section)
    return story.ended


def _buckets(folder: Path, only: str) -> list[Ended]:
    """The section of docs/stores.md, after the first block of its page, which makes a cube."""
    story = Story(folder, only)
    with _my_bucket() as environment:
        story.environment |= environment
        first = next(each for each in Section.of("docs/stores.md").blocks if not each.title)
        story.run_block(Section("docs/stores.md", ""), first)
        story.tell(Section.of("docs/stores.md", "In a bucket"))
    return story.ended


@contextlib.contextmanager
def _my_bucket() -> Iterator[dict[str, str]]:
    """The environment in which the bucket of the pages can be reached."""
    import boto3

    with pytest.MonkeyPatch.context() as patch, running_s3() as service:
        for name, text in service.environment.items():
            patch.setenv(name, text)
        boto3.client("s3", endpoint_url=service.url).create_bucket(Bucket="my-bucket")
        yield dict(service.environment)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
