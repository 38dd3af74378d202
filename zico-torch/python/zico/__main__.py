"""``python -m zico``: ``run`` starts a program whose PyTorch has its memory from zico, ``serve`` is the broker, and
``status`` shows who holds what."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from zico import ZicoError, __version__, _broker, parse_bytes, parse_seconds
from zico._broker import default_socket
from zico._native import native


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
        "--budget",
        help="8GiB: if no broker serves, one with this budget is started; it ends with the last job",
    )
    run.add_argument("--socket", type=Path, help=f"where the broker serves ({default_socket()})")
    run.add_argument("--name", help="the job's name in messages (the script's)")
    run.add_argument("--priority", type=int, default=0, help="higher ones wait less (0)")
    run.add_argument(
        "--time-slice",
        metavar="TIME",
        help="500ms: take turns with others where all do not fit; their tensors are on the host meanwhile",
    )
    run.add_argument(
        "--interruptible",
        action="store_true",
        help="make way in the middle of a step, rather than one job ends with an OutOfMemoryError",
    )
    run.add_argument("--device", help="cpu, cuda or cuda:1 (the GPU where there is one)")
    run.add_argument("--stats", type=Path, help="a file for statistics at the end, as JSON")
    run.add_argument("--record", type=Path, help="a file for a trace of the run: job.ztrace")
    serve = commands.add_parser("serve", help="be the broker: one budget for all that connect")
    serve.add_argument("--budget", required=True, help="for all of them together: 8GiB")
    serve.add_argument("--socket", type=Path, help=f"where to listen ({default_socket()})")
    serve.add_argument("--device", default="cpu", help="whose memory: cpu, or cuda:0 (cpu)")
    status = commands.add_parser("status", help="who holds how much of a broker's budget")
    status.add_argument("--socket", type=Path, help=f"where the broker serves ({default_socket()})")
    status.add_argument("--device", help="cpu, cuda or cuda:1 (the GPU where there is one)")
    run.add_argument("program", nargs=argparse.REMAINDER, help="-- python train.py ...")
    return parser


#: Whether a Python has the package, and has run its hook: its exit code is 1 or 2 if not.
_LOOK = """
import importlib.util, sys
if importlib.util.find_spec("zico") is None:
    sys.exit(1)
if "zico._startup" not in sys.modules:
    sys.exit(2)
"""


def _check_hook(program: str) -> None:
    """Whether Python starts zico in this program, as far as that can be seen."""
    hook = Path(__file__).resolve().parent.parent / "zico.pth"
    if not hook.exists():
        raise SystemExit(
            f"zico: {hook} is not there: install the package with pip, so that Python runs it when it starts"
        )
    python = program if Path(program).name.startswith("python") else sys.executable
    found = subprocess.run([python, "-c", _LOOK], env=os.environ | {"ZICO_RUN": "1"}).returncode
    if found == 2:
        raise SystemExit(
            f"zico: {python} does not run {hook} when it starts: {hook.parent} is no site-packages of it. Install the "
            "package with its pip, without --target"
        )
    if found != 0:
        raise SystemExit(f"zico: it is not installed in the environment of {python}: use that one's pip")


def _run(arguments: argparse.Namespace) -> None:
    program = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    if not program:
        raise SystemExit("zico: no program: python -m zico run --budget 8GiB -- python train.py")
    found = shutil.which(program[0])
    if found is None:
        raise SystemExit(f"zico: {program[0]} is no program")
    _check_hook(found)
    if arguments.record and arguments.record.exists():
        raise SystemExit(f"zico: {arguments.record} is there already: choose another name, or remove it")
    if arguments.time_slice is not None:
        try:
            parse_seconds(arguments.time_slice)
        except ValueError as error:
            raise SystemExit(f"zico: {error}") from error
    budget = _bytes(arguments.budget) if arguments.budget else None
    settings = {
        "ZICO_RUN": "1",
        # Of this run alone: the broker has it.
        "ZICO_BUDGET": None,
        "ZICO_SOCKET": str(_place(arguments, budget)),
        "ZICO_PRIORITY": str(arguments.priority),
        "ZICO_TIME_SLICE": arguments.time_slice,
        "ZICO_INTERRUPTIBLE": "1" if arguments.interruptible else None,
        "ZICO_JOB_NAME": arguments.name,
        "ZICO_DEVICE": arguments.device,
        "ZICO_STATS": arguments.stats and str(arguments.stats.resolve()),
        "ZICO_RECORD": arguments.record and str(arguments.record.resolve()),
    }
    given = {name: value for name, value in settings.items() if value is not None}
    kept = {name: value for name, value in os.environ.items() if name not in settings}
    sys.stdout.flush()
    os.execve(found, program, kept | given)


def _place(arguments: argparse.Namespace, budget: int | None) -> Path:
    """Where the broker of a job serves. It is there then."""
    gpu = _gpu(arguments.device)
    socket = (arguments.socket or default_socket(gpu)).absolute()
    try:
        if budget is not None:
            _broker.find_or_start(socket, gpu, budget)
        elif _broker.budget_of(socket) is None:
            raise SystemExit(
                f"zico: no broker serves at {socket}. Start one (python -m zico serve --budget 8GiB), or say "
                "with how much memory this job is to start one: --budget 8GiB"
            )
    except (ZicoError, OSError) as error:
        raise SystemExit(f"zico: {error}") from error
    return socket


def _bytes(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise SystemExit(f"zico: {error}") from error


def _gpu(device: str | None) -> int | None:
    """The number of a GPU, which is the first one there is unless it is said otherwise; none for the machine's
    own memory."""
    if device is None:
        return 0 if Path("/dev/nvidiactl").exists() else None
    found = re.fullmatch(r"cpu|cuda(?::(\d{1,4}))?", device)
    if found is None:
        raise SystemExit(f"zico: {device} is no device: cpu, cuda or cuda:1")
    return None if device == "cpu" else int(found.group(1) or 0)


def _serve(arguments: argparse.Namespace) -> None:
    gpu = _gpu(arguments.device)
    socket = arguments.socket or default_socket(gpu)
    budget = _bytes(arguments.budget)
    print(f"zico: {budget} bytes of {arguments.device} for all that connect to {socket}", flush=True)
    # The library runs until the process ends: the usual keys and signals end it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        _broker.serve(socket, gpu, budget)
    except ZicoError as error:
        raise SystemExit(f"zico: {error}") from error


def _status(arguments: argparse.Namespace) -> None:
    socket = arguments.socket or default_socket(_gpu(arguments.device))
    try:
        print(native().broker_report(os.fsencode(socket)), end="")
    except ZicoError as error:
        raise SystemExit(f"zico: {error}") from error


def main() -> None:
    """The program."""
    arguments = _parser().parse_args()
    {"run": _run, "serve": _serve, "status": _status}[arguments.command](arguments)


if __name__ == "__main__":
    main()
