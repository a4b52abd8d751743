"""Networks of texts.  Token 0 is padding, and what stands in the place of absent words.

Each network has an inference form, which gives the same logits in a fraction of the time once it is
trained.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from workflows.experiments.folding import folded

__all__ = ["CharacterNetwork", "RecurrentNetwork", "WordNetwork", "trimmed"]

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789'"
"""Characters of words; all others, and the blank between two words, are no character: a vector of
zeros."""
WIDTH = 3
"""Words that a filter of `WordNetwork` sees."""
N_CHARACTERS, LONGEST_WORD = 1_014, 16
"""Characters of a text, as of Zhang, Zhao and LeCun; those of a word that count."""
LANES = 64
"""Numbers of which torch takes the maxima of several at once, in vectors: five times as fast for
256 as for 250."""
STEP, SEEN = 27, 123
"""Characters from one place of the last convolution of `CharacterNetwork` to the next, and those
that a place sees."""
CLOSED = -1e4
"""Of a gate of the LSTM that lets nothing through."""


class WordNetwork(nn.Module):
    """The paper's network of IMDB: words embedded, 250 filters of width 3, their maxima, dense.

    Two tokens of padding stand before and three behind every text, so that more of them change
    nothing.
    """

    def __init__(
        self, n_words: int = 5_000, n_classes: int = 2, n_embedding: int = 50, n_filters: int = 250
    ) -> None:
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
        return self.dense(self.convolved(embedded).amax(dim=1))

    def convolved(self, embedded: Tensor) -> Tensor:
        """(n, places, filters), bias apart: one product of matrices, which takes half of the time
        of a convolution."""
        n_filters, n_embedding, width = self.convolution.weight.shape
        windows = embedded.unfold(1, width, 1).transpose(2, 3).reshape(-1, width * n_embedding)
        weights = self.convolution.weight.permute(2, 1, 0).reshape(-1, n_filters)
        return (windows @ weights).reshape(len(embedded), -1, n_filters)

    def dense(self, maxima: Tensor) -> Tensor:
        """Logits of the largest value (n, filters) of each filter."""
        found = (maxima + self.convolution.bias).relu()
        return self.outer(self.dropout(self.inner(found).relu()))

    def inference_form(self) -> WordForm:
        """See `WordForm`."""
        return WordForm(self)


class WordForm:
    """A trained `WordNetwork` whose filters add what they look up: a row for each token at each of
    their places."""

    def __init__(self, network: WordNetwork) -> None:
        self.network, self.n_filters = network, network.convolution.out_channels
        with torch.inference_mode():
            # (width, words, filters)
            tables = network.embedding.weight @ network.convolution.weight.permute(2, 1, 0)
            tables = functional.pad(tables, (0, -self.n_filters % LANES))
        self.table, self.starts = tables.flatten(0, 1), tables.shape[1] * torch.arange(WIDTH)

    def sizes(self, tokens: Tensor) -> Tensor:
        """(n,): what the time of a text grows with."""
        return words_of(tokens)

    def __call__(self, tokens: Tensor) -> Tensor:
        """Logits (n, classes) of tokens (n, length)."""
        places = (
            functional.pad(tokens.long(), self.network.margins).unfold(1, WIDTH, 1) + self.starts
        )
        # (n · places, filters)
        found = functional.embedding_bag(places.flatten(0, 1), self.table, mode="sum")
        return self.network.dense(
            found.unflatten(0, places.shape[:2]).amax(dim=1)[:, : self.n_filters]
        )


def words_of(tokens: Tensor) -> Tensor:
    """(n,): words of each text."""
    return (tokens != 0).sum(dim=1)


def trimmed(tokens: Tensor) -> Tensor:
    """Texts (n, longest) without the padding behind all of them; padding among their tokens
    stays."""
    held = (tokens != 0).any(dim=0).nonzero()
    return tokens[:, : int(held.max()) + 1 if len(held) else 0]


def joined(values: Tensor, is_kept: Tensor, width: int) -> Tensor:
    """(n, width): the values (n, places) of each row that are kept, one after the other; 0 behind
    them."""
    # the others go where none is read
    at = torch.where(is_kept, is_kept.cumsum(dim=1) - 1, width).clamp(max=width)
    out = torch.zeros(len(values), width + 1, dtype=values.dtype)
    return out.scatter_(1, at, values)[:, :width]


def gathered(tokens: Tensor) -> Tensor:
    """Texts (n, longest) with all padding moved behind their words."""
    return joined(tokens, tokens != 0, tokens.shape[1])


class RecurrentNetwork(nn.Module):
    """The paper's network of Yahoo with a quarter of its units: words embedded, a bidirectional
    LSTM, dense.

    It reads over padding, so that an absent word is as if the text had never had it.
    """

    def __init__(
        self, n_words: int, n_classes: int = 2, n_embedding: int = 64, n_units: int = 64
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_words, n_embedding)
        self.recurrent = nn.LSTM(n_embedding, n_units, batch_first=True, bidirectional=True)
        self.outer, self.dropout = nn.Linear(2 * n_units, n_classes), nn.Dropout(0.3)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (n, classes) of tokens (n, length); a text of no word counts as one of padding."""
        held, lengths = gathered(functional.pad(tokens.long(), (0, 1))), words_of(tokens)
        embedded = self.dropout(self.embedding(held))
        packed = pack_padded_sequence(
            embedded, lengths.clamp(min=1), batch_first=True, enforce_sorted=False
        )
        _, (last, _) = self.recurrent(packed)  # (2, n, units)
        return self.outer(self.dropout(torch.cat([last[0], last[1]], dim=1)))

    def inference_form(self) -> RecurrentForm:
        """See `RecurrentForm`."""
        return RecurrentForm(self)


class RecurrentForm:
    """A trained `RecurrentNetwork` that looks up what each word adds to the gates, and reads both
    ways at once.

    Padding stands before the words either way; its gates are closed, so that it leaves the state at
    0.  tanh x is 2σ(2x) − 1, for which the cells and what is added to them are kept at twice their
        value.
    """

    def __init__(self, network: RecurrentNetwork) -> None:
        weights = dict(network.recurrent.named_parameters())
        self.outer, self.n_units = network.outer, network.recurrent.hidden_size
        twice = torch.ones(4, self.n_units)
        twice[2] = 2.0  # of the gates i, f, g and o, g is the one with a tanh
        tables, steps = [], []
        with torch.inference_mode():
            for end in ("l0", "l0_reverse"):
                offsets = weights[f"bias_ih_{end}"] + weights[f"bias_hh_{end}"]
                table = (
                    network.embedding.weight @ weights[f"weight_ih_{end}"].T + offsets
                ) * twice.flatten()
                table[0] = CLOSED
                tables.append(table)
                steps.append(weights[f"weight_hh_{end}"].T * twice.flatten())
            self.of_no_word = network(torch.zeros(1, 1))
        self.n_words, self.table, self.steps = len(tables[0]), torch.cat(tables), torch.stack(steps)

    def sizes(self, tokens: Tensor) -> Tensor:
        """(n,): what the time of a text grows with."""
        return words_of(tokens)

    def __call__(self, tokens: Tensor) -> Tensor:
        """Logits (n, classes) of tokens (n, length)."""
        tokens = tokens.long()
        backward = trimmed(gathered(tokens))
        forward = gathered(tokens.flip(1))[:, : backward.shape[1]]
        # (2n, longest), the words at the end
        read = torch.cat([forward, backward + self.n_words]).flip(1)
        logits = self.outer(torch.cat([*self.states(read.T.contiguous())], dim=1))
        return torch.where((words_of(tokens) == 0)[:, None], self.of_no_word, logits)

    def states(self, read: Tensor) -> Tensor:
        """(2, n, units): of both ways at the end, from rows of the table (steps, 2n)."""
        gates = torch.empty(2, read.shape[1] // 2, 4 * self.n_units)
        state, twice_cell = torch.zeros(2, 2, gates.shape[1], self.n_units)
        let_in, kept, new, let_out = gates.chunk(4, dim=2)
        for rows in read:
            torch.index_select(self.table, 0, rows, out=gates.flatten(0, 1))
            gates.baddbmm_(state, self.steps).sigmoid_()
            twice_cell.mul_(kept).addcmul_(let_in, new, value=4).sub_(let_in, alpha=2)
            torch.sigmoid(twice_cell, out=state).mul_(2).sub_(1).mul_(let_out)
        return state


class CharacterNetwork(nn.Module):
    """The network of Zhang, Zhao and LeCun that the paper takes for AG's news, with a quarter of
    its filters.

    Six convolutions, three maxima of three places, two dense layers, on the first 1,014 characters.
    An absent word is a blank.  Each convolution is normalised over its batch, without which so few
    texts teach it nothing.
    """

    def __init__(
        self, words: Sequence[str], n_classes: int = 2, n_filters: int = 64, n_inner: int = 256
    ) -> None:
        super().__init__()
        self.register_buffer("spelled", spelling(words), persistent=False)
        layers: list[nn.Module] = []
        before = len(ALPHABET)
        for width, is_pooled in (
            (7, True),
            (7, True),
            (3, False),
            (3, False),
            (3, False),
            (3, True),
        ):
            layers += [nn.Conv1d(before, n_filters, width), nn.BatchNorm1d(n_filters), nn.ReLU()]
            layers += [nn.MaxPool1d(3)] * is_pooled
            before = n_filters
        layers += [nn.Flatten(), nn.LazyLinear(n_inner), nn.ReLU(), nn.Dropout(0.5)]
        layers += [
            nn.Linear(n_inner, n_inner),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(n_inner, n_classes),
        ]
        self.layers = nn.Sequential(*layers)
        self.layers(torch.zeros(2, len(ALPHABET), N_CHARACTERS))  # so that it knows its sizes

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (n, classes) of tokens (n, length)."""
        shown = functional.one_hot(self.characters(tokens.long()), len(ALPHABET) + 1)[..., 1:]
        return self.layers(shown.transpose(1, 2).float())

    def characters(self, tokens: Tensor) -> Tensor:
        """(n, 1014): characters of the words one after the other, as positions of `ALPHABET` from
        1; 0 is none."""
        found = self.spelled[tokens].flatten(1)  # (n, length · longest word)
        return joined(found, found >= 0, N_CHARACTERS).long()

    def inference_form(self) -> CharacterForm:
        """See `CharacterForm`."""
        return CharacterForm(self)


class CharacterForm:
    """A trained `CharacterNetwork` that ends where the text ends: all places behind it see blanks,
    and are alike.

    Its first convolution adds rows of a table, one for each character at each of its places.
    """

    def __init__(self, network: CharacterNetwork) -> None:
        first, _, _, *layers = folded(network.layers)
        self.characters, self.width = network.characters, first.kernel_size[0]
        at = [isinstance(layer, nn.Flatten) for layer in layers].index(True)
        self.convolved, self.dense = nn.Sequential(*layers[:at]), nn.Sequential(*layers[at:])
        self.lengths = (network.spelled >= 0).sum(dim=1)
        with torch.inference_mode():
            # (width, characters, filters)
            of_place = functional.pad(first.weight.permute(2, 1, 0), (0, 0, 1, 0))
            self.table, self.offsets = of_place.flatten(0, 1), first.bias
            self.starts = of_place.shape[1] * torch.arange(self.width)
            self.of_blanks = self.features(torch.zeros(1, N_CHARACTERS, dtype=torch.long))

    def sizes(self, tokens: Tensor) -> Tensor:
        """(n,): what the time of a text grows with."""
        return self.lengths[tokens.long()].sum(dim=1) - tokens.shape[1]

    def __call__(self, tokens: Tensor) -> Tensor:
        """Logits (n, classes) of tokens (n, length)."""
        codes = self.characters(tokens.long())
        n_places = max(1, -(-trimmed(codes).shape[1] // STEP))
        found = self.features(codes[:, : STEP * (n_places - 1) + SEEN])
        alike = self.of_blanks[..., n_places:].expand(len(found), -1, -1)
        return self.dense(torch.cat([found, alike], dim=2))

    def features(self, codes: Tensor) -> Tensor:
        """(n, filters, places) of the last convolution."""
        places = codes.unfold(1, self.width, 1) + self.starts
        found = functional.embedding_bag(places.flatten(0, 1), self.table, mode="sum")
        # (n, places, filters)
        pooled = found.reshape(len(codes), -1, 3, len(self.offsets)).amax(dim=2)
        return self.convolved((pooled + self.offsets).relu().transpose(1, 2))


def spelling(words: Sequence[str]) -> Tensor:
    """(words, longest): characters and a blank of each word, −1 beyond; token 0 and 1, which are no
    words, a blank."""
    found = torch.full((len(words), LONGEST_WORD + 1), -1, dtype=torch.int8)
    for row, word in zip(found, ["", "", *words[2:]], strict=True):
        codes = [1 + ALPHABET.index(each) for each in word[:LONGEST_WORD] if each in ALPHABET]
        row[: len(codes) + 1] = torch.tensor([*codes, 0], dtype=torch.int8)
    return found
