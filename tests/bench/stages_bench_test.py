"""stages-bench on a tiny model: both tables name every stage and add up."""

import os
import pathlib
import re
import subprocess
import unittest

BENCH = pathlib.Path(os.environ["ENGINE_BIN"]) / "stages-bench"
MODEL = pathlib.Path(__file__).resolve().parents[1] / "golden" / "tiny" / "tiny-nano-F32.gguf"
N_LAYERS = 6


def stages_bench(*args, **env):
    return subprocess.run([BENCH, *map(str, args)], capture_output=True, text=True, check=False, timeout=60,
                          env={**os.environ, **env})


def tables(*args):
    """The calls of every stage, once for the prompt and once for the token."""
    done = stages_bench("-m", MODEL, "--threads", 2, "--passes", 1, "--prompt", 8, "--context", 4, *args)
    assert done.returncode == 0, done.stderr
    _, prompt, token = done.stdout.split("\n\n")
    assert prompt.startswith("prompt of 8 tokens, median of 1\n"), prompt
    assert token.startswith("one token behind 4, median of 1\n"), token
    row = re.compile(r"(\S.*?) +(\d+)((?: +-?\d+\.\d+){5})")
    found = []
    for table in (prompt, token):
        matches = [row.fullmatch(line) for line in table.splitlines()[2:]]
        assert all(matches), table
        found.append({match[1]: int(match[2]) for match in matches})
    return found


class StagesBench(unittest.TestCase):
    def test_stages(self):
        for calls in tables():
            self.assertEqual(calls["embedding"], 1)
            self.assertEqual(calls["attention"], N_LAYERS)
            self.assertEqual(calls["matmul ffn_gate ffn_up"], N_LAYERS)
            self.assertEqual(calls["matmul head"], 1)
            self.assertEqual(calls["sample"], 1)
            self.assertEqual(calls["(all)"], sum(calls.values()) - calls["(all)"])

    def test_matmuls_one_by_one(self):
        for calls in tables("--each-matmul"):
            self.assertNotIn("matmul ffn_gate ffn_up", calls)
            self.assertEqual((calls["matmul ffn_gate"], calls["matmul ffn_up"]), (N_LAYERS, N_LAYERS))

    def test_errors(self):
        for code, args, env in ((1, ["-m", "no such file"], {}), (1, ["-m", MODEL], {"ENGINE_CPU_ISA": "avx99"}),
                                (2, ["-m", MODEL, "--passes", 0], {})):
            done = stages_bench(*args, **env)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertNotEqual(done.stderr, "")


if __name__ == "__main__":
    unittest.main()
