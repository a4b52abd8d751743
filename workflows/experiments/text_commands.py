"""What the commands on texts share: model families, and the comparison of one of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

import dshap
from dshap.report import sentence, sentence_picture
from workflows.experiments.commands import about, chosen, cluster_of, trained
from workflows.experiments.comparison import GRAPH, PRESENT, Study, compare
from workflows.experiments.networks import Classifier, n_parameters
from workflows.experiments.text_methods import exact_method, text_methods
from workflows.experiments.text_networks import (
    CharacterNetwork,
    RecurrentNetwork,
    WordNetwork,
    trimmed,
)
from workflows.experiments.texts import SENTENCE, Reviews, tokens_of, words_of
from workflows.experiments.training import train

__all__ = ["FAMILIES", "compare_texts", "explain_sentence"]

TINY_EPOCHS = 10
SHOWN = ("C-Shapley, regression", "C-Shapley, paper", "L-Shapley")
"""Methods in the picture of the sentence, beside the baselines: with the others absent, and
present."""


@dataclass(frozen=True)
class Family:
    """A kind of network, and how it is trained and asked."""

    title: str
    make: Callable[[Sequence[str], int], nn.Module]
    """(words, classes) -> network"""
    epochs: int
    batch: int
    """Texts that the network sees at once when it is asked; those that fit into the caches are the
    fastest."""
    n_words: int = 5_000
    """Of the vocabulary."""
    longest: int = 400
    """Words of a text that count, its last ones."""


FAMILIES: Mapping[str, Family] = {
    "word": Family("word network", lambda words, k: WordNetwork(len(words), k), epochs=3, batch=8),
    "recurrent": Family(
        "LSTM", lambda words, k: RecurrentNetwork(len(words), k), epochs=4, batch=128
    ),
    "character": Family(
        "character network", CharacterNetwork, epochs=4, batch=16, n_words=200_000, longest=180
    ),
}
"""Name of `--network` -> family: the three of the paper."""


def compare_texts(name: str, title: str, reviews: Reviews, given: argparse.Namespace) -> Study:
    """Train a network, explain test texts by every method, and write what came out."""
    family = FAMILIES[given.network]
    network = trained(
        family.make(reviews.words, len(reviews.classes)),
        given.out / "network.pt",
        lambda fresh: trained_on(fresh, reviews, TINY_EPOCHS if given.tiny else family.epochs),
    )
    classifier = Classifier(network, reviews.classes, None, family.batch)
    accuracy = classifier.accuracy(reviews.x_test, reviews.y_test)
    print(
        f"test accuracy {accuracy:.4f} of {len(reviews.x_test):,} texts, {n_parameters(network):,} "
        "parameters"
    )
    study = study_of(name, f"{title}, {family.title}", classifier, reviews, given)
    assert study.lengths is not None
    more = about(network, accuracy, given.out) | {
        "network": given.network,
        "mean_length": round(float(study.lengths.mean()), 1),
    }
    with cluster_of(given.workers):
        compare(study, text_methods(study, reviews.words), given.out, more)
    return study


def trained_on(network: nn.Module, reviews: Reviews, epochs: int) -> nn.Module:
    """The network after so many passes over the texts to train on."""
    x = torch.as_tensor(reviews.x_train)
    return train(
        network, x, reviews.y_train, epochs=epochs, change=trimmed, lengths=(x != 0).sum(dim=1)
    )


def study_of(
    name: str, title: str, classifier: Classifier, reviews: Reviews, given: argparse.Namespace
) -> Study:
    """Test texts as rows of tokens, padded to the longest of them."""
    rows = reviews.x_test[chosen(len(reviews.x_test), given.instances)]
    lengths = (rows != 0).sum(axis=1)
    rows = rows[:, : lengths.max()].astype(float)
    return Study(name, title, classifier, rows, np.zeros(rows.shape[1]), None, lengths)


def explain_sentence(study: Study, reviews: Reviews, given: argparse.Namespace) -> None:
    """The sentence of the paper by all its coalitions and by the methods of Table 2, as PNG and
    HTML."""
    row = tokens_of([words_of(SENTENCE)], reviews.words).astype(float)
    alone = replace(
        study, rows=row, reference=np.zeros(row.shape[1]), lengths=np.array([row.shape[1]])
    )
    methods = {
        name: method
        for name, method in text_methods(alone, reviews.words).items()
        if name.removesuffix(PRESENT) in SHOWN or not name.startswith(GRAPH)
    }
    shown = []
    for name, method in {"Shapley": exact_method(alone, reviews.words), **methods}.items():
        cube = dshap.explain(method.value, row, design=method.design, progress=False)
        shown.append(sentence(cube, words=SENTENCE.split(), label=name))
    predicted = reviews.classes[int(study.classifier.predicted(row)[0])]
    for end in ("png", "html"):
        sentence_picture(
            shown, given.out / f"sentence.{end}", f"for the predicted class: {predicted}"
        )
