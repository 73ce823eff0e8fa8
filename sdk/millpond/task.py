"""`@app.task`: a function that runs here (`.local`), on a rented vGPU (`.remote`), or over many inputs (`.map`)."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from millpond.errors import TaskSubmitError

if TYPE_CHECKING:
    from millpond._handles import Handle
    from millpond._job import OnResult
    from millpond._leaseset import LeaseSet

P = ParamSpec("P")
R = TypeVar("R")
DEFAULT_TIME_LIMIT_S = 3600.0


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """`image` empty means the pool's own task image; `python` is a version specifier such as `>=3.11`.

    `inputs` maps names to CIDs: the file or folder appears under that name in the folder `MILLPOND_IN` of the task.
    """

    image: str = ""
    python: str = ""
    time_limit_s: float = DEFAULT_TIME_LIMIT_S
    max_attempts: int = 3
    inputs: dict[str, str] = field(default_factory=dict)


class Task(Generic[P, R]):
    """A function that can travel as source. Calling it runs it here, like the plain function."""

    def __init__(self, function: Callable[P, R], options: TaskOptions) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = getattr(function, "__qualname__", repr(function))
        self.options = options

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs here, without a lease."""
        return self.function(*args, **kwargs)

    def using(self, **inputs: str) -> Task[P, R]:
        """The same task with more inputs: `train.using(digits=cid)` finds `digits` in the folder `MILLPOND_IN`."""
        return Task(self.function, replace(self.options, inputs={**self.options.inputs, **inputs}))

    def remote(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs on a vGPU of the leases entered by `with client.rent(...)` and waits for the value.

        Raises what `millpond.errors` lists under `TaskError`, or `TaskSubmitError` outside a lease.
        """
        value: R = _current().call(self, args, dict(kwargs))
        return value

    def spawn(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """Submits it like `.remote`, durable at the node on return, and does not wait.

        The handle's `id` finds the task again from another process: `client.handle(id).result()`.
        """
        return _current().spawn(self, args, dict(kwargs))

    def map(
        self,
        *iterables: Iterable[Any],
        on: LeaseSet | None = None,
        is_ordered: bool = True,
        is_raising: bool = True,
        progress: bool | None = None,
        on_result: OnResult | None = None,
    ) -> Iterator[R]:
        """Runs once per element of the zipped `iterables`, spread over the leases.

        Yields values in input order, or as they come with `is_ordered=False`; a failed task raises, or with `is_raising=False` its
        error is yielded in place of the value. `progress` shows a bar on a terminal by default; `on_result` sees every result with
        its receipt, in order of arrival, on another thread.
        """
        shown = _wants_bar(progress)
        return (on or _current()).map(self, zip(*iterables, strict=False), is_ordered, is_raising, shown, on_result)


@dataclass(slots=True)
class App:
    """A named collection of tasks with common options."""

    name: str = "app"
    image: str = ""
    python: str = ""
    tasks: dict[str, Task[..., Any]] = field(default_factory=dict)

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self, /, *, image: str = "", python: str = "", time_limit_s: float = DEFAULT_TIME_LIMIT_S, max_attempts: int = 3
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(
        self,
        function: Callable[P, R] | None = None,
        /,
        *,
        image: str = "",
        python: str = "",
        time_limit_s: float = DEFAULT_TIME_LIMIT_S,
        max_attempts: int = 3,
    ) -> Any:
        """Makes a function a task; with or without options."""
        options = TaskOptions(image or self.image, python or self.python, time_limit_s, max_attempts)

        def wrap(inner: Callable[P, R]) -> Task[P, R]:
            task = Task(inner, options)
            self.tasks[task.name] = task
            return task

        return wrap(function) if function is not None else wrap


_entered: list[LeaseSet] = []


def enter(leases: LeaseSet) -> None:
    """Makes `leases` what `.remote` and `.map` use."""
    _entered.append(leases)


def leave(leases: LeaseSet) -> None:
    if leases in _entered:
        _entered.remove(leases)


def _current() -> LeaseSet:
    if not _entered:
        raise TaskSubmitError("no lease to run on")
    return _entered[-1]


def _wants_bar(progress: bool | None) -> bool:
    return sys.stderr.isatty() if progress is None else progress
