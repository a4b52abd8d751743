"""Recompute attributions of a finished run from the formulas, with numpy and nothing of the package
under test.

    python tests/oracles/recompute.py EXPORT.npz

EXPORT.npz (made by export.py) holds the model, all rows of data, the coalitions and what the run
stored for some rows.  Everything else is derived here: kernels, landmarks that count, values of
coalitions, the weights of the regression and its constrained solution.  Prints the largest
difference relative to the target's standard deviation; exit status 1 where it is above 1e-6.

Letters: N rows of data, n rows recomputed, c columns, d players, m coalitions, r model landmarks, q
embedding ones.
"""

import math
import sys

import numpy as np

TOLERANCE = 1e-6
"""Both sides are float64; what is left is rounding times the condition of the ridge solve, at most
1/penalty."""
CHUNK = 512
"""Rows of data whose kernel values are held at once."""
BATCH_BYTES = 2**28
"""Gram matrices held at once."""


def kernel_factor(family, parameter, distance):
    """k_j as a function of |x - z|."""
    t = distance / parameter if family != "categorical" else distance
    if family == "rbf":
        return np.exp(-(t**2) / 2)
    if family == "laplacian":
        return np.exp(-t)
    if family == "matern32":
        return (1 + math.sqrt(3) * t) * np.exp(-math.sqrt(3) * t)
    if family == "matern52":
        return (1 + math.sqrt(5) * t + 5 * t**2 / 3) * np.exp(-math.sqrt(5) * t)
    if family == "categorical":
        return np.where(t == 0, 1.0, parameter)
    raise SystemExit(f"unknown kernel family {family!r}")


class SubsetKernel:
    """k_S(x, z) for any set of columns S: products over S within each half of the columns, then one
    multiplication."""

    def __init__(self, export, x, z, subsets):
        factors = [
            kernel_factor(str(family), float(parameter), np.abs(x[:, j, None] - z[None, :, j]))
            for j, (family, parameter) in enumerate(
                zip(export["family"], export["parameter"], strict=True)
            )
        ]
        half = (len(factors) + 1) // 2
        self.parts = [(slice(0, half), {}), (slice(half, None), {})]
        for columns, products in self.parts:
            for subset in {tuple(row) for row in subsets[:, columns].tolist()}:
                chosen = [
                    factor for factor, is_in in zip(factors[columns], subset, strict=True) if is_in
                ]
                products[subset] = math.prod(chosen, start=np.ones((len(x), len(z))))

    def __call__(self, subset):
        low, high = (products[tuple(subset[columns].tolist())] for columns, products in self.parts)
        return low * high


def kept_landmarks(gram, tolerance):
    """Positions that pivoted Cholesky keeps: the largest remaining diagonal next, the first where
    several are largest; none once that is at most tolerance x the largest diagonal of all."""
    work, order = gram.copy(), np.arange(len(gram))
    largest = work.diagonal().max()
    rank = 0
    while rank < len(work):
        left = work.diagonal()[rank:]
        pivot = rank + int(np.argmax(left))
        if left.max() <= tolerance * largest:
            break
        order[[rank, pivot]] = order[[pivot, rank]]
        work[[rank, pivot]] = work[[pivot, rank]]
        work[:, [rank, pivot]] = work[:, [pivot, rank]]
        column = work[rank + 1 :, rank] / work[rank, rank]
        work[rank + 1 :, rank + 1 :] -= np.outer(column, work[rank, rank + 1 :])
        rank += 1
    return order[:rank]


def chunks(rows):
    return (rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK))


def interventional(export, present):
    """v_S(x) = c + sum_r a_r k_S(x, z_r) mu_r, mu_r = mean over all data of the kernel on the other
    columns."""
    z = export["landmarks"]
    mean = np.zeros((len(present), len(z)))
    for part in chunks(export["data"]):
        away = SubsetKernel(export, part, z, ~present)
        for j, subset in enumerate(~present):
            mean[j] += away(subset).sum(axis=0)
    mean /= len(export["data"])
    return expansion(export, present, mean)


def observational(export, present):
    """v_S(x) = c + sum_r a_r k_S(x, z_r) sum_N w_N(x) k_S̄(X_N, z_r), the conditional mean as
    weights on the data: w(x) = Psi (PsiᵀPsi + λN)⁻¹ psi(x), Psi features whose inner products are
    the kernel that the landmarks span."""
    values = np.empty((len(export["rows"]), len(present), export["weights"].shape[1]))
    per_batch = max(1, BATCH_BYTES // (8 * len(export["embedding"]) ** 2))
    for start in range(0, len(present), per_batch):
        batch = slice(start, start + per_batch)
        values[:, batch] = _observational(
            export, present[batch], export["penalty"][export["is_proper"]][batch]
        )
    return values


def _observational(export, present, penalties):
    rows, z, landmarks = export["rows"], export["embedding"], export["landmarks"]
    between, to_rows = SubsetKernel(export, z, z, present), SubsetKernel(export, rows, z, present)
    kept, features = [], []
    for subset in present:
        gram = between(subset)
        keep = kept_landmarks(gram, float(export["rank_tolerance"]))
        size, vectors = np.linalg.eigh(gram[np.ix_(keep, keep)])
        kept.append(keep)
        features.append(vectors / np.sqrt(size))  # psi(x) = k_S(x, Z_kept) @ this
    second = [np.zeros((len(keep), len(keep))) for keep in kept]
    for part in chunks(export["data"]):
        kernel = SubsetKernel(export, part, z, present)
        for subset, keep, feature, total in zip(present, kept, features, second, strict=True):
            psi = kernel(subset)[:, keep] @ feature
            total += psi.T @ psi
    # (q, n) of each coalition: what a data row's kernel values are multiplied with to give its
    # weights
    dual = []
    for subset, keep, feature, total, penalty in zip(
        present, kept, features, second, penalties, strict=True
    ):
        total += penalty * len(export["data"]) * np.eye(len(keep))
        psi = to_rows(subset)[:, keep] @ feature
        dual.append(feature @ np.linalg.lstsq(total, psi.T, rcond=None)[0])
    conditional = np.zeros((len(present), len(rows), len(landmarks)))
    for part in chunks(export["data"]):
        kernel, away = (
            SubsetKernel(export, part, z, present),
            SubsetKernel(export, part, landmarks, ~present),
        )
        for j, (subset, keep) in enumerate(zip(present, kept, strict=True)):
            conditional[j] += (kernel(subset)[:, keep] @ dual[j]).T @ away(~subset)
    return expansion(export, present, conditional)


def expansion(export, present, means):
    """v_S(x) = c + sum_r a_r k_S(x, z_r) mean_r, for the mean kernel (r,) or (n, r) of each
    coalition: (n, m, k)."""
    at = SubsetKernel(export, export["rows"], export["landmarks"], present)
    products = [
        (at(subset) * mean) @ export["weights"] for subset, mean in zip(present, means, strict=True)
    ]
    return np.stack(products, axis=1) + export["intercept"]


VALUES = {"kernel_interventional": interventional, "kernel_observational": observational}


def regression_weights(sizes, d, budget):
    """w(s)/p_S: the Shapley kernel over the chance that a coalition of this size is in the
    design."""
    every = [math.comb(d, s) for s in range(1, d)]
    low, high = 0.0, float(max(every))
    for _ in range(200):  # sum over sizes of min(c, C(d, s)) = budget - 2
        middle = (low + high) / 2
        low, high = (
            (middle, high)
            if sum(min(middle, count) for count in every) < budget - 2
            else (low, middle)
        )
    weight = {s: (d - 1) / (s * (d - s) * min(math.comb(d, s), high)) for s in range(1, d)}
    return np.array([weight[int(s)] for s in sizes])


def attributions(export):
    """phi (n, d, k): A⁻¹b - A⁻¹1 (1ᵀA⁻¹b - (v_N - v_∅)) / 1ᵀA⁻¹1 with A = ZᵀΩZ, b = ZᵀΩ(v -
    v_∅)."""
    masks = export["masks"]
    d = masks.shape[1]
    export["is_proper"] = (masks.sum(axis=1) > 0) & (masks.sum(axis=1) < d)
    proper = masks[export["is_proper"]]
    columns = (proper[:, :, None] & export["members"][None]).any(axis=1)
    v = VALUES[str(export["kind"])](export, columns)  # (n, m, k)
    v_empty, v_full = predict(export, export["data"]).mean(axis=0), predict(export, export["rows"])
    omega = regression_weights(proper.sum(axis=1), d, int(export["budget"]))
    z = proper.astype(float)
    a_inverse = np.linalg.inv(z.T @ (omega[:, None] * z))
    b = np.einsum("md,m,nmk->ndk", z, omega, v - v_empty)
    free = np.einsum("de,nek->ndk", a_inverse, b)
    share = a_inverse.sum(axis=1) / a_inverse.sum()
    excess = free.sum(axis=1) - (v_full - v_empty)
    return free - share[None, :, None] * excess[:, None, :], v_empty, v_full


def predict(export, x):
    out = []
    for part in chunks(x):
        every = np.ones((1, x.shape[1]), dtype=bool)
        kernel = SubsetKernel(export, part, export["landmarks"], every)
        out.append(kernel(every[0]) @ export["weights"] + export["intercept"])
    return np.concatenate(out)


def main(path):
    with np.load(path, allow_pickle=False) as stored:
        export = {name: stored[name] for name in stored.files}
    phi, base, prediction = attributions(export)
    differences = {
        "attribution": np.abs(phi - export["attribution"]),
        "base value": np.abs(base - export["base_value"]),
        "prediction": np.abs(prediction - export["prediction"]),
    }
    relative = {
        name: float((own / export["target_std"]).max()) for name, own in differences.items()
    }
    shown = (
        ", ".join(f"{name} {own:.2e}" for name, own in relative.items())
        + " of the target's standard deviation"
    )
    print(f"{len(phi)} rows, {len(export['masks'])} coalitions, {export['kind']}: {shown}")
    return 0 if max(relative.values()) <= TOLERANCE else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    raise SystemExit(main(sys.argv[1]))
