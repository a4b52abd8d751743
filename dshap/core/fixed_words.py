"""Types of parameters that accept a few fixed words."""

from __future__ import annotations

from typing import Literal

type MissingRule = Literal["refuse", "skip", "pass"]
"""The rule for rows that have NaN or infinity in a feature: "refuse" raises an error that counts
them, "skip" leaves them out of the result, and "pass" gives them to a model that accepts them, such
as a tree ensemble."""

type ChartLibrary = Literal["matplotlib", "altair"]
"""The library that draws a picture: Matplotlib, or Altair for a chart that shows its numbers under
the pointer."""

type DesignName = Literal[
    "auto", "exact", "kriging", "kernelshap", "permutation", "quadrature", "closed_form"
]
"""The name of a design, which chooses the coalitions: `explain` says what each name means.
"quadrature" and "closed_form" are two names for the closed form of a value function that has one."""

type LinkName = Literal[
    "identity", "logit", "log_odds", "log_probability", "expected_log_probability"
]
"""The name of a link of `dshap.values`, the function that is applied to the predictions before they
are attributed."""

type Scale = Literal[
    "probability",
    "log-odds",
    "score",
    "margin",
    "log",
    "expected log-probability",
    "signed root",
    "inverse softplus",
    "path length",
    "unit of the target",
]
"""The scale of the numbers that a model returns, such as "log-odds"; reports name it beside the
attributions."""
