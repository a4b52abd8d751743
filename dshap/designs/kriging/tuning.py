"""The table of all numbers that kriging is tuned by.

Each entry has its meaning, the experiment that set it, and the cost of half or twice the number.
"Not recorded" and "not measured" are meant literally.  Errors are root mean square errors of the
attributions, on games whose Shapley values are known (`tests/benchmarks/games.py`): products over
up to 15 players, airports, votes, heavy tails, order 3, networks, logistic models; "real" ones are
fitted models of tables, words and images.  `python -m tests.benchmarks.widths` measures them all.

Sizes are mostly in *pairs a player*: half the number of coalitions over the number of players.
"""

from __future__ import annotations

import numpy as np

# --- Limits of the design --------------------------------------------------------------------

MAX_KRIGED = 4_096
"""The most coalitions of a design.

Set by: every process factors a square matrix with half as many rows, in seconds and 130 MB.
Half, twice: with half, a game's own process takes 40 to 280 ms instead of up to 0.7 s; twice: not
measured.
"""
MAX_KRIGED_PLAYERS = 1_024
"""The most players of a design.

Set by: not recorded; the Krawtchouk polynomials are tested against integers up to it.
Half, twice: not measured.
"""
MANY_PLAYERS = 64
"""The most players that may have sparse terms and all averaged priors.

Set by: not recorded; 64 players have 41,664 products of three.
Half, twice: not measured.
"""
MAX_RELEVANT_PLAYERS = 256
"""The most players that may have separate processes for games, or relevances in the shared prior.

Set by: the sums over products of more players are slow: a game process of 256 players takes 0.5 s
with 2,048 coalitions and 2 s with 4,096.
Half, twice: not measured.
"""
MAX_CONTRASTED_PLAYERS = 128
"""The most players with an error contrast for each; if there are more, all share one contrast.

Set by: time; a contrast for each player would be slow.
Half, twice: not measured.
"""
MAX_INTERACTING_PLAYERS = 64
"""The most players for which interaction indices are computed.

Set by: 64 players have 2,016 pairs of players.
Half, twice: not measured.
"""
LEAST_ERROR_COALITIONS = 4
"""Coalitions a player below which standard errors are NaN.

Set by: not recorded.
Half, twice: not measured.
"""

# --- The list of pairs -----------------------------------------------------------------------

FIRST_PART = 4
"""One pair in this many is listed first; from the values of these pairs a pilot chooses the rest.

Set by: not recorded.
Half, twice: not measured.
"""
LEAST_FIRST_PAIRS = 2
"""Smallest number of pairs a player in the first part of a list.

Set by: not recorded.
Half, twice: not measured.
"""
THIN_PAIRS = 3
"""Pairs a player below which size 1 would be a third of the list or more, and can be left out.

Set by: with two pairs for each of 500 players, errors of airports, products and heavy tails are a
third of those with size 1 whole; those of three-way interactions are a fifth larger.
Half, twice: not measured.
"""
DETERMINING_PAIRS = 1.25
"""Pairs a player from which a list without size 1 is assumed to determine the attributions.

Set by: not recorded.  Below it the rank of the list is computed.
Half, twice: not measured.
"""

# --- The prior of a game ---------------------------------------------------------------------

DEFAULT_DECAY = 0.03
"""Ratio of the variances of successive odd orders, where no pilot has chosen one.

Set by: boosted trees and networks on four tables had decays of 0.001 to 0.01.  A decay that is too
small mostly raises the error by a few per cent; one that is too large can multiply it.
Half, twice: not measured.
"""
DEFAULT_VARIATION = 0.0
"""Variance of a player's effect over coalition sizes, where no pilot has chosen one.

Set by: not recorded.
Half, twice: the same, as it is 0.
"""
RELEVANT_ORDERS = (3, 5, 7, 9)
"""Orders of interactions in which players differ in relevance; in higher orders they are alike.

Set by: higher orders are weak where the relevances matter.
Half, twice: not measured.
"""
LEAST_SIZE = 0.01
"""The least size of a player's attributions, relative to the largest; smaller ones are raised to it.

Set by: not recorded.
Half, twice: not measured.
"""
SIZE_LENGTH = 0.3
"""Correlation length of a player's effect over coalition sizes, in units of |2|S|/d − 1|.

Set by: votes, airports and products of 15 to 38 players.
Half, twice: the errors change by less than 5 %, as with all lengths from 0.1 to 1.
"""
COMMON_VARIANCE = 10.0
"""Variance of the size effect that all players share, in units of the players' own variation.

Set by: votes, whose values jump at the quota.  The error with this effect, divided by the error
without it, is 0.7 to 0.98 for votes, 0.1 to 0.9 for one product over all of 14 players, 0.83 to 1.04
for airports and products of 30 players and more, and at most 1.16 for heavy tails and for airports
and products of 20 players and fewer.
Half, twice: not measured.
"""
COMMON_PAIRS = 30
"""With p pairs, the variance of the shared size effect is multiplied by (p − d)²/(30 d), at most 1.

Set by: with the whole variance and hardly more pairs than size 1, airports have 1.2 to 2.5 times
the error.
Half, twice: not measured.
"""
MOST_COMMON_PAIRS = 8
"""Pairs a player from which the shared size effect is left out.

Set by: with more pairs, the effect would reduce the error of votes by 2 %, and raise the error of
airports and products of 60 players by up to 7 %.
Half, twice: not measured.
"""
NUGGET = 1e-10
"""Added to the diagonal of the covariance against rounding, relative to a value's variance.

Set by: rounding of the factors.
Half, twice: not measured.
"""
CORRELATION_ROWS = 128
"""Number of pairs whose correlations are computed together; it limits memory, and changes no number.

Set by: not recorded.
Half, twice: not measured.
"""

# --- The pilot's choice of a prior -----------------------------------------------------------

FINE_DECAYS = tuple(float(f"{10.0**exponent:.3g}") for exponent in np.arange(-3.25, 0.25, 0.25))
"""Decays in steps of a quarter of a decade; every second one is in `DECAYS`.

Set by: as `DECAYS`.
Half, twice: not measured.
"""
DECAYS = FINE_DECAYS[1::2]
"""Decays that a pilot tries first, half a decade apart; then half a step less than its choice.

Set by: boosted trees and networks on four tables have decays of 0.001 to 0.01; products and airports
of many players have decays of 0.75 to 1.
Half, twice: not measured.
"""
DECAYS_NEAR_ONE = (FINE_DECAYS[-2], 0.75, 0.86, 0.92, 0.955, 0.98)
"""Decays that are also tried if one of the last two `DECAYS` is the likeliest.

Set by: the mean order of interactions is about 1/(1 − decay). With 0.75 to 0.92 errors on products
and airports of 80 players are 0.5 to 0.7 times those with 1.
Half, twice: not measured.
"""
LEAST_NEAR_ONE_PLAYERS = 48
"""Players from which `DECAYS_NEAR_ONE` are tried, and game processes have a separate decay.

Set by: products and airports.  With decays near 1, their errors are 0.5 to 0.7 times the errors with
the decay 1 for 80 players, 0.9 times for 45 players, and as large for 30 players.
Half, twice: not measured on its own.
"""
VARIATIONS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Variations that a pilot chooses from.

Set by: products over up to 15 of 45 players, for which 1 is the best.
Half, twice: for these, 0.3 has 1 to 5 % more error than 1, and 3 has 2 to 4 % more.
"""
POWERS = (0.5, 1.0)
"""Relevance is this power of a player's attribution size; a power of 0 is tried as well.

Set by: not recorded.
Half, twice: not measured.
"""
DEVIANCE_SLACK = 6.63
"""A pilot chooses the smallest decay whose deviance is within this of the least.

Set by: the 99 % quantile of χ² with one degree of freedom, which replaced the 95 % quantile, 3.84.
If a few games do not determine the decay, one that is too small mostly raises the error by a few per
cent; one that is too large can multiply it.
Half, twice: not measured.
"""
LIKELIHOOD_PAIRS = 512
"""The most pairs from which the likelihood of a prior is computed, unless `LIKELIHOOD_SHARE` is more.

Set by: time.  If these pairs reject all but one decay, that decay is used; else the remaining decays
are compared on all pairs.  The reason are votes of 20 players, with all sizes up to three and a few
more: there 512 pairs of three games at times do not reject the smallest decay, which has three times
the error of the decay that all pairs favour.
Half, twice: not measured.
"""
LIKELIHOOD_SHARE = 1.5
"""Smallest number of pairs a player from which the likelihood of a prior is computed.

Set by: not recorded.
Half, twice: not measured.
"""
ROUGHNESS = 1e-16
"""A game counts as additive up to this residual sum of squares, relative to its sum of squares.

Set by: rounding.
Half, twice: not measured.
"""

# --- The pilot's choice of a list ------------------------------------------------------------

GAIN = 0.8
"""Ratio of expected errors below which more sizes are complete, or sparse terms are added.

If games have separate processes, the limit for sparse terms is its square: the same values have
already chosen the processes.
Set by: not recorded; 0.7 before pilots saw four times as many rows of the list's first part.
Half, twice: not measured.
"""
LEAST_LIKELIHOOD = 0.05
"""Priors below this likelihood, relative to the largest, do not count in the choice of a list.

Set by: not recorded.
Half, twice: not measured.
"""
SCOUTED_GAIN = 0.96
"""Ratio of expected errors below which size 1 is listed if it is a third of the list or more.

Set by: errors with size 1 divided by errors without it, for up to 64 players.  On real models,
three-way interactions and networks the pilot expects 0.3 to 0.8 (measured: 0.1 to 0.6); on heavy
tails 0.73 to 0.99 (measured: 0.6 to 1); on airports and products of 30 players and more 0.95 to 1.4
(measured: 1 to 1.8).
Half, twice: not measured.
"""

# --- The mean over priors --------------------------------------------------------------------

FEW_PAIRS = 2
"""Pairs a player up to which attributions are wholly the mean over priors.

Set by: products and heavy tails of 30 players, for which the shares between `FEW_PAIRS` and
`MANY_PAIRS` have nearly the least error.  For most other games the error is within 3 % of the least;
votes would have less error with the mean alone.
Half, twice: not measured.
"""
MANY_PAIRS = 8
"""Pairs a player from which the mean over priors has no share.

Set by: as `FEW_PAIRS`.
Half, twice: not measured.
"""
AVERAGED_DECAYS = (0.001, 0.1, 1.0)
"""Decays of the averaged priors.

Set by: not recorded.
Half, twice: not measured.
"""
AVERAGED_VARIATIONS = (0.0, 0.3, 3.0)
"""Variations of the averaged priors.

Set by: not recorded.
Half, twice: not measured.
"""
AVERAGED_POWERS = (0.0, 0.5, 1.0)
"""Powers of the relevance in the averaged priors, for up to 64 players.

Set by: not recorded.
Half, twice: not measured.
"""
AVERAGED_POWERS_OF_MANY = AVERAGED_POWERS[:2]
"""Powers of the relevance in the averaged priors, for more than 64 players.

Set by: errors divided by the errors with equally relevant players.  Airports of 80 to 256 players
have 0.7, and 0.6 if the power 1 is added; votes, whose players are almost alike, have 1.1 and 1.2.
Half, twice: not measured.
"""
SLOPES = (0.003, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e5)
"""Slopes of the averaged priors, all equally likely before any value is known.

Set by: not recorded.
Half, twice: not measured.
"""
LEAST_SLOPE = 0.001
"""A part of every slope that is in the covariance of the interactions.

Set by: with few players, interactions of three players alone leave some values without variance.
Half, twice: not measured.
"""
EXPECTED_SLOPE = 10.0
"""The slope with which attribution sizes are estimated before likelihoods are computed.

Set by: not recorded.
Half, twice: not measured.
"""
COUNTED_GAMES = 2
"""The most independent games that all games of a pilot together count as.

Set by: games of one model are alike, and are less evidence about the next game than as many
independent games.
Half, twice: counted as one game, priors of small slopes win by chance on few columns; counted
in full, they win by chance in general.
"""
LEAST_WEIGHT = 0.001
"""Averaged priors below this weight, relative to the likeliest, are left out.

Set by: not recorded.
Half, twice: not measured.
"""
MOST_LOSS = 1.1
"""Ratio of held-out errors, to those of the likeliest prior, up to which the mean is used.

Set by: the ratio is 2 to 19 on boosted trees of 60 words, of which a few matter, and 1.4 to 2 on a
product of all of 14 players.  On all other games it is 0.7 to 1.15, and the mean has 0.4 to 1.1 times
the error of the likeliest prior.
Half, twice: not measured.
"""

# --- A process for each game -----------------------------------------------------------------

SHARED_PART = 0.2
"""Part of the variance of a game's own process that comes from the shared process.

Set by: two kinds of games.  On networks, words and images this part costs a twentieth of the gain.
If players have large interactions whose attributions cancel, the process of a game multiplies the
error by at most 1.6 with this part, and by 2 without it.
Half, twice: not measured.
"""
BY_GAME_GAIN = 0.95
"""Ratio of expected errors up to which games may have separate processes.

Set by: expected errors are weak evidence about the actual errors.  At ratios of 0.8 to 0.95 the
error was 0.4 to 0.9 times the error of the shared process, on seven models of words, images and
columns.  At larger ratios it was 0.9 to 1.1 times that error, on ten models and games, such as votes.
Half, twice: not measured.
"""
OWN_DECAY_PAIRS = 8
"""Pairs a player on which the decay of game processes is chosen.

Set by: airports of 150 players, which have a tenth more error with six.
Half, twice: not measured.
"""
LEAST_OWN_PAIRS = 6
"""Pairs a player from which more than 64 players have game processes.

Set by: not recorded.
Half, twice: not measured.
"""
SQUARE_SECONDS = 1.3e-9
"""Seconds that a game process takes for each p²·d of p pairs and d players.

Set by: times with 128 and 1,024 pairs of 12 to 60 players.
Half, twice: changes no number, only when a run shares one process to save time.
"""
CUBE_SECONDS = 6e-11
"""Seconds that a game process takes for each p³ of p pairs.

Set by: as `SQUARE_SECONDS`.
Half, twice: as `SQUARE_SECONDS`.
"""

# --- Sparse terms ----------------------------------------------------------------------------

MIN_SPARSE_PLAYERS = 6
"""Players from which games have sparse terms or separate processes.

Set by: not recorded.
Half, twice: not measured.
"""
LEAST_SPARSE_PAIRS = 2
"""Pairs a player above which up to 64 players have sparse terms or game processes.

Set by: with fewer, the training pairs of cross-validation may not determine the attributions.
Half, twice: not measured.
"""
TERM_ROUNDS = 4
"""Number of rounds in which terms are added to a game.

Set by: not recorded.
Half, twice: not measured.
"""
ROUND_TERMS = 50
"""The most terms that a round adds: those with the largest gradients of the likelihood.

Set by: not recorded.
Half, twice: not measured.
"""
VARIANCE_STEPS = 6
"""Steps of expectation–maximisation for the variances of all terms, in each round.

Set by: not recorded.
Half, twice: not measured.
"""
TERM_VALUES = 8
"""Values beyond the number of players that each term of a round needs.

Set by: with more terms than values, terms can explain a game completely, and their variances then
grow without bound.
Half, twice: not measured.
"""
LEAST_VARIANCE = 1e-14
"""The least variance of a coefficient, in units of scale.

Set by: rounding.
Half, twice: not measured.
"""
LEAST_SCALE = 1e-10
"""The least scale of a game with terms, relative to its scale without terms.

Set by: variances are in units of the scale, and lose precision below it.
Half, twice: not measured.
"""
OVERSHOOT = 1e-6
"""Rounding allowance for the squares that terms explain, relative to all squares of a game.

Set by: rounding.
Half, twice: not measured.
"""
SCREENED_GAMES = 32
"""Number of games that are screened for terms together; it limits memory.

Set by: not recorded.
Half, twice: not measured.
"""

# --- Cross-validation ------------------------------------------------------------------------

FOLDS = 5
"""One pair in this many is held out.

Set by: not recorded.
Half, twice: not measured.
"""
TRIED_GAMES = 8
"""The most games on which choices are tried, for up to 64 players.

Set by: not recorded.
Half, twice: not measured.
"""
TRIED_GAMES_OF_MANY = 3
"""The most games on which choices are tried, for more than 64 players.

Set by: not recorded.
Half, twice: not measured.
"""
MOST_DOUBT = 10.0
"""The most that a single game can multiply the standard errors of all games by.

Set by: without this limit, one game that terms solve exactly made the mean doubt of all games 1.
Half, twice: not measured.
"""

# --- Games that a pilot does not serve -------------------------------------------------------

OTHER_DECAYS = (0.001, 0.00562, 0.0316, 0.178, 1.0)
"""Decays of the priors that a game is compared with; it gets one of them if its pilot does not serve.

Set by: `python -m tests.benchmarks.served`, which runs seven kinds of games with the pilots of each
different kind.  The likeliest of these priors, with a separate process for the game, has 0.8 to 1.1
times the error of a pilot of the game's kind.
Half, twice: not measured.
"""
OTHER_VARIATIONS = (0.0, 0.3, 3.0)
"""Variations of these priors.

Set by: as `OTHER_DECAYS`; only votes choose a variation above 0.
Half, twice: not measured.
"""
SERVED_SLACK = (1.5, 1.1, 1.1)
"""Factors by which roughness, misfit and peak of a game may exceed the largest of the pilot's games.

Set by: `python -m tests.benchmarks.served`, games of the pilot's kind against games of other kinds.
Half, twice: not measured.
"""
KINDS_AT_ONCE = 2
"""Number of priors of `other_kinds` whose matrices stay in memory at the same time.

Set by: not recorded.
Half, twice: changes no number.
"""

# --- Standard errors -------------------------------------------------------------------------

WHOLE_SIZE_WEIGHT = 1 / 4
"""Weight of an error of a completely listed size in the scale of a game; sampled sizes have 1.

Set by: with this weight, intervals cover means over instances as often as single instances; it was
1/3 before.
Half, twice: not measured.
"""
PRIOR_TRUST = 0.75
"""The power of the variance ratio κ in standard errors, with many pairs a player.

Set by: not recorded; the prior is trusted with many pairs and ignored with few.
Half, twice: not measured.
"""
TRUST_LOST = 2
"""The loss in the power of κ for each player a pair: the power is 3/4 − 2d/p, at least 0.

Set by: as `PRIOR_TRUST`.
Half, twice: not measured.
"""
NORMAL_MEDIAN = 0.6745
"""The median of |z| for a standard normal z; a median divided by it estimates a standard deviation.

Set by: the normal distribution.
Half, twice: not meaningful.
"""
LEAST_MISSED_PLAYERS = 24
"""Players from which a median over players estimates the usual size of what φ misses.

Set by: not recorded.
Half, twice: not measured.
"""

# --- Memory ----------------------------------------------------------------------------------

SOLUTION_MATRICES = 6
"""Matrices of pairs × pairs in memory at a time while a solution is computed.

Set by: the matrices of the code; plans are compared with measured peaks
(`tests/engine/test_memory.py`).
Half, twice: changes no number, only the memory that a plan counts with.
"""
COMPARED_MATRICES = 5
"""Matrices of compared pairs × compared pairs, in addition to one for each of the `other_kinds`.

Set by: the matrices of the code: the pilot's precision, and the matrices of a process while it is
made.
Half, twice: changes no number, only the memory that a plan counts with.
"""
KIND_MATRICES = 3
"""Matrices of pairs × pairs that the process of one of the `other_kinds` stores.

Set by: the matrices of the code: covariances, factor and precision.
Half, twice: changes no number, only the memory that a plan counts with.
"""
FITTED_BYTES = 8 * 3 * TERM_ROUNDS * ROUND_TERMS
"""Bytes a pair for the columns in memory while terms are fitted to a game.

Set by: three columns of float64 for each term.
Half, twice: changes no number, only the memory that a plan counts with.
"""

# --- Positions of random streams: not tuned, another position is another draw ------------------

CONTRASTS = 4
"""Position of the signs of error contrasts, and of the streams below; coalitions have 0 to 3."""
SAMPLED_PAIRS = 1
"""Position, below `CONTRASTS`, of the pairs that are in a likelihood."""
HELD_OUT_ORDER = 2
"""Position, below `CONTRASTS`, of the order in which pairs are held out."""
PRIOR_SIGNS = 3
"""Position, below `CONTRASTS`, of the signs of averaged priors."""
