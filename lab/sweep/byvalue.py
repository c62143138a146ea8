# SPDX-License-Identifier: GPL-2.0-only
"""Functions that travel to workers which need not have the lab."""

import inspect
import pickle
import threading
from collections.abc import Callable
from typing import Any

import cloudpickle

_registry = threading.RLock()
"""cloudpickle has one list of such modules, for all threads."""


class ByValue:
    """A function of a module that a worker need not have: it travels with all of that module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        module = inspect.getmodule(self._function)
        with _registry:
            cloudpickle.register_pickle_by_value(module)
            try:
                return pickle.loads, (cloudpickle.dumps(self._function),)
            finally:
                cloudpickle.unregister_pickle_by_value(module)
