"""The commands that a page shows: lines of its shell blocks, and those in its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import click

from dshap.cli import cli
from tests.pages import BLOCK, PAGES, Block, lines_of

PROGRAMS = ("dshap", "dask", "pip", "python", "podman", "kubectl", "sbatch", "aws", "moto_server")
"""The first words by which a piece of code in a text is a command."""
SCRIPTS = "cluster/"
"""The beginning of commands that are files of the project."""


@dataclass(frozen=True)
class Section:
    """A page, or the part of it under one heading, with its blocks."""

    page: str
    text: str

    @classmethod
    def of(cls, page: str, heading: str = "") -> Section:
        """The part of a page under a heading of the second level; the whole page without one."""
        text = PAGES[page].read_text()
        if heading:
            (text,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
        return cls(page, text)

    @property
    def blocks(self) -> list[Block]:
        return [Block(*found) for found in BLOCK.findall(self.text)]

    def in_text(self) -> list[str]:
        """The commands that stand in sentences, each once."""
        spans = re.findall(r"`([^`]+)`", BLOCK.sub("", self.text))
        found = (" ".join(span.split()) for span in spans)
        return list(dict.fromkeys(filter(is_command, found)))


def commands_of(block: Block) -> list[str]:
    """The commands of a shell block; comments are none."""
    return [line for line in lines_of(block.text) if line.strip() and not line.startswith("#")]


def is_command(span: str) -> bool:
    """Whether a piece of code is a command with arguments, not the name of one."""
    words = span.split()
    if words[0].startswith(SCRIPTS) and len(words) > 1:
        return True
    if words[0] != "dshap":
        return words[0] in PROGRAMS and len(words) > 1 and _is_argument(words[-1])
    return any(_is_argument(word) for word in _beyond_names(words[1:]))


def _beyond_names(words: list[str]) -> Iterator[str]:
    """The words after the names of a command of dshap."""
    command: click.Command = cli
    for position, word in enumerate(words):
        if not isinstance(command, click.Group) or word not in command.commands:
            yield from words[position:]
            return
        command = command.commands[word]


def _is_argument(word: str) -> bool:
    """Whether a word is an argument, not the name of an option or of what is to be given."""
    return not word.startswith("-") and not word.isupper()
