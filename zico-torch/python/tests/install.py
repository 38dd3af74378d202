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


def undefined(libraries: Path) -> dict[str, dict[str, str]]:
    """The functions that PyTorch's libraries expect of each library that is to be a stub, and their versions."""
    found: dict[str, dict[str, str]] = {name: {} for name in STUBS}
    for library in sorted(libraries.glob("lib*.so")):
        for line in run("nm", "-D", "--undefined-only", library).splitlines():
            symbol = re.match(r"\s+U (\w+)(?:@+(\S+))?", line)
            if symbol is None:
                continue
            name = symbol.group(1)
            owner = next((stub for stub, start in STUBS.items() if name.startswith(start)), None)
            if owner is not None:
                found[owner][name] = symbol.group(2) or found[owner].get(name, "")
    return found


def make_stub(name: str, functions: dict[str, str], folder: Path) -> None:
    """Compiles a library of functions that say their names and end the process."""
    body = "".join(
        f'void {function}(void) {{ fputs("a stub was called: {function}\\n", stderr); abort(); }}\n'
        for function in sorted(functions)
    )
    versions = {version for version in functions.values() if version}
    script = "".join(
        f"{version} {{ global: {'; '.join(f for f, v in functions.items() if v == version)}; }};\n"
        for version in sorted(versions)
    )
    with tempfile.TemporaryDirectory() as scratch:
        source, map_ = Path(scratch, "stub.c"), Path(scratch, "stub.map")
        source.write_text(f"#include <stdio.h>\n#include <stdlib.h>\n{body}")
        map_.write_text(script)
        flags = ["-shared", "-fPIC", "-O1", "-w", "-fno-builtin", f"-Wl,-soname,{name}"]
        flags += [f"-Wl,--version-script={map_}"] if script else []
        run("cc", *flags, "-o", folder / name, source)


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
    for name, functions in undefined(packages / "torch" / "lib").items():
        make_stub(name, functions, folder)
    print("PyTorch", run(python, "-c", "import torch; print(torch.__version__)").strip())
    stamp.write_text(wanted)


if __name__ == "__main__":
    main()
