"""``zico run``: any script, no line of it changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from conftest import finish, start, under_zico


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "zico", "run", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


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
    # A pool that cannot be ends the job: it would take memory that others count on.
    done = run("--budget", "1KiB", "--device", "cpu", "--", sys.executable, "-c", "import torch; print('ran')")
    assert done.returncode != 0
    assert "ran" not in done.stdout
    assert "holds no region" in done.stderr, done.stderr


def test_another_environment_is_told_apart(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "other"], check=True)
    done = run("--budget", "8GiB", "--", tmp_path / "other" / "bin" / "python", "-c", "print('ran')")
    assert done.returncode != 0
    assert "not installed in the environment" in done.stderr, done.stderr
