"""``zico run``: any script, no line of it changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zico
from conftest import finish, start, under_zico
from zico._native import native


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "zico", "run", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"ZICO_SOCKET": ""})


@pytest.fixture
def socket() -> Iterator[Path]:
    """A place for a broker."""
    with tempfile.TemporaryDirectory(prefix="broker-") as folder:
        yield Path(folder, "b", "socket")
        # Those that were started there end by themselves.
        gone(Path(folder, "b", "socket"))


def gone(socket: Path) -> None:
    for _ in range(200):
        if not socket.exists():
            return
        time.sleep(0.05)
    raise AssertionError("the broker has not ended")


def budget(socket: Path) -> int:
    return native().broker_stats(str(socket).encode())["budget"]


#: Holds 16 MiB until its input ends.
HOLDS = "import sys, torch; x = torch.ones(4 << 20); print('holds', flush=True); sys.stdin.read()"


def holds(socket: Path, *options: object) -> subprocess.Popen[str]:
    """A job that has allocated."""
    command = [sys.executable, "-m", "zico", "run", "--device", "cpu", "--socket", socket, *options]
    process = subprocess.Popen(
        [str(word) for word in [*command, "--", sys.executable, "-c", HOLDS]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "holds\n", process.communicate()
    return process


#: Which processors the broker at a socket may use, and which it might.
PROCESSORS = """
import os, pathlib, sys
own = os.sched_getaffinity(0)
os.sched_setaffinity(0, range(os.cpu_count()))
commands = {path.parent.name: path.read_bytes().split(b"\\0") for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")}
serves = b"from zico._broker import _serve_while_used; _serve_while_used()"
broker, = [int(process) for process, words in commands.items() if serves in words and sys.argv[1].encode() in words]
print(len(own), os.sched_getaffinity(broker) == os.sched_getaffinity(0))
"""


def test_a_broker_is_not_tied_to_the_processors_of_the_job_that_starts_it(socket: Path) -> None:
    core = min(os.sched_getaffinity(0))
    run = [sys.executable, "-m", "zico", "run", "--device", "cpu", "--socket", socket, "--budget", "64MiB"]
    command = ["taskset", "--cpu-list", core, *run, "--", sys.executable, "-c", PROCESSORS, socket]
    assert finish(start(*command)) == "1 True\n"


def test_the_first_job_starts_a_broker_and_the_last_one_ends_it(socket: Path) -> None:
    first = holds(socket, "--budget", "64MiB", "--name", "first", "--priority", 3)
    second = holds(socket, "--budget", "128MiB")
    third = holds(socket)
    stats = native().broker_stats(str(socket).encode())
    assert stats["held"] == 3 * (16 << 20), stats
    assert stats["budget"] == 64 << 20, stats
    _, errors = first.communicate()
    assert "a broker with a budget of 64 MiB serves" in errors, errors
    _, errors = second.communicate()
    assert "has a budget of 64 MiB, which stays" in errors, errors
    assert "128 MiB" in errors, errors
    # The third one has it still, with what the others had.
    time.sleep(0.5)
    stats = native().broker_stats(str(socket).encode())
    assert stats["held"] <= 64 << 20, stats
    _, errors = third.communicate()
    assert errors == "", errors
    gone(socket)


def test_who_holds_what_is_shown(socket: Path) -> None:
    def status() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "zico", "status", "--socket", socket]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    nobody = status()
    assert nobody.returncode == 1 and "Traceback" not in nobody.stderr, nobody.stderr
    assert nobody.stderr.startswith("zico: ") and str(socket) in nobody.stderr, nobody.stderr
    names = [f"job-{'x' * 60}-{number}" for number in range(2)]
    jobs = [holds(socket, "--budget", "256MiB", "--name", name) for name in names]
    shown = status()
    assert shown.returncode == 0, shown.stderr
    for name in names:
        assert any(line.startswith(name) and "16 MiB" in line for line in shown.stdout.splitlines()), shown.stdout
    for job in jobs:
        finish(job)


def test_of_jobs_that_start_at_once_one_starts_the_broker(socket: Path) -> None:
    code = "import sys; print('runs', flush=True); sys.stdin.read()"
    command = [sys.executable, "-m", "zico", "run", "--device", "cpu", "--socket", str(socket), "--budget", "64MiB"]
    jobs = [
        subprocess.Popen(
            [*command, "--", sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    said = [job.stdout is not None and job.stdout.readline() for job in jobs]
    errors = [job.communicate()[1] for job in jobs]
    assert said == ["runs\n"] * 4, errors
    assert sum("until the last job ends" in error for error in errors) == 1, errors


def test_children_that_are_spawned_share_the_budget(socket: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, torch, torch.multiprocessing as mp\n"
        "def child(rank, budget):\n"
        "    import zico\n"
        "    ours = torch.ones(4 << 20)\n"
        "    assert zico.stats()['budget'] == budget and zico.stats()['requested'] == 16 << 20\n"
        "    assert zico.stats()['held'] >= 32 << 20, zico.stats()\n"
        "if __name__ == '__main__':\n"
        "    import zico\n"
        "    x = torch.ones(4 << 20)\n"
        "    mp.spawn(child, (64 << 20,), nprocs=2)\n"
        "    print('done', zico.stats()['budget'])\n"
    )
    done = run("--device", "cpu", "--socket", socket, "--budget", "64MiB", "--", sys.executable, script)
    assert done.stdout == f"done {64 << 20}\n", (done.stdout, done.stderr)


def test_a_job_that_is_killed_leaves_no_broker_behind(socket: Path) -> None:
    job = holds(socket, "--budget", "64MiB")
    assert budget(socket) == 64 << 20
    job.kill()
    job.communicate()
    gone(socket)


def test_a_program_that_waits_for_its_children_does_not_wait_for_the_broker(socket: Path) -> None:
    code = "import os\ntry: os.wait()\nexcept ChildProcessError: print('none')"
    done = run("--device", "cpu", "--socket", socket, "--budget", "64MiB", "--", sys.executable, "-c", code)
    assert done.stdout == "none\n", (done.stdout, done.stderr)


def test_a_broker_that_cannot_be_started_is_told(socket: Path) -> None:
    done = run("--device", "cpu", "--socket", socket, "--budget", "1KiB", "--", sys.executable, "-c", "print('ran')")
    assert done.returncode != 0
    assert done.stdout == ""
    assert "none can be started" in done.stderr, done.stderr
    assert "holds no region" in done.stderr, done.stderr


def test_a_script_and_its_children_are_jobs(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import subprocess, sys, torch, zico, zico.torch\n"
        "assert zico.torch.is_enabled()\n"
        "import importlib.util\n"
        "assert 'zico' not in type(torch.__spec__.loader).__module__\n"
        "x = torch.ones(1 << 20)\n"
        "if len(sys.argv) == 1:\n"
        "    subprocess.run([sys.executable, __file__, 'child'], check=True)\n"
        "print('done', sys.argv[1:])\n"
    )
    stats = tmp_path / "stats.json"
    out = finish(start(*under_zico("128MiB", stats, [sys.executable, script])))
    assert out.splitlines() == ["done ['child']", "done []"]
    assert json.loads(stats.read_text())["allocations"] == 1


def test_isolated_python_has_it_too(tmp_path: Path) -> None:
    code = "import torch, zico.torch; print(zico.torch.is_enabled())"
    for option in ("-I", "-E"):
        command = [sys.executable, option, "-c", code]
        assert finish(start(*under_zico("128MiB", tmp_path / "s", command))).strip() == "True"


def test_a_program_without_torch_has_nothing_of_it(tmp_path: Path) -> None:
    code = "import sys; print([m for m in sys.modules if 'torch' in m], len(sys.meta_path))"
    stats = tmp_path / "stats.json"
    out = finish(start(*under_zico("128MiB", stats, [sys.executable, "-c", code])))
    assert out.startswith("[] ")
    assert not stats.exists()


def test_without_zico_run_nothing_is_there() -> None:
    code = "import sys; print([m for m in sys.modules if 'zico' in m])"
    assert finish(start(sys.executable, "-c", code)).strip() == "[]"


def test_what_cannot_be_is_said(tmp_path: Path) -> None:
    for arguments, text in [
        (("--budget", "8GiB"), "no program"),
        (("--budget", "lots", "--", sys.executable), "no number of bytes"),
        (("--budget", "8GiB", "--", "no-such-program"), "is no program"),
    ]:
        done = run(*arguments)
        assert done.returncode != 0
        assert text in done.stderr, done.stderr


def test_a_job_that_cannot_connect_ends(socket: Path) -> None:
    # Without zico it would take memory that others count on.
    command = [sys.executable, "-c", "import torch; print('ran')"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"ZICO_RUN": "1", "ZICO_SOCKET": str(socket)}
    )
    assert done.returncode != 0
    assert done.stdout == ""
    assert "this process cannot use zico" in done.stderr, done.stderr


def test_another_environment_is_told_apart(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "other"], check=True)
    done = run("--budget", "1GiB", "--", tmp_path / "other" / "bin" / "python", "-c", "print('ran')")
    assert done.returncode != 0
    assert "not installed in the environment" in done.stderr, done.stderr


def test_a_folder_that_python_runs_no_hooks_of_is_told(tmp_path: Path) -> None:
    # As after `pip install --target` with PYTHONPATH: the package is found, and nothing would start it.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "other"], check=True)
    package, folder = Path(zico.__file__).parent, tmp_path / "target"
    shutil.copytree(package, folder / "zico")
    shutil.copy(package.parent / "zico.pth", folder)
    other = tmp_path / "other" / "bin" / "python"
    command = [other, "-m", "zico", "run", "--device", "cpu", "--budget", "1GiB", "--", other, "-c", "print('ran')"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(folder)})
    assert done.returncode != 0
    assert done.stdout == ""
    assert "is no site-packages of it" in done.stderr, done.stderr
