"""The functions of the scalar engine, from float32 to float32.

The device approximates them by piecewise polynomials; here they are what they are called, to float32 precision, also
outside of the input ranges that the device's fits cover. The sine is the exception, because what it does there is
documented (NKI documentation, "Supported Activation Functions"): the fit is evaluated as it stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.polynomial.chebyshev import Chebyshev

from nkicc.ir.types import ActFn

__all__ = ["ACTIVATIONS", "prelu"]

Array = np.ndarray
F32 = np.float32

_PI = F32(np.pi)
_ROOT_HALF = math.sqrt(0.5)
#: Slope of the sigmoid that approximates the normal distribution.
_SIGMOID_SLOPE = F32(1.702)


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return lambda nodes: np.array([function(float(node)) for node in nodes])


#: erf(√u) / √u for u in [0, 1].
_ERF_NEAR = Chebyshev.interpolate(_each(lambda u: math.erf(math.sqrt(u)) / math.sqrt(u)), 10, [0, 1])
#: log(erfc(z) / t) + z² for z = 1 / t - 1 in [0, 24], behind which erfc is 0 in float32.
_ERFC = Chebyshev.interpolate(_each(lambda t: math.log(math.erfc(1 / t - 1) / t) + (1 / t - 1) ** 2), 20, [1 / 25, 1])


def _erfc(x: Array) -> Array:
    """1 - erf(x) in float64, to float32 precision relative to the result also where that is tiny."""
    z = np.minimum(np.abs(x.astype(np.float64)), 24)
    t = 1 / (1 + z)
    tail = t * np.exp(_ERFC(t) - z * z)
    return np.where(x < 0, 2 - tail, tail)


def _erf(x: Array) -> Array:
    near = np.clip(x.astype(np.float64), -1, 1)
    return np.where(np.abs(x) < 1, near * _ERF_NEAR(near * near), 1 - _erfc(x)).astype(F32)


def _erf_dx(x: Array) -> Array:
    return F32(2 / math.sqrt(math.pi)) * np.exp(-np.square(x))


def _sigmoid(x: Array) -> Array:
    return F32(1) / (F32(1) + np.exp(-x))


def _softplus(x: Array) -> Array:
    return np.logaddexp(F32(0), x)


def _silu_dx(x: Array) -> Array:
    s = _sigmoid(x)
    return s * (F32(1) + x * (F32(1) - s))


def _normal(x: Array) -> Array:
    """The normal distribution, as float64."""
    return 0.5 * _erfc(x.astype(np.float64) * -_ROOT_HALF)


def _gelu(x: Array) -> Array:
    return (x * _normal(x)).astype(F32)


def _gelu_dx(x: Array) -> Array:
    density = np.exp(-0.5 * np.square(x.astype(np.float64))) / math.sqrt(2 * math.pi)
    return (_normal(x) + x * density).astype(F32)


def _gelu_apprx_tanh(x: Array) -> Array:
    # x · sigmoid(2y) is x / 2 · (1 + tanh y) without its cancellation for negative x.
    return x * _sigmoid(F32(2 * math.sqrt(2 / math.pi)) * (x + F32(0.044715) * x * x * x))


def _gelu_apprx_sigmoid_dx(x: Array) -> Array:
    s = _sigmoid(_SIGMOID_SLOPE * x)
    return s * (F32(1) + _SIGMOID_SLOPE * x * (F32(1) - s))


def _sin(x: Array) -> Array:
    """Behind ±π the last cubic of the fit goes on: the Taylor polynomial at ±π."""
    beyond = x - np.copysign(_PI, x)
    return np.where(np.abs(x) <= _PI, np.sin(x), beyond * (beyond * beyond * F32(1 / 6) - F32(1)))


def prelu(x: Array, slope: Array) -> Array:
    """x, or slope · x where x is negative."""
    return np.where(x < 0, slope * x, x)


ACTIVATIONS: dict[ActFn, Callable[[Array], Array]] = {
    ActFn.copy: lambda x: x,
    ActFn.abs: np.abs,
    ActFn.sign: np.sign,
    ActFn.square: np.square,
    ActFn.sqrt: np.sqrt,
    ActFn.rsqrt: lambda x: F32(1) / np.sqrt(x),
    ActFn.reciprocal: lambda x: F32(1) / x,
    ActFn.exp: np.exp,
    ActFn.log: np.log,
    ActFn.sin: _sin,
    ActFn.arctan: np.arctan,
    ActFn.erf: _erf,
    ActFn.erf_dx: _erf_dx,
    ActFn.relu: lambda x: np.maximum(x, F32(0)),
    ActFn.sigmoid: _sigmoid,
    ActFn.tanh: np.tanh,
    ActFn.softplus: _softplus,
    ActFn.mish: lambda x: x * np.tanh(_softplus(x)),
    ActFn.silu: lambda x: x * _sigmoid(x),
    ActFn.silu_dx: _silu_dx,
    ActFn.gelu: _gelu,
    ActFn.gelu_dx: _gelu_dx,
    ActFn.gelu_apprx_tanh: _gelu_apprx_tanh,
    ActFn.gelu_apprx_sigmoid: lambda x: x * _sigmoid(_SIGMOID_SLOPE * x),
    ActFn.gelu_apprx_sigmoid_dx: _gelu_apprx_sigmoid_dx,
}
