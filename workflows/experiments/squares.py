"""MNIST, 3 against 8: what the regression of C-Shapley owes to its squares, its constraint, and
what is outside.

python -m workflows.experiments.squares --data FOLDER --out FOLDER [--instances 1000] [--threads N]
[--tiny]

`--out` may be that of workflows.experiments.mnist, whose network is then taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import dshap
from workflows.experiments.commands import about, chosen, cluster_of, options
from workflows.experiments.comparison import Method, Study, compare
from workflows.experiments.images import BUDGET, value_of
from workflows.experiments.kept import KeptMarginal
from workflows.experiments.mnist import images_and_network
from workflows.experiments.neighbours import REGRESSIONS
from workflows.experiments.networks import Classifier

SIDES = (2, 4, 8)


def square_methods(study: Study, image: tuple[int, int, int]) -> dict[str, Method]:
    """Name -> method: regressions by their largest squares, and baselines that sample as those of
    the paper do."""
    d, designs = len(study.members), dshap.designs
    pixels, value = designs.grid(*image[:2]), value_of(study, study.players)
    kept = value_of(study, study.players, KeptMarginal)
    found = {
        name.replace("regression", f"squares of {side}"): Method(kept, make(pixels, side))
        for name, make in REGRESSIONS.items()
        for side in SIDES
        if side < min(image[:2])
    }
    plain = designs.kernelshap(d, BUDGET * d, sampling="kernel", paired=False, n_replicates=0)
    found["KernelSHAP, not paired"] = Method(value, plain)
    orders = designs.permutation(d, BUDGET, antithetic=False, n_replicates=0)
    return found | {"SampleShapley, not reversed": Method(value, orders)}


def main(argv: Sequence[str] | None = None) -> None:
    """Explain test images by regressions on squares of all sizes, and write what came out."""
    given = options(__doc__, argv)
    data, network = images_and_network(given)
    classifier = Classifier(network, data.classes, data.shape)
    accuracy = classifier.accuracy(data.x_test, data.y_test)
    print(f"test accuracy {accuracy:.4f}")
    rows = data.x_test[chosen(len(data.x_test), given.instances)]
    study = Study("squares", "MNIST, 3 against 8", classifier, rows, data.reference, data.players)
    with cluster_of(given.workers):
        compare(
            study, square_methods(study, data.shape), given.out, about(network, accuracy, given.out)
        )


if __name__ == "__main__":
    main()
