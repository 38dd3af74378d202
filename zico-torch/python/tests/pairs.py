"""Two trainings in two processes under one budget, every pair of some jobs: prints tables.

    python zico-torch/python/tests/pairs.py [--device cpu|cuda] [--jobs resnet18,gpt,... | --pairs resnet18+gpt,...]
        [--f 1,0.5,0.2] [--turns N]

A job's *peak* and what it *keeps* are measured with plenty of memory; `keeps` is the least that it holds at a mark between
its iterations, once its optimizers have their state: where there is plenty, it leases ahead at other marks. S is the sum
of the peaks of two jobs, and L the least in which both can run: the larger peak and what the other one keeps. The
budget is L + f (S - L). Each job is pinned to one core. Rates are iterations per second in the time
in which both train, in per cent of the job's rate alone with PyTorch's allocator on that core; both together have
to be more than 100 to be faster than one after the other. `free` is the same pair with PyTorch's allocator and no limit.

In each run it is checked that losses and weights are bit-identical to those alone, and that the budget holds at each
sample: by the broker's books, and by the blocks that the kernel has for the files of the memory (fstat). On a GPU the
driver is asked how much of its memory is in use (nvidia-smi): above what was before, and above what each job alone has
beyond zico's memory (its context, the code of its kernels).
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conftest import finish, last_line, start, train
from zico._native import native

JOBS: dict[str, list[object]] = {
    "resnet18": ["resnet18", "--iterations", 50],
    "gpt": ["gpt", "--iterations", 40],
    "gan": ["gan", "--iterations", 80],
    "accumulate": ["gpt", "--iterations", 12, "--accumulate", 3],
    "lengths": ["gpt", "--iterations", 70, "--lengths"],
    "workers": ["cnn", "--iterations", 60, "--workers", 2],
}
#: Those of the size of a GPU.
ON_A_GPU: dict[str, list[object]] = {
    "resnet50": ["resnet50", "--iterations", 160],
    "gpt2": ["gpt2", "--iterations", 40],
    "gan": ["gan", "--iterations", 400],
    "lengths": ["gpt", "--iterations", 400, "--lengths"],
}
MIB = 1 << 20
#: By how much the driver's figure for a context may differ from one process to the next.
CONTEXTS_DIFFER = 64 * MIB
device = "cpu"

#: Runs a script, and writes what it held at the marks between its iterations to a file.
KEPT = """
import json, runpy, sys, torch, zico
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook
file, sys.argv = sys.argv[1], sys.argv[2:]
steps, seen, held = 0, 0, []
def stepped(*_):
    global steps
    steps += 1
def began(*_):
    global seen
    if steps > seen:
        seen = steps
        # The optimizers have made their state by then.
        if steps > 1: held.append(zico.stats()["reserved"])
register_optimizer_step_post_hook(stepped)
register_module_forward_pre_hook(began)
runpy.run_path(sys.argv[0], run_name="__main__")
json.dump(min(held), open(file, "w"))
"""


@dataclass
class Alone:
    """A job by itself."""

    digests: dict[str, str]
    rates: list[float]  # on each core
    peak: int
    keeps: int
    beside: int  # what it has of a GPU beside zico's memory
    identical: bool  # the same numbers with zico's allocator


@dataclass
class Outcome:
    """A run of two jobs."""

    identical: bool
    shares: list[float]
    samples: int
    most_in_books: int
    most_in_kernel: int
    errors: list[str]


def pinned(core: int, command: list[object]) -> list[object]:
    return ["taskset", "--cpu-list", core, *command]


def times(found: dict[str, Any]) -> list[float]:
    return list(found.pop("times"))


def rate(ends: list[float], since: float, until: float) -> float:
    """Iterations per second between two ends of iterations."""
    first, last = bisect.bisect_left(ends, since), bisect.bisect_right(ends, until) - 1
    return (last - first) / (ends[last] - ends[first]) if last > first else 0.0


def script(name: str) -> list[object]:
    return train(*(ON_A_GPU if on_a_gpu() else JOBS)[name], "--device", device, "--times")


def on_a_gpu() -> bool:
    return device != "cpu"


def under(socket: Path, budget: int, name: str, stats: Path, command: list[object]) -> list[object]:
    run = [sys.executable, "-m", "zico", "run", "--device", device, "--socket", socket]
    return [*run, "--budget", budget, "--name", name, "--stats", stats, "--", *command]


def alone(job: str, folder: Path) -> Alone:
    """Measures a job by itself: with PyTorch's allocator, and what it takes of zico's."""
    command, rates = script(job), []
    for core in (0,) if on_a_gpu() else (0, 1):
        found = last_line(finish(start(*pinned(core, command))))
        ends = times(found)
        # The first iterations make things ready.
        rates.append(rate(ends, ends[2], ends[-1]))
    stats, kept, socket = folder / f"{job}.json", folder / f"{job}.kept", folder / "alone"
    plenty = gpus_memory("memory.total") * 3 // 4 if on_a_gpu() else 4 << 30
    wrapped = [sys.executable, "-c", KEPT, kept, *command[1:]]
    with memory_in_use() as used:
        under_zico = last_line(finish(start(*pinned(0, under(socket, plenty, job, stats, wrapped)))))
    has_ended(socket)
    times(under_zico)
    peak = json.loads(stats.read_text())["reserved_peak"]
    beside = max(used) - used[0] - peak if on_a_gpu() else 0
    keeps = json.loads(kept.read_text())
    return Alone(found, [*rates, rates[0]][:2], peak, keeps, beside, under_zico == found)


def asks(what: str) -> list[str]:
    """The command that asks the GPU's driver for something, in MiB."""
    return ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits", "--id=0"]


def gpus_memory(what: str) -> int:
    return int(subprocess.check_output(asks(what), text=True)) * MIB


@contextmanager
def memory_in_use() -> Iterator[list[int]]:
    """Bytes of the GPU's memory in use, by its driver: now, and when done ten times a second. On the CPU nothing."""
    if not on_a_gpu():
        yield [0]
        return
    used = [gpus_memory("memory.used")]
    ask = [*asks("memory.used"), "-lms", "100"]
    with tempfile.TemporaryFile("w+") as out, subprocess.Popen(ask, stdout=out) as asked:
        try:
            yield used
        finally:
            asked.kill()
            asked.wait()
        out.seek(0)
        used += [int(line) * MIB for line in out.read().split("\n")[:-1]]


def kernels_count(socket: Path) -> int:
    """The bytes of memory that the kernel has behind the files of the broker that listens at a socket."""
    files: dict[tuple[int, int], int] = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if os.fsencode(socket) not in words:
                continue
            for file in os.scandir(process / "fd"):
                if os.readlink(file.path).startswith("/memfd:zico "):
                    found = os.stat(file.path)
                    files[found.st_dev, found.st_ino] = found.st_blocks * 512
        except OSError:
            # It has ended meanwhile, or closed the file.
            continue
    return sum(files.values())


def has_ended(socket: Path, limit_s: float = 30) -> None:
    """Waits until no broker serves at a socket. On a GPU it stays for a while after the last job has, until the job's
    work there is over: its memory is not to be in what the next run finds in use."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        try:
            native().broker_stats(os.fsencode(socket))
        except RuntimeError:
            # From the end of its socket to that of its process.
            time.sleep(0.5)
            return
        time.sleep(0.1)


def together(pair: tuple[str, str], of: dict[str, Alone], budget: int | None) -> Outcome:
    """Runs two jobs at once; under zico, or with PyTorch's allocator if there is no budget."""
    with tempfile.TemporaryDirectory(prefix="pair-") as name:
        folder, socket = Path(name), Path(name, "b")
        processes = []
        samples, books, kernel, errors = 0, 0, 0, []
        with memory_in_use() as used:
            for core, job in enumerate(pair):
                command = script(job)
                if budget is not None:
                    command = under(socket, budget, job, folder / f"{core}.json", command)
                processes.append(start(*pinned(core, command)))
            began = time.monotonic()
            while any(process.poll() is None for process in processes):
                time.sleep(0.1)
                if time.monotonic() - began > 300:
                    errors.append("no end after 300 s")
                    for process in processes:
                        process.kill()
                if budget is None or not socket.exists():
                    continue
                try:
                    held = native().broker_stats(os.fsencode(socket))["held"]
                except RuntimeError:
                    # It has ended with the last job.
                    continue
                samples += 1
                books, kernel = max(books, held), max(kernel, kernels_count(socket))
        if on_a_gpu():
            kernel = max(used) - used[0] - sum(of[job].beside for job in pair)
        outs = [process.communicate() for process in processes]
        has_ended(socket)
        errors += [f"{job}: {err[-600:]}" for job, p, (_, err) in zip(pair, processes, outs, strict=True) if p.returncode]
    if errors:
        return Outcome(False, [0.0, 0.0], samples, books, kernel, errors)
    found = [last_line(out) for out, _ in outs]
    ends = [times(one) for one in found]
    since, until = max(e[1] for e in ends), min(e[-1] for e in ends)
    shares = [
        100 * rate(e, since, until) / of[job].rates[core]
        for core, (job, e) in enumerate(zip(pair, ends, strict=True))
    ]
    same = all(one == of[job].digests for one, job in zip(found, pair, strict=True))
    return Outcome(same, shares, samples, books, kernel, [])


def row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def table(*heads: str) -> None:
    row(*heads)
    row(*["---"] * len(heads))


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda")
    parser.add_argument("--jobs", help="each of these with each of them; all, unless it is said")
    parser.add_argument("--pairs", help="these pairs alone")
    parser.add_argument("--f", default="1,0.5,0.2")
    parser.add_argument("--turns", type=int, default=1, help="runs of each; rates are their medians")
    arguments = parser.parse_args()
    global device
    device = arguments.device
    jobs = ON_A_GPU if on_a_gpu() else JOBS
    names, good = arguments.jobs.split(",") if arguments.jobs else list(jobs), True
    pairs = list(itertools.combinations_with_replacement(names, 2))
    if arguments.pairs:
        pairs = [(one, other) for one, other in (pair.split("+") for pair in arguments.pairs.split(","))]
        names = list(dict.fromkeys(itertools.chain.from_iterable(pairs)))
    slack = CONTEXTS_DIFFER if on_a_gpu() else 0
    of: dict[str, Alone] = {}
    table("job", "peak, MiB", "keeps, MiB", "beside zico, MiB", "iterations/s alone", "bit-identical")
    with tempfile.TemporaryDirectory(prefix="alone-") as folder:
        for name in names:
            of[name] = one = alone(name, Path(folder))
            good = good and one.identical
            sizes = (f"{bytes_ / MIB:.0f}" for bytes_ in (one.peak, one.keeps, one.beside))
            row(name, *sizes, f"{one.rates[0]:.2f}", one.identical)
    print()
    table("jobs", "f", "budget, MiB", "bit-identical", "most held: books, kernel", "samples", "%, each", "%, both", "")
    for pair in pairs:
        one, other = (of[job] for job in pair)
        both = one.peak + other.peak
        least = max(one.peak + other.keeps, other.peak + one.keeps)
        free = together(pair, of, None)
        row("+".join(pair), "free", "", free.identical, "", "", *shown(free.shares), "")
        for f in map(float, arguments.f.split(",")):
            budget = int(least + f * (both - least))
            runs = [together(pair, of, budget) for _ in range(arguments.turns)]
            shares = [median([run.shares[at] for run in runs]) for at in (0, 1)]
            most = [max(run.most_in_books for run in runs), max(run.most_in_kernel for run in runs)]
            problems = [error for run in runs for error in run.errors]
            if most[0] > budget or most[1] > budget + slack:
                good = False
                problems.append("MORE THAN THE BUDGET")
            same = all(run.identical for run in runs)
            if min(shares) < 45 or sum(shares) < 100:
                problems.append("slow")
            good = good and same
            held = ", ".join(f"{bytes_ / MIB:.0f}" for bytes_ in most)
            samples = sum(run.samples for run in runs)
            row("+".join(pair), f, f"{budget / MIB:.0f}", same, held, samples, *shown(shares), "; ".join(problems))
    return 0 if good else 1


def shown(shares: list[float]) -> tuple[str, str]:
    return ", ".join(f"{share:.0f}" for share in shares), f"{sum(shares):.0f}"


if __name__ == "__main__":
    sys.exit(main())
