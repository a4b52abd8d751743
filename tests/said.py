"""The lines that a run says, for tests that read them."""

from __future__ import annotations

from dshap.engine.events import Event


class Said(list[str]):
    """A display that keeps the lines for people, in their order."""

    def __call__(self, event: Event) -> None:
        if event.text:
            self.append(event.text)
