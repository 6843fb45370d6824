"""bench/decode over programs that report known figures."""

import json
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time
import unittest

DECODE = pathlib.Path(__file__).resolve().parents[2] / "bench" / "decode"

# Stands in for every program: notes its call, and reports the next of the speeds that belong to its name.
PROGRAM = """#!/usr/bin/env python3
import json, os, pathlib, sys
name = os.path.basename(sys.argv[0])
calls = pathlib.Path(os.environ["CALLS"])
noted = [json.loads(line) for line in calls.read_text().splitlines()]
turn = sum(call[:2] == [name, sys.argv[1]] for call in noted)
with calls.open("a") as file:
    print(json.dumps([name, *sys.argv[1:]]), file=file)
speed = json.loads(os.environ["SPEEDS"])[name][turn % 3]
if name == "engine-bench":
    print(json.dumps({"backend": "cpu none, 2 threads", "weight_bytes": 2e8, "read_bytes_per_second": 4e10,
                      "tokens_per_second": speed, "seconds": 1 / speed}))
elif name == "llama-batched-bench":
    print(json.dumps({"speed_tg": speed}))
else:
    print("[", "chatter {", "  {", f'    "avg_ts": {speed}', "  }", "]", sep="\\n")
"""
SPEEDS = {"engine-bench": [100, 120, 80], "llama-bench": [25, 60, 100], "llama-batched-bench": [50, 60, 40],
          "ik-bench": [200, 240, 160]}


class Decode(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in SPEEDS:
            path = self.folder / name
            path.write_text(PROGRAM)
            path.chmod(0o755)

    def start(self, *options):
        (self.folder / "calls").write_text("")
        command = [DECODE, "--model", "folder/model.gguf", "--engine", self.path("engine-bench"), "--runs", "3",
                   "--threads", "1", *map(str, options)]
        environment = {**os.environ, "CALLS": self.path("calls"), "SPEEDS": json.dumps(SPEEDS)}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def finish(self, process):
        self.output, self.errors = process.communicate(timeout=60)
        self.calls = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        return process.returncode

    def decode(self, *options):
        """The measurements by (engine, name)."""
        results = self.folder / "results"
        self.assertEqual(self.finish(self.start("--json", results, *options)), 0, self.errors)
        self.results = json.loads(results.read_text())
        return {(m["engine"], m["name"]): m["values"] for m in self.results["measurements"]}

    def refuse(self, code, *options):
        """The line that says why: the only one beside progress and the warning of a busy machine."""
        self.assertEqual(self.finish(self.start(*options)), code, self.errors)
        self.assertEqual(self.output, "")
        lines = [line for line in self.errors.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(lines), 1, self.errors)
        self.assertNotIn("Traceback", self.errors)
        return lines[0]

    def path(self, name):
        return str(self.folder / name)

    def rows(self):
        lines = [line for line in self.output.splitlines() if line.startswith("|")][2:]
        return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]

    def test_turns_medians_and_ratios(self):
        values = self.decode("--tests", "tg", "--depths", "0", "--llama-bench", self.path("llama-bench"))
        self.assertEqual(values["engine", "tg128 at depth 0, 1 thread"], [100, 120, 80])
        self.assertEqual(values["llama.cpp", "tg128 at depth 0, 1 thread"], [25, 60, 100])
        programs = [call[:2] for call in self.calls if call[1] not in ("load", "roofline")]
        self.assertEqual(programs, [["engine-bench", "tg"], ["llama-bench", "-m"]] * 3)
        # Ratios 4, 2 and 0.8. 200 passes a second are the bound: 50, 60 and 40 %.
        self.assertEqual(self.rows(), [["tg128 at depth 0, 1 thread", "tokens/s", "100.0 (80.0–120.0)", "50 %",
                                        "60.0 (25.0–100.0)", "2.00"]])

    def test_share_of_the_bound_counts_passes(self):
        self.decode("--tests", "batch", "--batches", "4", "--llama-bench", self.path("llama-bench"),
                    "--llama-batched-bench", self.path("llama-batched-bench"))
        (row,) = self.rows()
        self.assertEqual(row[3], f"{100 * statistics.median([100, 120, 80]) / 4 / 200:.0f} %")
        self.assertEqual(row[4:], ["50.0 (40.0–60.0)", "2.00"])
        (batched,) = {tuple(c) for c in self.calls if c[0] == "llama-batched-bench"}
        self.assertIn(("-npl", "4"), list(zip(batched, batched[1:])))

    def test_times_are_better_when_smaller(self):
        values = self.decode("--tests", "ttft", "--llama-bench", self.path("llama-bench"))
        name = "first token after 16, 1 thread"
        self.assertEqual(values["engine", name], [1000 / 100, 1000 / 120, 1000 / 80])
        self.assertEqual(values["llama.cpp", name], [16000 / 25, 16000 / 60, 16000 / 100])
        ratios = [t / o for o, t in zip(values["engine", name], values["llama.cpp", name])]
        self.assertEqual(self.rows()[0][-1], f"{statistics.median(ratios):.2f}")

    def test_ik_starts_at_a_depth_by_another_option(self):
        values = self.decode("--tests", "pp,tg", "--depths", "512", "--ik-llama-bench", self.path("ik-bench"),
                             "--ik-rtr")
        self.assertNotIn(("ik_llama.cpp", "pp512 at depth 512, 1 thread"), values)
        self.assertEqual(values["ik_llama.cpp", "tg128 at depth 512, 1 thread"], [200, 160, 240])
        self.assertIn(["-gp", "512,128"], [call[-2:] for call in self.calls])
        self.assertEqual(sum("-rtr" in call for call in self.calls), 3)
        self.assertEqual(self.rows()[0][4:], ["–"] * 4)

    def test_memory_and_whole_processes(self):
        values = self.decode("--tests", "load,rss")
        self.assertTrue(all(0 < v < 60 for v in values["engine", "load and first token, 1 thread"]))
        self.assertTrue(all(1 < v < 1000 for v in values["engine", "peak memory, context 4096, 1 thread"]))

    def test_report_names_its_conditions(self):
        self.decode("--tests", "tg", "--depths", "0")
        for part in ("cpu none", "model.gguf, 200.0 MB", "faithful, 16-bit activations", "40.0 (40.0–40.0) GB/s",
                     "bench/decode --model model.gguf"):
            self.assertIn(part, self.output)
        self.assertNotIn("folder/", self.output)

    def test_counts_are_words(self):
        self.decode("--tests", "tg", "--depths", "0", "--runs", "1")
        self.assertIn("\n1 turn; median", self.output)
        self.decode("--tests", "tg", "--depths", "0", "--runs", "2")
        self.assertIn("\n2 turns; median", self.output)

    def test_a_busy_machine_is_warned_of(self):
        self.decode("--tests", "load")
        self.assertEqual("warning: the machine is not quiet" in self.errors, self.results["context"]["load"] > 0.5)

    def test_help_names_defaults(self):
        self.assertEqual(self.finish(self.start("--help")), 0)
        for default in ("5", "128", "0,512,4096", "pp,tg,greedy,full,drawn,batch,ttft,load,rss"):
            self.assertIn(f"(default: {default})", " ".join(self.output.split()))
        self.assertNotIn("default: None", self.output)

    def test_numbers_out_of_range(self):
        processors = len(os.sched_getaffinity(0))
        for option, *values in (("--runs", 0, -3), ("--tokens", 0, -2, "x", ""), ("--prompt", 0), ("--depths", -1, "0,"),
                                ("--threads", 0, -1, processors + 1, f"1,{processors + 1}"), ("--batches", 0, 1025),
                                ("--batch-tokens", 0), ("--batch-depths", -1), ("--tests", "tg,x")):
            for value in values:
                with self.subTest(option=option, value=value):
                    self.assertIn(f"argument {option}: ", self.refuse(2, option, value))
                    self.assertEqual(self.calls, [])

    def test_paths_are_checked_before_measuring(self):
        (self.folder / "text").write_text("not executable")
        for option in ("--engine", "--llama-bench", "--llama-batched-bench", "--ik-llama-bench"):
            for path in (self.path("missing"), self.folder, self.path("text")):
                with self.subTest(option=option, path=path):
                    self.assertIn(f"argument {option}: ", self.refuse(2, option, path))
        for path in (self.folder, self.path("missing/x.json"), self.path("text/x.json")):
            self.assertIn("argument --json: ", self.refuse(2, "--json", path))
            self.assertEqual(self.calls, [])

    def test_options_that_need_another(self):
        self.assertIn("needs --ik-llama-bench", self.refuse(2, "--ik-rtr"))
        self.assertIn("needs --llama-bench",
                      self.refuse(2, "--llama-batched-bench", self.path("llama-batched-bench")))

    def test_results_that_cannot_be_written(self):
        code = self.finish(self.start("--tests", "load", "--json", "/dev/full"))
        self.assertEqual(code, 1)
        self.assertIn("error: /dev/full cannot be written: ", self.errors)
        self.assertIn("| load and first token, 1 thread |", self.output)

    def fake(self, script):
        path = self.folder / "fake"
        path.write_text(script)
        path.chmod(0o755)
        return path

    def test_programs_that_fail(self):
        fails = self.fake("#!/bin/sh\necho two >&2; echo lines >&2; exit 3\n")
        self.assertIn("fake load -t 1 5 -m folder/model.gguf ended with 3: two lines", self.refuse(1, "--engine", fails))
        fails = self.fake("#!/missing/interpreter\n")
        self.assertIn("fake load -t 1 5 -m folder/model.gguf does not start: ", self.refuse(1, "--engine", fails))

    def test_programs_that_report_something_else(self):
        for report in ("", "text", "5", "[]", "{}", '{"weight_bytes": 0}', '{"weight_bytes": NaN}',
                       '{"weight_bytes": "1"}', "[" * 100000, "\\377"):
            fake = self.fake(f"#!/bin/sh\nprintf '{report}'\n")
            with self.subTest(report=report[:30]):
                self.assertIn("reported no weight_bytes", self.refuse(1, "--engine", fake))
        for report in ("", "{}", "  {\\n  }\\n"):
            fake = self.fake(f"#!/bin/sh\nprintf '{report}'\n")
            with self.subTest(report=report):
                self.assertIn("reported no avg_ts", self.refuse(1, "--tests", "tg", "--llama-bench", fake))
                self.assertIn("reported no speed_tg",
                              self.refuse(1, "--tests", "batch", "--llama-bench", self.path("llama-bench"),
                                          "--llama-batched-bench", fake))
        fake = self.fake("""#!/bin/sh\necho '{"weight_bytes": 1}'\n""")
        self.assertIn("reported no backend", self.refuse(1, "--engine", fake))

    def test_signals_end_the_running_program_too(self):
        fake = self.fake('#!/bin/sh\necho $$ >"$CALLS.part"\nmv "$CALLS.part" "$CALLS.pid"\nexec sleep 60\n')
        noted = self.folder / "calls.pid"
        for number in signal.SIGINT, signal.SIGTERM:
            with self.subTest(signal=number):
                process = self.start("--engine", fake)
                while not noted.exists():
                    self.assertIsNone(process.poll())
                    time.sleep(0.01)
                process.send_signal(number)
                self.assertEqual(self.finish(process), 130)
                self.assertNotIn("Traceback", self.errors)
                with self.assertRaises(ProcessLookupError):
                    os.kill(int(noted.read_text()), 0)
                noted.unlink()


if __name__ == "__main__":
    unittest.main()
