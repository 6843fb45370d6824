"""bench/accuracy.py over programs that answer with the reference itself, with known deviations, or otherwise."""

import json
import math
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXTS = json.loads((ROOT / "tests/golden/logits.json").read_text())
N_POSITIONS = sum(len(text["positions"]) for text in TEXTS)


def reference():
    return [{"positions": [{"logsumexp": p["logsumexp"], "top": p["top"]} for p in text["positions"]]} for text in TEXTS]


class Accuracy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def accuracy(self, *arguments):
        done = subprocess.run([sys.executable, ROOT / "bench/accuracy.py", *arguments], capture_output=True, text=True,
                              check=False, timeout=60)
        self.output, self.errors = done.stdout, done.stderr
        return done.returncode

    def answers(self, answers):
        """A command that prints them, once it has read every text."""
        lines = answers if isinstance(answers, str) else "".join(json.dumps(a) + "\n" for a in answers)
        path = self.folder / "answers"
        path.write_text(lines)
        return f"cat >{shlex.quote(str(self.folder / 'asked'))}; cat {shlex.quote(str(path))}"

    def cells(self, answers):
        self.assertEqual(self.accuracy("engine=" + self.answers(answers)), 0, self.errors)
        return [cell.strip() for cell in self.output.splitlines()[2].split("|")[1:-1]]

    def test_the_reference_itself(self):
        self.assertEqual(self.cells(reference()), ["engine", str(N_POSITIONS), "0", "0", "0", "0"])
        asked = [json.loads(line) for line in (self.folder / "asked").read_text().splitlines()]
        self.assertEqual([a["ids"] for a in asked], [t["ids"] for t in TEXTS])
        self.assertEqual([a["positions"] for a in asked], [[p["pos"] for p in t["positions"]] for t in TEXTS])

    def test_a_known_deviation(self):
        """Every ln p of one position off by 0.1: half of 0.01 times the share of its top ids."""
        answers = reference()
        answers[0]["positions"][0]["logsumexp"] += 0.1
        first = TEXTS[0]["positions"][0]
        largest = sum(math.exp(logit - first["logsumexp"]) for _, logit in first["top"]) * 0.01 / 2
        self.assertEqual(self.cells(answers)[2:], [f"{largest / N_POSITIONS:.2g}", f"{largest:.2g}", "0", "0"])

    def test_another_token_and_a_missing_one(self):
        answers, clear = reference(), 0
        for text in answers:
            for position in text["positions"]:
                clear += position["top"][0][1] - position["top"][1][1] > 0.01
                position["top"] = position["top"][1:]
        self.assertEqual(self.cells(answers)[2:], ["inf", "inf", str(N_POSITIONS), str(clear)])

    def refuse(self, code, *arguments):
        self.assertEqual(self.accuracy(*arguments), code, self.errors)
        self.assertRegex(self.errors, r"\Aerror: .*\n\Z")
        return self.errors

    def test_usage(self):
        for arguments in ((), ("foo",), ("=true",), ("engine=",)):
            self.refuse(2, *arguments)
            self.assertEqual(self.output, "")

    def test_commands_that_fail(self):
        self.assertIn("ended with 127: ", self.refuse(1, "engine=/nonexistent"))
        self.assertIn("ended with 3: two lines", self.refuse(1, "engine=echo two >&2; echo lines >&2; exit 3"))
        self.assertIn("/bin/true does not answer for every position", self.refuse(1, "engine=/bin/true"))

    def test_answers_of_another_shape(self):
        short, empty = reference(), reference()
        short[-1]["positions"].pop()
        empty[0]["positions"][0]["top"] = []
        for answers in (short, empty, reference()[1:]):
            self.assertIn("does not answer for every position", self.refuse(1, "engine=" + self.answers(answers)))
        for answers in ("text", "5", "[]", "{}", '{"positions": 5}', '{"positions": [5]}', "[" * 100000,
                        '{"positions": [{"logsumexp": 1, "top": [5]}]}', '{"positions": [{"logsumexp": [], "top": []}]}'):
            self.assertIn("answers otherwise", self.refuse(1, "engine=" + self.answers(answers)))


if __name__ == "__main__":
    unittest.main()
