"""Functions of Stan programs by BridgeStan's C interface.

The package `bridgestan` checks every array that it passes on. That takes ten times as long as a
small program.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np


class StanFunctions:
    """The functions of a `bridgestan.StanModel` that compute numbers.

    Arrays are contiguous, of doubles, and of the right sizes: nothing is checked. Where the program
    fails, all methods raise RuntimeError in Stan's words.
    """

    def __init__(self, model: Any):
        self._model = model
        self._log_density = _function(model, "bs_log_density", num_pointers=2)
        self._gradient = _function(model, "bs_log_density_gradient", num_pointers=3)
        self._constrain = _function(model, "bs_param_constrain", num_pointers=3)

    def log_density(self, position: np.ndarray, out: np.ndarray) -> None:
        """The log density at an unconstrained position."""
        self._log_density(True, True, position.ctypes.data, out.ctypes.data)

    def gradient(self, position: np.ndarray, out: np.ndarray) -> None:
        """The log density and, behind it, its gradient."""
        place = out.ctypes.data
        self._gradient(True, True, position.ctypes.data, place, place + out.itemsize)

    def constrain(
        self, position: np.ndarray, out: np.ndarray, rng: Any, *, include_tp: bool, include_gq: bool
    ) -> None:
        """Parameters, transformed ones and generated quantities, in Stan's order."""
        self._constrain(include_tp, include_gq, position.ctypes.data, out.ctypes.data, rng.ptr)


def _function(model: Any, name: str, num_pointers: int) -> Callable[..., None]:
    """A function of two flags and pointers, which raises RuntimeError where it fails."""
    pointer = ctypes.c_void_p
    types = [pointer, ctypes.c_bool, ctypes.c_bool, *[pointer] * num_pointers, pointer]
    function = ctypes.CFUNCTYPE(ctypes.c_int, *types)((name, model.stanlib))
    free = ctypes.CFUNCTYPE(None, pointer)(("bs_free_error_msg", model.stanlib))
    address = ctypes.addressof

    def call(*arguments: Any) -> None:
        error = pointer()
        if function(model.model, *arguments, address(error)):
            words = f"{name} failed, and did not say why"
            if error.value is not None:
                words = ctypes.string_at(error.value).decode(errors="replace")
                free(error)
            raise RuntimeError(words)

    return call
