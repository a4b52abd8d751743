"""The statement of a run: in-toto statement v1, with provenance of SLSA v1 as its predicate.

Its subjects are the results of the run, its resolved dependencies the inputs.  The names of entries
that SLSA does not define begin with `dshap_`, as SLSA requires: plan, checks, results and seal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dshap import __version__
from dshap.core.processors import processor
from dshap.history.run_record import RunRecord
from dshap.seals.signing_keys import VerifyingKey

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:dshap:run:v1"
BUILDER = "urn:dshap:dshap"
UNSIGNED = "not signed: [seal] key names no key, so that anybody could have written this"
ATTESTATION = "attestation.json"
"""The file of the statement in the folder of a run."""


@dataclass(frozen=True)
class Resource:
    """A thing that a statement names, with its digest."""

    name: str
    digest: Mapping[str, str] = field(default_factory=dict)
    """Algorithm -> digest: "sha256", or one of dshap's own, whose name begins with "dshap"."""
    uri: str = ""
    annotations: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The resource as a resource descriptor of in-toto; empty entries are left out."""
        return {name: value for name, value in vars(self).items() if value}

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Resource:
        return cls(
            str(given.get("name", "")),
            given.get("digest", {}),
            str(given.get("uri", "")),
            given.get("annotations", {}),
        )

    @property
    def sha256(self) -> str:
        """Its SHA-256 digest; empty if it has none."""
        return str(self.digest.get("sha256", ""))


def statement_of(
    record: RunRecord,
    subjects: Sequence[Resource],
    dependencies: Sequence[Resource],
    key: VerifyingKey | None,
    replaced: Resource | None = None,
    reason: str = "",
) -> dict[str, Any]:
    """The statement of a run that is over.

    Parameters
    ----------
    record : RunRecord
    subjects : sequence of Resource
        The results of the run.
    dependencies : sequence of Resource
        The inputs of the run.
    key : VerifyingKey, optional
        The key that the statement will be signed with; None: it contains a note that it is not
        signed.
    replaced : Resource, optional
        The statement of this run that this one replaces, such as after an erasure.
    reason : str
        Why it replaces it.
    """
    of_dshap = parts_of_record(record)
    if replaced is not None:
        of_dshap["dshap_replaces"] = {**replaced.to_dict(), "reason": reason}
    predicate = {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {"job": record.about.get("job"), "command": _command(record)},
            "internalParameters": {"processor": processor()},
            "resolvedDependencies": [each.to_dict() for each in dependencies],
        },
        "runDetails": {
            "builder": {"id": BUILDER, "version": {"dshap": __version__}},
            "metadata": {
                "invocationId": record.run_id,
                "startedOn": record.about.get("started_at"),
                "finishedOn": (record.content or {}).get("metadata", {}).get("generated_at"),
            },
        },
        "dshap_seal": _seal(key),
        **of_dshap,
    }
    return {
        "_type": STATEMENT,
        "subject": [each.to_dict() for each in subjects],
        "predicateType": PREDICATE,
        "predicate": predicate,
    }


def parts_of_record(record: RunRecord) -> dict[str, Any]:
    """The parts of a statement that repeat the record: plan, checks and results.

    A check of the statement compares them with the record that is there.
    """
    explained = [*record.named("explanation")]
    return {
        "dshap_plan": {
            _name(each): {
                name: each["adapter_response"].get(name)
                for name in ("value", "design", "prepared", "cluster")
            }
            | {"planned": (each["adapter_response"].get("cost") or {}).get("planned")}
            for each in explained
        },
        "dshap_checks": [_short(each, "adapter_response") for each in record.named("check")],
        "dshap_results": {
            "exit_status": record.about.get("exit_status"),
            "explanations": [_of_explanation(each) for each in explained],
            "sinks": [_short(each, "adapter_response") for each in record.named("sink")],
        },
    }


def _of_explanation(result: Mapping[str, Any]) -> dict[str, Any]:
    response = result["adapter_response"]
    names = ("rows_affected", "failed", "keys", "accuracy", "ranking", "previous_run")
    return {**_short(result), **{name: response.get(name) for name in names}}


def _short(result: Mapping[str, Any], *more: str) -> dict[str, Any]:
    """The entries of a result on its end."""
    return {name: result.get(name) for name in ("unique_id", "status", "message", *more)}


def _name(result: Mapping[str, Any]) -> str:
    return str(result["unique_id"]).split(".", 2)[2]


def _command(record: RunRecord) -> dict[str, Any]:
    args = (record.content or {}).get("args", {})
    return {name: value for name, value in args.items() if name != "dshap"}


def _seal(key: VerifyingKey | None) -> dict[str, Any]:
    if key is None:
        return {"signed": False, "note": UNSIGNED}
    return {"signed": True, "kind": "ed25519", "keyid": key.keyid, "public_key": key.pem}
