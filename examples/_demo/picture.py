"""Draws the sweep: accuracy over hidden units and learning rate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from digits_sweep import Point

DARK_BELOW = 0.55
"""Fraction of the colour scale below which a cell is dark enough for white text."""


def grid_of(points: Sequence[Point]) -> tuple[list[int], list[float], list[list[float]]]:
    """Hidden units (rows), rates (columns) and accuracies; a point that is missing is NaN."""
    hidden = sorted({point.hidden for point in points})
    rates = sorted({point.rate for point in points})
    found = {(point.hidden, point.rate): point.accuracy for point in points}
    return hidden, rates, [[found.get((row, rate), float("nan")) for rate in rates] for row in hidden]


def draw(points: Sequence[Point], subtitle: str, path: Path) -> None:
    """Writes a heat map of `points` to `path` as PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import PercentFormatter

    hidden, rates, accuracy = grid_of(points)
    best = max(points, key=lambda point: point.accuracy)
    low, high = min(point.accuracy for point in points), best.accuracy
    figure, axes = plt.subplots(figsize=(9, 6.2), dpi=130, layout="constrained")
    image = axes.imshow(accuracy, cmap="viridis", vmin=low, vmax=high, origin="lower", aspect="auto")
    axes.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
    axes.set_yticks(range(len(hidden)), [str(count) for count in hidden])
    axes.set_xlabel("learning rate", fontsize=12)
    axes.set_ylabel("hidden units", fontsize=12)
    for row, values in enumerate(accuracy):
        for column, value in enumerate(values):
            is_dark = value < low + DARK_BELOW * (high - low)
            is_best = (hidden[row], rates[column]) == (best.hidden, best.rate)
            axes.text(
                column, row, f"{100 * value:.1f}", ha="center", va="center", fontsize=13,
                color="white" if is_dark else "black", weight="bold" if is_best else "normal",
            )  # fmt: skip
    place = (rates.index(best.rate) - 0.5, hidden.index(best.hidden) - 0.5)
    axes.add_patch(Rectangle(place, 1, 1, fill=False, edgecolor="crimson", linewidth=3))
    bar = figure.colorbar(image, ax=axes, format=PercentFormatter(1, decimals=0))
    bar.set_label("accuracy on the test half", fontsize=12)
    figure.suptitle(f"Handwritten digits: {len(points)} networks trained on rented slices", fontsize=14, weight="bold")
    axes.set_title(
        f"best {100 * best.accuracy:.1f} % with {best.hidden} hidden units, rate {best.rate:g} (framed)\n{subtitle}",
        fontsize=10,
    )
    figure.savefig(path)
    plt.close(figure)
