"""engine-bench on a tiny model: every command measures something."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BENCH = pathlib.Path(os.environ["ENGINE_BIN"]) / "engine-bench"
MODEL = pathlib.Path(__file__).resolve().parents[1] / "golden" / "tiny" / "tiny-nano-F32.gguf"


def bench(*args, **env):
    return subprocess.run([BENCH, *map(str, args)], capture_output=True, text=True, check=False, timeout=60,
                          env={**os.environ, **env})


def report(command, *args, **env):
    done = bench(command, *args, **env)
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

    def test_generate(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"one two three four, one two three four, one two three four, ")
            file.flush()
            args = ("generate", 100, "-m", MODEL, "--file", file.name)
            plain = report(*args)
            self.assertEqual((plain["draft"], plain["drafted"], plain["accepted"]), (0, 0, 0))
            self.assertAlmostEqual(plain["tokens_per_second"] * plain["seconds"], 99)
            drafted = report(*args, "--draft", 7, "--repeat", 3)
            self.assertGreater(drafted["accepted"], 0)
            self.assertGreaterEqual(drafted["drafted"], drafted["accepted"])
            self.assertEqual(drafted["seconds"], sorted(drafted["runs"])[1])
            report(*args, "--temperature", 0.5, "--seed", 3)
            self.assertEqual(bench(*args, "--draft", 8).returncode, 2)
            self.assertEqual(bench("generate", 10_000, *args[2:]).returncode, 1)
        self.assertEqual(bench("generate", 4, "-m", MODEL, "--file", "/no such file").returncode, 1)

    def test_repeated(self):
        for command in ("pp", 16), ("tg", 2), ("tg", 2, "--greedy"), ("batch", 2, "--sequences", 2), ("ttft", 5):
            with self.subTest(command=command):
                got = report(*command, "-m", MODEL, "--repeat", 3)
                self.assertEqual(len(got["runs"]), 3)
                self.assertEqual(got["seconds"], sorted(got["runs"])[1])

    def test_device(self):
        self.assertIn("cpu", report("ttft", 5, "-m", MODEL, "--device", "cpu")["backend"])
        self.assertEqual(bench("ttft", 5, "-m", MODEL, "--device", "abacus").returncode, 2)

    def test_roofline(self):
        got = report("roofline", "-t", 2)
        self.assertEqual(got["threads"], 2)
        for figure in ("read_bytes_per_second", "int16_multiply_adds_per_second",
                       "int16_block_multiply_adds_per_second", "fp32_multiply_adds_per_second"):
            self.assertGreater(got[figure], 1e8)

    def test_roofline_of_an_instruction_set(self):
        self.assertEqual(report("roofline", "-t", 1, ENGINE_CPU_ISA="scalar")["isa"], "scalar")
        done = bench("roofline", ENGINE_CPU_ISA="avx99")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn('ENGINE_CPU_ISA is "avx99"', done.stderr)

    def test_errors(self):
        for code, args in ((2, []), (2, ["pp", 0, "-m", MODEL]), (2, ["tg", 4]), (1, ["pp", 4, "-m", "no such file"]),
                           (1, ["pp", 1 << 30, "-m", MODEL]),
                           (1, ["tg", 1 << 30, "-m", MODEL, "--depth", (1 << 30) - 1]),
                           (1, ["batch", 1 << 30, "-m", MODEL, "--sequences", 3]),
                           (2, ["pp", (1 << 30) + 1, "-m", MODEL]), (2, ["pp", 4, "-m", MODEL, "--depth", 1 << 30]),
                           (2, ["batch", 4, "-m", MODEL, "--sequences", 1025]),
                           (2, ["batch", 4, "-m", MODEL, "--sequences", 1 << 32])):
            done = bench(*args)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertNotEqual(done.stderr, "")
        self.assertEqual(bench("--help").returncode, 0)


if __name__ == "__main__":
    unittest.main()
