"""Brokers as ``python -m zico`` finds and starts them.

A broker that ``run`` has started ends with the last job. Each ``run`` holds a shared lock on a file beside the socket, which
the program that takes its place keeps until it ends; the broker ends when it can have that lock for itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import time
from pathlib import Path
from typing import NoReturn

from zico._native import NO_BROKER, ZicoError, native


#: What a broker says when it listens.
LISTENS = b"\1"
#: What is said where another broker has the GPU. One that is about to end has it for some seconds after its last job.
BUSY = "has a broker already"
#: How often a broker is started there: some two seconds lie between two tries.
TRIES = 4


def default_socket(gpu: int | None = None) -> Path:
    """Where a broker of this device serves unless it is said otherwise: a place of this user."""
    named = os.environ.get("ZICO_SOCKET")
    if named:
        return Path(named)
    name = "host.sock" if gpu is None else f"cuda-{gpu}.sock"
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.isdir(runtime):
        return Path(runtime, "zico", name)
    return Path(f"/tmp/zico-{os.getuid()}", name)


def find_or_start(socket: Path, gpu: int | None, budget: int) -> None:
    """A broker at ``socket``, started there for this device with this budget if there is none.

    It stays as long as this process, the program that takes its place, or another job is there.
    """
    _need(socket)
    own = budget_of(socket)
    if own is None:
        own = _start_or_find(socket, gpu, budget)
    if own is None:
        say(f"a broker with a budget of {size(budget)} serves at {socket} until the last job ends")
        return
    # A budget is whole regions, of which there are hundreds.
    if abs(own - budget) > budget // 64:
        say(
            f"the broker at {socket} has a budget of {size(own)}, which stays: --budget {size(budget)} is for a "
            "broker that is started"
        )


def serve(socket: Path, gpu: int | None, budget: int) -> None:
    """Serves until the process is ended."""
    if gpu is None:
        native().call("zico_serve_host", os.fsencode(socket), budget, -1)
    else:
        native().call("zico_serve_cuda", os.fsencode(socket), gpu, budget, -1)


def budget_of(socket: Path) -> int | None:
    """The budget of the broker that serves at ``socket``; None if none does."""
    try:
        return native().broker_stats(os.fsencode(socket))["budget"]
    except ZicoError as error:
        if error.status != NO_BROKER:
            raise
        return None


def size(bytes_: int) -> str:
    """A number of bytes for people."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if bytes_ >= 1024**power:
            return f"{bytes_ / 1024**power:.4g} {unit}"
    return f"{bytes_} B"


def say(text: str) -> None:
    """A line about what is done, beside what the program prints."""
    print(f"zico: {text}", file=sys.stderr, flush=True)


def _need(socket: Path) -> None:
    """Locks the file of those who need a broker there. Waits while one is about to end."""
    socket.parent.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(f"{socket}.users", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_SH)
    # For the program that takes this process's place.
    os.set_inheritable(lock, True)


def _start_or_find(socket: Path, gpu: int | None, budget: int) -> int | None:
    """Starts a broker: None. Or the budget of one that another job has started there meanwhile."""
    for _ in range(TRIES):
        failed = _start(socket, gpu, budget)
        if failed is None:
            return None
        found = _wait_for(socket)
        if found is not None:
            return found
        if BUSY not in failed:
            break
    raise SystemExit(f"zico: there is no broker, and none can be started: {failed}")


def _wait_for(socket: Path) -> int | None:
    """The budget of a broker that is about to listen; None if none comes."""
    for _ in range(40):
        found = budget_of(socket)
        if found is not None:
            return found
        time.sleep(0.05)
    return None


def _start(socket: Path, gpu: int | None, budget: int) -> str | None:
    """Starts a broker that is no child of this process, and returns when it listens, or says why it does not."""
    listens, listening = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        # Nobody's child: a program that waits for its children is not to wait for it.
        if os.fork() != 0:
            os._exit(0)
        _become_broker(socket, gpu, budget, listening)
    os.close(listening)
    os.waitpid(child, 0)
    told = os.read(listens, 1 << 16)
    os.close(listens)
    return None if told == LISTENS else told.decode() or "its process has ended"


def _become_broker(socket: Path, gpu: int | None, budget: int, listening: int) -> NoReturn:
    """What is left of the process serves. Nothing of the terminal, and no pipe of anybody, is kept open.

    Another program: this one has the lock of a job, which is to end before the broker.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.dup2(listening, 3)
    os.set_inheritable(3, True)
    os.closerange(4, 1 << 16)
    code = "from zico._broker import _serve_while_used; _serve_while_used()"
    device = "" if gpu is None else str(gpu)
    os.execv(sys.executable, [sys.executable, "-c", code, str(socket), str(budget), device])


def _serve_while_used() -> None:
    """The broker's process. The descriptor 3 is to hear that it listens, or why it does not."""
    socket, budget, gpu = sys.argv[1:4]
    os.set_inheritable(3, False)
    # It serves all jobs, also where the one that has started it is tied to some processors.
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        if gpu:
            native().call("zico_serve_cuda_while_used", os.fsencode(socket), int(gpu), int(budget), 3)
        else:
            native().call("zico_serve_host_while_used", os.fsencode(socket), int(budget), 3)
    except ZicoError as error:
        os.write(3, str(error).encode())
