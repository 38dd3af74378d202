"""zico under PyTorch's CUDA tensors: the pluggable allocator, and PyTorch's statistics from zico's."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch

import zico
from zico._native import native

_allocator: Any = None


def plug(shim: ctypes.CDLL, path: Path, job: zico.Job, device: int) -> None:
    """Makes zico the allocator of CUDA memory. PyTorch refuses where CUDA memory is in use already."""
    global _allocator
    allocator: Any = torch.cuda.memory.CUDAPluggableAllocator(
        str(path), "zico_shim_cuda_malloc", "zico_shim_cuda_free"
    )
    plugged = allocator.allocator()
    plugged.set_record_stream_fn(_address(shim.zico_shim_cuda_record_stream))
    plugged.set_reset_fn(_address(native().library.zico_empty_cache))
    plugged.set_begin_allocate_to_pool(shim.zico_shim_cuda_pool())
    shim.zico_shim_cuda_device(device)
    torch.cuda.memory.change_current_allocator(allocator)
    # PyTorch keeps no reference to it.
    _allocator = allocator
    _refuse_pools(shim.zico_shim_cuda_no_pools().decode())
    # PyTorch's functions of statistics, which all go through these, ask an allocator that has none.
    statistics = Statistics(job, device)
    core: Any = torch._C
    core._cuda_memoryStats = statistics.read
    core._cuda_resetPeakMemoryStats = statistics.reset_peaks
    core._cuda_resetAccumulatedMemoryStats = statistics.reset_totals


def _refuse_pools(reason: str) -> None:
    """PyTorch's Python refuses what its allocator would refuse later: within a graph on the graph's stream, which would stay
    the current one; for a pool without a reason that helps."""

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError(reason)

    graph: Any = torch.cuda.graphs.graph
    pool: Any = torch.cuda.memory.MemPool
    graph.__enter__ = pool.__init__ = refuse


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


#: What only grows, by the names of `zico.Job.stats`.
_TOTALS = ("allocations", "frees", "allocated_total", "freed_total", "refusals")


class Statistics:
    """A job's statistics by PyTorch's names: what ``torch.cuda.memory_allocated`` and the like read."""

    def __init__(self, job: zico.Job, device: int) -> None:
        self._job = job
        self._device = device
        #: What the totals were when they were reset.
        self._before = dict.fromkeys(_TOTALS, 0)

    def reset_peaks(self, device: int) -> None:
        """Counts peaks anew."""
        if device == self._device:
            self._job.reset_peaks()

    def reset_totals(self, device: int) -> None:
        """Counts all that only grows anew."""
        if device == self._device:
            found = self._job.stats()
            self._before = {name: found[name] for name in _TOTALS}

    def read(self, device: int) -> dict[str, Any]:
        """The statistics of a device: none of its memory is zico's but that of the job's."""
        found = self._job.stats()
        if device != self._device:
            found = dict.fromkeys(found, 0)
            totals = found
        else:
            totals = {name: found[name] - self._before[name] for name in _TOTALS}

        live = found["allocations"] - found["frees"]
        blocks = _counter(live, found["blocks_peak"], totals["allocations"], totals["frees"])
        bytes_ = (totals["allocated_total"], totals["freed_total"])
        allocated = _counter(found["allocated"], found["allocated_peak"], *bytes_)
        requested = _counter(found["requested"], found["requested_peak"], *bytes_)
        # What has ever been reserved is not counted: at least the peak.
        peak = found["reserved_peak"]
        reserved = _counter(found["reserved"], peak, peak, peak - found["reserved"])
        return {
            "allocation": blocks,
            "active": blocks,
            "allocated_bytes": allocated,
            "active_bytes": allocated,
            "requested_bytes": requested,
            "reserved_bytes": reserved,
            "segment": _counter(),
            "inactive_split": _counter(),
            "inactive_split_bytes": _counter(),
            "oversize_allocations": _counter()["all"],
            "oversize_segments": _counter()["all"],
            "num_ooms": totals["refusals"],
            "num_alloc_retries": 0,
            "num_sync_all_streams": 0,
            "num_device_alloc": 0,
            "num_device_free": 0,
            "max_split_size": -1,
        }


def _counter(current: int = 0, peak: int = 0, allocated: int = 0, freed: int = 0) -> dict[str, Any]:
    # zico has no pool of its own for small blocks.
    none = dict.fromkeys(("current", "peak", "allocated", "freed"), 0)
    all_ = {"current": current, "peak": peak, "allocated": allocated, "freed": freed}
    return {"all": all_, "large_pool": all_, "small_pool": none}
