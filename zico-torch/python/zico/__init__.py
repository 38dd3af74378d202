"""zico: several training jobs share one budget of accelerator memory.

For a PyTorch script::

    import zico.torch
    zico.torch.enable(budget="8GiB")

or, with no line of the script changed::

    python -m zico run --budget 8GiB -- python train.py &
    python -m zico run --budget 8GiB -- python other.py

`zico.stats` says what the job has allocated and what it has waited for.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from zico._native import ZicoError, native

__all__ = ["Job", "Pool", "ZicoError", "__version__", "iteration", "parse_bytes", "parse_seconds", "stats"]

__version__ = "0.1.0"

_UNITS = {"": 1, "B": 1} | {
    prefix + unit: base**power
    for power, prefix in enumerate("KMGT", start=1)
    for unit, base in (("", 1024), ("iB", 1024), ("B", 1000))
}


def parse_bytes(size: int | str) -> int:
    """A number of bytes: as it is, or as people write it.

    "8GiB" and "8G" are 8 * 1024**3 bytes, "8GB" are 8 * 1000**3, "1.5MiB" works as well.

    Raises:
        ValueError: if it is none.
    """
    if isinstance(size, int):
        bytes_ = size
    else:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", size)
        unit = _UNITS.get(found.group(2)) if found else None
        if found is None or unit is None:
            raise ValueError(f"{size!r} is no number of bytes: write 8GiB, 500MB or 1048576")
        bytes_ = int(float(found.group(1)) * unit)
    if bytes_ <= 0:
        raise ValueError(f"{size!r} is not more than no bytes")
    return bytes_


def parse_seconds(time: float | str) -> float:
    """A time in seconds: as it is, or as people write it: "500ms", "1.5s", "20us", "800ns".

    Raises:
        ValueError: if it is none.
    """
    seconds = -1.0
    if isinstance(time, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ns|us|ms|s)\s*", time)
        if found:
            seconds = float(found.group(1)) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[found.group(2)]
    else:
        seconds = float(time)
    if not 0 <= seconds < 1e9:
        raise ValueError(f"{time!r} is no time: write 500ms or 1.5s")
    return seconds


def _addresses(some: Iterable[int]) -> ctypes.Array[ctypes.c_void_p]:
    addresses = list(some)
    return (ctypes.c_void_p * len(addresses))(*addresses)


class Job:
    """One tenant of a pool: what `Pool.join` gives."""

    def __init__(self, handle: int, pool: Pool) -> None:
        self._handle = handle
        self.pool = pool

    def begin(self) -> None:
        """Begins an iteration. Waits until it may start; other threads of Python run meanwhile."""
        native().call("zico_begin", self._handle)

    def end(self) -> None:
        """Ends the iteration. None begins until `begin` or `mark`."""
        native().call("zico_end", self._handle)

    def mark(self) -> None:
        """Marks the end of an iteration: the next one begins with the next allocation."""
        native().call("zico_mark", self._handle)

    @contextmanager
    def iteration(self) -> Iterator[None]:
        """What is done within is one iteration."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def suspend(self, keep: Iterable[int] = (), discard: Iterable[int] = ()) -> int:
        """Takes all that the job has to memory of the host, and gives its room on the device to others until `resume`.

        The job can always come back: where it could not, it does not go. Blocks keep their addresses; until then nothing
        may touch them, and nothing can be allocated. Tensors are suspended by `zico.torch.suspended`.

        Args:
            keep: Addresses in blocks that stay, and may be used meanwhile; with what lies in the same regions.
            discard: Addresses in blocks whose contents are not needed any more.

        Returns:
            How many bytes have gone; 0, and the job is not suspended, if all stays.

        Raises:
            ZicoError: if it is suspended already, others keep what it would need to come back, the host has no room, or
                blocks are to stay of a job that takes turns with others.
        """
        kept, discarded = _addresses(keep), _addresses(discard)
        return native().made("zico_suspend_with", self._handle, kept, len(kept), discarded, len(discarded))

    def resume(self) -> None:
        """Brings a suspended job back as it was. Waits until there is room; other threads of Python run meanwhile."""
        native().call("zico_resume", self._handle)

    def record(self, path: str | os.PathLike[str], name: str = "job") -> None:
        """Records what the job does with memory from now on in a file, as a trace that the program ``zico`` reads."""
        native().call("zico_record", self._handle, os.fsencode(path), name.encode())

    def end_recording(self) -> None:
        """Ends the recording, and writes it.

        Raises:
            ZicoError: if no iteration has ended, or the file cannot be written.
        """
        native().call("zico_record_end", self._handle)

    @contextmanager
    def use(self) -> Iterator[Job]:
        """This thread allocates for this job within."""
        native().call("zico_use", self._handle)
        try:
            yield self
        finally:
            native().call("zico_use", 0)

    def stats(self) -> dict[str, int]:
        """What the job has done, in bytes, counts and nanoseconds (``ZicoJobStats`` of zico.h)."""
        return native().job_stats(self._handle)

    def reset_peaks(self) -> None:
        """Counts the peaks in `stats` anew, from what is there now."""
        native().call("zico_reset_peaks", self._handle)


class Pool:
    """Memory of one device under one budget."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @classmethod
    def host(cls, budget: int | str, capacity: int | str | None = None) -> Pool:
        """A pool of this machine's own memory, of which ``capacity`` is taken for all there is."""
        limit = 0 if capacity is None else parse_bytes(capacity)
        return cls(native().made("zico_open_host", parse_bytes(budget), limit))

    @classmethod
    def connect_host(cls, socket: str | os.PathLike[str]) -> Pool:
        """A pool of this machine's own memory, under the budget of the broker that serves at ``socket``."""
        return cls(native().made("zico_connect_host", os.fsencode(socket), 0))

    @classmethod
    def connect_cuda(cls, socket: str | os.PathLike[str], device: int = 0) -> Pool:
        """A pool of a CUDA device's memory, under the budget of the broker that serves at ``socket``."""
        return cls(native().made("zico_connect_cuda", os.fsencode(socket), device))

    @classmethod
    def cuda(cls, budget: int | str, device: int = 0) -> Pool:
        """A pool of a CUDA device's memory."""
        return cls(native().made("zico_open_cuda", device, parse_bytes(budget)))

    def join(
        self,
        name: str | None = None,
        priority: int = 0,
        time_slice: float | str | None = None,
        interruptible: bool = False,
    ) -> Job:
        """Lets a job in. Of those that wait, ones with a higher priority go first. With a ``time_slice``, in seconds or
        as "500ms", it takes turns with others; an ``interruptible`` one makes way in the middle of an iteration where nothing
        else can go on: see `zico.torch.enable`."""
        text = None if name is None else name.encode()
        slice_ns = 0 if time_slice is None else round(parse_seconds(time_slice) * 1e9)
        if interruptible:
            made = native().made("zico_join_interruptible", self._handle, text, priority, slice_ns, None)
            return Job(made, self)
        if time_slice is None:
            return Job(native().made("zico_join", self._handle, text, priority, None), self)
        return Job(native().made("zico_join_turns", self._handle, text, priority, slice_ns, None), self)

    def set_budget(self, budget: int | str) -> None:
        """Changes the budget. A lower one is reached as memory becomes free."""
        native().call("zico_set_budget", self._handle, parse_bytes(budget))

    def trim(self) -> None:
        """Gives memory that no job has back to the device."""
        native().call("zico_trim", self._handle)

    def close(self) -> None:
        """No more jobs can join. The pool goes with the last of those that have."""
        native().call("zico_close", self._handle)

    def stats(self) -> dict[str, int]:
        """Budget and bytes held (``ZicoPoolStats`` of zico.h)."""
        return native().pool_stats(self._handle)


#: The job for which all threads of this process allocate that have no other.
_job: Job | None = None


def _set_job(job: Job | None) -> None:
    global _job
    native().call("zico_use_everywhere", 0 if job is None else job._handle)
    _job = job


def _current() -> Job:
    if _job is None:
        raise ZicoError(2, "zico is not enabled: call zico.torch.enable first")
    return _job


def stats() -> dict[str, int]:
    """What this process's job has allocated and waited for, and what its pool holds.

    Bytes, counts and nanoseconds: the fields of ``ZicoJobStats`` and ``ZicoPoolStats`` of zico.h.

    Raises:
        ZicoError: if zico is not enabled.
    """
    job = _current()
    return job.stats() | job.pool.stats()


@contextmanager
def iteration() -> Iterator[None]:
    """What is done within is one iteration of this process's job: for loops that zico cannot see into.

    Raises:
        ZicoError: if zico is not enabled.
    """
    with _current().iteration():
        yield
