"""``python -m zico run``: starts a program whose PyTorch has its memory from zico."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from zico import __version__, parse_bytes


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m zico", description="Several training jobs share one budget of memory."
    )
    parser.add_argument("--version", action="version", version=f"zico {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser(
        "run", help="start a program whose PyTorch has its memory from zico"
    )
    run.add_argument("--budget", required=True, help="the most memory that it may hold: 8GiB")
    run.add_argument("--name", help="the job's name in messages (the script's)")
    run.add_argument("--priority", type=int, default=0, help="higher ones wait less (0)")
    run.add_argument("--device", help="cpu, cuda or cuda:1 (the GPU where there is one)")
    run.add_argument("--stats", type=Path, help="a file for statistics at the end, as JSON")
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
    try:
        budget = parse_bytes(arguments.budget)
    except ValueError as error:
        raise SystemExit(f"zico: {error}") from error
    settings = {
        "ZICO_RUN": "1",
        "ZICO_BUDGET": str(budget),
        "ZICO_PRIORITY": str(arguments.priority),
        "ZICO_NAME": arguments.name,
        "ZICO_DEVICE": arguments.device,
        "ZICO_STATS": arguments.stats and str(arguments.stats.resolve()),
    }
    given = {name: value for name, value in settings.items() if value is not None}
    sys.stdout.flush()
    os.execve(found, program, os.environ | given)


def main() -> None:
    """The program."""
    arguments = _parser().parse_args()
    _run(arguments)


if __name__ == "__main__":
    main()
