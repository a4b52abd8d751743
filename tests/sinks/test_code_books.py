"""Code books: what a file of reasons may hold, and one clear line for each mistake."""

from __future__ import annotations

import pytest

from dshap.core.errors import InputError
from dshap.sinks.code_books import read_code_book


def written(tmp_path, text):
    path = tmp_path / "codes.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_book_of_two_languages(tmp_path):
    path = written(
        tmp_path,
        "\ufeffcode,players,text_en,text_de\n"
        'R02,"income; ""a;b""","Income, too low",Einkommen zu niedrig\n'
        "\n"
        "R01, debt_ratio ;größe 🏠,Debt,Verschuldung\n",
    )
    book = read_code_book(path)
    assert book == read_code_book(str(path))
    assert book.codes == ("R01", "R02")
    assert book.players == {"R01": ["debt_ratio", "größe 🏠"], "R02": ["a;b", "income"]}
    assert book.texts == {
        "text_en": ["Debt", "Income, too low"],
        "text_de": ["Verschuldung", "Einkommen zu niedrig"],
    }


def test_a_text_has_its_line_breaks_and_a_fault_its_line(tmp_path):
    text = 'code,players,text\nA,x,"First line\nsecond\u2028third"\n'
    book = read_code_book(written(tmp_path, text))
    assert book.texts == {"text": ["First line\nsecond\u2028third"]}
    with pytest.raises(InputError, match="line 5 has 2 cells"):
        read_code_book(written(tmp_path, f"{text}\nB,y\n".replace("\u2028", " ")))


def test_the_digest_is_that_of_codes_and_texts_in_any_order(tmp_path):
    first = read_code_book(written(tmp_path, "code,players,text\nA,x;y,one\nB,z,two\n"))
    same = read_code_book(written(tmp_path, "players,text,code\nz,two,B\ny;x,one,A\n"))
    other = read_code_book(written(tmp_path, "code,players,text\nA,x;y,one\nB,z,2\n"))
    assert first.digest == same.digest != other.digest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty: give the columns code, players and text"),
        ("code,players,text\n", "has no code below its first line"),
        ("code,text\nA,one\n", "has the columns code, text: give code, players and text"),
        ("code,players\nA,x\n", "has the columns code, players: give code"),
        ("code,players,text,more\nA,x,one,2\n", "has the columns code, players, text, more"),
        ("code,players,text,text\nA,x,one,2\n", "has the columns code, players, text, text"),
        ("code,players,text\nA,x\n", "line 2 has 2 cells, and the first line 3"),
        ("code,players,text\n,x,one\n", "line 2 has no code"),
        ("code,players,text\nA,x,\n", "code 'A' has no text: write the text"),
        ("code,players,text_en,text_fr\nA,x,one,\n", "code 'A' has no text_fr"),
        ("code,players,text\nA,x,one\nA,y,two\n", "code 'A' occurs twice"),
        ('code,players,text\nA,x,"one" more\n', "cannot be read as CSV"),
        ("code,players,text\nA,;,one\n", "code 'A' has no players"),
        ("code,players,text\nA,x,one\nB,y;x,two\n", "player 'x' is in 'A', 'B'"),
    ],
)
def test_mistakes(tmp_path, text, said):
    with pytest.raises(InputError) as caught:
        read_code_book(written(tmp_path, text))
    message = str(caught.value)
    assert said in message
    assert message.startswith("codes: ")
    assert "codes.csv" in message
    assert "\n" not in message


def test_no_file(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*none.csv"):
        read_code_book(tmp_path / "none.csv")


def test_a_file_that_is_no_text(tmp_path):
    path = tmp_path / "codes.csv"
    path.write_bytes(b"code,players,text\n\xff\xfe,x,y\n")
    with pytest.raises(InputError, match=r"codes.csv cannot be read as text"):
        read_code_book(path)
