"""The designs by name, as job files and stored fingerprints name them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import get_type_hints

from dshap.core.records import JSON
from dshap.core.types import Design

KINDS: Mapping[str, str] = {
    "exact": "dshap.designs.exact:exact",
    "kernelshap": "dshap.designs.kernelshap:kernelshap",
    "kriging": "dshap.designs.kriging:kriging",
    "permutation": "dshap.designs.permutation:permutation",
    "local": "dshap.designs.on_graphs.local:local",
    "connected": "dshap.designs.on_graphs.connected:connected",
    "connected_regression": "dshap.designs.on_graphs.connected_regression:connected_regression",
    "myerson": "dshap.designs.on_graphs.myerson:myerson",
}
"""Name of a design -> the function that makes it; job files accept all of them."""


def restored_design(fingerprint: Mapping[str, JSON]) -> Design:
    """Make a design again from its stored `fingerprint`, which may have been through JSON.

    Examples
    --------
    >>> import dshap
    >>> design = dshap.designs.kernelshap(8, 64, seed=3)
    >>> dshap.designs.restored_design(design.fingerprint()) == design
    True
    """
    parameters = dict(fingerprint)
    module, _, name = KINDS[str(parameters.pop("design"))].partition(":")
    kind = get_type_hints(getattr(importlib.import_module(module), name))["return"]
    design: Design = kind.restored(parameters)
    return design
