"""The tables [seal] and [notify] of a job file: signatures and notifications."""

from __future__ import annotations

from typing import Literal

from dshap.jobfile.fields import NotEmpty
from dshap.jobfile.kinds import Table
from dshap.jobfile.paths import KeyPath


class SealTable(Table):
    """The table [seal]: the key with which the statement of each run is signed."""

    key: KeyPath | None = None
    """A private key of Ed25519: the path of a file with PEM text, or {{ env_var(NAME) }} whose
    value is this text or a path.  Without a key, statements are not signed, and contain a note on
    this."""


class NotifyTable(Table):
    """The table [notify]: a command that is started at the end of `dshap run`."""

    command: NotEmpty | None = None
    """The command, such as "./page-me.sh", started in the folder of the job file without a shell.  It
    reads the facts of the run as JSON on its standard input."""
    when: Literal["problem", "always"] = "problem"
    """When it is started: "problem", if the exit status is not 0; "always", after every run."""
