"""IMDB: the comparison of Figure 2 on one of the paper's three kinds of networks, and the sentence
of Table 2.

python -m workflows.experiments.imdb --data FOLDER --out FOLDER [--network word] [--instances 1000]
[--tiny]
"""

from __future__ import annotations

from collections.abc import Sequence

from workflows.experiments.commands import options
from workflows.experiments.text_commands import FAMILIES, compare_texts, explain_sentence
from workflows.experiments.texts import imdb, made_up_reviews


def main(argv: Sequence[str] | None = None) -> None:
    """Train the network, explain test reviews by every method, and write what came out."""
    given = options(__doc__, argv, networks=tuple(FAMILIES))
    family = FAMILIES[given.network]
    reviews = (
        made_up_reviews(2_000) if given.tiny else imdb(given.data, family.n_words, family.longest)
    )
    name = "imdb" if given.network == "word" else f"imdb_{given.network}"
    study = compare_texts(name, "IMDB", reviews, given)
    explain_sentence(study, reviews, given)


if __name__ == "__main__":
    main()
