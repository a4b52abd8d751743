"""What is made once is made once, and is not sent to other processes."""

from __future__ import annotations

import pickle

from dshap.attributors.made_once import MadeAnew, MadeOnce


def test_made_once_and_made_anew():
    made = []

    def make():
        made.append(object())
        return made[-1]

    once = MadeOnce()
    assert once.of("a", make) is once.of("a", make)
    assert once.of("b", make) is not once.of("a", make)
    assert len(made) == 2
    anew = MadeAnew()
    assert anew.of("a", make) is not anew.of("a", make)


def test_nothing_is_made_twice_where_it_is_none():
    made = []
    once = MadeOnce()
    for _ in range(3):
        assert once.of("nothing", lambda: made.append(1)) is None
    assert made == [1]


def test_what_is_made_is_not_sent():
    once = MadeOnce()
    once.of("a function", lambda: lambda rows: rows)
    sent = pickle.loads(pickle.dumps(once))
    assert sent.of("a function", lambda: "made again") == "made again"
