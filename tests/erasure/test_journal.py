"""The record of an erasure: keyed digests in place of keys, sealed, and known when it is not over."""

from __future__ import annotations

import json

import pytest

from dshap.core.errors import DamagedError
from dshap.core.places import place_of
from dshap.erasure.journal import ROOM, Erasure, Journal, erased_of_cube, new_erasure_id


def test_a_record_is_read_as_it_was_written(tmp_path):
    journal = Journal(place_of(tmp_path))
    assert not journal.has_records
    assert journal.unfinished is None
    begun = Erasure(new_erasure_id(), ("ab", "cd"), ("id",), {"reasons/1": [3, 5]}, ("reasons",))
    journal.write(begun)
    assert list(journal) == [begun]
    assert journal.unfinished == begun
    assert journal.digests == {"ab", "cd"}
    ended = begun.ended()
    journal.write(ended)
    assert journal.unfinished is None
    assert list(journal) == [ended]
    assert erased_of_cube(place_of(tmp_path), "reasons/1") == 2
    assert erased_of_cube(place_of(tmp_path), "reasons/2") == 0


def test_the_secret_is_made_once(tmp_path):
    journal = Journal(place_of(tmp_path))
    assert journal.secret() == Journal(place_of(tmp_path)).secret()
    assert len(journal.secret()) == 32
    assert not journal.has_records


def test_an_altered_record_is_told(tmp_path):
    journal = Journal(place_of(tmp_path))
    journal.write(Erasure("1", ("ab",), ("id",)))
    file = tmp_path / ROOM / "1.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "ended_at": "now"}))
    with pytest.raises(DamagedError, match=r"1\.json is damaged"):
        list(journal)
