"""``python -m zico``: ``run`` starts a program whose PyTorch has its memory from zico, ``serve`` is the broker."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from zico import ZicoError, __version__, parse_bytes
from zico._native import native


def default_socket() -> Path:
    """Where a broker serves unless it is said otherwise: a place of this user."""
    base = os.environ.get("ZICO_SOCKET")
    if base:
        return Path(base)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime, "zico", "host") if runtime else Path(f"/tmp/zico-{os.getuid()}", "host")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m zico", description="Several training jobs share one budget of memory."
    )
    parser.add_argument("--version", action="version", version=f"zico {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser(
        "run", help="start a program whose PyTorch has its memory from zico"
    )
    run.add_argument(
        "--budget", help="the most memory that it may hold by itself: 8GiB; without, that of a broker"
    )
    run.add_argument("--socket", type=Path, help=f"where the broker serves ({default_socket()})")
    run.add_argument("--name", help="the job's name in messages (the script's)")
    run.add_argument("--priority", type=int, default=0, help="higher ones wait less (0)")
    run.add_argument("--device", help="cpu, cuda or cuda:1 (the GPU where there is one)")
    run.add_argument("--stats", type=Path, help="a file for statistics at the end, as JSON")
    serve = commands.add_parser("serve", help="be the broker: one budget for all that connect")
    serve.add_argument("--budget", required=True, help="for all of them together: 8GiB")
    serve.add_argument("--socket", type=Path, help=f"where to listen ({default_socket()})")
    serve.add_argument("--device", default="cpu", help="whose memory: cpu, or cuda:0 (cpu)")
    run.add_argument("program", nargs=argparse.REMAINDER, help="-- python train.py ...")
    return parser


def _check_hook(program: str) -> None:
    """Whether Python starts zico in this program, as far as that can be seen."""
    hook = Path(__file__).resolve().parent.parent / "zico.pth"
    if not hook.exists():
        raise SystemExit(
            f"zico: {hook} is not there: install the package with pip, so that Python runs it when it starts"
        )
    if not Path(program).name.startswith("python"):
        return
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('zico') is None)"
    if subprocess.run([program, "-c", look]).returncode != 0:
        raise SystemExit(f"zico: it is not installed in the environment of {program}: use that one's pip")


def _run(arguments: argparse.Namespace) -> None:
    program = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    if not program:
        raise SystemExit("zico: no program: python -m zico run --budget 8GiB -- python train.py")
    found = shutil.which(program[0])
    if found is None:
        raise SystemExit(f"zico: {program[0]} is no program")
    _check_hook(found)
    if arguments.budget and arguments.socket:
        raise SystemExit("zico: a budget of its own, or that of a broker: --budget or --socket")
    socket = None if arguments.budget else arguments.socket or default_socket()
    if socket is not None and not socket.exists():
        raise SystemExit(
            f"zico: no broker serves at {socket}. Start one (python -m zico serve --budget 8GiB), or run "
            "with a --budget of this job's own"
        )
    settings = {
        "ZICO_RUN": "1",
        "ZICO_BUDGET": str(_bytes(arguments.budget)) if arguments.budget else None,
        "ZICO_SOCKET": socket and str(socket.resolve()),
        "ZICO_PRIORITY": str(arguments.priority),
        "ZICO_NAME": arguments.name,
        "ZICO_DEVICE": arguments.device,
        "ZICO_STATS": arguments.stats and str(arguments.stats.resolve()),
    }
    given = {name: value for name, value in settings.items() if value is not None}
    kept = {name: value for name, value in os.environ.items() if name not in settings}
    sys.stdout.flush()
    os.execve(found, program, kept | given)


def _bytes(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise SystemExit(f"zico: {error}") from error


def _gpu(device: str) -> int | None:
    """The number of a GPU; none for the machine's own memory."""
    found = re.fullmatch(r"cpu|cuda(?::(\d{1,4}))?", device)
    if found is None:
        raise SystemExit(f"zico: {device} is no device: cpu, cuda or cuda:1")
    return None if device == "cpu" else int(found.group(1) or 0)


def _serve(arguments: argparse.Namespace) -> None:
    socket = arguments.socket or default_socket()
    budget = _bytes(arguments.budget)
    gpu = _gpu(arguments.device)
    print(f"zico: {budget} bytes of {arguments.device} for all that connect to {socket}", flush=True)
    # The library runs until the process ends: the usual keys and signals end it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        if gpu is None:
            native().call("zico_serve_host", os.fsencode(socket), budget, -1)
        else:
            native().call("zico_serve_cuda", os.fsencode(socket), gpu, budget, -1)
    except ZicoError as error:
        raise SystemExit(f"zico: {error}") from error


def main() -> None:
    """The program."""
    arguments = _parser().parse_args()
    {"run": _run, "serve": _serve}[arguments.command](arguments)


if __name__ == "__main__":
    main()
