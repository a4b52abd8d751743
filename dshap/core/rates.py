"""How fast a run is: the time left, and a rate in words."""

from __future__ import annotations


def seconds_left(n_left: int, rate: float | None) -> float | None:
    """The time for `n_left` things at a rate per second; None if the rate is unknown or 0."""
    if not n_left:
        return 0.0
    if not rate:
        return None
    return n_left / rate


def rate_in_words(rate: float) -> str:
    """A number of things a second, with two digits below 10."""
    if rate >= 10:
        return f"{rate:,.0f}"
    return f"{rate:.2g}"
