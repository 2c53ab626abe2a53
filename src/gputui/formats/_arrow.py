"""Batches of an Arrow stream as numpy columns, by Arrow's C interfaces (data and stream; their layout is stable).

https://arrow.apache.org/docs/format/CDataInterface.html and CStreamInterface.html. Python's lock is free while a batch
is made, so that the screen goes on and two streams are read at a time; the packages that wrap these hold it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np

from gputui.model.intervals import Ns

_INT64 = b"l"


class _Schema(ctypes.Structure):
    pass


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))),
    ("private_data", ctypes.c_void_p),
]


class _Array(ctypes.Structure):
    pass


_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))),
    ("private_data", ctypes.c_void_p),
]


class _Stream(ctypes.Structure):
    pass


_Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Schema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array))),
    ("get_last_error", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


def int64_batches(handle: Any) -> Iterator[list[Ns]]:
    """The columns of each batch, copied out of it; NULL is 0. ``handle`` owns the stream and has its ``address``.

    Raises ``OSError`` where the stream fails, or has a column of anything else.
    """
    stream = _Stream.from_address(handle.address)
    schema = _Schema()
    _check(stream.get_schema(ctypes.byref(stream), ctypes.byref(schema)))
    try:
        if any(schema.children[place].contents.format != _INT64 for place in range(schema.n_children)):
            raise OSError("a column is not of integers")
    finally:
        schema.release(ctypes.byref(schema))
    while True:
        batch = _Array()
        _check(stream.get_next(ctypes.byref(stream), ctypes.byref(batch)))
        if not batch.release:
            return
        try:
            columns = [_column(batch.children[place].contents) for place in range(batch.n_children)]
        finally:
            batch.release(ctypes.byref(batch))
        yield columns


def _check(status: int) -> None:
    if status:
        raise OSError(status, "the stream failed")


def _column(array: _Array) -> Ns:
    values = array.buffers[1]
    if not values:
        return np.zeros(array.length, dtype=np.int64)
    start = ctypes.cast(values, ctypes.POINTER(ctypes.c_int64))
    column: Ns = np.ctypeslib.as_array(start, (array.offset + array.length,))[array.offset :].copy()
    return column
