"""Builds a CUDA runtime in software, for PyTorch's CUDA backend on a machine without a GPU.

    python3 tests/cuda-runtime/build.py SITE_PACKAGES DRIVER FOLDER

Makes FOLDER, with the libraries that PyTorch (in SITE_PACKAGES, with its dependencies' headers) links with for CUDA:

* libcudart.so.13: src/*.c, on top of the driver. Any other function that PyTorch links with returns cudaErrorNotSupported.
* libcuda.so.1: the driver in software (DRIVER, libzico_cuda_driver.so of tests/cuda-driver), and for what PyTorch
  links with beyond that, functions that return CUDA_ERROR_NOT_SUPPORTED.
* cuBLAS, cuDNN and so on: functions that do nothing and return 0, but for those in src/libraries.

A program has these instead of NVIDIA's with the variables in FOLDER/environment.json: what is named in LD_PRELOAD comes
before PyTorch's own library path. What is complete already is left as it is.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# What finds the functions that PyTorch's libraries expect of others.
sys.path.insert(0, str(HERE.parents[1] / "zico-torch" / "python" / "tests"))
from install import STUBS, compile_library, run, undefined, versions_of  # noqa: E402

RUNTIME, DRIVER = "libcudart.so.13", "libcuda.so.1"
NOT_SUPPORTED = 801


def environment(folder: Path) -> dict[str, str]:
    """The variables with which a program has the libraries in a folder instead of NVIDIA's."""
    libraries = [str(folder / name) for name in (DRIVER, RUNTIME, *STUBS)]
    return {"LD_PRELOAD": ":".join(libraries), "LD_LIBRARY_PATH": str(folder)}


def defined(sources: list[Path]) -> set[str]:
    """The functions that begin a line of some sources."""
    texts = [source.read_text() for source in sources]
    return {name for text in texts for name in re.findall(r"^[\w* ]+?\b(\w+)\(", text, re.M)}


def functions(names: list[str], body: str) -> str:
    """Functions with a body, in which NAME is the function's name."""
    return "".join(f"int {name}(void) {{ {body.replace('NAME', name)} }}\n" for name in names)


def build(packages: Path, driver: Path, folder: Path) -> None:
    """Makes all libraries."""
    headers = packages / "nvidia" / "cu13" / "include"
    wanted = undefined(packages / "torch" / "lib", STUBS | {RUNTIME: "_*cuda[A-Z]", DRIVER: "cu[A-Z]"})
    flags: list[object] = ["-L", folder, "-Wl,-rpath,$ORIGIN"]

    shutil.copy(driver, folder / "libzico_cuda_driver.so")
    there = set(re.findall(r" T (\w+)", run("nm", "-D", "--defined-only", driver)))
    code = functions(sorted(set(wanted[DRIVER]) - there), f"return {NOT_SUPPORTED};")
    compile_library(DRIVER, code, folder, flags=[*flags, "-Wl,--no-as-needed", "-lzico_cuda_driver"])
    # Wherever it is looked for, it is this file.
    (folder / "libcuda.so").symlink_to(DRIVER)

    sources = sorted((HERE / "src").glob("*.c"))
    rest = sorted(set(wanted[RUNTIME]) - defined(sources))
    code = "int zico_runtime_unsupported(const char*);\n"
    code += functions(rest, 'return zico_runtime_unsupported("NAME");')
    flags_of_c = ["-I", headers, "-Wall", "-Wextra", "-Werror", f"-l:{DRIVER}"]
    versions = {RUNTIME: ["*"]}
    compile_library(RUNTIME, code, folder, versions=versions, sources=sources, flags=[*flags, *flags_of_c])

    for name in STUBS:
        own = sorted((HERE / "src" / "libraries").glob(f"{name.removeprefix('lib').split('.')[0]}.c"))
        code = functions(sorted(set(wanted[name]) - defined(own)), "return 0;")
        above = [*flags, f"-l:{RUNTIME}"] if own else []
        compile_library(name, code, folder, versions=versions_of(wanted[name]), sources=own, flags=above)


def main() -> None:
    """The program."""
    packages, driver, folder = (Path(argument).resolve() for argument in sys.argv[1:4])
    made_of = [*sorted((HERE / "src").rglob("*.[ch]")), Path(__file__), driver]
    made_of += [HERE.parents[1] / "zico-torch" / "python" / "tests" / "install.py", packages / "torch" / "version.py"]
    wanted = hashlib.sha256(b"\0".join(path.read_bytes() for path in made_of)).hexdigest()
    stamp = folder / "complete"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    build(packages, driver, folder)
    (folder / "environment.json").write_text(json.dumps(environment(folder)))
    stamp.write_text(wanted)


if __name__ == "__main__":
    main()
