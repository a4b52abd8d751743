"""What the commands of the experiments share: their options, and a network that is trained once."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dshap.core.cores import n_cores
from dshap.engine import local_client, shut_down
from workflows.experiments.comparison import Study, compare, result_of
from workflows.experiments.data import Images
from workflows.experiments.images import grid_picture, image_methods
from workflows.experiments.networks import Classifier, n_parameters

__all__ = [
    "SEED",
    "about",
    "chosen",
    "cluster_of",
    "explain_images",
    "options",
    "tensor_of",
    "trained",
]

SEED = 0
TINY = 4
"""Instances of the tiny form."""
SHOWN, WRONG = 6, 2
"""Images of each class in the picture of masked pixels; misclassified ones of each class."""


def options(
    about: str | None, argv: Sequence[str] | None = None, networks: Sequence[str] = ()
) -> argparse.Namespace:
    """--data, --out, --instances, --threads, --workers, --tiny, and --network where there are
    several.

    torch is given its threads.
    """
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder that holds the data; not for --tiny")
    parser.add_argument(
        "--out", type=Path, required=True, help="folder of network, cubes, JSON and pictures"
    )
    parser.add_argument(
        "--instances", type=int, default=1_000, help="test instances to explain (default 1000)"
    )
    parser.add_argument(
        "--threads", type=int, default=n_cores(), help="of the network (default: all cores)"
    )
    parser.add_argument(
        "--workers", type=int, default=0, help="processes of this machine (default: this one alone)"
    )
    parser.add_argument(
        "--tiny", action="store_true", help="made-up data and few instances: seconds"
    )
    if networks:
        parser.add_argument(
            "--network", choices=networks, default=networks[0], help=f"default {networks[0]}"
        )
    given = parser.parse_args(argv)
    if not given.tiny and given.data is None:
        parser.error("--data is the folder that holds the data; or give --tiny")
    given.instances = TINY if given.tiny else given.instances
    torch.set_num_threads(given.threads)
    torch.manual_seed(SEED)
    return given


@contextmanager
def cluster_of(workers: int) -> Iterator[None]:
    """So many worker processes, which `dshap.explain` takes by itself; 0: none."""
    client = local_client(workers) if workers else None
    try:
        yield
    finally:
        if client is not None:
            shut_down(client)


def trained(
    network: nn.Module, path: Path, training: Callable[[nn.Module], nn.Module]
) -> nn.Module:
    """The network as it was stored at the path; trained, and stored there with what it took, where
    it was not."""
    if path.exists():
        network.load_state_dict(torch.load(path, weights_only=True))
        print(f"network: {path}")
        return network.eval()
    started = time.process_time()
    network = training(network)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(
        json.dumps({"training_processor_seconds": time.process_time() - started})
    )
    torch.save(network.state_dict(), path)
    return network


def tensor_of(data: Images) -> Tensor:
    """The training images (n, channels, height, width)."""
    return (
        torch.as_tensor(data.x_train, dtype=torch.float32)
        .reshape(-1, *data.shape)
        .permute(0, 3, 1, 2)
        .contiguous()
    )


def chosen(n_test: int, n: int) -> NDArray[np.int64]:
    """Positions of the instances to explain, drawn from those of the test set."""
    return np.random.default_rng(SEED).permutation(n_test)[:n]


def explain_images(
    name: str, title: str, data: Images, network: nn.Module, given: argparse.Namespace
) -> None:
    """Say how good the network is, compare the methods, and write the pictures of masked pixels."""
    classifier = Classifier(network, data.classes, data.shape)
    accuracy = classifier.accuracy(data.x_test, data.y_test)
    print(
        f"test accuracy {accuracy:.4f} of {len(data.x_test):,} images, {n_parameters(network):,} "
        "parameters"
    )
    positions = chosen(len(data.x_test), given.instances)
    study = Study(name, title, classifier, data.x_test[positions], data.reference, data.players)
    with cluster_of(given.workers):
        results = compare(
            study, image_methods(study, data.shape), given.out, about(network, accuracy, given.out)
        )
    of_class = [np.flatnonzero(data.y_test[positions] == label)[:SHOWN] for label in (0, 1)]
    shown = {
        f"{data.classes[data.y_test[positions[i]]]} ({i})": int(i) for i in np.concatenate(of_class)
    }
    grid_picture(study, data.shape, results, shown, given.out / f"{name}_masked.png")
    wrong_picture(study, data, given.out)


def wrong_picture(study: Study, data: Images, folder: Path) -> None:
    """Misclassified images of both classes, masked by the first method, as at the right of Figure
    3."""
    predicted = study.classifier.predicted(data.x_test)
    wrong = [
        np.flatnonzero((data.y_test == label) & (predicted != label))[:WRONG] for label in (0, 1)
    ]
    positions = np.concatenate(wrong)
    if not len(positions):
        print("no image of the test set is misclassified")
        return
    of_wrong = replace(study, rows=data.x_test[positions])
    first, method = next(iter(image_methods(of_wrong, data.shape).items()))
    result = result_of(of_wrong, first, method, folder / "misclassified")
    labels = {
        f"{data.classes[data.y_test[at]]} taken for {data.classes[predicted[at]]}": i
        for i, at in enumerate(positions)
    }
    grid_picture(of_wrong, data.shape, [result], labels, folder / f"{study.name}_misclassified.png")


def about(network: nn.Module, accuracy: float, folder: Path) -> dict[str, Any]:
    """What the JSON says of the network of the folder, with what its training took where that is
    known."""
    threads, path = torch.get_num_threads(), folder / "network.json"
    took = json.loads(path.read_text()) if path.exists() else {}
    found = {
        "parameters": n_parameters(network),
        "test_accuracy": round(accuracy, 4),
        "threads": threads,
    }
    return found | {name: round(seconds, 1) for name, seconds in took.items()}
