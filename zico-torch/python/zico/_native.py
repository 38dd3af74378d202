"""zico's library, and its functions as Python calls them.

ctypes lets go of the interpreter's lock while a function runs, so that one that waits stops no other thread.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

OK = 0
OUT_OF_MEMORY = 5
NO_BROKER = 11


_JOB_STATS = (
    "requested",
    "requested_peak",
    "allocated",
    "allocated_peak",
    "allocated_total",
    "freed_total",
    "reserved",
    "reserved_peak",
    "allocations",
    "frees",
    "blocks_peak",
    "refusals",
    "iterations",
    "waited_to_begin",
    "waited_for_memory",
)
_POOL_STATS = ("budget", "held", "pending")


class ZicoError(RuntimeError):
    """A call of zico has failed. ``status`` is a ``ZicoStatus`` of zico.h."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class JobStats(ctypes.Structure):
    """``ZicoJobStats`` of zico.h."""

    _fields_ = [(name, c_uint64) for name in _JOB_STATS]


class PoolStats(ctypes.Structure):
    """``ZicoPoolStats`` of zico.h."""

    _fields_ = [(name, c_uint64) for name in _POOL_STATS]


# Arguments; all of them return a status.
_CALLS = {
    "zico_open_host": (c_uint64, c_uint64, ctypes.POINTER(c_uint64)),
    "zico_open_cuda": (c_uint32, c_uint64, ctypes.POINTER(c_uint64)),
    "zico_connect_host": (c_char_p, c_uint64, ctypes.POINTER(c_uint64)),
    "zico_connect_cuda": (c_char_p, c_uint32, ctypes.POINTER(c_uint64)),
    "zico_serve_host": (c_char_p, c_uint64, c_int),
    "zico_serve_cuda": (c_char_p, c_uint32, c_uint64, c_int),
    "zico_serve_cuda_while_used": (c_char_p, c_uint32, c_uint64, c_int),
    "zico_serve_host_while_used": (c_char_p, c_uint64, c_int),
    "zico_broker_stats": (c_char_p, ctypes.POINTER(PoolStats)),
    "zico_broker_report": (c_char_p, c_char_p, c_uint64, ctypes.POINTER(c_uint64)),
    "zico_close": (c_uint64,),
    "zico_set_budget": (c_uint64, c_uint64),
    "zico_trim": (c_uint64,),
    "zico_pool_stats": (c_uint64, ctypes.POINTER(PoolStats)),
    "zico_join": (c_uint64, c_char_p, c_int32, c_void_p, ctypes.POINTER(c_uint64)),
    "zico_join_interruptible": (c_uint64, c_char_p, c_int32, c_uint64, c_void_p, ctypes.POINTER(c_uint64)),
    "zico_join_turns": (c_uint64, c_char_p, c_int32, c_uint64, c_void_p, ctypes.POINTER(c_uint64)),
    "zico_begin": (c_uint64,),
    "zico_end": (c_uint64,),
    "zico_mark": (c_uint64,),
    "zico_suspend_with": (
        c_uint64,
        ctypes.POINTER(c_void_p),
        c_size_t,
        ctypes.POINTER(c_void_p),
        c_size_t,
        ctypes.POINTER(c_uint64),
    ),
    "zico_resume": (c_uint64,),
    "zico_job_stats": (c_uint64, ctypes.POINTER(JobStats)),
    "zico_reset_peaks": (c_uint64,),
    "zico_record": (c_uint64, c_char_p, c_char_p),
    "zico_record_end": (c_uint64,),
    "zico_use": (c_uint64,),
    "zico_use_everywhere": (c_uint64,),
}


def library_path() -> Path:
    """Where the library is: ``ZICO_LIBRARY``, or beside this file."""
    named = os.environ.get("ZICO_LIBRARY")
    if named:
        return Path(named).resolve()
    found = sorted(Path(__file__).resolve().parent.glob("_zico*.so"))
    if not found:
        raise ImportError(
            "zico's library is not beside the package: install the package with pip, or name "
            "libzico_torch.so in ZICO_LIBRARY"
        )
    return found[0]


class Native:
    """The library. Its calls raise `ZicoError`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.library = ctypes.CDLL(str(path))
        for name, arguments in _CALLS.items():
            function = getattr(self.library, name)
            function.argtypes, function.restype = arguments, c_int
        self.library.zico_last_error.restype = c_char_p
        self.library.zico_version.restype = c_char_p
        self.library.zico_is_forked.restype = c_int

    def call(self, name: str, *arguments: object) -> None:
        """Calls a function, and raises what it says if it fails."""
        status = getattr(self.library, name)(*arguments)
        if status != OK:
            raise ZicoError(status, self.library.zico_last_error().decode())

    def made(self, name: str, *arguments: object) -> int:
        """Calls a function whose last argument is a pointer to a handle, and returns the handle."""
        handle = c_uint64(0)
        self.call(name, *arguments, ctypes.byref(handle))
        return handle.value

    def pool_stats(self, pool: int) -> dict[str, int]:
        """What a pool holds."""
        stats = PoolStats()
        self.call("zico_pool_stats", pool, ctypes.byref(stats))
        return {name: getattr(stats, name) for name in _POOL_STATS}

    def broker_stats(self, socket: bytes) -> dict[str, int]:
        """What all jobs of the broker at a socket hold together."""
        stats = PoolStats()
        self.call("zico_broker_stats", socket, ctypes.byref(stats))
        return {name: getattr(stats, name) for name in _POOL_STATS}

    def broker_report(self, socket: bytes) -> str:
        """A table of the jobs of the broker at a socket."""
        length, capacity = c_uint64(0), 1 << 14
        while True:
            text = ctypes.create_string_buffer(capacity)
            self.call("zico_broker_report", socket, text, capacity, ctypes.byref(length))
            if length.value < capacity:
                return text.value.decode(errors="replace")
            # More jobs than there was room for.
            capacity = 2 * length.value

    def job_stats(self, job: int) -> dict[str, int]:
        """What a job has done."""
        stats = JobStats()
        self.call("zico_job_stats", job, ctypes.byref(stats))
        return {name: getattr(stats, name) for name in _JOB_STATS}

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from one that uses zico, and uses none itself."""
        return bool(self.library.zico_is_forked())


_native: Native | None = None


def native() -> Native:
    """The library, loaded once."""
    global _native
    if _native is None:
        _native = Native(library_path())
    return _native
