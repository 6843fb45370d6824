"""bench/compare on results whose medians and deviations are known."""

import json
import math
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

COMPARE = pathlib.Path(__file__).resolve().parents[2] / "bench" / "compare"


def kernels(times, name="matmul/a", unit="us", **extra):
    """Google Benchmark's format, with an aggregate that must not count."""
    rows = [
        {"name": name, "run_name": name, "run_type": "iteration", "real_time": t, "time_unit": unit, **extra}
        for t in times
    ]
    rows.append({"name": name + "_mean", "run_name": name, "run_type": "aggregate", "real_time": 1e9, "time_unit": unit})
    return {"context": {}, "benchmarks": rows}


def speeds(values, name="tg128", unit="tokens/s", higher_is_better=True):
    return {
        "context": {},
        "measurements": [
            {"name": name, "engine": "engine", "unit": unit, "higher_is_better": higher_is_better, "values": values}
        ],
    }


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, results):
        path = self.folder / name
        path.write_text(results if isinstance(results, str) else json.dumps(results))
        return str(path)

    def compare(self, old, new, *options):
        """Exit code, and the cells of each row after the table's head."""
        paths = []
        for side, results in (("old", old), ("new", new)):
            files = results if isinstance(results, list) else [results]
            paths.append(",".join(self.write(f"{side}{i}", r) for i, r in enumerate(files)))
        done = subprocess.run([COMPARE, *paths, *options], capture_output=True, text=True, check=False)
        self.output = done.stdout + done.stderr
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()[2:]]
        return done.returncode, rows

    def test_figures(self):
        # Medians 10 and 12; deviations from them 0 1 2 3 4 and 0 0 0 0 6.
        code, rows = self.compare(kernels([10, 11, 8, 13, 6]), kernels([12, 12, 12, 12, 18]))
        self.assertEqual(code, 0)
        self.assertEqual(rows, [["matmul/a", "us", "10", "2", "12", "0", "1.200", ""]])

    def test_beyond_the_noise(self):
        # MAD 1 each: a standard error of 0.83 each, 3.53 for three of their difference.
        old = [99, 100, 101, 99, 101]
        for shift, expected in ((3, ""), (4, "slower"), (-3, ""), (-4, "faster")):
            with self.subTest(shift=shift):
                _, rows = self.compare(kernels(old), kernels([t + shift for t in old]))
                self.assertEqual(rows[0][-1], expected)

    def test_one_percent_is_the_least(self):
        for new, expected in ((100.9, ""), (101.1, "slower")):
            _, rows = self.compare(kernels([100] * 5), kernels([new] * 5))
            self.assertEqual(rows[0][-1], expected)

    def test_too_few_repetitions(self):
        _, rows = self.compare(kernels([100] * 5), kernels([200] * 4))
        self.assertEqual(rows[0][-1], "?")

    def test_several_files_count_together(self):
        _, rows = self.compare([kernels([100] * 3), kernels([100] * 2)], kernels([200] * 5))
        self.assertEqual(rows[0][-1], "slower")

    def test_units(self):
        _, rows = self.compare(kernels([2] * 5, unit="ms"), kernels([2000] * 5))
        self.assertEqual(rows[0][2:7:2], ["2000", "2000", "1.000"])

    def test_direction(self):
        for unit, higher, expected in (("tokens/s", True, "faster"), ("ms", False, "slower"), ("MB", False, "worse")):
            _, rows = self.compare(
                speeds([10] * 5, unit=unit, higher_is_better=higher), speeds([20] * 5, unit=unit, higher_is_better=higher)
            )
            self.assertEqual(rows[0], ["engine: tg128", unit, "10", "0", "20", "0", "2.000", expected])

    def test_gate(self):
        slow, same = kernels([200] * 5), kernels([100] * 5)
        self.assertEqual(self.compare(same, slow, "--gate")[0], 1)
        self.assertEqual(self.compare(same, same, "--gate")[0], 0)
        self.assertEqual(self.compare(slow, same, "--gate")[0], 0)

    def test_missing_and_failed(self):
        old, new = kernels([1] * 5), kernels([1] * 5)
        old["benchmarks"] += kernels([1] * 5, name="matmul/b")["benchmarks"]
        new["benchmarks"] += kernels([1] * 5, name="matmul/b", error_occurred=True)["benchmarks"]
        code, rows = self.compare(old, new, "--gate")
        self.assertEqual(code, 1)
        self.assertEqual(rows[1], ["matmul/b", "", "", "", "", "", "", "only in old"])

    def refuse(self, bad):
        code, rows = self.compare(kernels([1] * 5), bad)
        self.assertEqual((code, rows), (2, []), self.output)
        self.assertEqual(self.output.count("\n"), 1, self.output)
        self.assertTrue(self.output.startswith("error: "), self.output)

    def test_files_of_another_shape(self):
        row = {"run_name": "a", "run_type": "iteration", "real_time": 1, "time_unit": "us"}
        rows = [5, "x", None, {"a": 1}, {**row, "run_name": 7}, {**row, "run_type": []}, {**row, "time_unit": "years"}]
        rows += [{**row, "real_time": value} for value in (None, "1", True, -1, 1e308, math.nan, math.inf, 10**400)]
        bad = [{"benchmarks": value} for value in (5, "x", {"a": 1}, None, *([r] for r in rows))]
        bad += [speeds(values) for values in ([], ["x", "y"], "abc", [None], [[1]], 5, [math.nan], [math.inf], [1e308])]
        bad += [speeds([1], name=7), speeds([1], unit=None), speeds([1], higher_is_better="no"), {"measurements": [5]}]
        bad += ["", "{}", "[]", "5", "null", "[" * 200000, "9" * 5000]
        for results in bad:
            with self.subTest(results=str(results)[:200]):
                self.refuse(results)
                self.assertIn(f"error: {self.folder / 'new0'}: ", self.output)

    def test_the_bad_one_of_several_files_is_named(self):
        self.refuse([kernels([1] * 5), "{}", kernels([1] * 5)])
        self.assertIn(f"error: {self.folder / 'new1'}: ", self.output)

    def test_unreadable_files(self):
        good = self.write("good", kernels([1] * 5))
        (self.folder / "bytes").write_bytes(b"\xff\xfe")
        for bad in (self.folder, self.folder / "missing", self.folder / "bytes"):
            done = subprocess.run([COMPARE, bad, good], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, rf"\Aerror: {bad}: .*\n\Z")

    def test_nothing_in_common(self):
        self.refuse(kernels([1] * 5, name="other"))

    def test_a_reader_that_leaves_ends_it_quietly(self):
        path = self.write("good", kernels([1] * 5))
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([COMPARE, path, path], stdout=writer, stderr=subprocess.PIPE, check=False)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, b""))


if __name__ == "__main__":
    unittest.main()
