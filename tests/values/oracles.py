"""Slow, plain definitions of the value functions and of the Shapley value, from the formulas
alone."""

from __future__ import annotations

import itertools
import math

import numpy as np

from dshap.kernels import pivoted_cholesky


def factor(family: str, parameter: float, x: float, z: float) -> float:
    t = abs(x - z)
    if family == "rbf":
        return math.exp(-(t**2) / (2 * parameter**2))
    if family == "laplacian":
        return math.exp(-t / parameter)
    if family == "matern32":
        return (1 + math.sqrt(3) * t / parameter) * math.exp(-math.sqrt(3) * t / parameter)
    if family == "matern52":
        s = math.sqrt(5) * t / parameter
        return (1 + s + s**2 / 3) * math.exp(-s)
    return 1.0 if x == z else parameter


def gram(model, x, z, columns):
    """k_S(x, z) (n, r), number by number."""
    kernel = model.kernel
    return np.array(
        [
            [
                math.prod(
                    factor(kernel.families[j], kernel.parameters[j], a[j], b[j]) for j in columns
                )
                for b in z
            ]
            for a in x
        ]
    )


def interventional(model, x, background, columns):
    """mean over b of f(x_S, X_b,S̄) (n, k)."""
    out = []
    for row in x:
        mixed = background.copy()
        mixed[:, columns] = row[columns]
        out.append(model.predict(mixed).mean(axis=0))
    return np.array(out)


def observational(model, x, data, columns, penalty, own=None, centred=False):
    """Proposition 3 of RKHS-SHAP with the ridge λn: c + Σ_r a_r k_S(x, z_r) [K_S(x, X) (K_S +
    λnI)⁻¹ K_S̄(X, z)]_r.

    `own` is whatever holds the kernel K of the embedding, the model by default.  Centred, [..] is
    μ + (K_S(x, X) − mean of K_S) H (H K_S H + λnI)⁻¹ (K_S̄(X, z) − μ) with H = I − 11ᵀ/n and μ the
    mean of K_S̄(X, z).
    """
    away, own = [j for j in range(x.shape[1]) if j not in columns], own or model
    n = len(data)
    within, across = gram(own, data, data, columns), gram(own, x, data, columns)
    target, mean = gram(model, data, model.landmarks, away), 0.0
    if centred:
        mean, centring = target.mean(axis=0), np.eye(n) - 1.0 / n
        across = (across - within.mean(axis=0)) @ centring
        within, target = centring @ within @ centring, target - mean
    conditional = mean + across @ np.linalg.solve(within + n * penalty * np.eye(n), target)
    return (
        model.intercept + (conditional * gram(model, x, model.landmarks, columns)) @ model.weights
    )


def shapley(value, d):
    """Σ_S⊆N∖i |S|!(d−|S|−1)!/d! (v(S∪i) − v(S)) (d, ...) of value(frozenset) -> array."""
    worth = {
        s: value(s)
        for size in range(d + 1)
        for s in map(frozenset, itertools.combinations(range(d), size))
    }
    phi = [np.zeros_like(worth[frozenset()]) for _ in range(d)]
    for i in range(d):
        for s, v in worth.items():
            if i not in s:
                weight = math.factorial(len(s)) * math.factorial(d - len(s) - 1) / math.factorial(d)
                phi[i] = phi[i] + weight * (worth[s | {i}] - v)
    return np.array(phi)


def validated(phi, g, penalties, caution):
    """λ and error of targets g (n, k) on features phi (n, p), from the residuals of all rows and
    from hat matrices.

    Of the λ, largest first, with λn ≥ 0.01 (times (1,000/n)² for more rows; all where less halves
    the error) the first whose error is at most one standard error, or 0.5 %, above the least.
    """
    n, gram, total = len(phi), phi.T @ phi, np.square(g).sum()
    fits, errors = [], []
    for penalty in penalties[n * penalties >= 1e-9]:
        solved = np.linalg.solve(gram + n * penalty * np.eye(len(gram)), phi.T)
        fits.append(phi @ (solved @ g))
        left = 1.0 - caution * (np.vdot(solved.T, phi) + 1.0) / n  # the trace of the hat matrix
        errors.append(np.square(g - fits[-1]).sum() / total / left**2 if left > 0 else np.inf)
    fits, errors = np.array(fits), np.array(errors)
    safe = np.count_nonzero(n * penalties >= 0.01 * min(1.0, 1_000 / n) ** 2 * (1 - 1e-9))
    if not errors.min() < errors[:safe].min() / 2.0:
        fits, errors = fits[:safe], errors[:safe]
    best = errors.argmin()
    moved = np.square(fits - fits[best]).sum(axis=(1, 2)) / total
    allowed = np.maximum(2.0 * np.sqrt(errors[best] * moved / n), 0.005 * errors[best])
    first = np.flatnonzero(errors <= errors[best] + allowed).min()
    return penalties[first], errors[first]


def whitened(kernel, z, x, columns, tolerance):
    """Φ (n, q) of rows x by the landmarks that pivoted Cholesky keeps, and which these are, in
    their order."""
    kept = pivoted_cholesky(kernel.matrix(z, z, columns), tolerance).kept
    factor = np.linalg.cholesky(kernel.matrix(z[kept], z[kept], columns))
    return np.linalg.solve(factor, kernel.matrix(x, z[kept], columns).T).T, kept
