"""Types of the keys of [cluster] that Kubernetes reads: names, labels, tolerations, resources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from dshap.jobfile.fields import or_say, table_like, unchanged
from dshap.jobfile.kinds import Table

PodName = Annotated[
    str,
    Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?$"),
    or_say("give a name of small letters, digits and '-', of at most 50"),
]
"""The type of the beginning of names of Kubernetes objects, to which the manifest adds endings."""
_PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_PART}(\.{_PART})*"
_SUBDOMAIN_LENGTH = 253  # the most characters of a DNS subdomain (RFC 1123), as Kubernetes has it
ObjectName = Annotated[
    str,
    Field(pattern=rf"^{_SUBDOMAIN}$", max_length=_SUBDOMAIN_LENGTH),
    or_say(
        "give a name of small letters, digits, '-' and '.', a letter or digit beside each '.', of at "
        f"most {_SUBDOMAIN_LENGTH}"
    ),
]
"""The type of the name of an existing Kubernetes object."""
ObjectNames = Annotated[tuple[ObjectName, ...], Field(strict=False)]
_LABEL = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LabelValue = Annotated[
    str,
    Field(pattern=rf"^({_LABEL})?$"),
    or_say(
        "give text in quotes of letters, digits, '-', '_' and '.', of at most 63, a letter or "
        "digit first and last"
    ),
]
"""The type of the value of a label."""
RESERVED = ("app", "part")
"""The labels by which a service finds its pods."""
OF_JOBS = ("job-name", "controller-uid")
"""The labels that Kubernetes itself gives to the pods of a Job, beside those below."""
OF_JOBS_DOMAIN = "batch.kubernetes.io"


def _check_name(name: str) -> str:
    """Raise a ValueError for a name that no label, annotation or taint can have."""
    domain, _, _ = name.rpartition("/")
    is_name = re.fullmatch(rf"({_SUBDOMAIN}/)?{_LABEL}", name)
    if not is_name or len(domain) > _SUBDOMAIN_LENGTH:
        raise ValueError(
            f"\"{name}\" is not a valid name of a label: write letters, digits, '-', '_' and '.', "
            "of at most 63, with or without a domain before it, like example.com/team"
        )
    return name


def _check_names(given: Mapping[str, str]) -> Mapping[str, str]:
    for name in given:
        _check_name(name)
    return given


def _refuse_reserved(given: Mapping[str, str]) -> Mapping[str, str]:
    for name in given:
        if name in RESERVED:
            raise ValueError(f"the label {name} is dshap's own: give it another name")
        if name in OF_JOBS or name.startswith(f"{OF_JOBS_DOMAIN}/"):
            raise ValueError(f"the label {name} is that of Kubernetes itself: give it another name")
    return given


NodeLabels = Annotated[
    dict[str, LabelValue], AfterValidator(_check_names), table_like('{ pool = "batch" }')
]
"""The type of labels that a node must have."""
Labels = Annotated[NodeLabels, AfterValidator(_refuse_reserved)]
"""The type of labels of the user's that all objects get."""
Annotations = Annotated[
    dict[str, str], AfterValidator(_check_names), table_like('{ "example.com/owner" = "risk" }')
]
"""The type of annotations: texts of any form by names like those of labels."""


class Toleration(Table):
    """A taint of nodes on which pods may run nevertheless, with the keys of Kubernetes."""

    key: Annotated[str, AfterValidator(_check_name)] | None = None
    """The key of the taint; left out with operator "Exists": every taint."""
    operator: Literal["Equal", "Exists"] | None = None
    """The comparison: "Equal" (the default) requires `value`, "Exists" accepts any value."""
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The effect of the taint; all three if left out."""
    tolerationSeconds: int | None = None
    """How many seconds a pod stays on its node after the node gets a taint "NoExecute"."""

    @model_validator(mode="after")
    def _check(self) -> Toleration:
        if self.operator == "Exists" and self.value:
            raise ValueError('operator = "Exists" takes any value: leave value out')
        if self.operator != "Exists" and not self.key:
            raise ValueError('key is missing: give it, or operator = "Exists" for every taint')
        if self.tolerationSeconds is not None and self.effect != "NoExecute":
            raise ValueError(
                'tolerationSeconds needs effect = "NoExecute": give that, or leave it out'
            )
        return self


Tolerations = Annotated[tuple[Toleration, ...], Field(strict=False)]

# suffix of a quantity -> its power of ten, or of 1,024
_SUFFIXES = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18, "m": -3}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([a-zA-Z]*)")


def amount_of(quantity: str) -> Decimal:
    """The number of a quantity of Kubernetes, such as 0.5 for "500m".

    Raises
    ------
    ValueError
        It is no quantity.
    """
    found = _QUANTITY.fullmatch(quantity)
    if found is None or found[2] not in _SUFFIXES.keys() | _BINARY.keys():
        raise ValueError(
            f'"{quantity}" is not a quantity of Kubernetes: write one like "500m" or "2" (cores), '
            "or "
            '"512Mi" or "4Gi" (bytes)'
        )
    number = Decimal(found[1])
    if found[2] in _BINARY:
        return number * 1024 ** _BINARY[found[2]]
    return number.scaleb(_SUFFIXES[found[2]])


def _as_text(given: Any) -> Any:
    """A number of cores as text, as Kubernetes accepts it."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        return str(given)
    return given


Quantity = Annotated[str, BeforeValidator(_as_text), AfterValidator(unchanged(amount_of))]
"""The type of a quantity of Kubernetes, such as "500m", "2" or "4Gi"."""
Quantities = Annotated[
    dict[str, Quantity],
    AfterValidator(_check_names),
    table_like('{ cpu = "2", memory = "4Gi" }'),
]
"""The type of quantities by the name of a resource."""


class Resources(Table):
    """The resources of a container, in the words of Kubernetes."""

    requests: Quantities = Field(default={})
    """The resources that a node must have free, such as { cpu = "1", memory = "2Gi" }.  A resource
    without a request, but with a limit, requests its limit."""
    limits: Quantities = Field(default={})
    """The most that the container may use."""

    @model_validator(mode="after")
    def _check(self) -> Resources:
        for name, limit in self.limits.items():
            request = self.requests.get(name)
            if request is not None and amount_of(request) > amount_of(limit):
                raise ValueError(
                    f'requests.{name} = "{request}" is more than limits.{name} = "{limit}": give at '
                    "most that"
                )
        return self


class PodResources(Table):
    """The table [cluster.resources]: resources of containers that differ from the defaults."""

    run: Resources = Resources()
    """The container of a run whose rows are explained by workers."""
    scheduler: Resources = Resources()
    """The container of the scheduler, in the pod of the run."""
    worker: Resources = Resources()
    """Each container that explains rows: a worker, a shard, a run on a schedule; the defaults come
    from [worker]."""
