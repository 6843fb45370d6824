"""gemma-cli from the outside: streams, exit codes, options, a terminal, Ctrl-C."""

import json
import os
import pty
import select
import signal
import subprocess
import tempfile
import time
import unittest

from programs import BIN, MODEL, run, start

GREEDY = ("--temp", "0", "--ignore-eos")


def cli(*args, **kwargs):
    return run("gemma-cli", *args, **kwargs)


def answer(*args, **kwargs):
    """The --json object of a run that must succeed."""
    result = cli("-m", MODEL, "--json", *args, **kwargs)
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith(b"\n") and result.stdout.count(b"\n") == 1
    return json.loads(result.stdout)


class ExitCodes(unittest.TestCase):
    def check(self, code, *args, **kwargs):
        result = cli(*args, **kwargs)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(result.stdout, b"")
        self.assertTrue(result.stderr.startswith(b"error: "), result.stderr)
        return result.stderr.decode()

    def test_usage(self):
        for args in (
            ["-p", "x"],  # no model
            ["-m", MODEL, "--no-such-option"],
            ["-m", MODEL, "-p", "x", "--temp", "nan"],
            ["-m", MODEL, "-p", "x", "--temp", "inf"],
            ["-m", MODEL, "-p", "x", "--temp=-1"],
            ["-m", MODEL, "-p", "x", "--top-p", "1.5"],
            ["-m", MODEL, "-p", "x", "--min-p", "NaN"],
            ["-m", MODEL, "-p", "x", "--top-k=-1"],
            ["-m", MODEL, "-p", "x", "--top-k", "1.5"],
            ["-m", MODEL, "-p", "x", "--repeat-penalty", "0"],
            ["-m", MODEL, "-p", "x", "--seed=-1"],
            ["-m", MODEL, "-p", "x", "--seed", "18446744073709551616"],
            ["-m", MODEL, "-p", "x", "-n", "99999999999"],
            ["-m", MODEL, "-p", "x", "-n=-2"],
            ["-m", MODEL, "-p", "x", "--stop", ""],
            ["-m", MODEL, "-p", "x", "--threads=-1"],
            ["-m", MODEL, "-p", "x", "--device", "tpu"],
            ["-m", MODEL, "-p", "x", "--kv", "q4"],
            ["-m", MODEL, "-p", "x", "--ctx", "100000000"],
            ["-m", MODEL, "-p", "x", "--raw", "--chat"],
            ["-m", MODEL, "-p", "x", "--raw", "--system", "y"],
            ["-m", MODEL, "-p", "x", "--system", "y"],  # the file has no template
            ["-m", MODEL, "-p", "x", "-q", "-v"],
            ["-m", MODEL, "-f", "/nowhere"],
            ["-m", MODEL, "-f", "/"],
            ["-m", MODEL, "-p", ""],
            ["-m", MODEL],  # standard input is empty
        ):
            with self.subTest(args=args):
                self.check(2, *args)
        self.check(2, "-m", MODEL, stdin=subprocess.DEVNULL)
        self.check(2, "-m", MODEL, stdin=b"\n")

    def test_model_file(self):
        with tempfile.NamedTemporaryFile() as page:
            page.write(b"<!DOCTYPE html><html></html>" * 100)
            page.flush()
            for path in ("/nowhere.gguf", "/", "/dev/null", page.name):
                with self.subTest(path=path):
                    self.check(3, "-m", path, "-p", "x")

    def test_messages_tell_the_range_and_what_was_given(self):
        whole = "a whole number from 0 to 2147483647, got "
        for flag, value, expected in (
            ("--top-k", "-1", whole + "-1"),
            ("--top-k", "1.5", whole + "1.5"),
            ("--threads", "2147483648", whole + "2147483648"),
            ("--chunk", "-1", whole + "-1"),
            ("--max-tokens", "-2", "a whole number from -1 to 2147483647, got -2"),
            ("--seed", "-1", "a whole number from 0 to 18446744073709551615, got -1"),
            ("--temp", "1e99", "a number from 0 to 1e+38, got 1e99"),
            ("--repeat-penalty", "1e-40", "a number from 1e-37 to 1e+38, got 1e-40"),
            ("--ctx", "9999", "a whole number from 0 to 4096, the context length of the file, got 9999"),
        ):
            with self.subTest(flag=flag, value=value):
                message = self.check(2, "-m", MODEL, "-p", "x", f"{flag}={value}")
                self.assertTrue(message.startswith(f"error: {flag}: expected {expected}\n"), message)

    def test_messages_about_files_name_the_path(self):
        self.assertIn("path of the GGUF file is empty", self.check(3, "-m", "", "-p", "x"))
        self.assertIn("'/nowhere': No such file", self.check(2, "-m", MODEL, "-f", "/nowhere"))
        with open(MODEL, "rb") as file:
            model = file.read()
        with tempfile.NamedTemporaryFile() as file:
            # What only the engine looks at, and what the reader finds.
            for broken in (model.replace(b"gemma3", b"gemma9", 1), model[:40_000]):
                file.seek(0)
                file.truncate()
                file.write(broken)
                file.flush()
                message = self.check(3, "-m", file.name, "-p", "x")
                self.assertTrue(message.startswith(f"error: {file.name}: "), message)
                self.assertEqual(message.count(file.name), 1)

    def test_prompt_of_more_than_16_mib(self):
        message = self.check(2, "-m", MODEL, stdin=b"a" * (16 * 2**20 + 1))
        self.assertIn("longer than 16 MiB", message)

    def test_device(self):
        self.check(4, "-m", MODEL, "-p", "x", "--device", "cuda")

    def test_prompt_that_does_not_fit(self):
        message = self.check(1, "-m", MODEL, "-p", "abcdefghijklmnopqrstuvwxyz" * 10, "--ctx", "16")
        self.assertRegex(message, r"\b\d{2,} tokens.*\b16\b")

    def test_version_and_help(self):
        for args in (["-V"], ["--version"], ["--help"]):
            result = cli(*args)
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            self.assertIn(b"gemma-cli", result.stdout)


class Answers(unittest.TestCase):
    def test_only_the_answer_on_standard_output(self):
        plain = cli("-m", MODEL, "-p", "hello", "-n", "20", *GREEDY)
        self.assertEqual((plain.returncode, plain.stderr), (0, b""))
        made = answer("-p", "hello", "-n", "20", *GREEDY)
        text = made["text"]
        self.assertEqual(plain.stdout.decode(), text if text.endswith("\n") else text + "\n")
        stats = cli("-m", MODEL, "-p", "hello", "-n", "20", "--stats", *GREEDY)
        self.assertEqual(stats.stdout, plain.stdout)
        self.assertIn(b"tokens/s", stats.stderr)

    def test_json(self):
        made = answer("-p", "hello", "-n", "20", "--temp", "0.5", "--top-k", "7", "--ignore-eos")
        self.assertEqual(len(made["ids"]), 20)
        self.assertEqual(made["finish_reason"], "length")
        self.assertEqual(made["prompt_ids"][0], 2)
        self.assertEqual(made["counts"]["prompt"], len(made["prompt_ids"]))
        self.assertEqual(made["counts"]["generated"], 20)
        self.assertEqual(made["mode"], "raw")
        self.assertEqual(made["sampling"]["temperature"], 0.5)
        self.assertEqual(made["sampling"]["top_k"], 7)
        self.assertEqual(made["sampling"]["top_p"], 0.95)
        self.assertEqual(made["sampling"]["repeat_penalty"], 1)
        self.assertGreater(made["timings"]["tokens_per_second"], 0)
        self.assertEqual(made["draft"], 7)

    def test_drafts(self):
        args = ("-p", "hello " * 20, "-n", "100", *GREEDY)
        drafted, plain = answer(*args), answer(*args, "--draft", "0")
        self.assertEqual(drafted["ids"], plain["ids"])
        self.assertGreater(drafted["counts"]["accepted"], 0)
        self.assertGreaterEqual(drafted["counts"]["drafted"], drafted["counts"]["accepted"])
        self.assertEqual((plain["counts"]["drafted"], plain["counts"]["accepted"], plain["draft"]), (0, 0, 0))
        stats = cli("-m", MODEL, *args, "--stats").stderr.decode()
        self.assertIn(f"drafts    {drafted['counts']['drafted']} tokens,", stats)
        for bad in ("8", "-1", "x"):
            self.assertIn(b"expected a whole number from 0 to 7", cli("-m", MODEL, "--draft=" + bad).stderr)

    def test_the_seed_in_the_answer_repeats_it(self):
        first = answer("-p", "hello", "-n", "30", "--temp", "2")
        again = answer("-p", "hello", "-n", "30", "--temp", "2", "--seed", first["seed"])
        self.assertEqual(again["ids"], first["ids"])
        other = answer("-p", "hello", "-n", "30", "--temp", "2")
        self.assertNotEqual(other["seed"], first["seed"])

    def test_raw_answers_are_bounded(self):
        self.assertEqual(len(answer("-p", "hello", *GREEDY)["ids"]), 128)

    def test_max_tokens(self):
        self.assertEqual(answer("-p", "hello", "-n", "0", *GREEDY)["ids"], [])
        made = answer("-p", "hello", "-n", "-1", "--ctx", "50", *GREEDY)
        self.assertEqual(len(made["ids"]) + len(made["prompt_ids"]), 50)

    def test_a_full_context_is_told(self):
        args = ("-m", MODEL, "-p", "hello", "--ctx", "20", *GREEDY)
        warning = b"warning: the context of 20 tokens is full\n"
        self.assertEqual(cli(*args, "-n", "-1").stderr, warning)
        self.assertEqual(cli(*args, "-n", "-1", "-q").stderr, b"")
        self.assertEqual(cli(*args, "-n", "2").stderr, b"")

    def test_stop(self):
        text = answer("-p", "hello", "-n", "40", "--seed", "5", "--ignore-eos")["text"]
        stop = text[len(text) // 2 :][:2]
        made = answer(
            "-p", "hello", "-n", "40", "--seed", "5", "--ignore-eos", "--stop", "not there", "--stop", stop
        )
        self.assertEqual(made["text"], text[: text.index(stop)])
        self.assertEqual(made["finish_reason"], "stop")
        self.assertEqual(made["stop_string"], stop)

    def test_options_that_do_not_change_the_answer(self):
        expected = answer("-p", "hello " * 20, "-n", "20", "--seed", "1")["ids"]
        for args in (["--threads", "1"], ["--chunk", "3"], ["--chunk", "0"], ["--device", "cpu"]):
            with self.subTest(args=args):
                self.assertEqual(answer("-p", "hello " * 20, "-n", "20", "--seed", "1", *args)["ids"], expected)

    def test_chat_with_a_file_without_template(self):
        made = answer("-p", "hello", "--chat", "--system", "be brief", "-n", "1")
        self.assertEqual(made["mode"], "chat")
        self.assertGreater(len(made["prompt_ids"]), len(answer("-p", "hello", "-n", "1")["prompt_ids"]))


class Prompts(unittest.TestCase):
    def ids(self, *args, **kwargs):
        return answer("-n", "0", *args, **kwargs)["prompt_ids"]

    def test_sources_are_joined(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"two\n")
            file.flush()
            joined = self.ids("-p", "one", "-f", file.name, stdin=b"three\n")
        self.assertEqual(joined, self.ids("-p", "one\ntwo\nthree"))
        self.assertEqual(self.ids(stdin=b"one\n"), self.ids("-p", "one"))
        self.assertEqual(self.ids("-p", "one", stdin=subprocess.DEVNULL), self.ids("-p", "one"))
        self.assertNotEqual(self.ids(stdin=b"one\n\n"), self.ids("-p", "one"))

    def test_escapes_only_when_asked(self):
        self.assertEqual(self.ids("-e", "-p", r"a\nb\tc\\\x41\q"), self.ids("-p", "a\nb\tc\\A\\q"))
        self.assertNotEqual(self.ids("-p", r"a\nb"), self.ids("-p", "a\nb"))

    def test_closed_standard_input(self):
        result = subprocess.run(
            ["sh", "-c", '"$0" -m "$1" -p hello -n 3 <&-', str(BIN / "gemma-cli"), MODEL], capture_output=True
        )
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotEqual(result.stdout, b"")


class ClosedOutput(unittest.TestCase):
    LONG = ("-p", "hello", "-n", "100000", "--ignore-eos")

    def test_reader_goes_away(self):
        process = start(
            "gemma-cli", "-m", MODEL, *self.LONG, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        process.stdout.read(1)
        process.stdout.close()
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()

    def test_closed_from_the_start(self):
        for extra in ("", "--json", "--version"):
            command = '"$0" -m "$1" -p hello -n 100 %s >&- </dev/null' % extra
            result = subprocess.run(["sh", "-c", command, str(BIN / "gemma-cli"), MODEL], capture_output=True, timeout=60)
            self.assertEqual((result.returncode, result.stderr), (0, b""))

    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            result = cli("-m", MODEL, "-p", "hello", "-n", "3", stdout=full)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"cannot write", result.stderr)

    def test_everything_closed(self):
        command = '"$0" -m "$1" -p hello -n 3 <&- >&- 2>&-'
        result = subprocess.run(["sh", "-c", command, str(BIN / "gemma-cli"), MODEL], timeout=60)
        self.assertEqual(result.returncode, 0)


def catches_interrupts(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        caught = next(line.split()[1] for line in status if line.startswith("SigCgt"))
    return int(caught, 16) >> (signal.SIGINT - 1) & 1


class TerminalOutput(unittest.TestCase):
    def test_a_model_cannot_command_the_terminal(self):
        args = ("-m", MODEL, "-p", "hello", "-n", "200", "--temp", "3", "--top-k", "0", "--seed", "1", "--ignore-eos")
        controls = [c for c in range(0x20) if c not in b"\t\r\n"] + [0x7F]
        plain = cli(*args).stdout
        self.assertTrue(any(c in plain for c in controls))
        reader, terminal = pty.openpty()
        process = start("gemma-cli", *args, stdin=subprocess.DEVNULL, stdout=terminal)
        os.close(terminal)
        shown = b""
        try:
            while chunk := os.read(reader, 4096):
                shown += chunk
        except OSError:  # how a terminal says that the program has ended
            pass
        os.close(reader)
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertGreater(len(shown), 100)
        self.assertFalse([c for c in shown if c in controls])


class Interrupts(unittest.TestCase):
    def test_one_shot_ends_with_130(self):
        process = start(
            "gemma-cli", "-m", MODEL, "-p", "hello", "-n", "100000", "--ignore-eos", "--stats",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        process.stdout.read(1)  # the answer has begun
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, stderr)
        self.assertTrue(stdout.endswith(b"\n"))
        self.assertIn(b"ended by cancelled", stderr)

    def test_while_it_waits_for_input(self):
        process = start("gemma-cli", "-m", MODEL, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        while not catches_interrupts(process):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=10), 130)
        process.stdin.close()
        process.stdout.close()


class TerminalCase(unittest.TestCase):
    """Standard input is a terminal; the answers go to a pipe, as with `gemma-cli … | tee`."""

    def open(self, *args):
        self.keyboard, terminal = pty.openpty()
        self.process = start(
            "gemma-cli", "-m", MODEL, "--seed", "1", "--ignore-eos", *args,
            stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        os.close(terminal)

    def tearDown(self):
        self.process.kill()
        self.process.communicate()
        os.close(self.keyboard)

    def type(self, line):
        os.write(self.keyboard, line.encode() + b"\n")

    def read_until(self, mark, count=1):
        """Standard error up to the count-th mark."""
        seen, end = b"", time.monotonic() + 60
        while seen.count(mark) < count and time.monotonic() < end:
            if select.select([self.process.stderr], [], [], 1)[0]:
                seen += os.read(self.process.stderr.fileno(), 4096)
        self.assertEqual(seen.count(mark), count, seen)
        return seen.decode()


class Terminal(TerminalCase):
    def setUp(self):
        self.open("--chat", "-n", "5", "--stats")

    def cached(self, line):
        self.type(line)
        stats = self.read_until(b"sampling")
        return int(stats.split(" of them cached")[0].split()[-1])

    def test_turns_reuse_the_conversation_until_reset(self):
        self.assertEqual(self.cached("first"), 0)
        conversation = self.cached("second")
        self.assertGreater(conversation, 0)
        self.type("/reset")
        self.type("/unknown")
        self.assertIn("no such command: /unknown", self.read_until(b"/unknown"))
        self.assertLess(self.cached("other"), conversation)  # BOS and the start of the turn at most
        self.type("/exit")
        self.assertEqual(self.process.wait(timeout=60), 0)
        self.assertGreaterEqual(self.process.stdout.read().count(b"\n"), 3)

    def test_commands_may_end_in_spaces(self):
        self.type("/reset  ")
        self.type("/exit \t")
        self.assertEqual(self.process.wait(timeout=60), 0)
        self.assertNotIn(b"no such command", self.process.stderr.read())

    def test_end_of_input_leaves(self):
        self.read_until(b"> ")
        os.write(self.keyboard, b"\x04")
        self.assertEqual(self.process.wait(timeout=60), 0)

    def test_interrupt_at_the_prompt_leaves(self):
        self.read_until(b"> ")
        self.process.send_signal(signal.SIGINT)
        self.assertEqual(self.process.wait(timeout=60), 130)


class Banner(TerminalCase):
    def banner(self, *args):
        self.open(*args)
        banner = self.read_until(b"> ")
        self.type("/exit")
        self.assertEqual(self.process.wait(timeout=60), 0)
        return banner

    def test_chat(self):
        self.assertIn("/reset forgets the conversation", self.banner("--chat"))

    def test_raw_mode_holds_no_conversation(self):
        banner = self.banner("--raw")
        self.assertIn("/exit", banner)
        self.assertNotIn("conversation", banner)

    def test_quiet(self):
        self.assertEqual(self.banner("--chat", "-q"), "> ")


class LongTerminalAnswer(TerminalCase):
    def test_interrupt_ends_the_answer_only(self):
        self.open("-n", "100000")
        self.read_until(b"> ")
        self.type("hello")
        self.process.stdout.read(1)  # the answer has begun
        self.process.send_signal(signal.SIGINT)
        self.read_until(b"> ")
        self.type("/exit")
        self.assertEqual(self.process.wait(timeout=60), 0)


if __name__ == "__main__":
    unittest.main()
