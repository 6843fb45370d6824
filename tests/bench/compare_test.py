"""bench/compare on results whose medians and deviations are known."""

import json
import pathlib
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

    def test_errors(self):
        good = kernels([1] * 5)
        for bad in ("", "{}", "[]", '{"benchmarks": [{"run_type": "iteration"}]}', kernels([1] * 5, name="other")):
            code, _ = self.compare(good, bad)
            self.assertEqual(code, 2, self.output)
            self.assertIn("error: ", self.output)


if __name__ == "__main__":
    unittest.main()
