"""The build: what the machine has, and what is left out."""

import json
import re
import shutil

from .programs import Skip
from .report import ROOT, nvcc

PACKAGES = ("CLI11", "nlohmann_json", "spdlog", "GTest", "benchmark")


def find_packages(check):
    """Which packages CMake finds, by the same search as the build's."""
    folder = check.folder / "packages"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f'find_package({name} QUIET)\nmessage(STATUS "package {name} ${{{name}_FOUND}}")' for name in PACKAGES]
    (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(packages CXX)\n" + "\n".join(lines))
    _, out = check.runner.run(["cmake", "-S", folder, "-B", folder / "build", *cmake_options(check)])
    found = dict(re.findall(r"package (\S+) (\S+)", out.decode(errors="replace")))
    return {name for name in PACKAGES if found.get(name, "").upper() in ("1", "TRUE", "ON", "YES")}


def cmake_options(check):
    options = ["-G", "Ninja"] if shutil.which("ninja") else []
    if check.args.prefix:
        options.append("-DCMAKE_PREFIX_PATH=" + ";".join(str(prefix.resolve()) for prefix in check.args.prefix))
    return options


def parts(packages):
    """CMake's options for what can be built of these, and what is left out with the reason."""
    needs = {"ENGINE_TOOLS": ("gemma-eval", ("CLI11", "nlohmann_json", "spdlog")),
             "ENGINE_BENCH": ("engine-bench", ("benchmark", "CLI11", "nlohmann_json")),
             "ENGINE_TESTS": ("tests", ("GTest", "nlohmann_json"))}
    options, left_out = [], {}
    for option, (what, names) in needs.items():
        missing = [name for name in names if name not in packages]
        options.append(f"-D{option}={'OFF' if missing else 'ON'}")
        if missing:
            left_out[what] = "no " + ", ".join(missing)
    return options, left_out


def tests_of_device(check):
    """Names of the tests labelled gpu, which are those of their programs."""
    if "tests" in check.left_out:
        return []
    _, out = check.runner.run(["ctest", "--test-dir", check.folder, "-L", "^gpu$", "--show-only=json-v1"])
    return [test["name"] for test in json.loads(out)["tests"]]


def build(check, figures):
    if check.args.build_dir:
        raise Skip("--build-dir: a build that is there is used")
    packages = find_packages(check)
    options, check.left_out = parts(packages)
    figures["packages"], figures["left_out"] = sorted(packages), check.left_out
    cuda = ["-DENGINE_CUDA=ON", f"-DCMAKE_CUDA_ARCHITECTURES={check.args.architectures}"] if check.device == "cuda" else ["-DENGINE_CUDA=OFF"]
    if check.device == "cuda" and nvcc():
        cuda.append(f"-DCMAKE_CUDA_COMPILER={nvcc()}")
    check.runner.run(["cmake", "-S", ROOT, "-B", check.folder, "-DCMAKE_BUILD_TYPE=Release", "-DENGINE_DEVICE_CHECK=ON",
                      f"-DENGINE_SIMT={'ON' if check.device == 'simt' else 'OFF'}", *cmake_options(check), *options, *cuda])
    targets = ["make-model", "reload-model"] + (["device-probe"] if check.device == "cuda" else [])
    targets += [name for name in ("gemma-eval", "engine-bench") if name not in check.left_out]
    targets += tests_of_device(check) if check.device == "cuda" else []
    figures["targets"] = targets
    # A program of an earlier build must not be taken for that of one that fails.
    shutil.rmtree(check.folder / "bin", ignore_errors=True)
    go_on = ["-k", "0"] if shutil.which("ninja") else ["-k"]  # a target that fails does not stop the others
    check.runner.run(["cmake", "--build", check.folder, "-j", check.args.jobs, "--target", *targets, "--", *go_on])
