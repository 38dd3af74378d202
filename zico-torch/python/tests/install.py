"""Makes an environment with PyTorch for the tests of the package, in about 1.5 GB instead of 5.

    python3 zico-torch/python/tests/install.py FOLDER

PyPI has PyTorch for x86_64 Linux only as the build for CUDA, which names 2.4 GB of CUDA's libraries. The tests use it on
the CPU, which calls none of them but two. So PyTorch is installed without its dependencies (555 MB to download), and in place
of each other library there is a stub with the functions that PyTorch links with: each ends the process and says its name. An
environment that is complete already is left as it is.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")

#: The libraries, and how the names of their functions begin. A name belongs to the first that fits.
STUBS = {
    "libcublasLt.so.13": "cublasLt",
    "libcublas.so.13": "cublas",
    "libcudnn.so.9": "cudnn",
    "libcusparseLt.so.0": "cusparseLt",
    "libcusparse.so.12": "cusparse",
    "libcufft.so.12": "cufft",
    "libcufile.so.0": "cuFile",
    "libcusolver.so.12": "cusolver",
    "libnccl.so.2": "nccl",
    "libnvrtc.so.13": "nvrtc",
    "libnvshmem_host.so.3": "nvshmem",
}


def run(*command: object) -> str:
    """Runs a program, and returns what it prints."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout


def undefined(libraries: Path, owners: dict[str, str]) -> dict[str, dict[str, str]]:
    """The functions that PyTorch's libraries expect of some others, and their versions. ``owners`` says how the names
    of each library's functions begin, as a regular expression; a name belongs to the first that fits."""
    found: dict[str, dict[str, str]] = {name: {} for name in owners}
    for library in sorted(libraries.glob("lib*.so")):
        for line in run("nm", "-D", "--undefined-only", library).splitlines():
            symbol = re.match(r"\s+U (\w+)(?:@+(\S+))?", line)
            if symbol is None:
                continue
            name = symbol.group(1)
            owner = next((owner for owner, start in owners.items() if re.match(start, name)), None)
            if owner is not None:
                found[owner][name] = symbol.group(2) or found[owner].get(name, "")
    return found


def compile_library(
    name: str,
    code: str,
    folder: Path,
    *,
    versions: dict[str, list[str]] | None = None,
    sources: Sequence[Path] = (),
    flags: Sequence[object] = (),
) -> None:
    """Compiles a library from some C code, and sources beside it. ``versions`` are those of its functions, each with
    the patterns of the names that have it."""
    script = "".join(f"{version} {{ global: {'; '.join(names)}; }};\n" for version, names in (versions or {}).items())
    with tempfile.TemporaryDirectory() as scratch:
        source, map_ = Path(scratch, "stub.c"), Path(scratch, "stub.map")
        source.write_text(code)
        map_.write_text(script)
        options = ["-shared", "-fPIC", "-O1", "-fno-builtin", f"-Wl,-soname,{name}"]
        options += [f"-Wl,--version-script={map_}"] if script else []
        run("cc", *options, "-o", folder / name, source, *sources, *flags)


def make_stub(name: str, functions: dict[str, str], folder: Path) -> None:
    """Compiles a library of functions that say their names and end the process."""
    body = "".join(
        f'void {function}(void) {{ fputs("a stub was called: {function}\\n", stderr); abort(); }}\n'
        for function in sorted(functions)
    )
    code = f"#include <stdio.h>\n#include <stdlib.h>\n{body}"
    compile_library(name, code, folder, versions=versions_of(functions))


def versions_of(functions: dict[str, str]) -> dict[str, list[str]]:
    """The versions of some functions, with their names."""
    versions = sorted({version for version in functions.values() if version})
    return {version: sorted(f for f, v in functions.items() if v == version) for version in versions}


def main() -> None:
    """Makes the environment."""
    environment = Path(sys.argv[1]).resolve()
    texts = REQUIREMENTS.read_bytes() + Path(__file__).read_bytes()
    version = sys.version.encode()
    stamp, wanted = environment / "complete", hashlib.sha256(texts + version).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    run(sys.executable, "-m", "venv", "--clear", environment)
    python = environment / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--requirement", REQUIREMENTS)
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # Where PyTorch looks for them.
    folder = packages / "nvidia" / "cu13" / "lib"
    for name, functions in undefined(packages / "torch" / "lib", STUBS).items():
        make_stub(name, functions, folder)
    print("PyTorch", run(python, "-c", "import torch; print(torch.__version__)").strip())
    stamp.write_text(wanted)


if __name__ == "__main__":
    main()
