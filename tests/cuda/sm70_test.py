#!/usr/bin/env python3
"""Compiles every CUDA kernel for sm_70, which CUDA 12 is the last to know: no error, warning or spill.

usage: sm70_test.py

ENGINE_CUDA12 names directories, separated by colons, in which the parts of a CUDA 12 toolkit are found at any depth: the
library NVRTC, and the headers cuda_fp16.h and cuda/std. Its nvcc is not needed. The files' launchers are compiled, too, but launch nothing:
NVRTC knows device code only.
Exit codes: 0 all compile, 1 not, 77 no CUDA 12.
"""
import ctypes
import os
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# The standard headers that kernels include: NVRTC has none. cuda/std has what device code may use of them, and what
# only host code uses is declared here.
STANDARD = ["bit", "cmath", "concepts", "cstddef", "cstdint", "limits", "span", "tuple", "type_traits", "utility"]
HEADERS = {name: f"#include <cuda/std/{name}>\nnamespace std {{ using namespace cuda::std; }}\n" for name in STANDARD}
HEADERS["cstring"] = ""  # memcpy is built in
HEADERS["string_view"] = "namespace std { struct string_view { const char* text; size_t n; }; }\n"
OPTIONS = ["-arch=sm_70", "-std=c++20", "-default-device",
           "-fmad=false", "-ftz=false", "-prec-div=true", "-prec-sqrt=true", "--ptxas-options=-v"]
EXPECTED = [  # of NVRTC's messages
    "Architectures prior to",  # will be dropped after CUDA 12
    'unknown attribute "gnu::always_inline"',
]


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def find(directories, name):
    for directory in directories:
        for path in sorted(pathlib.Path(directory).rglob(name)):
            return path
    skip(f"no {name} in ENGINE_CUDA12")


def names(strings):
    return (ctypes.c_char_p * len(strings))(*[s.encode() for s in strings])


class Nvrtc:
    def __init__(self, library):
        self.library = ctypes.CDLL(str(library))

    def text(self, program, what):
        n = ctypes.c_size_t()
        getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(n))
        buffer = ctypes.create_string_buffer(n.value)
        getattr(self.library, f"nvrtcGet{what}")(program, buffer)
        return buffer.raw

    def compile(self, source, options):
        """(whether it compiles, the log)"""
        program = ctypes.c_void_p()
        self.library.nvrtcCreateProgram(ctypes.byref(program), source.read_bytes(), str(source).encode(), len(HEADERS),
                                        names(HEADERS.values()), names(HEADERS.keys()))
        failed = self.library.nvrtcCompileProgram(program, len(options), names(options))
        log = self.text(program, "ProgramLog").rstrip(b"\0").decode()
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        return not failed, log


def main():
    directories = [d for d in os.environ.get("ENGINE_CUDA12", "").split(":") if d]
    if not directories:
        skip("ENGINE_CUDA12 names no CUDA 12 toolkit")
    nvrtc = Nvrtc(find(directories, "libnvrtc.so.12"))
    include = [find(directories, "cuda_fp16.h").parent, find(directories, "cuda/std/bit").parents[2], SOURCE]
    options = OPTIONS + [f"-I{path}" for path in include]
    n_kernels = n_faults = 0
    for source in sorted((SOURCE / "kernels/cuda").glob("*.cu")):
        if "__global__" not in source.read_text():
            continue
        compiles, log = nvrtc.compile(source, options)
        kernels = re.findall(r"Compiling entry function '\S+' for 'sm_70'", log)
        registers = [int(n) for n in re.findall(r"Used (\d+) registers", log)]
        faults = [line for line in log.splitlines()
                  if re.search(r"(error|warning)\b.*:", line) and not any(text in line for text in EXPECTED)]
        faults += re.findall(r".*[1-9]\d* bytes spill stores.*", log)
        if not compiles and not faults:
            faults = [log]
        print(f"{source.name}: {len(kernels)} kernels, at most {max(registers, default=0)} registers",
              *faults, sep="\n  ")
        n_kernels += len(kernels)
        n_faults += len(faults)
    print(f"{n_kernels} kernels, {n_faults} faults")
    sys.exit(1 if n_faults or not n_kernels else 0)


main()
