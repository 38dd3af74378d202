"""Forks a training under zico for each line of its input, and prints its number: Python is started once for all of them.

    python nursery.py SOCKET MODEL [OPTIONS OF train.py]
"""

import os
import signal
import sys

import torch
import train
import zico.torch


def main() -> None:
    torch.set_num_threads(1)
    # Nobody asks how they have ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    socket, sys.argv = sys.argv[1], sys.argv[1:]
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            zico.torch.enable(socket=socket, device="cpu", name="victim")
            train.main()
            os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    main()
