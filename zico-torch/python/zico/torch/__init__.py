"""zico as PyTorch's allocator.

`enable` makes a job of this process: PyTorch's memory comes from zico, and the job's iterations are marked where
optimizers make their steps. On a machine with a GPU that is the memory of the GPU, by PyTorch's pluggable allocator; else
the CPU's, by an allocator of c10.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch

import zico
from zico._native import native
from zico.torch._build import BuildError, load_shim, shim_path
from zico.torch._marks import Marks
from zico.torch._operations import OperationRecorder, Rates, record_operations

__all__ = [
    "BuildError",
    "OperationRecorder",
    "Rates",
    "disable",
    "enable",
    "is_enabled",
    "record_operations",
    "resume",
    "suspend",
    "suspended",
]

#: Tensors of fewer bytes stay with PyTorch's own allocator on the CPU.
THRESHOLD = 64 << 10

_shim: ctypes.CDLL | None = None
_marks: Marks | None = None


def is_enabled() -> bool:
    """Whether zico is the allocator of this process."""
    return zico._job is not None


def enable(
    budget: int | str | None = None,
    *,
    socket: str | os.PathLike[str] | None = None,
    pool: zico.Pool | None = None,
    device: str | torch.device | None = None,
    name: str | None = None,
    priority: int = 0,
    time_slice: float | str | None = None,
    interruptible: bool = False,
    threshold: int = THRESHOLD,
    marks: bool = True,
) -> zico.Job:
    """Makes zico the allocator of this process. Before the first tensor of the device is made, best right after
    ``import torch``.

    Args:
        budget: the most bytes that zico may hold in this process, as a number or as "8GiB".
        socket: where a broker serves, in place of a budget: all processes that connect to it share its budget.
        pool: a pool that is open already, in place of either.
        device: "cpu", "cuda" or "cuda:1"; the GPU where there is one unless it is said.
        name: by what name messages call the job; the script's name unless it is said.
        priority: of jobs that wait, ones with a higher priority go first.
        time_slice: in seconds, or as "500ms": the job takes turns with others, so that together they can keep more than the budget.
            Where it waits for the start of an iteration, or for memory, and others wait for its room, its tensors go to
            memory of the host, and they are back before it goes on. A turn lasts for an iteration and this time at
            least: some ten times of what it takes to copy its tensors. Not for a script of which another thread touches
            tensors, or enqueues work, while one starts an iteration.
        interruptible: where an iteration waits for memory and nothing else can go on, its tensors go to memory of the host, another
            job goes on, and they are back before the allocation returns. Without that one of two jobs whose steps have
            come to need more ends with an OutOfMemoryError. Not for a script of which another thread touches tensors, or enqueues
            work, while one allocates; of other streams each waits for the current one before it uses a tensor again.
        threshold: on the CPU, tensors of fewer bytes stay with PyTorch's own allocator.
        marks: an iteration ends with each step of an optimizer, and begins with the first allocation after it. The
            first begins with the first forward of a module. Without marks, say it by `zico.iteration`.

    Returns:
        The job.

    Raises:
        zico.ZicoError: if the pool or the job cannot be had.
        BuildError: if PyTorch's side of zico cannot be built.
        RuntimeError: if it is enabled already, or CUDA memory is in use already.
    """
    global _shim, _marks
    if is_enabled():
        raise RuntimeError("zico is enabled already in this process")
    if (budget, socket, pool).count(None) != 2:
        raise ValueError("say one of budget, socket and pool")
    where = _device(device)
    _shim = load_shim(native().path)
    job = (pool or _open(where, budget, socket)).join(
        name or _script(), priority, time_slice, interruptible
    )
    zico._set_job(job)
    try:
        if where.type == "cpu":
            _shim.zico_shim_host(threshold)
        else:
            from zico.torch import _cuda

            _cuda.plug(_shim, shim_path(), job, where.index or 0)
    except BaseException:
        zico._set_job(None)
        raise
    if marks:
        _marks = Marks()
        _marks.install()
    return job


def disable() -> None:
    """New tensors are PyTorch's own again, and nothing is marked any more. Those that are there stay zico's, and so
    does the pool that they are in. On CUDA PyTorch has no way back, and this raises `RuntimeError`."""
    global _marks
    if not is_enabled():
        return
    if _is_on_cuda():
        raise RuntimeError("PyTorch cannot change its CUDA allocator once it is in use")
    assert _shim is not None
    if _marks is not None:
        _marks.remove()
        _marks = None
    _shim.zico_shim_host(ctypes.c_size_t(-1).value)
    zico._set_job(None)


def suspend(keep: Iterable[torch.Tensor] = (), discard: Iterable[torch.Tensor] = ()) -> int:
    """Takes all tensors of this process that are zico's to memory of the host, and gives their room on the device to
    other jobs until `resume`: while a rollout runs, an evaluation on the CPU, or a server has nothing to do.

    The job has a return ticket: nobody can take its room for good. Where it could not come back it does not go, and
    this raises. An iteration that runs ends. Work that has been enqueued is waited for.

    Until `resume` no tensor may be touched, not even read: a process that does ends with a fault of memory. Tensors can
    be dropped. Small ones on the CPU (`enable`'s threshold) stay where they are.

    Args:
        keep: Tensors that stay and can be used meanwhile, as the parameters of a model that goes on serving.
        discard: Tensors of which nothing is needed any more, as a cache that is filled anew: they have anything in them
            afterwards. Sparing their copies is all that it does.

    Returns:
        How many bytes have gone; 0, and nothing is suspended, if all tensors stay.

    Raises:
        zico.ZicoError: if zico is not enabled, or they are suspended already, or other jobs keep what they would need
            to come back, or the host has no room, or tensors are to stay of a job that takes turns with others.
    """
    _synchronize()
    kept, discarded = ([some.untyped_storage().data_ptr() for some in tensors] for tensors in (keep, discard))
    return zico._current().suspend(kept, discarded)


def resume() -> None:
    """Brings the tensors back, where and as they were. Waits until there is room for them.

    Raises:
        zico.ZicoError: if zico is not enabled, or the device fails.
    """
    zico._current().resume()
    # Streams other than the job's own are not ordered after the copies.
    _synchronize()


@contextmanager
def suspended(keep: Iterable[torch.Tensor] = (), discard: Iterable[torch.Tensor] = ()) -> Iterator[int]:
    """Within, the tensors of this process are on the host: `suspend`, and `resume` at the end."""
    gone = suspend(keep, discard)
    try:
        yield gone
    finally:
        resume()


def _is_on_cuda() -> bool:
    return "zico.torch._cuda" in sys.modules


def _synchronize() -> None:
    if _is_on_cuda():
        torch.cuda.synchronize()


def _open(
    where: torch.device, budget: int | str | None, socket: str | os.PathLike[str] | None
) -> zico.Pool:
    number = where.index or 0
    on_cpu = where.type == "cpu"
    if socket is not None:
        return zico.Pool.connect_host(socket) if on_cpu else zico.Pool.connect_cuda(socket, number)
    assert budget is not None
    return zico.Pool.host(budget) if on_cpu else zico.Pool.cuda(budget, number)


def _device(device: str | torch.device | None) -> torch.device:
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    where = torch.device(device)
    if where.type not in ("cpu", "cuda"):
        raise ValueError(f"zico has memory of CPUs and of CUDA devices, not of {where}")
    return where


def _script() -> str:
    """The script's name."""
    name = os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0]
    return name or "python"
