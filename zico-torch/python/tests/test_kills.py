"""Jobs that are killed at any moment, while another one trains under the same budget.

Six kills; 200 with ZICO_LONG=1, and ZICO_KILLS=N for any other number. The seed of the moments is ZICO_SEED, or printed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from conftest import JOBS, LIMIT_S, finish, last_line, start, train
from zico._native import native

KILLS = int(os.environ.get("ZICO_KILLS") or (200 if os.environ.get("ZICO_LONG") else 6))
BUDGET = 130 << 20


def held(socket: Path) -> int:
    return native().broker_stats(os.fsencode(socket))["held"]


def kill_some(socket: Path, survivor: subprocess.Popen[str], moments: random.Random) -> int:
    """Starts victims one after the other, and kills each at some moment; how many while the survivor ran."""
    nursery = subprocess.Popen(
        [sys.executable, str(JOBS / "nursery.py"), str(socket), "cnn", "--epochs", "1000"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    kills = 0
    while kills < KILLS and survivor.poll() is None:
        nursery.stdin.write("next\n")
        nursery.stdin.flush()
        victim = int(nursery.stdout.readline())
        time.sleep(moments.uniform(0, 0.8))
        os.kill(victim, signal.SIGKILL)
        kills += survivor.poll() is None
        assert held(socket) <= BUDGET
    nursery.communicate()
    return kills


def test_the_other_one_does_not_notice() -> None:
    survivor = ["gpt", "--iterations", 5 * KILLS]
    alone = last_line(finish(start(*train(*survivor)), LIMIT_S + 10 * KILLS))
    seed = int(os.environ.get("ZICO_SEED") or random.randrange(1 << 32))
    with tempfile.TemporaryDirectory(prefix="broker-") as folder:
        socket = Path(folder, "b")
        broker = start(sys.executable, "-m", "zico", "serve", "--budget", BUDGET, "--socket", socket)
        zico = [sys.executable, "-m", "zico", "run", "--device", "cpu", "--socket", socket, "--"]
        while not socket.exists():
            assert broker.poll() is None, broker.communicate()
            time.sleep(0.05)
        lasting = start(*zico, *train(*survivor))
        try:
            while held(socket) == 0 and lasting.poll() is None:
                time.sleep(0.05)
            kills = kill_some(socket, lasting, random.Random(seed))
            assert last_line(finish(lasting, LIMIT_S + 10 * KILLS)) == alone, f"ZICO_SEED={seed}, {kills} kills"
        finally:
            lasting.kill()
            broker.kill()
            broker.communicate()
    print(f"{kills} kills, ZICO_SEED={seed}")
    assert kills >= KILLS // 2, f"the survivor was done after {kills} kills"
