"""The task of `map_dispatch.py`, in a module of its own: a worker imports this and nothing else of the benchmark."""

from __future__ import annotations

from millpond import App

app = App(name="benchmark")


@app.task
def step(number: int) -> int:
    return number + 1


def plain_step(number: int) -> int:
    return number + 1
