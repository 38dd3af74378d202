"""zico under PyTorch's CUDA tensors: the pluggable allocator, and PyTorch's statistics from zico's."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch

import zico
from zico._native import native

_allocator: Any = None


def plug(shim: ctypes.CDLL, path: Path, job: zico.Job) -> None:
    """Makes zico the allocator of CUDA memory. PyTorch refuses where CUDA memory is in use already."""
    global _allocator
    allocator: Any = torch.cuda.memory.CUDAPluggableAllocator(
        str(path), "zico_shim_cuda_malloc", "zico_shim_cuda_free"
    )
    plugged = allocator.allocator()
    plugged.set_record_stream_fn(_address(native().library.zico_record_use))
    plugged.set_reset_fn(_address(native().library.zico_empty_cache))
    torch.cuda.memory.change_current_allocator(allocator)
    # PyTorch keeps no reference to it.
    _allocator = allocator
    torch.cuda.memory.memory_stats_as_nested_dict = lambda device=None: _stats(job)


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


def _stats(job: zico.Job) -> dict[str, Any]:
    """A job's statistics by PyTorch's names: what ``torch.cuda.memory_allocated`` and the like read."""
    found = job.stats()

    def counter(current: int = 0, peak: int = 0, allocated: int = 0, freed: int = 0) -> dict[str, Any]:
        # zico has no pool of its own for small blocks.
        none = dict.fromkeys(("current", "peak", "allocated", "freed"), 0)
        all_ = {"current": current, "peak": peak, "allocated": allocated, "freed": freed}
        return {"all": all_, "large_pool": all_, "small_pool": none}

    live = found["allocations"] - found["frees"]
    totals = (found["allocated_total"], found["freed_total"])
    blocks = counter(live, live, found["allocations"], found["frees"])
    allocated = counter(found["allocated"], found["allocated_peak"], *totals)
    requested = counter(found["requested"], found["requested_peak"], *totals)
    # What has ever been reserved is not counted: at least the peak.
    peak = found["reserved_peak"]
    reserved = counter(found["reserved"], peak, peak, peak - found["reserved"])
    return {
        "allocation": blocks,
        "active": blocks,
        "allocated_bytes": allocated,
        "active_bytes": allocated,
        "requested_bytes": requested,
        "reserved_bytes": reserved,
        "segment": counter(),
        "inactive_split": counter(),
        "inactive_split_bytes": counter(),
        "oversize_allocations": counter()["all"],
        "oversize_segments": counter()["all"],
        "num_ooms": found["refusals"],
        "num_alloc_retries": 0,
        "num_sync_all_streams": 0,
        "num_device_alloc": 0,
        "num_device_free": 0,
        "max_split_size": -1,
    }
