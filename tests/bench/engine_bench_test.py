"""engine-bench on a tiny model: every command measures something."""

import json
import os
import pathlib
import subprocess
import unittest

BENCH = pathlib.Path(os.environ["ENGINE_BIN"]) / "engine-bench"
MODEL = pathlib.Path(__file__).resolve().parents[1] / "golden" / "tiny" / "tiny-nano-F32.gguf"


def bench(*args):
    return subprocess.run([BENCH, *map(str, args)], capture_output=True, text=True, check=False, timeout=60)


def report(command, *args):
    done = bench(command, *args)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


class EngineBench(unittest.TestCase):
    def test_rates(self):
        for command, n_tokens in ((("pp", 16), 16), (("tg", 4), 4), (("tg", 4, "--greedy"), 4),
                                  (("batch", 4, "--sequences", 3), 12)):
            for depth in (0, 7):
                with self.subTest(command=command, depth=depth):
                    got = report(*command, "-m", MODEL, "-t", 1, "--depth", depth)
                    self.assertEqual((got["kind"], got["n"], got["depth"]), (*command[:2], depth))
                    self.assertEqual(got["threads"], 1)
                    self.assertGreater(got["weight_bytes"], 10_000)
                    self.assertAlmostEqual(got["tokens_per_second"] * got["seconds"], n_tokens)

    def test_times(self):
        self.assertGreater(report("ttft", 5, "-m", MODEL)["seconds"], 0)
        got = report("load", 5, "-m", MODEL)
        self.assertGreater(got["seconds"], got["load_seconds"])
        self.assertGreater(got["peak_resident_bytes"], 1_000_000)

    def test_roofline(self):
        got = report("roofline", "-t", 2)
        self.assertEqual(got["threads"], 2)
        for figure in ("read_bytes_per_second", "int16_multiply_adds_per_second", "fp32_multiply_adds_per_second"):
            self.assertGreater(got[figure], 1e8)

    def test_errors(self):
        for code, args in ((2, []), (2, ["pp", 0, "-m", MODEL]), (2, ["tg", 4]), (1, ["pp", 4, "-m", "no such file"]),
                           (1, ["pp", 1 << 30, "-m", MODEL])):
            done = bench(*args)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertNotEqual(done.stderr, "")
        self.assertEqual(bench("--help").returncode, 0)


if __name__ == "__main__":
    unittest.main()
