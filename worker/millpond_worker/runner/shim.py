"""What `import millpond` finds inside a container: enough to load a module that declares tasks.

Decorated functions stay callable; everything else of the renter's client says that it belongs on the renter's side.
"""

from __future__ import annotations

from typing import Any


class Task:
    """A task as its own module sees it inside a container: the plain function."""

    def __init__(self, function: Any) -> None:
        self.local = function
        self.__wrapped__ = function
        self.__name__ = getattr(function, "__name__", "task")
        self.__doc__ = getattr(function, "__doc__", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.local(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError("%s.%s works on the renter's side, not inside a task" % (self.__name__, name))


class App:
    """Stands for the renter's app: `@app.task` and `@app.task(...)` keep the function."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.options = kwargs

    def task(self, function: Any = None, **options: Any) -> Any:
        return task(function, **options)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError("App.%s works on the renter's side, not inside a task" % name)


class _Outside:
    """A name of the client. Using it inside a task is a mistake with a clear answer."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "millpond.%s works on the renter's side, not inside a task; "
            "in a script, put what uses it below `if __name__ == '__main__':`" % self._name
        )


def task(function: Any = None, **options: Any) -> Any:
    """`@task` or `@task(...)`."""
    return Task if function is None else Task(function)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Outside(name)
