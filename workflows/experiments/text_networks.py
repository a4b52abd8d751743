"""Networks of texts.  Token 0 is padding, and what stands in the place of absent words."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

__all__ = ["CharacterNetwork", "RecurrentNetwork", "WordNetwork", "trimmed"]

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789'"
"""Characters of words; all others, and the blank between two words, are no character: a vector of zeros."""
WIDTH = 3
"""Words that a filter of `WordNetwork` sees."""
N_CHARACTERS, LONGEST_WORD = 1_014, 16
"""Characters of a text, as of Zhang, Zhao and LeCun; those of a word that count."""


class WordNetwork(nn.Module):
    """The paper's network of IMDB: words embedded, 250 filters of width 3, their maxima, dense.

    Two tokens of padding stand before and three behind every text, so that more of them change nothing.
    """

    def __init__(self, n_words: int = 5_000, n_classes: int = 2, n_embedding: int = 50, n_filters: int = 250) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_words, n_embedding)
        nn.init.uniform_(self.embedding.weight, -0.05, 0.05)  # small, so that training forms them
        self.convolution = nn.Conv1d(n_embedding, n_filters, WIDTH)
        self.inner, self.outer = nn.Linear(n_filters, n_filters), nn.Linear(n_filters, n_classes)
        self.dropout = nn.Dropout(0.2)
        self.margins = (WIDTH - 1, WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (n, classes) of tokens (n, length)."""
        embedded = self.dropout(self.embedding(functional.pad(tokens.long(), self.margins)))
        found = (self.convolved(embedded).amax(dim=1) + self.convolution.bias).relu()
        return self.outer(self.dropout(self.inner(found).relu()))

    def convolved(self, embedded: Tensor) -> Tensor:
        """(n, places, filters), bias apart: one product of matrices, which takes half of the time of a convolution."""
        n_filters, n_embedding, width = self.convolution.weight.shape
        windows = embedded.unfold(1, width, 1).transpose(2, 3).reshape(-1, width * n_embedding)
        weights = self.convolution.weight.permute(2, 1, 0).reshape(-1, n_filters)
        return (windows @ weights).reshape(len(embedded), -1, n_filters)


def trimmed(tokens: Tensor) -> Tensor:
    """Texts (n, longest) without the padding behind all of them; padding among their tokens stays."""
    held = (tokens != 0).any(dim=0).nonzero()
    return tokens[:, : int(held.max()) + 1 if len(held) else 0]


def gathered(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Texts (n, longest) with all padding moved behind their words, and the number of words (n,) of each."""
    is_padding = tokens == 0
    order = is_padding.long().argsort(dim=1, stable=True)
    return tokens.gather(1, order), (~is_padding).sum(dim=1)


class RecurrentNetwork(nn.Module):
    """The paper's network of Yahoo with a quarter of its units: words embedded, a bidirectional LSTM, dense.

    It reads over padding, so that an absent word is as if the text had never had it.
    """

    def __init__(self, n_words: int, n_classes: int = 2, n_embedding: int = 64, n_units: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_words, n_embedding)
        self.recurrent = nn.LSTM(n_embedding, n_units, batch_first=True, bidirectional=True)
        self.outer, self.dropout = nn.Linear(2 * n_units, n_classes), nn.Dropout(0.3)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (n, classes) of tokens (n, length); a text of no word counts as one of padding."""
        held, lengths = gathered(functional.pad(tokens.long(), (0, 1)))
        embedded = self.dropout(self.embedding(held))
        packed = pack_padded_sequence(embedded, lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
        _, (last, _) = self.recurrent(packed)  # (2, n, units)
        return self.outer(self.dropout(torch.cat([last[0], last[1]], dim=1)))


class CharacterNetwork(nn.Module):
    """The network of Zhang, Zhao and LeCun that the paper takes for AG's news, with a quarter of its filters.

    Six convolutions, three maxima of three places, two dense layers, on the first 1,014 characters.  An absent word
    is a blank.
    """

    def __init__(self, words: Sequence[str], n_classes: int = 2, n_filters: int = 64, n_inner: int = 256) -> None:
        super().__init__()
        self.register_buffer("spelled", spelling(words), persistent=False)
        layers: list[nn.Module] = []
        before = len(ALPHABET)
        for width, is_pooled in ((7, True), (7, True), (3, False), (3, False), (3, False), (3, True)):
            layers += [nn.Conv1d(before, n_filters, width), nn.ReLU(), *[nn.MaxPool1d(3)] * is_pooled]
            before = n_filters
        layers += [nn.Flatten(), nn.LazyLinear(n_inner), nn.ReLU(), nn.Dropout(0.5)]
        layers += [nn.Linear(n_inner, n_inner), nn.ReLU(), nn.Dropout(0.5), nn.Linear(n_inner, n_classes)]
        self.layers = nn.Sequential(*layers)
        self.layers(torch.zeros(1, len(ALPHABET), N_CHARACTERS))  # so that it knows its sizes

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (n, classes) of tokens (n, length)."""
        shown = functional.one_hot(self.characters(tokens.long()), len(ALPHABET) + 1)[..., 1:]
        return self.layers(shown.transpose(1, 2).float())

    def characters(self, tokens: Tensor) -> Tensor:
        """(n, 1014): characters of the words one after the other, as positions of `ALPHABET` from 1; 0 is none."""
        found = self.spelled[tokens].flatten(1)  # (n, length · longest word)
        behind = (found < 0).long().argsort(dim=1, stable=True)[:, :N_CHARACTERS]
        found = found.gather(1, behind).clamp(min=0).long()
        return functional.pad(found, (0, N_CHARACTERS - found.shape[1]))


def spelling(words: Sequence[str]) -> Tensor:
    """(words, longest): characters and a blank of each word, −1 beyond; token 0 and 1, which are no words, a blank."""
    found = torch.full((len(words), LONGEST_WORD + 1), -1, dtype=torch.int8)
    for row, word in zip(found, ["", "", *words[2:]], strict=True):
        codes = [1 + ALPHABET.index(each) for each in word[:LONGEST_WORD] if each in ALPHABET]
        row[: len(codes) + 1] = torch.tensor([*codes, 0], dtype=torch.int8)
    return found
