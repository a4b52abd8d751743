"""The tables [seal] and [notify] of a job file: signatures and notifications."""

from __future__ import annotations

from typing import Literal

from dshap.jobfile.fields import NotEmpty
from dshap.jobfile.kinds import Table
from dshap.jobfile.paths import KeyPath


class SealTable(Table):
    """The table [seal]: the key that the statement of each run is signed with."""

    key: KeyPath | None = None
    """A private key of Ed25519: the path of a file of PEM text, or {{ env_var(NAME) }} whose value is
    that text or a path.  Left out, statements are not signed, and contain a note on this."""


class NotifyTable(Table):
    """The table [notify]: a command that is started when `dshap run` is over."""

    command: NotEmpty | None = None
    """The command, such as "./page-me.sh", started in the folder of the job file without a shell.  It
    reads the facts of the run as JSON on its standard input."""
    when: Literal["problem", "always"] = "problem"
    """"problem": where the exit status is not 0; "always": after every run."""
