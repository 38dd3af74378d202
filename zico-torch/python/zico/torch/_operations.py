"""Records what a training does operation by operation: what each reads and writes, and how long it takes.

The file is a ``.ztrace`` of version 2, which the program ``zico`` reads: ``zico relief job.ztrace --budget p=0.5`` plans
how the iteration fits into half of its memory. Nothing of zico has to be enabled, and no library of it is used.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

# Functions of PyTorch without types.
_watch: Any = StorageWeakRef
_event: Any = torch.cuda.Event

_PERSISTENT, _ITERATION = 1, 2
_FREE, _PHASE, _OPERATION = 0, 5, 6
_PHASES = ("data", "forward", "backward", "optimizer", "zero_grad")
#: Operations that make memory and write nothing.
_ALLOCATING = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted")
#: What has effects elsewhere.
_NAMESPACES = ("c10d", "_c10d_functional", "c10d_functional")


@dataclass(frozen=True)
class Rates:
    """Times by a rule in place of measured ones: the longer of an operation's arithmetic and of its bytes, and a launch.

    The defaults are those of an A100 as its data sheet has them: TF32 arithmetic at half of its peak, memory bandwidth.
    """

    flops_per_second: float = 78e12
    bytes_per_second: float = 1.555e12
    launch_seconds: float = 4e-6

    def nanos(self, flops: float, moved: int) -> int:
        """The nanoseconds of an operation."""
        busy = max(flops / self.flops_per_second, moved / self.bytes_per_second)
        return round(1e9 * (self.launch_seconds + busy))


@dataclass(eq=False)
class _Block:
    bytes: int
    watched: Any
    #: Whether it was there before.
    initial: bool
    freed: bool = False


#: Steps: an allocation, a free, a phase, an operation (its name, time, whether it repeats, what it reads and writes).
_Step = tuple[Any, ...]


@dataclass
class _Iteration:
    steps: list[_Step] = field(default_factory=list)
    began: int = field(default_factory=time.perf_counter_ns)
    nanos: int = 0


class OperationRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """What `record_operations` gives: the recording under way."""

    def __init__(self, skip: int, count: int, rates: Rates | None, device: torch.device | None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._skip, self._count, self._rates, self._device = skip, count, rates, device
        self._live: dict[int, _Block] = {}
        self._initial: list[_Block] = []
        self.iterations: list[_Iteration] = []
        self._ended = 0
        self._pending_end = False
        #: Times on a GPU are known in the end: the steps that wait for them.
        self._events: list[tuple[list[_Step], int, Any, Any]] = []
        if skip == 0:
            self.iterations.append(_Iteration())

    def mark(self) -> None:
        """An iteration has ended: it is over before the next operation. Optimizers do this with each of their steps."""
        self._pending_end = True

    def phase(self, name: str) -> None:
        """What follows belongs to this phase: data, forward, backward, optimizer or zero_grad."""
        if name not in _PHASES:
            raise ValueError(f"{name!r} is no phase: there are {', '.join(_PHASES)}")
        self._settle()
        if self._is_recording():
            self.iterations[-1].steps.append((_PHASE, _PHASES.index(name)))

    def _is_recording(self) -> bool:
        return self._skip <= self._ended < self._skip + self._count

    def _settle(self) -> None:
        """What has been freed since the last operation, and the end of an iteration."""
        if self._is_recording():
            steps = self.iterations[-1].steps
            for key, block in list(self._live.items()):
                if block.watched.expired():
                    del self._live[key]
                    block.freed = True
                    steps.append((_FREE, block))
        if self._pending_end:
            self._pending_end = False
            if self._is_recording():
                self._close()
            self._ended += 1
            if self._is_recording():
                self.iterations.append(_Iteration())

    def _close(self) -> None:
        iteration = self.iterations[-1]
        iteration.nanos = time.perf_counter_ns() - iteration.began

    def _counts(self, tensor: torch.Tensor) -> bool:
        if tensor.layout != torch.strided or tensor.untyped_storage().nbytes() == 0:
            return False
        if self._device is None:
            self._device = tensor.device
        return tensor.device == self._device

    def _block(self, tensor: torch.Tensor, initial: bool) -> _Block:
        storage = tensor.untyped_storage()
        block = self._live.get(storage._cdata)
        if block is None or block.watched.expired():
            # A storage whose address another one had, which is noticed here.
            if block is not None:
                block.freed = True
                self.iterations[-1].steps.append((_FREE, block))
            block = _Block(storage.nbytes(), _watch(storage), initial)
            self._live[storage._cdata] = block
            if initial:
                self._initial.append(block)
            else:
                self.iterations[-1].steps.append((_ITERATION, block))
        return block

    def __torch_dispatch__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        # Optimizers mark themselves for the profiler; that is no operation, and ends no iteration.
        if func.namespace == "profiler":
            return func(*args, **kwargs)
        self._settle()
        if not self._is_recording():
            return func(*args, **kwargs)
        reads, writes, elsewhere = self._arguments(func, args, kwargs)
        start = _event(enable_timing=True) if self._on_gpu() else None
        if start is not None:
            start.record()
        began = time.perf_counter_ns()
        out = func(*args, **kwargs)
        nanos = time.perf_counter_ns() - began
        given = set(map(id, reads)) | set(map(id, writes))
        for tensor in tree_iter(out):
            if isinstance(tensor, torch.Tensor) and self._counts(tensor):
                block = self._block(tensor, initial=False)
                if id(block) not in given:
                    given.add(id(block))
                    writes.append(block)
        name = func._schema.name
        if name.split("::")[-1] in _ALLOCATING:
            return out
        waits = not writes and bool(reads) and "_local_scalar_dense" in name
        if writes or waits:
            self._operation(func, name, (reads, writes, elsewhere or waits), (nanos, start), (args, kwargs, out))
        return out

    def _on_gpu(self) -> bool:
        return self._rates is None and self._device is not None and self._device.type == "cuda"

    def _arguments(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[_Block], list[_Block], bool]:
        """What an operation reads, what it changes, and whether it reads from another device."""
        reads: dict[int, _Block] = {}
        writes: dict[int, _Block] = {}
        elsewhere = False
        for position, argument in enumerate(func._schema.arguments):
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            # A normalisation gives the same without them, and is run again without.
            if argument.name.startswith("running_"):
                continue
            changes = argument.alias_info is not None and argument.alias_info.is_write
            for tensor in tree_iter(value):
                if isinstance(tensor, torch.Tensor):
                    if self._counts(tensor):
                        block = self._block(tensor, initial=True)
                        (writes if changes else reads)[id(block)] = block
                    elif tensor.dim() > 0 and tensor.device != self._device:
                        elsewhere = True
        kept = [block for key, block in reads.items() if key not in writes]
        return kept, list(writes.values()), elsewhere

    def _operation(
        self,
        func: Any,
        name: str,
        uses: tuple[list[_Block], list[_Block], bool],
        timed: tuple[int, Any],
        call: tuple[tuple[Any, ...], dict[str, Any], Any],
    ) -> None:
        (reads, writes, only_once), (nanos, start), (args, kwargs, out) = uses, timed, call
        random = torch.Tag.nondeterministic_seeded in func.tags
        repeatable = not (random or only_once or name.split("::")[0] in _NAMESPACES)
        if self._rates is not None:
            # Of a view only the part that is seen.
            tensors = [one for one in tree_iter((args, kwargs, out)) if isinstance(one, torch.Tensor)]
            moved = sum(one.numel() * one.element_size() for one in tensors if one.layout == torch.strided)
            nanos = self._rates.nanos(_flops(func, args, kwargs, out), moved)
        steps = self.iterations[-1].steps
        if start is not None:
            end = _event(enable_timing=True)
            end.record()
            self._events.append((steps, len(steps), start, end))
        steps.append((_OPERATION, nanos, name, repeatable, reads, writes))

    def finish(self) -> None:
        """The recording is over."""
        self._settle()
        if self._is_recording():
            # What comes after the last mark is no whole iteration, unless it is all there is.
            self._close()
            if len(self.iterations) > 1:
                self.iterations.pop()
        if self._events:
            torch.cuda.synchronize()
        for steps, at, start, end in self._events:
            _, _, *rest = steps[at]
            steps[at] = (_OPERATION, round(1e6 * start.elapsed_time(end)), *rest)

    def content(self, name: str, provenance: str) -> bytes:
        """The recording as the content of a file of version 2."""
        kept = [iteration for iteration in self.iterations if any(step[0] == _OPERATION for step in iteration.steps)]
        if not kept:
            raise ValueError(
                f"no iteration was recorded: {self._ended} have ended, of which the first {self._skip} are skipped"
            )
        content = _Content()
        names: dict[str, int] = {}
        for iteration in kept:
            for step in iteration.steps:
                if step[0] == _OPERATION:
                    names.setdefault(step[2], len(names))
        content.text(name)
        content.text(provenance)
        content.number(len(names))
        for one in names:
            content.text(one)
        content.number(len(self._initial))
        freed = {id(step[1]) for one in kept for step in one.steps if step[0] == _FREE}
        for block in self._initial:
            content.alloc(block, _ITERATION if id(block) in freed else _PERSISTENT)
        content.number(len(kept))
        for iteration in kept:
            worked = sum(step[1] for step in iteration.steps if step[0] == _OPERATION)
            content.number(iteration.nanos if self._rates is None else worked)
            content.number(len(iteration.steps))
            for step in iteration.steps:
                content.step(step, names)
        return bytes(content.bytes)


def _flops(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> float:
    """The arithmetic of an operation: what PyTorch's counter says, or else one for each element of the output."""
    # Here, since it warns about what is missing, and most jobs record nothing.
    from torch.utils.flop_counter import flop_registry

    formula = flop_registry.get(func.overloadpacket)
    if formula is not None:
        return float(formula(*args, **kwargs, out_val=out))
    if "scaled_dot_product" in func._schema.name:
        query, key = [one for one in args if isinstance(one, torch.Tensor) and one.dim() == 4][-3:-1]
        return 4.0 * prod(query.shape) * key.shape[-2]
    return float(sum(one.numel() for one in tree_iter(out) if isinstance(one, torch.Tensor)))


class _Content:
    """Numbers and texts as the format has them."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self._blocks: dict[int, int] = {}

    def number(self, value: int) -> None:
        while value >= 0x80:
            self.bytes.append(value & 0x7F | 0x80)
            value >>= 7
        self.bytes.append(value)

    def text(self, text: str) -> None:
        encoded = text.encode()[: 1 << 16]
        self.number(len(encoded))
        self.bytes += encoded

    def alloc(self, block: _Block, kind: int) -> None:
        self._blocks[id(block)] = len(self._blocks)
        self.bytes.append(kind)
        self.number(block.bytes)

    def block(self, block: _Block) -> None:
        self.number(len(self._blocks) - 1 - self._blocks[id(block)])

    def step(self, step: _Step, names: dict[str, int]) -> None:
        kind = step[0]
        if kind == _ITERATION:
            self.alloc(step[1], kind)
            return
        self.bytes.append(kind)
        if kind == _FREE:
            self.block(step[1])
        elif kind == _PHASE:
            self.number(step[1])
        else:
            _, nanos, name, repeatable, reads, writes = step
            self.number(nanos)
            self.number(names[name])
            self.number(int(repeatable))
            for blocks in (reads, writes):
                self.number(len(blocks))
                for block in blocks:
                    self.block(block)


@contextlib.contextmanager
def record_operations(
    path: str | os.PathLike[str],
    name: str = "job",
    *,
    skip: int = 1,
    count: int = 2,
    rates: Rates | None = None,
    device: str | torch.device | None = None,
    provenance: str = "",
) -> Iterator[OperationRecorder]:
    """Records the operations of the training within, and writes them to a file when it ends.

    An iteration ends with each step of an optimizer, or where `OperationRecorder.mark` is called; what is freed before
    the next operation still belongs to it.

    Args:
        path: the file, as in "job.ztrace".
        name: what reports call the job.
        skip: so many iterations come first and are not recorded: optimizers make their state in the first one.
        count: so many are recorded. What follows runs unrecorded.
        rates: times by a rule; without one they are measured, on the GPU by events, on the CPU by the clock.
        device: whose memory counts; that of the first tensor unless it is said.
        provenance: who made the recording of what, in words.

    Raises:
        ValueError: if no iteration was recorded.
        OSError: if the file cannot be written.
    """
    recorder = OperationRecorder(skip, count, rates, None if device is None else torch.device(device))
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def after(*_: Any) -> None:
        recorder.mark()

    hook = register_optimizer_step_post_hook(after)
    backward: Callable[..., None] = torch.autograd.backward

    def marked(*args: Any, **kwargs: Any) -> None:
        recorder.phase("backward")
        backward(*args, **kwargs)
        recorder.phase("optimizer")

    torch.autograd.backward = marked
    try:
        with recorder:
            yield recorder
    finally:
        torch.autograd.backward = backward
        hook.remove()
    recorder.finish()
    times = "measured" if rates is None else f"by a rule, {rates}"
    said = f"{provenance or 'zico.torch.record_operations'}; torch {torch.__version__}, times {times}"
    content = recorder.content(name, said)
    with open(path, "wb") as file:
        file.write(b"ZTRACE\x02" + zlib.compress(content, 9))
