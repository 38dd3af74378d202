"""What zico's allocator costs beside PyTorch's, alternating in one process: prints two tables.

    taskset --cpu-list 0 python zico-torch/python/tests/overhead.py [--device cpu|cuda] [--iterations N]

An iteration of each job, with a model for each allocator that trains on the same batch; and a tensor that is made and
dropped (`torch.empty`), of which the tensor itself is some hundred nanoseconds. Medians; the ratio of iterations is the
median of the ratios of two that follow each other, so that a machine that gets slower for a while does not count.

On CUDA a process has one allocator: each has processes of its own there, by turns, and the figures are the medians of
their medians.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F

import zico
import zico.torch
from pairs import gpus_memory

sys.path.insert(0, str(Path(__file__).parent / "jobs"))
import train  # noqa: E402

#: The allocator is PyTorch's own from so many bytes on: for all of them.
OFF = ctypes.c_size_t(-1).value


@contextmanager
def own() -> Iterator[None]:
    """PyTorch's own allocator, within."""
    shim = zico.torch._shim
    assert shim is not None
    shim.zico_shim_host(OFF)
    try:
        yield
    finally:
        shim.zico_shim_host(zico.torch.THRESHOLD)


def job(name: str, device: str = "cpu") -> Callable[[], None]:
    """An iteration of a training."""
    torch.manual_seed(0)
    _, data, model = train.job(name, 1)
    model, (x, y) = model.to(device), (tensor.to(device) for tensor in data.tensors)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def iteration() -> None:
        out = model(x)
        F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1)).backward()
        optimizer.step()
        optimizer.zero_grad()

    return iteration


def seconds(run: Callable[[], None]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def iterations(name: str, count: int) -> None:
    with own():
        theirs = job(name)
    ours = job(name)
    taken = []
    for turn in range(count + 5):
        with own():
            before = seconds(theirs)
        with zico.iteration():
            after = seconds(ours)
        # The first ones make things ready.
        if turn >= 5:
            taken.append((before, after))
    ratio = median(after / before for before, after in taken)
    before, after = (1e3 * median(one) for one in zip(*taken, strict=True))
    print(f"| {name} | {before:.2f} | {after:.2f} | {ratio:.3f} |", flush=True)


def pairs(size: int, turns: int = 60, count: int = 500) -> None:
    def run() -> None:
        for _ in range(count):
            torch.empty(size, dtype=torch.uint8)

    theirs, ours = [], []
    for _ in range(turns):
        with own():
            theirs.append(seconds(run) / count * 1e9)
        with zico.iteration():
            ours.append(seconds(run) / count * 1e9)
    figures = [f"{of:.0f}" for of in (median(theirs), median(ours), min(theirs), min(ours))]
    print(f"| {size >> 10} KiB | " + " | ".join(figures) + " |", flush=True)


def pair_ns(size: int, device: str, count: int = 2000) -> float:
    """Of a tensor on CUDA that is made and dropped, without anything in it."""

    def run() -> None:
        for _ in range(count):
            torch.empty(size, dtype=torch.uint8, device=device)

    return min(seconds(run) / count * 1e9 for _ in range(10))


#: Models and sizes on CUDA.
ON_CUDA, SIZES = ("cnn", "gpt", "resnet50", "gpt2"), (64 << 10, 1 << 20, 16 << 20)


def one_allocator(whose: str, device: str, count: int) -> None:
    """A process of one allocator on CUDA: prints its figures as JSON, ms of iterations and ns of tensors."""
    if whose == "zico":
        # PyTorch is not asked: with that it has made its own allocator.
        zico.torch.enable(gpus_memory("memory.total") * 3 // 4, device=device)
    found = []
    for name in ON_CUDA:
        run = job(name, device)

        def iteration(run: Callable[[], None] = run) -> None:
            run()
            torch.cuda.synchronize()

        found.append(1e3 * median([seconds(iteration) for _ in range(count + 5)][5:]))
        del run, iteration
    print(json.dumps(found + [pair_ns(size, device) for size in SIZES]))


def on_cuda(device: str, count: int, turns: int = 3) -> None:
    """Processes of both allocators by turns, and the table of their medians."""
    figures: dict[str, list[list[float]]] = {"own": [], "zico": []}
    for whose in ("own", "zico") * turns:
        command = [sys.executable, __file__, "--device", device, "--iterations", str(count), "--of", whose]
        figures[whose].append(json.loads(subprocess.check_output(command, text=True)))
    theirs, ours = ([median(of) for of in zip(*figures[whose], strict=True)] for whose in ("own", "zico"))
    print("| | PyTorch's | zico's | ratio |\n|---|---|---|---|")
    names = [f"{name}, ms" for name in ON_CUDA] + [f"{size >> 10} KiB made and dropped, ns" for size in SIZES]
    for name, their, our in zip(names, theirs, ours, strict=True):
        print(f"| {name} | {their:.2f} | {our:.2f} | {our / their:.3f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--of", choices=["own", "zico"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.of is not None:
        return one_allocator(arguments.of, arguments.device, arguments.iterations)
    if arguments.device != "cpu":
        return on_cuda(arguments.device, arguments.iterations)
    zico.torch.enable("2GiB", device="cpu", marks=False)
    print("| job | PyTorch's, ms | zico's, ms | ratio |\n|---|---|---|---|")
    for name in ("cnn", "gpt", "resnet18"):
        iterations(name, arguments.iterations)
    print("\n| made and dropped | PyTorch's, ns | zico's, ns | PyTorch's least | zico's least |\n|---|---|---|---|---|")
    for size in (64 << 10, 1 << 20, 16 << 20):
        pairs(size)


if __name__ == "__main__":
    main()
