"""Kriging: the Shapley values of the posterior mean of a Gaussian process on games.

A *game* is the value v(S) of one row and one output as a function of the coalition S.  Attributions
depend on its odd part y(S) = (v(S) − v(S̄))/2 alone.  Coalitions therefore come in pairs of
complements, written as rows z of ±1.

- Prior (`prior.py`): y = Σ_i β_i z_i + g.  The effects β_i of single players are flat, a trend.  g
  is Gaussian: independent coefficients of the interactions of 3, 5, … players, whose total variance
  falls by the factor `decay` from order to order and is larger where the players are relevant; and
  effects that change with the size of the coalition, of variance `variation`.
- Likelihood (`process.py`): values are exact, so the y of the listed pairs are Gaussian with the
  covariance of the prior.  The trend is projected out and every game has its own scale (restricted
  maximum likelihood).
- Posterior (`process.py`): φ = Wᵀy, universal kriging.  φ is efficient, exact for interactions of
  up to two players, and linear in the values: W is the same for all games.
- Error (`standard_errors.py`): sums over leave-one-out errors of the values, weighted by how far W
  is from the weights that the pairs have when all are listed.

Three doors, which `KrigingDesign` (`design.py`) joins; `kriging` (`factory.py`) checks its options:

1. `pairs.py`, `PairList`: which coalitions are listed.
2. `posterior.py`, `Posterior`: values in; attributions, replicates and interactions out.
3. `pilot.py`, `look`: the values of a few rows in; one record out, the `Findings`.

`tuning.py` lists every tuned number with the experiment that set it.

The pilot estimates decay, variation and relevance by likelihood, decides how the list goes on, and
may allow three exceptions:

- Few coalitions, up to 16 a player (`averaging.py`): effects β have a variance too, and φ is in
  part a mean over priors, weighted by their likelihoods.
- Games that differ (`game_processes.py`): a process for each game, in which players are as relevant
  as its attributions are large.
- Few large interactions (`sparse_terms.py`): interactions of three players, found in each game.

They are used if cross-validation (`cross_validation.py`) or the likelihood favours them.  With
the last two, φ is no longer linear in the values.
"""

from dshap.core.faces import lazy_face

__getattr__, __dir__, __all__ = lazy_face(__name__)
