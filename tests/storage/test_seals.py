"""Seals and digests of files: any other content, and any other name, is told."""

from __future__ import annotations

import io

import pytest

from dshap.storage.seals import (
    PIECE_BYTES,
    digest_of_content,
    digest_of_file,
    record_in,
    sealed_record,
    whole_record,
)

RECORD = {"method": "m", "runs": ["20261101T000000Z"], "größe": 0.1, "none": None}


def test_a_sealed_record_comes_back():
    stored = sealed_record("reasons.json", RECORD)
    assert whole_record("reasons.json", stored) == RECORD == record_in(stored)
    assert whole_record("reasons.json", stored.replace(b": ", b":   ")) == RECORD


def test_every_flipped_bit_of_a_record_is_told_or_changes_nothing():
    stored = sealed_record("reasons.json", RECORD)
    n_told = 0
    for at in range(8 * len(stored)):
        flipped = bytearray(stored)
        flipped[at // 8] ^= 1 << at % 8
        try:
            found = whole_record("reasons.json", bytes(flipped))
        except ValueError as error:
            assert str(error).startswith("reasons.json: ")
            n_told += 1
        else:  # the word "seal" or a space was hit
            assert {**found, **RECORD} == found
    assert n_told > 7 * len(stored)


def test_another_name_and_a_record_of_an_earlier_version():
    with pytest.raises(ValueError, match="not what was written under this name"):
        whole_record("other.json", sealed_record("reasons.json", RECORD))
    assert whole_record("reasons.json", b'{"method": "x"}') == {"method": "x"}
    for stored in (b"", b"[1]", b"{", b"\xff"):
        with pytest.raises(ValueError, match="it is not a record"):
            whole_record("reasons.json", stored)


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1])
def test_a_digest_does_not_depend_on_pieces(size):
    content = b"x" * size
    assert digest_of_file(io.BytesIO(content)) == digest_of_content(content)
    assert digest_of_content(content) != digest_of_content(content + b"x")
