"""bench/decode over programs that report known figures."""

import json
import os
import pathlib
import statistics
import subprocess
import tempfile
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

    def decode(self, *options):
        """The measurements by (engine, name)."""
        calls, results = self.folder / "calls", self.folder / "results"
        calls.write_text("")
        command = [DECODE, "--model", "folder/model.gguf", "--engine", self.folder / "engine-bench", "--runs", "3",
                   "--threads", "2", "--json", results, *options]
        environment = {**os.environ, "CALLS": str(calls), "SPEEDS": json.dumps(SPEEDS)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.output = done.stdout
        self.calls = [json.loads(line) for line in calls.read_text().splitlines()]
        self.results = json.loads(results.read_text())
        return {(m["engine"], m["name"]): m["values"] for m in self.results["measurements"]}

    def path(self, name):
        return str(self.folder / name)

    def rows(self):
        lines = [line for line in self.output.splitlines() if line.startswith("|")][2:]
        return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]

    def test_turns_medians_and_ratios(self):
        values = self.decode("--tests", "tg", "--depths", "0", "--llama-bench", self.path("llama-bench"))
        self.assertEqual(values["engine", "tg128 at depth 0, 2 threads"], [100, 120, 80])
        self.assertEqual(values["llama.cpp", "tg128 at depth 0, 2 threads"], [25, 60, 100])
        programs = [call[:2] for call in self.calls if call[1] not in ("load", "roofline")]
        self.assertEqual(programs, [["engine-bench", "tg"], ["llama-bench", "-m"]] * 3)
        # Ratios 4, 2 and 0.8. 200 passes a second are the bound: 50, 60 and 40 %.
        self.assertEqual(self.rows(), [["tg128 at depth 0, 2 threads", "tokens/s", "100.0 (80.0–120.0)", "50 %",
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
        name = "first token after 16, 2 threads"
        self.assertEqual(values["engine", name], [1000 / 100, 1000 / 120, 1000 / 80])
        self.assertEqual(values["llama.cpp", name], [16000 / 25, 16000 / 60, 16000 / 100])
        ratios = [t / o for o, t in zip(values["engine", name], values["llama.cpp", name])]
        self.assertEqual(self.rows()[0][-1], f"{statistics.median(ratios):.2f}")

    def test_ik_starts_at_a_depth_by_another_option(self):
        values = self.decode("--tests", "pp,tg", "--depths", "512", "--ik-llama-bench", self.path("ik-bench"),
                             "--ik-rtr")
        self.assertNotIn(("ik_llama.cpp", "pp512 at depth 512, 2 threads"), values)
        self.assertEqual(values["ik_llama.cpp", "tg128 at depth 512, 2 threads"], [200, 160, 240])
        self.assertIn(["-gp", "512,128"], [call[-2:] for call in self.calls])
        self.assertEqual(sum("-rtr" in call for call in self.calls), 3)
        self.assertEqual(self.rows()[0][4:], ["–"] * 4)

    def test_memory_and_whole_processes(self):
        values = self.decode("--tests", "load,rss")
        self.assertTrue(all(0 < v < 60 for v in values["engine", "load and first token, 2 threads"]))
        self.assertTrue(all(1 < v < 1000 for v in values["engine", "peak memory, context 4096, 2 threads"]))

    def test_report_names_its_conditions(self):
        self.decode("--tests", "tg", "--depths", "0")
        for part in ("cpu none", "model.gguf, 200.0 MB", "faithful, 16-bit activations", "40.0 (40.0–40.0) GB/s",
                     "bench/decode --model model.gguf"):
            self.assertIn(part, self.output)
        self.assertNotIn("folder/", self.output)

    def test_a_failing_program_ends_it(self):
        done = subprocess.run([DECODE, "--model", "x", "--engine", "/bin/false"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended with 1", done.stderr)


if __name__ == "__main__":
    unittest.main()
