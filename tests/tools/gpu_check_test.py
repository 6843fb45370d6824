"""gpu_check on tiny models: what it reports, what it finds, and how it ends."""

import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from programs import BIN

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "tools" / "gpu_check"
sys.path.append(str(PROGRAM.parent))
from device_check import build  # noqa: E402

STEPS = ["build", "tests", "tiny", "model", "determinism", "bandwidth", "latency", "reload", "sanitizer"]

# Stands in for a program of the real build: the device {device} is the CPU, and does something else first.
STAND_IN = """#!/bin/sh
real={real} command=$1 device=
for arg; do
  shift
  [ "$arg" != {device} ] || {{ device=yes; arg=cpu; }}
  set -- "$@" "$arg"
done
[ -z "$device" ] || {{
{on_device}
}}
exec $real "$@"
"""


def change(command, old, new):
    """Text for a stand-in: the first of these words in the command's answers becomes another."""
    return f"[ $command != {command} ] || {{ $real \"$@\" | sed '0,/{old}/s//{new}/'; exit; }}"


# What ctest reads in a build folder.
CTEST = """
add_test(good_test sh -c "exit 0")
add_test(other_test sh -c "echo other words; exit {code}")
add_test(unit_test sh -c "exit 1")
set_tests_properties(good_test other_test PROPERTIES LABELS gpu SKIP_RETURN_CODE 77)
set_tests_properties(unit_test PROPERTIES LABELS unit)
"""


class Folder:
    """A build folder with programs of the real one and a gemma-eval in between, and a folder of results."""

    def __init__(self, path, fake=None, left_out=()):
        self.path, self.out = pathlib.Path(path), pathlib.Path(path) / "out"
        bin_folder = self.path / "bin"
        bin_folder.mkdir()
        for name in {"gemma-eval", "engine-bench", "make-model", "reload-model"} - set(left_out):
            if (BIN / name).exists():
                (bin_folder / name).symlink_to(BIN / name)
        if fake is not None:
            for name in ("gemma-eval", "engine-bench", "reload-model"):
                (bin_folder / name).unlink(missing_ok=True)
            self.stand_in("gemma-eval", "simt", fake)

    def program(self, name, text):
        path = self.path / "bin" / name
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def stand_in(self, name, device, on_device=":"):
        self.program(name, STAND_IN.format(real=shlex.quote(str(BIN / name)), device=device, on_device=on_device))

    def pretend_a_card(self, tests_code, sanitizer):
        """What --device cuda runs, without a card. The sanitizer's text runs with the tool's options as $2 and $4."""
        for name in ("gemma-eval", "engine-bench", "reload-model"):
            if (BIN / name).exists():
                self.stand_in(name, "cuda")
        self.program("device-probe", """#!/bin/sh
            echo '{"card": "none", "read_bytes_per_second": 2e9}'""")
        self.program("compute-sanitizer", "#!/bin/sh\n" + sanitizer)
        (self.path / "CTestTestfile.cmake").write_text(CTEST.format(code=tests_code))

    def start(self, *args, device="cpu"):
        environment = {**os.environ, "ENGINE_MODEL": "/nowhere.gguf",  # which reduced sizes leave alone
                       # Where AddressSanitizer is: what it keeps back of freed memory would be taken for a leak.
                       "ASAN_OPTIONS": "quarantine_size_mb=0:thread_local_quarantine_size_kb=0",
                       "PATH": f"{self.path / 'bin'}:{os.environ['PATH']}"}
        command = [sys.executable, PROGRAM, "--device", device, "--quick", "--build-dir", self.path, "--out", self.out, *args]
        return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)

    def run(self, *args, device="cpu"):
        process = self.start(*args, device=device)
        out, err = process.communicate(timeout=120)
        return process.returncode, out.decode(), err.decode()

    def steps(self):
        report = json.loads((self.out / "report.json").read_text())
        assert [step["name"] for step in report["steps"]] == STEPS
        return {step["name"]: step for step in report["steps"]}


SLEEP = "[ $command != generate ] || { echo $$ >${0%/*}/../pid; exec sleep 100; }"


class Parts(unittest.TestCase):
    """What is built of the packages that there are."""

    def test_parts(self):
        everything = set(build.PACKAGES)
        self.assertEqual(build.parts(everything), (["-DENGINE_TOOLS=ON", "-DENGINE_BENCH=ON", "-DENGINE_TESTS=ON"], {}))
        self.assertEqual(build.parts(everything - {"GTest", "spdlog"}), (
            ["-DENGINE_TOOLS=OFF", "-DENGINE_BENCH=ON", "-DENGINE_TESTS=OFF"],
            {"gemma-eval": "no spdlog", "tests": "no GTest"}))
        options, left_out = build.parts(set())
        self.assertTrue(all(option.endswith("=OFF") for option in options))
        self.assertEqual(left_out["engine-bench"], "no benchmark, CLI11, nlohmann_json")


class GpuCheck(unittest.TestCase):
    def folder(self, **kwargs):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        return Folder(scratch.name, **kwargs)

    def test_all_is_well(self):
        folder = self.folder()
        code, out, err = folder.run("--commit", "0123abc")
        steps = folder.steps()
        self.assertEqual((code, err), (0, ""), steps)
        expected = {"ok": {"tiny", "model", "determinism", "latency", "reload"},
                    "skipped": {"build", "tests", "bandwidth", "sanitizer"}}
        if not (BIN / "engine-bench").exists():
            expected["ok"].remove("latency")
            expected["skipped"].add("latency")
        for status, names in expected.items():
            self.assertEqual({name for name in STEPS if steps[name]["status"] == status}, names)
        for step in steps.values():
            self.assertEqual(step["status"] == "skipped", "reason" in step)
            self.assertGreaterEqual(step["seconds"], 0)
        figures = steps["tiny"]["figures"]
        self.assertEqual(figures["models"], 2)
        self.assertTrue(0 < figures["largest_distance_from_the_references_f32"] <= 1e-3)
        self.assertIn("made up, synthetic.gguf, ", steps["model"]["figures"]["model"])
        self.assertEqual(steps["model"]["figures"]["logits_compared"], 4 * 1024)
        self.assertEqual(steps["reload"]["figures"]["synthetic.gguf"]["loads"], 6)
        if "latency" in expected["ok"]:
            first = steps["latency"]["figures"]["first_token_after_4_ms"]
            self.assertTrue(0 < first["least"] <= first["p50"] <= first["most"])

        report = json.loads((folder.out / "report.json").read_text())
        self.assertEqual((report["device"], report["quick"], report["commit"]), ("cpu", True, "0123abc"))
        self.assertEqual(report["machine"]["processors"], len(os.sched_getaffinity(0)))
        summary = (folder.out / "summary.md").read_text()
        self.assertIn("# Check of device cpu, reduced sizes", summary)
        self.assertIn("Verdict: good", summary)
        for step in steps.values():
            self.assertIn(f"| {step['name']} | {step['status']} |", summary)
        self.assertIn("$ ", (folder.out / "log.txt").read_text())
        self.assertEqual(out.count("\n"), len(STEPS) + 1)

    def test_a_wrong_bit_is_found(self):
        # One more digit of a logit, which the references' bounds do not see, and of the sum.
        for old, new, expected in (("]]}", "1]]}", " logits differ, at most by "), ('"logsumexp":', '"logsumexp":1', ": logsumexp 1")):
            with self.subTest(new=new):
                folder = self.folder(fake=change("logits", old, new))
                code, out, _ = folder.run(device="simt")
                steps = folder.steps()
                self.assertEqual(code, 1, out)
                for name in ("tiny", "model"):
                    self.assertEqual(steps[name]["status"], "failed")
                    self.assertIn(expected, steps[name]["reason"])
                self.assertIn("tiny-nano-F32.gguf, f32 cache: ", steps["tiny"]["reason"])
                self.assertEqual("from the reference, more than 0.001" in steps["tiny"]["reason"], "logsumexp" in old)
                self.assertEqual(steps["determinism"]["status"], "ok")  # the steps after it go on
                summary = (folder.out / "summary.md").read_text()
                self.assertIn("| model | failed |", summary)
                self.assertIn("Verdict: not good: failed tiny, model", summary)

    def test_a_wrong_token_is_found(self):
        folder = self.folder(fake=change("generate", '"ids":\\[', '"ids":[1'))
        self.assertEqual(folder.run(device="simt")[0], 1)
        steps = folder.steps()
        for name in ("tiny", "model", "determinism"):
            self.assertEqual(steps[name]["status"], "failed")
            self.assertRegex(steps[name]["reason"], r"answer to \d+ tokens: token 0 is 1\d+, not \d+")

    def test_a_program_that_fails(self):
        folder = self.folder()
        folder.program("gemma-eval", "#!/bin/sh\necho 'error: no such card' >&2\nexit 4\n")
        self.assertEqual(folder.run()[0], 1)
        steps = folder.steps()
        self.assertEqual(steps["model"]["status"], "failed")
        self.assertIn("gemma-eval ended with 4: error: no such card", steps["model"]["reason"])
        self.assertEqual(steps["reload"]["status"], "ok")

    def test_what_is_not_built_is_skipped(self):
        folder = self.folder(left_out=("gemma-eval", "engine-bench"))
        self.assertEqual(folder.run()[0], 0)
        steps = folder.steps()
        for name in ("tiny", "model", "determinism"):
            self.assertEqual((steps[name]["status"], steps[name]["reason"]), ("skipped", "gemma-eval is not built"))
        self.assertEqual(steps["reload"]["status"], "ok")

    def test_a_model_given(self):
        folder = self.folder()
        model = PROGRAM.parents[1] / "tests/golden/tiny/tiny-nano-Q8_0.gguf"
        self.assertEqual(folder.run("--model", model)[0], 0)
        self.assertEqual(folder.steps()["model"]["figures"]["model"], f"tiny-nano-Q8_0.gguf, {model.stat().st_size} bytes")

    def test_a_leak_is_found(self):
        folder = self.folder(left_out=("gemma-eval", "engine-bench"))
        grown = 100_000_000
        folder.program("reload-model", f"""#!/bin/sh
            echo '{{"loads": 9, "base_bytes": 1000, "loaded_bytes": 2000, "end_bytes": {1000 + grown}}}'""")
        self.assertEqual(folder.run()[0], 1)
        step = folder.steps()["reload"]
        self.assertEqual(step["status"], "failed")
        self.assertIn(f"synthetic.gguf: {grown} bytes more in use after 6 loads than after 2", step["reason"])

    def test_what_only_a_card_has(self):
        folder = self.folder()
        folder.pretend_a_card(77, "shift 4; exec \"$@\"\n")
        code, out, _ = folder.run(device="cuda")
        steps = folder.steps()
        self.assertEqual(code, 0, out)
        self.assertEqual((steps["tests"]["status"], steps["tests"]["reason"]),
                         ("skipped", "skipped themselves: other_test; other words"))
        self.assertEqual(steps["tests"]["figures"], {"passed": 1, "failed": 0, "skipped": 1})
        self.assertEqual(steps["bandwidth"]["figures"]["read_bytes_per_second"], 2e9)
        self.assertEqual(steps["sanitizer"]["status"], "ok")
        self.assertEqual(list(steps["sanitizer"]["figures"]), ["memcheck", "racecheck", "synccheck"])
        self.assertEqual(steps["model"]["status"], "ok")
        if (BIN / "engine-bench").exists():
            figures = steps["latency"]["figures"]
            self.assertAlmostEqual(figures["share_of_read_bandwidth"], figures["weight_bytes_read_per_second"] / 2e9)

    def test_what_a_card_gets_wrong(self):
        folder = self.folder()
        folder.pretend_a_card(1, "[ $2 != racecheck ] || { echo '=== ERROR: a race'; exit 99; }\n")
        self.assertEqual(folder.run(device="cuda")[0], 1)
        steps = folder.steps()
        self.assertEqual((steps["tests"]["status"], steps["tests"]["reason"]), ("failed", "failed or not built: other_test"))
        self.assertIn("other_test failed:\nother words\n", (folder.out / "log.txt").read_text())
        self.assertEqual(steps["sanitizer"]["status"], "failed")
        self.assertIn("racecheck: compute-sanitizer ended with 99: === ERROR: a race", steps["sanitizer"]["reason"])
        self.assertEqual(list(steps["sanitizer"]["figures"]), ["memcheck", "synccheck"])
        (folder.path / "CTestTestfile.cmake").write_text(
            CTEST.format(code=77) + 'add_test(lost_test "/nowhere")\nset_tests_properties(lost_test PROPERTIES LABELS gpu)\n')
        (folder.path / "bin" / "gemma-eval").unlink()
        folder.run(device="cuda")
        self.assertEqual(folder.steps()["tests"]["reason"], "failed or not built: lost_test")

    def test_signals(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number=number):
                folder = self.folder(fake=SLEEP)
                process = folder.start(device="simt")
                self.addCleanup(process.kill)
                pid = folder.path / "pid"
                deadline = time.monotonic() + 60
                while not (pid.exists() and pid.read_text()) and time.monotonic() < deadline:
                    time.sleep(0.02)
                # What a kill that cannot be caught would leave.
                steps = folder.steps()
                self.assertEqual((steps["tiny"]["reason"], steps["model"]["reason"]), ("cut", "not reached"))
                process.send_signal(number)
                process.communicate(timeout=30)
                self.assertEqual(process.returncode, 130)
                steps = folder.steps()
                self.assertEqual(steps["tiny"]["status"], "skipped")
                self.assertEqual(steps["tiny"]["reason"], f"cut by {number.name}")
                self.assertGreater(steps["tiny"]["seconds"], 0)
                self.assertEqual(steps["model"]["reason"], "not reached")
                self.assertIn(f"cut by {number.name}", (folder.out / "summary.md").read_text())
                with self.assertRaises(ProcessLookupError):
                    os.kill(int(pid.read_text()), 0)

    def test_budget(self):
        folder = self.folder(fake=SLEEP)
        began = time.monotonic()
        self.assertEqual(folder.run("--budget", 3, device="simt")[0], 1)
        self.assertLess(time.monotonic() - began, 20)
        self.assertRegex(folder.steps()["tiny"]["reason"], r"gemma-eval did not end within \d+\.\d s")
        self.assertEqual(folder.run("--budget", 0.01)[0], 0)
        self.assertIn("Verdict: not decided: skipped tiny, model, determinism", (folder.out / "summary.md").read_text())
        for step in list(folder.steps().values())[2:]:
            self.assertRegex(step["reason"], r"^needs [0-9.]+ s, and 0 s of the budget are left$")

    def test_usage(self):
        for args in (["--device", "abacus"], ["--budget", "0"], ["--budget", "nan"], ["--jobs", "0"], ["--model", "/nowhere"],
                     ["--build-dir", "/nowhere"], ["stray"]):
            with self.subTest(args=args):
                done = subprocess.run([sys.executable, PROGRAM, *args], capture_output=True, check=False, timeout=60)
                self.assertEqual((done.returncode, done.stdout), (2, b""))
                self.assertTrue(done.stderr.startswith(b"error: "), done.stderr)
        self.assertIn(b"--budget", subprocess.run([PROGRAM, "--help"], capture_output=True, check=True, timeout=60).stdout)


if __name__ == "__main__":
    unittest.main()
