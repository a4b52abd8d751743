"""The tables [incremental] and [prepare] of a job file: carried rows and methods."""

from __future__ import annotations

import datetime
import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, model_validator

from dshap.core.errors import shown
from dshap.jobfile.fields import Count
from dshap.jobfile.kinds import Table

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
"""Letter of a unit of time -> its name in `datetime.timedelta`."""
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")


def duration_of(given: Any) -> datetime.timedelta:
    """A time span written as a number and a unit, as in "24h", "1.5d" or "2w".

    Raises
    ------
    ValueError
        Another text, or a span of no time.
    """
    if isinstance(given, datetime.timedelta):
        return given
    found = None
    if isinstance(given, str):
        found = _DURATION.fullmatch(given.strip())
    if found is None or float(found[1]) == 0:
        raise ValueError(
            f'{shown(given)} is not a time span: give a number and a unit, as in "90m", "24h", '
            '"30d" '
            'or "2w"'
        )
    try:
        return datetime.timedelta(**{UNITS[found[2]]: float(found[1])})
    except OverflowError:
        raise ValueError(f"{shown(given)} is too long: give a shorter time span") from None


Duration = Annotated[datetime.timedelta, BeforeValidator(duration_of)]


class IncrementalTable(Table):
    """The table [incremental]: whether a run explains only changed rows."""

    strategy: Literal["none", "digest"] = "none"
    """"digest": each run writes a new cube, into which rows are copied from the cube before if
    their key and used columns are unchanged; "none": all runs share one cube."""
    deletes: Literal["remove", "mark", "keep"] = "remove"
    """The treatment, in the sinks, of keys that are no longer in the table: "remove" deletes their
    lines, "mark" sets their status to "deleted", "keep" leaves them unchanged."""

    @model_validator(mode="after")
    def _check(self) -> IncrementalTable:
        if self.strategy == "none" and self.deletes != "remove":
            raise ValueError(
                f'deletes = "{self.deletes}" needs the keys of the run before: give strategy = '
                '"digest" too'
            )
        return self


class RetentionTable(Table):
    """The table [retention]: how long rows of persons stay in the store."""

    days: Count | None = None
    """The number of days after which cubes, parts, keys and the rows for learning are removed.  The
    current run, the baseline of checks, and runs whose sinks are not loaded stay.  By default only
    [job] keep_runs decides."""

    @property
    def span(self) -> datetime.timedelta | None:
        """The days as a time span; None if no number is given."""
        if self.days is None:
            return None
        return datetime.timedelta(days=self.days)


class PrepareTable(Table):
    """The table [prepare]: how long a learned method is used."""

    every: Duration | None = None
    """The age at which the method is learned again, from the rows of the run, and all rows are
    explained again.  By default it is used until the model, an option or a column changes."""
