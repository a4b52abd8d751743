"""AG's news, Yahoo! Answers, or other texts with classes: the comparison of Figure 2 from a path.

python -m workflows.experiments.news --data FOLDER --out FOLDER [--network word] [--instances 1000]
[--tiny]

FOLDER holds train.csv and test.csv without a header, the class from 1 first and then one text or
several, as Zhang, Zhao and LeCun published them; classes.txt, a name a line, where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence

from workflows.experiments.commands import options
from workflows.experiments.text_commands import FAMILIES, compare_texts
from workflows.experiments.texts import made_up_reviews, texts_of_csv


def main(argv: Sequence[str] | None = None) -> None:
    """Train the network, explain test texts by every method, and write what came out."""
    given = options(__doc__, argv, networks=tuple(FAMILIES))
    family = FAMILIES[given.network]
    texts = (
        made_up_reviews(2_000)
        if given.tiny
        else texts_of_csv(given.data, family.n_words, family.longest)
    )
    name = "news" if given.tiny else given.data.resolve().name
    compare_texts(name, name, texts, given)


if __name__ == "__main__":
    main()
