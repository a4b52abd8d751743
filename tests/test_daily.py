"""The closing lines of the daily run: what each part counted, and whether it failed."""

from __future__ import annotations

import pytest

from tests import daily


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("...\n=== 3 passed, 1 skipped in 0.12s ===\nsaved\n", "3 passed, 1 skipped in 0.12s"),
        ("=== 1 failed, 2 passed ===\n=== 5 passed ===\n", "5 passed"),
        ("20 faults\nno promise was broken\n\n", "no promise was broken"),
        ("", "no output"),
    ],
)
def test_the_closing_line(output, expected):
    assert daily.closing_line(output) == expected


def test_a_part_that_fails_keeps_no_other_from_running(tmp_path, monkeypatch, capfd):
    (tmp_path / "Makefile").write_text("bad:\n\t@echo broken; exit 3\ngood:\n\t@echo 2 passed\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(daily, "LOGS", tmp_path / "logs")
    assert daily.main(["bad", "good"]) == 1
    lines = capfd.readouterr().out.splitlines()
    assert lines[-3].split()[:2] == ["bad", "failed"]
    assert lines[-2].split()[:2] == [
        "good",
        "passed",
    ]
    assert lines[-1].startswith("1 passed, 1 failed in 0.0 min")
    assert "broken" in (tmp_path / "logs" / "bad.log").read_text()
    assert daily.main(["good"]) == 0
