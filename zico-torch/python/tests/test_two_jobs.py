"""Two trainings in two processes under one budget: each as if it were alone, and together in less than both need."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zico
from conftest import LONG, broker, finish, last_line, start, train

JOBS: list[list[object]] = [["cnn", "--iterations", 12], ["gpt", "--iterations", 12]]
PEAKS: dict[str, int] = {}
ALONE: dict[str, Any] = {}


def job_under(socket: Path, stats: Path, job: list[object]) -> subprocess.Popen[str]:
    """Starts a training under a broker, as a user does."""
    run = [sys.executable, "-m", "zico", "run", "--device", "cpu", "--socket", socket]
    return start(*run, "--stats", stats, "--name", job[0], "--", *train(*job))


@contextmanager
def watching(socket: Path) -> Iterator[zico.Pool]:
    """A pool without jobs: its statistics are those of all processes together, as the broker counts them."""
    pool = zico.Pool.connect_host(socket)
    try:
        yield pool
    finally:
        pool.close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each job by itself: with PyTorch's allocator what it computes, and under zico what it needs."""
    for job in JOBS:
        name = str(job[0])
        ALONE[name] = last_line(finish(start(*train(*job))))
        stats = tmp_path_factory.mktemp(name) / "stats.json"
        with broker(1 << 30) as socket:
            assert last_line(finish(job_under(socket, stats, job))) == ALONE[name]
        PEAKS[name] = json.loads(stats.read_text())["reserved_peak"]


@pytest.mark.parametrize("share", [pytest.param(1.0, marks=LONG), 0.5])
def test_two_processes_in_less_than_both_need(alone: None, share: float, tmp_path: Path) -> None:
    both, largest = sum(PEAKS.values()), max(PEAKS.values())
    # Parameters, gradients' leftovers and optimizer state of the other: about a fifth of its peak.
    least = largest + (both - largest) // 3
    budget = int(least + share * (both - least))
    files = [tmp_path / f"{job[0]}.json" for job in JOBS]
    with broker(budget) as socket:
        processes = [job_under(socket, file, job) for file, job in zip(files, JOBS, strict=True)]
        with watching(socket) as pool:
            while any(process.poll() is None for process in processes):
                sample = pool.stats()
                assert sample["held"] <= sample["budget"] <= budget, sample
                time.sleep(0.05)
        found = {str(job[0]): last_line(finish(p)) for job, p in zip(JOBS, processes, strict=True)}
    assert found == ALONE
    stats = [json.loads(file.read_text()) for file in files]
    assert all(job["iterations"] >= 12 and job["refusals"] == 0 for job in stats), stats


def test_one_is_killed_and_the_other_goes_on(alone: None, tmp_path: Path) -> None:
    both = sum(PEAKS.values())
    with broker(both) as socket:
        victim = job_under(socket, tmp_path / "victim", [*JOBS[0], "--epochs", 1000])
        with watching(socket) as pool:
            for _ in range(1200):
                if pool.stats()["held"] > PEAKS["cnn"] // 2 or victim.poll() is not None:
                    break
                time.sleep(0.05)
        assert victim.poll() is None, victim.communicate()
        other = job_under(socket, tmp_path / "other", JOBS[1])
        with watching(socket) as pool:
            # Until the other one holds something as well.
            while pool.stats()["held"] <= PEAKS["cnn"] and other.poll() is None:
                time.sleep(0.05)
        assert victim.poll() is None
        victim.send_signal(signal.SIGKILL)
        assert last_line(finish(other)) == ALONE["gpt"]
        victim.wait()
        # What the dead one had is free for a third.
        assert last_line(finish(job_under(socket, tmp_path / "third", JOBS[0]))) == ALONE["cnn"]


def test_a_job_without_a_broker_is_told_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "zico", "run", "--socket", str(tmp_path / "s"), "--", sys.executable],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "no broker serves at" in done.stderr, done.stderr
