"""A hyper-parameter sweep on rented vGPUs: train a small neural network on scikit-learn's handwritten digits, once per grid point.

    millpond dev up --detach
    millpond fund 20
    python examples/digits_sweep.py

The data travel once, by CID. Each task trains with NumPy, or CuPy where the slice has a GPU, and returns its accuracy.
"""

from __future__ import annotations

import io
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import millpond

HIDDEN = (4, 8, 16, 32, 64)
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
EPOCHS = 100
BATCH = 64

app = millpond.App("digits")


@dataclass(frozen=True)
class Point:
    """One trained network of the grid."""

    hidden: int
    rate: float
    accuracy: float
    seconds: float
    backend: str


@app.task(time_limit_s=300)
def train(hidden: int, rate: float, epochs: int = EPOCHS) -> dict[str, Any]:
    """Trains a network 64-`hidden`-10 (ReLU, softmax, SGD with momentum) and returns its accuracy on the test half."""
    import time

    import numpy as np

    xp, backend = np, "numpy"
    try:
        import cupy

        if cupy.cuda.runtime.getDeviceCount():
            xp, backend = cupy, "cupy"
    except (ImportError, RuntimeError):  # no CuPy, or no device: NumPy does the same
        pass

    started = time.perf_counter()
    data = np.load(Path(os.environ["MILLPOND_IN"]) / "digits", allow_pickle=False)
    images, labels = xp.asarray(data["images"], dtype=xp.float32) / 16.0, xp.asarray(data["labels"], dtype=xp.int64)
    half = len(images) // 2
    train_x, test_x, train_y, test_y = images[:half], images[half:], labels[:half], labels[half:]

    random = np.random.default_rng(hidden)
    weights = [
        xp.asarray(random.normal(0, (2 / fan_in) ** 0.5, (fan_in, fan_out)), dtype=xp.float32)
        for fan_in, fan_out in ((64, hidden), (hidden, 10))
    ]
    biases = [xp.zeros(hidden, xp.float32), xp.zeros(10, xp.float32)]
    moments = [xp.zeros_like(item) for item in (*weights, *biases)]

    for _ in range(epochs):
        order = xp.asarray(random.permutation(half))
        for start in range(0, half, BATCH):
            pick = order[start : start + BATCH]
            x, y = train_x[pick], train_y[pick]
            inner = xp.maximum(x @ weights[0] + biases[0], 0)
            scores = inner @ weights[1] + biases[1]
            odds = xp.exp(scores - scores.max(axis=1, keepdims=True))
            slope = odds / odds.sum(axis=1, keepdims=True)
            slope[xp.arange(len(y)), y] -= 1
            slope /= len(y)
            back = (slope @ weights[1].T) * (inner > 0)
            slopes = (x.T @ back, inner.T @ slope, back.sum(axis=0), slope.sum(axis=0))
            for i, (item, step) in enumerate(zip((*weights, *biases), slopes, strict=True)):
                moments[i] = 0.9 * moments[i] + step
                item[...] = item - rate * moments[i]

    guess = (xp.maximum(test_x @ weights[0] + biases[0], 0) @ weights[1] + biases[1]).argmax(axis=1)
    accuracy = float((guess == test_y).mean())
    return {
        "hidden": hidden,
        "rate": rate,
        "accuracy": accuracy,
        "seconds": time.perf_counter() - started,
        "backend": backend,
    }


def digits() -> bytes:
    """The 1,797 images of 8 x 8 pixels and their labels, shuffled by a fixed seed, as an .npz file."""
    import numpy as np
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    file = io.BytesIO()
    np.savez(file, images=data.data[order].astype(np.uint8), labels=data.target[order].astype(np.uint8))
    return file.getvalue()


def sweep(client: millpond.Client, leases: millpond.LeaseSet, **options: Any) -> list[Point]:
    """Trains every point of the grid on `leases`; `options` go to `map`."""
    grid = [(hidden, rate) for hidden in HIDDEN for rate in RATES]
    task = train.using(digits=client.store(digits()))
    return [Point(**value) for value in task.map([h for h, _ in grid], [r for _, r in grid], on=leases, **options)]


def main() -> None:
    with millpond.Client() as client:
        wanted = [millpond.Vgpu(share=500), millpond.Vgpu(share=300)]
        with client.rent(*wanted, duration=900) as leases:
            points = sweep(client, leases)
    best = max(points, key=lambda point: point.accuracy)
    print(f"{len(points)} networks trained; best: {asdict(best)}")


if __name__ == "__main__":
    main()
