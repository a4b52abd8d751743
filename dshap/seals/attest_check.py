"""Checking the statements of a store: signatures, and each subject against its present content."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dshap.core.errors import DamagedError, InputError, UnreachableError
from dshap.core.places import Place
from dshap.core.printing import counted
from dshap.cube import read_run
from dshap.cube.arrays import RUNS
from dshap.cube.chunk_digests import DIGEST_BYTES, UNREADABLE, sha256_of_bytes, sha256_of_file
from dshap.cube.creation import ROOT
from dshap.history.run_record import ID, RECORD, RunRecord, document_in
from dshap.seals.attestations import read_envelope, sealed_runs
from dshap.seals.envelope import Envelope
from dshap.seals.materials import OF_STORE, attestation_file
from dshap.seals.signing_keys import VerifyingKey, verifying_key
from dshap.seals.sigstore_bundles import BUNDLE, fault_of_bundle
from dshap.seals.statement import (
    ATTESTATION,
    BUILD_TYPE,
    PREDICATE,
    STATEMENT,
    UNSIGNED,
    Resource,
    parts_of_record,
)
from dshap.seals.subjects import block_rows_of, digests_of_cube
from dshap.storage.folder import Folder

REPLACED = re.compile(r"attestation-\d+\.json")
"""The names of statements that were replaced."""
SINCE = re.compile(rf"\d{{8}}|{ID.pattern}")
"""A day, or the id of a run."""


@dataclass(frozen=True)
class SealFault:
    """A difference from a statement."""

    run_id: str
    place: str
    """The file, array, block or sink, named within the store."""
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


@dataclass
class SealCheck:
    """The outcome of a check of a store's statements."""

    store: Place
    runs: list[str] = field(default_factory=list)
    """The runs whose statements were checked, the oldest first."""
    faults: list[SealFault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Remarks on parts that were not, or could not be, checked."""
    signed_by: dict[str, str] = field(default_factory=dict)
    """Run -> the name of the key; empty if its statement is not signed."""
    n_subjects: int = 0

    @property
    def lines(self) -> list[str]:
        """The outcome in words."""
        signed = sum(map(bool, self.signed_by.values()))
        head = (
            f"{self.store}: {len(self.runs):,} sealed runs, {signed:,} of them signed, "
            f"{self.n_subjects:,} digests compared"
        )
        ends = f"{len(self.faults):,} differ" if self.faults else "all are as sealed"
        return [f"{head}: {ends}", *map(str, self.faults), *self.notes]

    def to_dict(self) -> dict[str, Any]:
        return {
            "store": str(self.store),
            "runs": self.runs,
            "signed_by": self.signed_by,
            "digests": self.n_subjects,
            "faults": [vars(each) for each in self.faults],
            "notes": self.notes,
        }

    def refuse_faults(self) -> None:
        """Raise a `DamagedError` if something is not as it was sealed."""
        if not self.faults:
            return
        first = self.faults[0]
        more = f", and {len(self.faults) - 1:,} more" if len(self.faults) > 1 else ""
        raise DamagedError(f"{self.store} is not as it was sealed: {first}{more}")


def check_seals(
    store: Place, key: VerifyingKey | None = None, run_id: str = "", since: str = ""
) -> SealCheck:
    """Check the statements of a store.

    Parameters
    ----------
    store : Place
    key : VerifyingKey, optional
        The key with which all statements must be signed.  None: each is checked with the key that
        it names; this shows that it was not altered, but not who signed it.
    run_id : str
        The run to check; empty for all.
    since : str
        The run, or the day in UTC, from which on statements must be signed with the key; older ones
        are checked without it.  Empty: all must be.

    Raises
    ------
    InputError
        No run of the store has a statement, or this run has none, or none is as new as `since`.
    """
    sealed = sealed_runs(store)
    refuse_unsealed(store, sealed, run_id)
    first = _first_with_key(store, sealed, since)
    found = SealCheck(store)
    statements: dict[str, Mapping[str, Any]] = {}
    for each in sealed:
        if run_id in ("", each):
            statement = _opened(found, each, key if each >= first else None)
            if statement is not None:
                statements[each] = statement
    found.faults += _missing_ones(store, statements, run_id)
    newest = sealed[-1]
    cubes: dict[str, Any] = {}
    # the newest first: it shows whether a cube was changed, and sealed again, after an earlier run
    for each, statement in reversed(statements.items()):
        checking = _OneRun(found, each, statement, is_newest=each == newest, cubes=cubes)
        checking.check()
    older = [each for each in found.runs if each < first]
    if older and key is not None:
        found.notes.append(
            f"{counted(len(older), 'run')} before {first}: compared, without the key"
        )
    if not any(found.signed_by.values()):
        found.notes.append(f"the statements are {UNSIGNED}")
    elif key is None:
        found.notes.append(
            "signatures were checked with the keys that the statements name: give --key to check "
            "that they are yours"
        )
    return found


def _first_with_key(store: Place, sealed: Sequence[str], since: str) -> str:
    """The run from which on the key counts; empty for all."""
    if not since:
        return ""
    wanted = since.replace("-", "").replace(":", "")
    if SINCE.fullmatch(wanted) is None:
        raise InputError(
            f"--since {since!r} is no run and no day: give the id of a run, such as {sealed[-1]}, or "
            "a day, such as 2026-11-30"
        )
    newer = [each for each in sealed if each >= wanted]
    if not newer:
        raise InputError(
            f"--since {since}: no sealed run of {store} is as new; the newest is {sealed[-1]}"
        )
    return newer[0]


def refuse_unsealed(store: Place, sealed: Sequence[str], run_id: str) -> None:
    """Raise an `InputError` if no run has a statement, or one that is asked for has none."""
    if not sealed:
        raise InputError(
            f"{store} has no attestation: each run of a job writes one since dshap 0.4; run the "
            "job again, and check the new run"
        )
    if run_id and run_id not in sealed:
        raise InputError(
            f"run {run_id!r} of {store} has no attestation: give one of {', '.join(sealed[-5:])}"
        )


def _opened(found: SealCheck, run_id: str, key: VerifyingKey | None) -> Mapping[str, Any] | None:
    """The statement of a run whose envelope is whole and signed as it should be."""
    name = attestation_file(run_id)
    found.runs.append(run_id)
    try:
        envelope = read_envelope(found.store, run_id)
        assert envelope is not None, "it is listed"
        fault = _fault_of_envelope(envelope, key) or _fault_of_statement(envelope, run_id)
    except (ValueError, KeyError, TypeError) as error:
        found.faults.append(SealFault(run_id, name, f"{error}"))
        return None
    if fault:
        found.faults.append(SealFault(run_id, name, fault))
        return None
    found.signed_by[run_id] = next(iter(envelope.signatures), "")
    return envelope.statement


def _fault_of_envelope(envelope: Envelope, key: VerifyingKey | None) -> str:
    """The fault of the signatures of an envelope, in words; empty for none."""
    seal = envelope.statement["predicate"]["dshap_seal"]
    if key is not None and not envelope.is_signed:
        return (
            f"it is not signed, and the key {key.keyid[:12]} was given; if only later runs are "
            "signed, give --since RUN_ID"
        )
    if key is not None and not envelope.is_signed_by(key):
        names = ", ".join(each[:12] for each in envelope.signatures)
        if key.keyid in envelope.signatures:
            return f"its signature is not that of the key {key.keyid[:12]}: it was altered"
        return (
            f"it is signed with the key {names}, not with the one that was given, {key.keyid[:12]}"
        )
    if envelope.is_signed != bool(seal["signed"]):
        return (
            "it says that it is signed, and is not"
            if seal["signed"]
            else "it says it is not signed"
        )
    if key is None and envelope.is_signed:
        named = verifying_key(str(seal["public_key"]), "the key of the statement")
        if not envelope.is_signed_by(named):
            return "its signature is not that of the key that it names: it was altered"
    return ""


def _fault_of_statement(envelope: Envelope, run_id: str) -> str:
    """The fault of the form of a statement, in words; empty for none."""
    statement = envelope.statement
    kinds = (statement["_type"], statement["predicateType"])
    if kinds != (STATEMENT, PREDICATE):
        return f"it is a statement of the kind {kinds[1]}, not of a run of dshap"
    predicate = statement["predicate"]
    if predicate["buildDefinition"]["buildType"] != BUILD_TYPE:
        return f"it is about a build of the type {predicate['buildDefinition']['buildType']}"
    named = predicate["runDetails"]["metadata"]["invocationId"]
    if named != run_id:
        return f"it is the statement of run {named}"
    return ""


def _missing_ones(
    store: Place, statements: Mapping[str, Mapping[str, Any]], run_id: str
) -> Iterator[SealFault]:
    """Runs without a statement that another one names, or that came after a sealed one."""
    if run_id:
        return
    folder = Folder(store)
    sealed = sorted(statements)
    for each in Folder(store / RUNS).list():
        is_over = ID.fullmatch(each) and folder.has(f"{RUNS}/{each}/{RECORD}")
        has_one = folder.has(attestation_file(each))
        if is_over and not has_one and sealed and each > sealed[0]:
            yield SealFault(each, attestation_file(each), "is missing, and an earlier run has one")


@dataclass
class _OneRun:
    """The check of one statement against the store."""

    found: SealCheck
    run_id: str
    statement: Mapping[str, Any]
    is_newest: bool
    cubes: dict[str, Any]
    """Cube -> its digests as it is now, and the newest run that sealed it."""

    @property
    def store(self) -> Place:
        return self.found.store

    def check(self) -> None:
        subjects = [Resource.read(each) for each in self.statement["subject"]]
        self.found.n_subjects += len(subjects)
        of_cubes: dict[str, list[Resource]] = {}
        for each in subjects:
            match each.annotations.get("kind"):
                case "file":
                    self._check_file(each.name, each.sha256)
                case "cube":
                    of_cubes.setdefault(str(each.annotations["cube"]), []).append(each)
                case "sink":
                    continue  # a check of sinks needs their addresses: dshap.jobs.attesting
                case other:
                    self._add(each.name, f"is a subject of an unknown kind, {other!r}")
        for cube, given in of_cubes.items():
            self._check_cube(cube, given)
        self._check_predicate()
        for each in self.statement["predicate"]["buildDefinition"]["resolvedDependencies"]:
            self._check_material(Resource.read(each))
        self._check_replaced()
        self._check_bundle()

    def _check_bundle(self) -> None:
        """Compare the statement that Sigstore has signed, where there is one, with this one."""
        name = f"{RUNS}/{self.run_id}/{BUNDLE}"
        content = Folder(self.store).get(name)
        envelope = read_envelope(self.store, self.run_id)
        if content is None or envelope is None:
            return
        if fault := fault_of_bundle(content, envelope.payload):
            self._add(name, fault)

    def _add(self, place: str, what: str) -> None:
        self.found.faults.append(SealFault(self.run_id, place, what))

    def _check_file(self, name: str, sha256: str) -> None:
        """Compare a file with its digest; files that later runs remove may be gone."""
        content = Folder(self.store).get(name)
        room = name.rpartition("/")[0]
        if not self.is_newest and name == ROOT:
            return  # a later run may have described the store again
        if not self.is_newest and name.startswith("keys/") and not Folder(self.store / room).list():
            return
        if content is None:
            self._add(name, "is missing")
        elif sha256_of_bytes(content) != sha256:
            self._add(name, "is not what was sealed")

    def _check_cube(self, cube: str, given: Sequence[Resource]) -> None:
        if read_run(self.store / cube) is None:
            if self.is_newest or Folder(self.store).has(cube):
                self._add(cube, "is missing, or its zarr.json cannot be read")
            else:
                self.found.notes.append(f"the cube {cube} is not there any more: [job] keep_runs")
            return
        if cube in self.cubes:
            now, later = self.cubes[cube]
            if self._is_renewed(given, later):
                self.found.notes.append(f"the cube {cube} was changed by a run after {self.run_id}")
                return
        else:
            try:
                now = digests_of_cube(self.store, cube)
            except UnreachableError:
                raise
            except Exception as error:  # damaged documents raise many types
                self._add(cube, f"cannot be read ({error})")
                return
            self.cubes[cube] = (now, {each.name: each.sha256 for each in given})
        blocks, parts = now
        named = {each.name.removeprefix(f"{cube}/") for each in given}
        for each in given:
            name = each.name.removeprefix(f"{cube}/")
            if name in blocks and "listed" in each.annotations:
                self._check_blocks(each, cube, blocks[name])
            elif name in blocks:
                self._add(each.name, "is not what was sealed: its document is another one")
            elif name not in parts:
                self._add(each.name, "is missing")
            elif parts[name] != each.sha256:
                self._add(each.name, "is not what was sealed")
        for name in sorted((blocks.keys() | parts.keys()) - named):
            self._add(f"{cube}/{name}", "was added after the run was sealed")

    @staticmethod
    def _is_renewed(given: Sequence[Resource], later: Mapping[str, str]) -> bool:
        """Whether a later run has sealed the cube with other digests."""
        return any(later.get(each.name) != each.sha256 for each in given)

    def _check_blocks(self, sealed: Resource, cube: str, now: bytes) -> None:
        """Compare the blocks of an array, and name the first that differs."""
        then = self._listed(sealed)
        is_same = hashlib.sha256(now).hexdigest() == sealed.sha256
        if then is None:
            self._add(
                str(sealed.annotations["listed"]),
                f"is not the list of the blocks of {sealed.name} that was sealed",
            )
        if is_same:
            return
        if then is None:
            self._add(sealed.name, "is not what was sealed")
            return
        wrong = [
            block
            for block in range(max(len(then), len(now)) // DIGEST_BYTES)
            if _of_block(then, block) != _of_block(now, block)
        ]
        first = wrong[0]
        n_rows = block_rows_of(self.store, cube)
        rows = f"block {first} (rows {first * n_rows} to {(first + 1) * n_rows - 1})"
        is_readable = _of_block(now, first) != UNREADABLE
        what = f"{rows} is not what was sealed" if is_readable else f"{rows} cannot be read"
        more = f", and {len(wrong) - 1:,} more blocks" if len(wrong) > 1 else ""
        self._add(sealed.name, f"{what}{more}")

    def _listed(self, sealed: Resource) -> bytes | None:
        """The sealed digests of the blocks of an array; None if their list is damaged."""
        about = sealed.annotations
        content = Folder(self.store).get(str(about["listed"])) or b""
        start = int(about["first"]) * DIGEST_BYTES
        then = content[start : start + int(about["blocks"]) * DIGEST_BYTES]
        if hashlib.sha256(then).hexdigest() != sealed.sha256:
            return None
        return then

    def _check_predicate(self) -> None:
        """Compare the parts of the record in the statement with the record itself."""
        name = f"{RUNS}/{self.run_id}/{RECORD}"
        document = document_in(Folder(self.store).get(name) or b"")
        if document is None:
            return  # the digest of the record differs, which is reported
        expected = parts_of_record(RunRecord(self.run_id, document))
        for part, value in json.loads(json.dumps(expected)).items():
            if self.statement["predicate"].get(part) != value:
                self._add(attestation_file(self.run_id), f"{part} is not what {name} says")

    def _check_material(self, material: Resource) -> None:
        """Compare a material in the store; the materials of the newest run must exist."""
        if not material.uri.startswith(OF_STORE) or not material.sha256:
            return
        folder = Folder(self.store)
        if not folder.has_file(material.uri):
            is_lasting = material.uri.startswith(f"{RUNS}/")
            if (self.is_newest and not material.uri.startswith("parts/")) or is_lasting:
                self._add(material.uri, f"({material.name}) is missing")
            return
        with folder.open(material.uri) as opened:
            is_same = sha256_of_file(opened) == material.sha256
        if not is_same and not self._is_replaced(material):
            self._add(material.uri, f"({material.name}) is not what was sealed")

    def _is_replaced(self, material: Resource) -> bool:
        """Whether a material is the statement of an earlier run that another one has replaced."""
        room, _, name = material.uri.rpartition("/")
        if name != ATTESTATION:
            return False
        folder = Folder(self.store / room)
        old = [each for each in folder.list() if REPLACED.fullmatch(each)]
        return any(sha256_of_bytes(folder.get(each) or b"") == material.sha256 for each in old)

    def _check_replaced(self) -> None:
        """Compare the statement that this one replaces."""
        replaced = self.statement["predicate"].get("dshap_replaces")
        if replaced is None:
            return
        old = Resource.read(replaced)
        content = Folder(self.store).get(old.uri)
        if content is None or sha256_of_bytes(content) != old.sha256:
            self._add(old.uri, "is not the statement that was replaced")
        else:
            self.found.notes.append(f"run {self.run_id} was sealed again: {replaced['reason']}")


def _of_block(digests: bytes, block: int) -> bytes:
    return digests[block * DIGEST_BYTES : (block + 1) * DIGEST_BYTES]
