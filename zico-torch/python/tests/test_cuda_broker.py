"""Two processes on one GPU under the budget of a broker, which has no context there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import conftest
import pytest
from conftest import JOBS, finish, start
from gpu import environment, needs_cuda

pytestmark = needs_cuda

MIB = 1 << 20
ITERATIONS = 6
#: What a job of `copies.py` has at its peak at most (its wave, and cuBLAS's), and keeps between two iterations.
PEAK, KEPT = 176 * MIB, 32 * MIB
#: cuBLAS has memory for each thread that uses it, 32 MiB on some GPUs: 8 MiB here, as on the others, and 4 for cuBLASLt.
CUBLAS = {"CUBLAS_WORKSPACE_CONFIG": ":4096:2", "CUBLASLT_WORKSPACE_SIZE": "4096"}


def on_one_device() -> dict[str, str]:
    """The variables of processes on one device, which is no other test's: one broker serves a device. In software its
    kernels take their time, so that it is far behind."""
    return environment() | CUBLAS | {"ZICO_DRIVER_UUID": str(os.getpid()), "ZICO_RUNTIME_KERNEL_NS": "500000"}


def broker(budget: int) -> AbstractContextManager[Path]:
    """A broker of the GPU in a process of its own."""
    return conftest.broker(budget, "--device", "cuda:0", **on_one_device())


def job(socket: Path, seed: int, *more: object, stats: Path | None = None) -> subprocess.Popen[str]:
    """Starts a job under a broker, as a user does."""
    run = [sys.executable, "-m", "zico", "run", "--device", "cuda:0", "--socket", socket, "--name", f"job{seed}"]
    run += ["--stats", stats] if stats else []
    script = [sys.executable, JOBS / "copies.py", seed, "--iterations", ITERATIONS, *more]
    return start(*run, "--", *script, **on_one_device())


def test_two_processes_in_less_than_both_need(tmp_path: Path) -> None:
    budget = PEAK + 2 * KEPT
    files = [tmp_path / "0", tmp_path / "1"]
    with broker(budget) as socket:
        processes = [job(socket, seed, stats=file) for seed, file in enumerate(files)]
        assert [len(finish(process).splitlines()) for process in processes] == [ITERATIONS] * 2
    stats = [json.loads(file.read_text()) for file in files]
    assert all(s["iterations"] >= ITERATIONS and s["refusals"] == 0 for s in stats), stats
    assert all(s["reserved_peak"] <= budget for s in stats), stats
    assert sum(s["reserved_peak"] for s in stats) > budget, stats
    assert sum(s["waited_to_begin"] + s["waited_for_memory"] for s in stats) > 0, stats


def test_one_is_killed_and_the_other_goes_on() -> None:
    with broker(PEAK + 2 * KEPT) as socket:
        victim = job(socket, 0, "--iterations", 100_000)
        assert victim.stdout is not None
        assert [victim.stdout.readline() for _ in range(2)] == ["0\n", "1\n"], victim.communicate()
        other = job(socket, 1)
        assert other.stdout is not None
        assert other.stdout.readline() == "0\n", other.communicate()
        assert victim.poll() is None
        victim.send_signal(signal.SIGKILL)
        finish(other)
        victim.communicate()


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "mps"])
def test_what_is_no_device_is_refused(device: str) -> None:
    serve = [sys.executable, "-m", "zico", "serve", "--budget", "1GiB", "--device", device]
    done = subprocess.run(serve, capture_output=True, text=True)
    assert done.returncode != 0 and "is no device" in done.stderr, done


def test_a_device_has_one_broker() -> None:
    with broker(PEAK) as socket:
        serve = [sys.executable, "-m", "zico", "serve", "--budget", "1GiB", "--device", "cuda:0"]
        second = start(*serve, "--socket", socket.with_name("other"), **on_one_device())
        _, errors = second.communicate(timeout=60)
        assert second.returncode != 0 and "has a broker already" in errors, errors


def test_a_broker_that_is_about_to_end_is_waited_for(tmp_path: Path) -> None:
    # It stays until the last job's work on the GPU is over, and serves at another socket than the next one.
    for at in range(2):
        run = [sys.executable, "-m", "zico", "run", "--device", "cuda:0", "--socket", tmp_path / str(at)]
        script = [sys.executable, JOBS / "copies.py", at, "--iterations", 1]
        finish(start(*run, "--budget", "1GiB", "--", *script, **on_one_device()))
