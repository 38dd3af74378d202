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

    def counter(current: int, peak: int, allocated: int, freed: int) -> dict[str, Any]:
        return {"all": {"current": current, "peak": peak, "allocated": allocated, "freed": freed}}

    live = found["allocations"] - found["frees"]
    allocated = (found["allocated_total"], found["freed_total"])
    return {
        "allocation": counter(live, live, found["allocations"], found["frees"]),
        "allocated_bytes": counter(found["allocated"], found["allocated_peak"], *allocated),
        "active_bytes": counter(found["allocated"], found["allocated_peak"], *allocated),
        "requested_bytes": counter(found["requested"], found["requested_peak"], *allocated),
        "reserved_bytes": counter(
            found["reserved"], found["reserved_peak"], found["reserved_peak"], 0
        ),
        "num_ooms": found["refusals"],
        "num_alloc_retries": 0,
    }
