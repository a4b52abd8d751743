"""Public names that a later version removes: they work until then, and warn."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable


def deprecated[**P, R](
    *, since: str, removed_in: str, instead: str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a public function that a later version removes.

    Each call warns with a `FutureWarning`, which Python shows to users by default.

    Parameters
    ----------
    since, removed_in : str
        The first version that warns and the version that removes the function, such as "0.4.0".
    instead : str
        The replacement, as the user writes it: "dshap.to_frame(cube)".
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def warning(*args: P.args, **kwargs: P.kwargs) -> R:
            warnings.warn(
                f"{function.__name__} is deprecated since dshap {since} and will be removed in "
                f"{removed_in}: use {instead}",
                FutureWarning,
                stacklevel=2,
            )
            return function(*args, **kwargs)

        return warning

    return decorate
