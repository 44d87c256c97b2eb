"""Arrays of the host: NumPy's, and torch's where a caller brings them. nkicc itself never imports torch."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["from_host", "is_torch", "to_torch"]

#: Types that torch and NumPy do not exchange: they pass as integers of the same size.
_BITS = {
    "torch.bfloat16": ("int16", np.dtype(ml_dtypes.bfloat16)),
    "torch.float8_e4m3fn": ("uint8", np.dtype(ml_dtypes.float8_e4m3fn)),
    "torch.float8_e5m2": ("uint8", np.dtype(ml_dtypes.float8_e5m2)),
}
_TORCH = {dtype: (name.removeprefix("torch."), bits) for name, (bits, dtype) in _BITS.items()}


def is_torch(value: object) -> bool:
    """Whether a value is a tensor of torch."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach")


def from_host(value: Any) -> Any:
    """A torch tensor as a NumPy array, which shares its memory if it is on the host; anything else as it is."""
    if not is_torch(value):
        return value
    tensor = value.detach().cpu()
    bits = _BITS.get(str(value.dtype))
    if bits is None:
        return tensor.numpy()
    return tensor.view(getattr(sys.modules["torch"], bits[0])).numpy().view(bits[1])


def to_torch(array: np.ndarray) -> Any:
    """A NumPy array as a torch tensor that shares its memory."""
    torch = sys.modules["torch"]
    name, bits = _TORCH.get(array.dtype, ("", ""))
    if not name:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(bits)).view(getattr(torch, name))
