"""Small tables in HTML."""

from __future__ import annotations

from dshap.core.html import table_html


def test_texts_are_escaped_and_numbers_stand_on_the_right():
    found = table_html("a < b", ["name", "size"], [["<i>", "3"], ["&", "4"]], ["a note\x07"])
    assert "<strong>a &lt; b</strong>" in found
    assert 'text-align:left">&lt;i&gt;</td>' in found
    assert 'text-align:right">3</td>' in found
    assert "&amp;</td>" in found
    assert "a note\\x07</div>" in found
    assert found.count("<tr>") == 3
    assert found.count("<th") == 3  # thead is one of them
    assert "<thead>" not in table_html("facts", (), [["a", "b"]])
