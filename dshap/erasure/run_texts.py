"""Records of runs: keys and values of erased rows are removed from messages about single rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dshap.core.places import Place
from dshap.cube.arrays import RUNS
from dshap.cube.erased_rows import REDACTED
from dshap.erasure.work import ErasureWork, HoldsRows
from dshap.history.run_record import RECORD, document_in
from dshap.storage.folder import Folder
from dshap.storage.seals import SEAL, seal_of


class RunTexts(HoldsRows):
    """The records of runs: `runs/RUN_ID/run_results.json`."""

    noun = "records"

    def erase(self, work: ErasureWork) -> None:
        words = _Words.of(work)
        for name in _records_in(work.store):
            folder = Folder(work.store)
            document = document_in(folder.get(name) or b"")
            if document is None:
                continue
            clean = words.without(document)
            if clean != document:
                folder.replace(name, sealed_document(clean))
                work.count(self.noun)


def _records_in(store: Place) -> Iterator[str]:
    for run_id in Folder(store / RUNS).list():
        name = f"{RUNS}/{run_id}/{RECORD}"
        if Folder(store).has_file(name):
            yield name


def sealed_document(document: Mapping[str, Any]) -> bytes:
    """A record with its seal, as `write_record` writes it."""
    args = document["args"]
    seal = seal_of(RECORD, document)
    sealed = {**document, "args": {**args, "dshap": {**args["dshap"], SEAL: seal}}}
    return json.dumps(sealed, indent=2, ensure_ascii=False, allow_nan=False).encode()


class _Words:
    """The words about erased rows: keys as messages name them, and texts that only these rows had."""

    def __init__(self, keys: frozenset[str], names: Sequence[str], texts: frozenset[str]) -> None:
        self.keys = keys
        self.texts = texts
        listed = ", ".join(f"{re.escape(name)} (?P<k{i}>.*?)" for i, name in enumerate(names))
        self.named = re.compile(rf"\({listed}\)")

    @classmethod
    def of(cls, work: ErasureWork) -> _Words:
        texts = frozenset(text for text in work.texts.only_gone if text)
        return cls(frozenset(work.keys.texts()), work.keys.names, texts)

    def without(self, value: Any) -> Any:
        """Plain values without these words, at any depth."""
        match value:
            case dict():
                return {name: self.without(each) for name, each in value.items()}
            case list():
                return [self.without(each) for each in value]
            case str():
                return self._text(value)
        return value

    def _text(self, text: str) -> str:
        def redacted(found: re.Match[str]) -> str:
            is_wanted = ", ".join(found.groups()) in self.keys
            return REDACTED if is_wanted else found[0]

        clean = self.named.sub(redacted, text)
        if clean in self.texts:
            return REDACTED
        for word in self.texts:
            if f"'{word}'" in clean or f'"{word}"' in clean:
                clean = clean.replace(word, REDACTED)
        return clean
