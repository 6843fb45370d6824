#!/usr/bin/env python3
"""Holds what ptxas reports of every CUDA kernel against tests/cuda/ptxas.tsv: registers, shared memory, no spills.

usage: ptxas_test.py BUILD_DIR NVCC_VERSION [--update]

BUILD_DIR is a build with ENGINE_CUDA=ON, whose object files have their reports beside them. Registers are compared only
if the table was written with the same nvcc; --update writes it.
Exit codes: 0 as the table says, 1 not, 77 nothing to look at.
"""
import pathlib
import re
import subprocess
import sys

TABLE = pathlib.Path(__file__).with_name("ptxas.tsv")
MOST_KERNELS = 80
MOST_REGISTERS = 255  # of a thread, on every architecture
MOST_STATIC_SHARED = 48 << 10

ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(sm_\d+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def demangled(names):
    """'_ZN…' -> 'rmsnorm_kernel(op::RmsNormArgs)', without what differs from build to build."""
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    clean = []
    for name in text.splitlines():
        name = re.sub(r"engine::(cuda|op|gguf)::|\(anonymous namespace\)::|_GLOBAL__N_\w+::|^void ", "", name)
        clean.append(re.sub(r"\(.*\)$", "", name))
    return dict(zip(names, clean))


def read_reports(build):
    """{(kernel, architecture): {registers, shared, spills}}"""
    found = {}
    for report in sorted(build.rglob("*.o.ptxas")):
        entry = None
        for line in report.read_text().splitlines():
            if match := ENTRY.search(line):
                entry = match.groups()
                found[entry] = {"registers": 0, "shared": 0, "spills": 0}
            elif entry and (match := SPILLS.search(line)):
                found[entry]["spills"] = int(match[2]) + int(match[3])
            elif entry and (match := USED.search(line)):
                found[entry]["registers"] = int(match[1])
                if shared := SHARED.search(line):
                    found[entry]["shared"] = int(shared[1])
    names = demangled(sorted({kernel for kernel, _ in found}))
    return {(names[kernel], architecture): values for (kernel, architecture), values in found.items()}


def read_table():
    """The version of nvcc, and {(kernel, architecture): registers}."""
    first, *rest = TABLE.read_text().splitlines()
    lines = [line.split("\t") for line in rest]
    architectures = lines[0][1:]
    return first.split()[-1], {(line[0], a): int(n) for line in lines[1:] for a, n in zip(architectures, line[1:])}


def write_table(reports, version):
    architectures = sorted({a for _, a in reports}, key=lambda a: int(a[3:]))
    kernels = sorted({kernel for kernel, _ in reports})
    rows = [f"# Registers of a thread of each kernel. Written by ptxas_test.py --update with nvcc {version}",
            "\t".join(["kernel", *architectures])]
    rows += ["\t".join([k, *(str(reports[k, a]["registers"]) for a in architectures)]) for k in kernels]
    TABLE.write_text("\n".join(rows) + "\n")


def main():
    arguments = sys.argv[1:]
    if len(arguments) < 2:
        sys.exit(__doc__)
    reports = read_reports(pathlib.Path(arguments[0]))
    if not reports:
        print("skipped: no reports of ptxas in", arguments[0])
        sys.exit(77)
    if "--update" in arguments:
        write_table(reports, arguments[1])
    version, table = read_table()
    compares = version == arguments[1]
    if not compares:
        print(f"registers are not compared: the table is of nvcc {version}, this is {arguments[1]}")
    known = {a for _, a in table}
    faults = []
    kernels = {kernel for kernel, _ in reports}
    if len(kernels) > MOST_KERNELS:
        faults.append(f"{len(kernels)} kernels, expected at most {MOST_KERNELS}")
    for (kernel, architecture), found in sorted(reports.items()):
        where = f"{kernel}, {architecture}: "
        if found["spills"]:
            faults.append(where + f"{found['spills']} bytes of spills, expected none")
        if found["registers"] > MOST_REGISTERS or found["shared"] > MOST_STATIC_SHARED:
            faults.append(where + f"{found['registers']} registers, {found['shared']} bytes of static shared memory")
        expected = table.get((kernel, architecture))
        if expected is None and architecture in known:
            faults.append(where + "is not in the table")
        elif compares and expected is not None and found["registers"] > expected:
            faults.append(where + f"{found['registers']} registers, the table has {expected}")
    built = {a for _, a in reports}
    faults += [f"{k}, {a}: is in the table but not built" for k, a in sorted(table) if a in built and (k, a) not in reports]
    for fault in faults:
        print(fault)
    print(f"{len(kernels)} kernels on {len(built)} architectures, {len(faults)} faults")
    sys.exit(1 if faults else 0)


main()
