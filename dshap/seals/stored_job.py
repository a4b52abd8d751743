"""The stored job of a run, without secrets, so that the run can be replayed.

Tables of a job file are stored as they are written, so a value of the environment appears as
`{{ env_var(NAME) }}`.  A job that was made in Python is stored as the tables of its fields.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dshap.core.addresses import MASK, safe_value
from dshap.core.errors import InputError
from dshap.core.places import Place
from dshap.core.user_code import make_importable
from dshap.cube.arrays import RUNS
from dshap.jobfile.listing import shown_setting
from dshap.jobfile.reading import job_of_tables
from dshap.jobfile.schema import Job
from dshap.jobfile.settings import with_target
from dshap.storage.folder import Folder
from dshap.storage.seals import sealed_record, whole_record

JOB = "job.json"
"""The file of the job in the folder of a run."""
OF_ITS_MACHINE = ("cluster", "worker", "notify", "seal", "report")
"""Tables about machines, notifications, seals and pages, which replays and checks do not need."""


@dataclass(frozen=True)
class StoredJob:
    """The tables of a job, with the settings of the command."""

    folder: str
    """The folder of the job file, to which its paths are relative."""
    tables: Mapping[str, Any] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    """The texts of --set."""

    @classmethod
    def of(cls, job: Job, job_file: str, settings: Sequence[str], target: str = "") -> StoredJob:
        """Build the record from the job file, or from the job's fields if it has no file."""
        file = Path(job_file)
        try:
            tables = with_target(tomllib.loads(file.read_text(encoding="utf-8")), target)
        except (OSError, ValueError):
            tables = job.model_dump(mode="json", exclude_unset=True)
        # dates of TOML become texts, because JSON has no dates
        plain = json.loads(json.dumps(_safe(tables), default=str))
        return cls(str(file.absolute().parent), plain, tuple(map(shown_setting, settings)))

    @classmethod
    def read(cls, store: Place, run_id: str) -> StoredJob:
        """Read the stored job of a run.

        Raises
        ------
        InputError
            The run has stored no job, or the file is damaged or was altered.
        """
        name = f"{RUNS}/{run_id}/{JOB}"
        content = Folder(store).get(name)
        if content is None:
            raise InputError(f"{store} has no {name}: give the job of that run with --job JOB.toml")
        try:
            found = whole_record(JOB, content)
            return cls(found["folder"], found["tables"], tuple(found["settings"]))
        except (ValueError, TypeError, KeyError):
            raise InputError(
                f"{store / name} is damaged: give the job of that run with --job JOB.toml"
            ) from None

    def to_bytes(self) -> bytes:
        """The job as a sealed record."""
        return sealed_record(JOB, asdict(self))

    def job(
        self,
        store: Place | None,
        more: Sequence[str] = (),
        without: Collection[str] = OF_ITS_MACHINE,
    ) -> Job:
        """The stored tables as a checked `Job`.

        Parameters
        ----------
        store : Place, optional
            The present path of its store, if it was moved; None: the recorded path.
        more : sequence of str
            Further texts of --set; they replace the settings of the recorded command.
        without : collection of str
            Names of tables to leave out: their files and secrets need not be on this machine.

        Raises
        ------
        InputError
            A secret of the job is masked, or a variable of the environment is not set here.
        """
        tables = {name: each for name, each in self.tables.items() if name not in without}
        replaced = [f"{name}." for name in without]
        if store is not None:
            tables["job"] = {**tables.get("job", {}), "store": str(store)}
            replaced.append("job.store")
        settings = [each for each in self.settings if not each.strip().startswith(tuple(replaced))]
        if any(MASK in each for each in settings) or MASK in json.dumps(tables):
            raise InputError(
                "a secret of the job is masked in the store: give the job with --job JOB.toml, and "
                "write {{ env_var(NAME) }} in the place of the secret next time"
            )
        make_importable(Path(self.folder))
        said = "the job that a run has recorded"
        return job_of_tables(tables, [*settings, *more], Path(self.folder), said)


def _safe(value: Any) -> Any:
    """The tables with all secrets masked, at any depth."""
    match value:
        case dict():
            return {name: _safe(safe_value(name, each)) for name, each in value.items()}
        case list():
            return [_safe(each) for each in value]
    return value
