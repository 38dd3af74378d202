"""Pairs of real trainings, each pair started as a user does: two commands, one budget, no broker before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import JOBS, LONG, find, finish, last_line, start, train
from zico._native import native

MIB = 1 << 20

#: What each job computes with PyTorch's own allocator.
ALONE: dict[str, Any] = {}


def command(job: str) -> list[object]:
    name, *options = job.split()
    return [sys.executable, JOBS / "lit.py", *options] if name == "lightning" else train(name, *options)


def alone(job: str) -> Any:
    """Each once."""
    if job not in ALONE:
        ALONE[job] = last_line(finish(start(*command(job))))
    return ALONE[job]


def under(socket: Path, budget: int, job: str, stats: Path | None = None) -> subprocess.Popen[str]:
    """Starts a job of a budget, as a user does."""
    run = [sys.executable, "-m", "zico", "run", "--device", "cpu", "--socket", socket]
    written = [] if stats is None else ["--stats", stats]
    return start(*run, *written, "--budget", budget, "--name", job.split()[0], "--", *command(job))


@pytest.fixture
def socket() -> Iterator[Path]:
    """A place for a broker; it has ended at the end."""
    with tempfile.TemporaryDirectory(prefix="broker-") as folder:
        yield Path(folder, "b")
        for _ in range(200):
            if not Path(folder, "b").exists():
                return
            time.sleep(0.05)
        raise AssertionError("the broker has not ended")


def wait_for(socket: Path, bytes_: int) -> None:
    """Waits until the jobs of a broker hold so much together."""
    for _ in range(2400):
        try:
            if native().broker_stats(os.fsencode(socket))["held"] >= bytes_:
                return
        except RuntimeError:
            # It does not serve yet.
            pass
        time.sleep(0.05)
    raise AssertionError("it does not get to hold so much")


def watch(socket: Path, budget: int, jobs: list[subprocess.Popen[str]]) -> int:
    """Looks at the books until the jobs have ended; how often."""
    samples = 0
    while any(job.poll() is None for job in jobs):
        time.sleep(0.05)
        try:
            held = native().broker_stats(os.fsencode(socket))["held"]
        except RuntimeError:
            # Not yet, or no longer.
            continue
        assert held <= budget
        samples += 1
    return samples


@pytest.mark.parametrize(
    ("first", "second", "mib"),
    [
        ("resnet18 --iterations 8", "gpt --iterations 10", 230),
        pytest.param("gpt --iterations 12 --lengths", "gan --iterations 20", 170, marks=LONG),
        pytest.param("gpt --iterations 4 --accumulate 3", "cnn --iterations 12 --workers 2", 170, marks=LONG),
        pytest.param("cnn --iterations 12 --compile", "gpt --iterations 10", 170, marks=LONG),
        pytest.param(
            "lightning --iterations 12",
            "gpt --iterations 10",
            170,
            marks=[LONG, pytest.mark.skipif(not find("lightning"), reason="lightning is not installed")],
        ),
    ],
)
def test_a_pair_computes_what_each_does_alone(first: str, second: str, mib: int, socket: Path) -> None:
    if first.startswith("resnet18") and not find("torchvision"):
        pytest.skip("torchvision is not installed")
    expected = [alone(first), alone(second)]
    jobs = [under(socket, mib * MIB, job) for job in (first, second)]
    assert watch(socket, mib * MIB, jobs) > 10
    assert [last_line(finish(job)) for job in jobs] == expected


def test_one_ends_in_the_middle_of_an_iteration(socket: Path) -> None:
    jobs = [under(socket, 170 * MIB, job) for job in ("cnn --end-in 5", "gpt --iterations 10")]
    watch(socket, 170 * MIB, jobs)
    assert finish(jobs[0]) == ""
    assert last_line(finish(jobs[1])) == alone("gpt --iterations 10")


def test_one_runs_out_of_memory_and_both_go_on(socket: Path, tmp_path: Path) -> None:
    # It takes up to 768 MiB, and drops it when it gets no more.
    greedy, other = "cnn --iterations 12 --greedy", "gpt --iterations 40"
    stats = [tmp_path / "greedy", tmp_path / "other"]
    second = under(socket, 320 * MIB, other, stats[1])
    # The other one trains by then.
    wait_for(socket, 80 * MIB)
    jobs = [under(socket, 320 * MIB, greedy, stats[0]), second]
    watch(socket, 320 * MIB, jobs)
    out = finish(jobs[0])
    assert out.count("out of memory") == 3, out
    assert last_line(out) == alone(greedy)
    assert last_line(finish(jobs[1])) == alone(other)
    refusals = [json.loads(file.read_text())["refusals"] for file in stats]
    assert refusals == [3, 0]
