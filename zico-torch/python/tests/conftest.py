"""Helpers of the tests: each runs Python in a process of its own, because a process has one allocator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

JOBS = Path(__file__).with_name("jobs")
LIMIT_S = 240
LONG = pytest.mark.skipif(not os.environ.get("ZICO_LONG"), reason="ZICO_LONG=1 runs it")
_FOLDER = tempfile.TemporaryDirectory(prefix="zico-tests-")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without PyTorch there is nothing to test."""
    if find("torch"):
        return
    for item in items:
        item.add_marker(pytest.mark.skip(reason="PyTorch is not installed here: .ci/torch installs it"))


def find(module: str) -> bool:
    """Whether a module is installed."""
    import importlib.util

    return importlib.util.find_spec(module) is not None


def start(*command: object, **environment: object) -> subprocess.Popen[str]:
    """Starts a program with this Python's environment and some more."""
    settings = {name: str(value) for name, value in environment.items()}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ZICO_")}
    return subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean | settings,
    )


def finish(process: subprocess.Popen[str], limit_s: float = LIMIT_S) -> str:
    """What a program prints, which has to end well."""
    try:
        out, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        out, errors = process.communicate()
        pytest.fail(f"no end after {limit_s} s: {process.args}\n{out[-2000:]}\n{errors[-4000:]}")
    assert process.returncode == 0, f"{process.returncode}: {process.args}\n{out[-2000:]}\n{errors[-4000:]}"
    return out


@pytest.fixture
def python() -> Callable[..., str]:
    """Runs some code, and returns what it prints."""

    def run(code: str, **environment: object) -> str:
        return finish(start(sys.executable, "-c", textwrap.dedent(code), **environment))

    return run


def train(*arguments: object) -> list[object]:
    """The command of a training script."""
    return [sys.executable, JOBS / "train.py", *arguments]


def under_zico(budget: object, stats: Path, command: list[object], socket: Path | None = None) -> list[object]:
    """The command by which a user starts that under zico, with a broker of this budget at a socket of its own."""
    # A socket's path may have 107 characters.
    place = socket or Path(tempfile.mkdtemp(prefix="broker-", dir=_FOLDER.name), "socket")
    zico = [sys.executable, "-m", "zico", "run", "--device", "cpu", "--socket", place]
    return [*zico, "--budget", budget, "--stats", stats, "--", *command]


def last_line(out: str) -> Any:
    """The JSON in the last line."""
    return json.loads(out.strip().splitlines()[-1])


@contextmanager
def broker(budget: int, *options: object, **variables: str) -> Iterator[Path]:
    """A broker in a process of its own, which is to be there to the end: its socket."""
    # A socket's path may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="broker-") as folder:
        socket = Path(folder) / "b" / "socket"
        serve = [sys.executable, "-m", "zico", "serve", "--budget", budget, "--socket", socket]
        serving = start(*serve, *options, **variables)
        try:
            for _ in range(600):
                if socket.exists() or serving.poll() is not None:
                    break
                time.sleep(0.1)
            yield socket
        finally:
            ended = serving.poll()
            serving.kill()
            said = serving.communicate()
            assert ended is None, f"the broker has ended: {ended} {said}"
