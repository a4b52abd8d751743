"""Slow, plain definitions of the value functions and of the Shapley value, from the formulas alone."""

from __future__ import annotations

import itertools
import math

import numpy as np


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
            [math.prod(factor(kernel.families[j], kernel.parameters[j], a[j], b[j]) for j in columns) for b in z]
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
    """Proposition 3 of RKHS-SHAP with the ridge λn: c + Σ_r a_r k_S(x, z_r) [K_S(x, X) (K_S + λnI)⁻¹ K_S̄(X, z)]_r.

    `own` is whatever holds the kernel K of the embedding, the model by default.  Centred, [..] is
    μ + (K_S(x, X) − mean of K_S) H (H K_S H + λnI)⁻¹ (K_S̄(X, z) − μ) with H = I − 11ᵀ/n and μ the mean of K_S̄(X, z).
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
    return model.intercept + (conditional * gram(model, x, model.landmarks, columns)) @ model.weights


def shapley(value, d):
    """Σ_S⊆N∖i |S|!(d−|S|−1)!/d! (v(S∪i) − v(S)) (d, ...) of value(frozenset) -> array."""
    worth = {s: value(s) for size in range(d + 1) for s in map(frozenset, itertools.combinations(range(d), size))}
    phi = [np.zeros_like(worth[frozenset()]) for _ in range(d)]
    for i in range(d):
        for s, v in worth.items():
            if i not in s:
                weight = math.factorial(len(s)) * math.factorial(d - len(s) - 1) / math.factorial(d)
                phi[i] = phi[i] + weight * (worth[s | {i}] - v)
    return np.array(phi)
