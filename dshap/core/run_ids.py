"""The id of a run of a job: the time in UTC at which it began."""

from __future__ import annotations

from datetime import UTC, datetime

RUN_ID_FORMAT = "%Y%m%dT%H%M%SZ"
"""The form of a run id, such as 20261127T031502Z."""


def run_id_at(time: datetime) -> str:
    """The id of a run that begins at a time of any zone.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> from dshap.core.run_ids import run_id_at
    >>> run_id_at(datetime(2026, 11, 27, 3, 15, 2, tzinfo=UTC))
    '20261127T031502Z'
    """
    return time.astimezone(UTC).strftime(RUN_ID_FORMAT)


def started_at(run_id: str) -> datetime:
    """The time in the id of a run, in UTC.

    Raises
    ------
    ValueError
        The text is no id of a run.

    Examples
    --------
    >>> from dshap.core.run_ids import started_at
    >>> started_at("20261127T031502Z").isoformat()
    '2026-11-27T03:15:02+00:00'
    """
    return datetime.strptime(run_id, RUN_ID_FORMAT).replace(tzinfo=UTC)
