"""gemma-eval from the outside: one answer a line, whatever the lines hold."""

import json
import math
import subprocess
import tempfile
import time
import unittest

from programs import BIN, MODEL, N_VOCAB, TINY, run, start

IDS = [2, 300, 301, 302, 303, 304, 305, 306]


def evaluate(command, *lines, args=()):
    """The answers to the lines (bytes, or anything JSON can hold)."""
    encoded = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    result = run("gemma-eval", command, "-m", MODEL, *args, stdin=b"".join(line + b"\n" for line in encoded))
    assert result.returncode == 0, result.stderr
    assert result.stderr == b"", result.stderr
    answers = result.stdout.decode().split("\n")
    assert answers.pop() == ""
    assert len(answers) == len(lines), answers
    return [json.loads(answer) for answer in answers]


class ExitCodes(unittest.TestCase):
    def test_codes(self):
        for code, args in (
            (2, []),
            (2, ["-m", MODEL]),
            (2, ["tokenize"]),
            (2, ["no-such-command", "-m", MODEL]),
            (2, ["tokenize", "logits", "-m", MODEL]),
            (2, ["logits", "-m", MODEL, "--parse-special"]),
            (2, ["logits", "-m", MODEL, "--ctx", "100000000"]),
            (2, ["logits", "-m", MODEL, "/nowhere.jsonl"]),
            (3, ["logits", "-m", "/nowhere.gguf"]),
            (4, ["logits", "-m", MODEL, "--device", "cuda"]),
        ):
            with self.subTest(args=args):
                result = run("gemma-eval", *args)
                self.assertEqual((result.returncode, result.stdout), (code, b""), result.stderr)
                self.assertTrue(result.stderr.startswith(b"error: "), result.stderr)

    def test_messages_name_what_is_wrong(self):
        for expected, args in (
            ("'nosuch' is no command; the commands are tokenize,", ["-m", MODEL, "nosuch"]),
            ("a command is missing", ["-m", MODEL]),
            ("cannot open '/nowhere.jsonl': No such file", ["logits", "-m", MODEL, "/nowhere.jsonl"]),
            ("/../nowhere.gguf: cannot open: No such file", ["logits", "-m", "/../nowhere.gguf"]),
            ("--ctx: expected a whole number from 0 to 4096,", ["logits", "-m", MODEL, "--ctx", "9999"]),
            ("--threads: expected a whole number from 0 to 2147483647, got -1", ["logits", "-m", MODEL, "--threads=-1"]),
        ):
            with self.subTest(args=args):
                message = run("gemma-eval", *args).stderr.decode()
                self.assertTrue(message.startswith("error: " + expected), message)

    def test_no_requests(self):
        self.assertEqual(evaluate("tokenize"), [])

    def test_closed_output(self):
        command = '"$0" tokenize -m "$1" >&-'
        result = subprocess.run(
            ["sh", "-c", command, str(BIN / "gemma-eval"), MODEL], input=b'{"text":"a"}\n' * 1000, capture_output=True
        )
        self.assertEqual((result.returncode, result.stderr), (0, b""))


class Lines(unittest.TestCase):
    def test_bad_lines_get_errors_in_their_place(self):
        good = {"text": "abc"}
        bad = [
            b"",
            b"   ",
            b"not json",
            b"{",
            b'{"text": "abc"} x',
            b"null",
            b"[]",
            b"3",
            b'"text"',
            b"{}",
            b'{"text": 1}',
            b'{"text": null}',
            b'{"text": "a", "txet": 1}',
            b'{"text": "\xff\xfe"}',
            b'{"text": "\xed\xa0\x80"}',
            b'{"text": "\\ud800"}',
            b'{"text": NaN}',
            b'{"text": 1e999}',
            b"[" * 100_000,
            b"[" * 100_000 + b"]" * 100_000,
            b'{"text":' * 100_000,
            b"\x00",
            b'\xef\xbb\xbf\xef\xbb\xbf{"text": "a"}',
        ]
        lines = [line for pair in zip(bad, [good] * len(bad)) for line in pair]
        answers = evaluate("tokenize", *lines)
        expected = evaluate("tokenize", good)[0]
        self.assertIn("ids", expected)
        for line, answer in zip(lines, answers):
            if line is good:
                self.assertEqual(answer, expected)
            else:
                self.assertEqual(list(answer), ["error"], line[:100])
                self.assertLess(len(answer["error"]), 300)
        self.assertIn("txet", answers[2 * bad.index(b'{"text": "a", "txet": 1}')]["error"])

    def test_huge_lines(self):
        answers = evaluate(
            "tokenize",
            b'{"text": "' + b"a" * 100_000_000 + b'"}',
            b"[" * 15_000_000,
            b"x" * 15_000_000,
            {"text": "abc"},
        )
        self.assertEqual([list(answer) for answer in answers], [["error"], ["error"], ["error"], ["ids"]])

    def test_hostile_lines_take_linear_time(self):
        objects = ",".join(["{}"] * 5_000_000)
        keys = [str(i) for i in range(1_000_000)]
        lines = [
            '{"ids":[%s]}' % objects,
            "{%s}" % ",".join('"%s":{}' % key for key in keys),
            "{%s}" % ",".join('"%s":1' % key for key in keys),
            "{%s}" % ",".join(['"ids":1'] * 1_600_000),
            '{"ids":[%s]}' % ",".join(["[[]]"] * 3_000_000),
        ]
        start_time = time.monotonic()
        answers = evaluate("detokenize", *(line.encode() for line in lines))
        # A tenth of it is usual; anything quadratic takes minutes.
        self.assertLess(time.monotonic() - start_time, 40)
        for answer in answers:
            self.assertEqual(list(answer), ["error"])

    def test_shape(self):
        for line, expected in (
            ('{"ids":[2,{}]}', "ids: a request holds no object"),
            ('{"ids":{"a":1}}', "ids: a request holds no object"),
            ('{"ids":[[[[2]]]]}', "ids: lists are nested deeper than 3"),
            ("{%s}" % ",".join('"%d":1' % i for i in range(65)), "more than 64 fields"),
            ("[{}]", "expected a JSON object"),
            ('{"ids":[1e999]}', "a number is out of range"),
            ('{"ids":[2]', "error at byte 1"),
        ):
            with self.subTest(line=line):
                (answer,) = evaluate("detokenize", line.encode())
                self.assertIn(expected, answer["error"])

    def test_of_equal_fields_the_last_counts(self):
        self.assertEqual(*evaluate("tokenize", b'{"text": "a", "text": "b"}', {"text": "b"}))

    def test_the_last_newline_may_be_missing(self):
        result = run("gemma-eval", "tokenize", "-m", MODEL, stdin=b'{"text": "a"}\n{"text": "b"}')
        self.assertEqual(result.stdout.count(b"ids"), 2)

    def test_a_file_instead_of_standard_input(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b'{"text": "abc"}\n')
            file.flush()
            for args in (["tokenize", "-m", MODEL, file.name], ["-m", MODEL, "tokenize", file.name]):
                result = run("gemma-eval", *args)
                self.assertEqual(json.loads(result.stdout), evaluate("tokenize", {"text": "abc"})[0])

    def test_every_answer_comes_at_once(self):
        process = start("gemma-eval", "tokenize", "-m", MODEL, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        for text in ("a", "b"):
            process.stdin.write(json.dumps({"text": text}).encode() + b"\n")
            self.assertIn(b"ids", process.stdout.readline())
        process.stdin.close()
        self.assertEqual(process.wait(timeout=60), 0)
        process.stdout.close()


class Tokens(unittest.TestCase):
    def test_round_trip(self):
        texts = ["", "hello", " two  spaces ", "tab\tnewline\n", "ünï 中文 😸", "\u0000", "<start_of_turn>"]
        tokenized = evaluate("tokenize", *({"text": text} for text in texts))
        self.assertEqual(tokenized[0], {"ids": []})  # no BOS
        self.assertEqual(evaluate("detokenize", *tokenized), [{"text": text} for text in texts])

    def test_control_characters_are_escaped(self):
        text = "\x7f\x80\x9b31m\x9f\xa0\x1b"
        (ids,) = evaluate("tokenize", {"text": text})
        result = run("gemma-eval", "detokenize", "-m", MODEL, stdin=json.dumps(ids).encode())
        self.assertEqual(json.loads(result.stdout), {"text": text})
        self.assertIn("\\u007f\\u0080\\u009b31m\\u009f\xa0\\u001b", result.stdout.decode())

    def test_parse_special(self):
        plain = evaluate("tokenize", {"text": "<bos>"})[0]["ids"]
        special = evaluate("tokenize", {"text": "<bos>"}, args=["--parse-special"])[0]["ids"]
        self.assertEqual(special, [2])
        self.assertNotIn(2, plain)

    def test_bad_ids(self):
        for bad in (N_VOCAB, -1, 1.5, 2.0, "2", None, True, [2], 2**31, 2**32 + 2, 2**63, 2**64 + 2, 1e300):
            with self.subTest(bad=bad):
                for command in ("detokenize", "logits", "generate", "perplexity"):
                    (answer,) = evaluate(command, {"ids": [2, bad]})
                    self.assertEqual(list(answer), ["error"])
                    self.assertIn("ids[1]", answer["error"])


class Logits(unittest.TestCase):
    def test_reference(self):
        with open(TINY / "logits.json", encoding="utf-8") as file:
            text = next(t for t in json.load(file) if t["file"] == "tiny-nano-F32.gguf")
        wanted = {p["pos"]: p for p in text["positions"]}
        (answer,) = evaluate("logits", {"ids": text["ids"], "positions": list(wanted)}, args=["--kv", "f32"])
        for got in answer["positions"]:
            expected = wanted[got["pos"]]
            self.assertAlmostEqual(got["logsumexp"], expected["logsumexp"], delta=1e-3)
            for (_, logit), (_, reference) in zip(got["top"], expected["top"]):
                self.assertAlmostEqual(logit, reference, delta=1e-3)

    def test_positions_in_the_order_asked_for(self):
        (answer,) = evaluate("logits", {"ids": IDS, "positions": [5, 0, 5, 7], "top": 3})
        self.assertEqual([p["pos"] for p in answer["positions"]], [5, 0, 5, 7])
        self.assertEqual(answer["positions"][0], answer["positions"][2])
        (last,) = evaluate("logits", {"ids": IDS, "top": 3})
        self.assertEqual(last["positions"], answer["positions"][3:])
        self.assertEqual(evaluate("logits", {"ids": IDS, "positions": []}), [{"positions": []}])

    def test_top(self):
        for top, n in ((0, 0), (1, 1), (N_VOCAB, N_VOCAB), (2**31 - 1, N_VOCAB)):
            (answer,) = evaluate("logits", {"ids": IDS, "top": top})
            logits = answer["positions"][0]["top"]
            self.assertEqual(len(logits), n)
            self.assertEqual(logits, sorted(logits, key=lambda pair: (-pair[1], pair[0])))
        self.assertEqual(len(evaluate("logits", {"ids": IDS})[0]["positions"][0]["top"]), 32)
        total = math.log(sum(math.exp(logit) for _, logit in logits))
        self.assertAlmostEqual(answer["positions"][0]["logsumexp"], total, delta=1e-5)

    def test_same_bits_however_evaluated(self):
        request = {"ids": IDS * 20, "positions": [7, 100, 159]}
        expected = evaluate("logits", request)
        for args in (["--chunk", "0"], ["--chunk", "1"], ["--chunk", "7"], ["--threads", "1"]):
            self.assertEqual(evaluate("logits", request, args=args), expected)
        self.assertNotEqual(evaluate("logits", request, args=["--kv", "f32"]), expected)

    def test_bad_requests(self):
        for request in (
            {},
            {"ids": []},
            {"ids": 2},
            {"ids": "2"},
            {"text": "a"},
            {"ids": IDS, "positions": [8]},
            {"ids": IDS, "positions": [-1]},
            {"ids": IDS, "positions": 3},
            {"ids": IDS, "positions": [1.0]},
            {"ids": IDS, "positions": [0] * 65_537, "top": 0},
            {"ids": IDS, "positions": [0] * 5000, "top": N_VOCAB},
            {"ids": IDS, "top": -1},
            {"ids": IDS, "top": 1.5},
            {"ids": IDS, "top": "3"},
        ):
            with self.subTest(request=request):
                self.assertEqual([list(a) for a in evaluate("logits", request)], [["error"]])

    def test_longer_than_the_context(self):
        answers = evaluate("logits", {"ids": [2] * 9}, {"ids": [2] * 8}, args=["--ctx", "8"])
        self.assertRegex(answers[0]["error"], r"\b9\b.*\b8\b")
        self.assertIn("positions", answers[1])


class Generate(unittest.TestCase):
    def test_greedy_follows_the_logits(self):
        (made,) = evaluate("generate", {"ids": IDS, "temperature": 0, "max_tokens": 5, "ignore_eos": True})
        self.assertEqual(made["finish_reason"], "length")
        ids = list(IDS)
        for chosen in made["ids"]:
            (answer,) = evaluate("logits", {"ids": ids, "top": 1})
            self.assertEqual(answer["positions"][0]["top"][0][0], chosen)
            ids.append(chosen)
        self.assertEqual(evaluate("detokenize", {"ids": made["ids"]}), [{"text": made["text"]}])

    def test_text_gets_bos_and_ids_do_not(self):
        (ids,) = evaluate("tokenize", {"text": "hello"})
        greedy = {"temperature": 0, "max_tokens": 8, "ignore_eos": True}
        text, with_bos, without = evaluate(
            "generate",
            {"text": "hello", **greedy},
            {"ids": [2] + ids["ids"], **greedy},
            {"ids": ids["ids"], **greedy},
        )
        self.assertEqual(text, with_bos)
        self.assertNotEqual(text, without)

    def test_drafts_change_nothing(self):
        request = {"ids": IDS * 5, "temperature": 0.5, "max_tokens": 50, "ignore_eos": True}
        made = evaluate("generate", request, *({**request, "draft": n} for n in (0, 1, 7)))
        self.assertEqual(made, [made[0]] * 4)
        for bad in (8, -1, 0.5, "7"):
            self.assertIn("draft: expected", evaluate("generate", {**request, "draft": bad})[0]["error"])

    def test_seeds(self):
        request = {"ids": IDS, "temperature": 2, "max_tokens": 20, "ignore_eos": True}
        one, again, two, big = evaluate(
            "generate", *({**request, "seed": seed} for seed in (1, 1, 2, 2**64 - 1))
        )
        self.assertEqual(one, again)
        self.assertNotEqual(one, two)
        self.assertIn("ids", big)

    def test_stop(self):
        request = {"ids": IDS, "seed": 5, "max_tokens": 30, "ignore_eos": True}
        (plain,) = evaluate("generate", request)
        stop = plain["text"][len(plain["text"]) // 2 :][:2]
        for stops in (stop, ["not there", stop]):
            (made,) = evaluate("generate", {**request, "stop": stops})
            self.assertEqual(made["text"], plain["text"][: plain["text"].index(stop)])
            self.assertEqual(made["finish_reason"], "stop")

    def test_limits(self):
        for max_tokens, n in ((0, 0), (3, 3), (-1, 50 - len(IDS))):
            (made,) = evaluate(
                "generate", {"ids": IDS, "max_tokens": max_tokens, "ignore_eos": True}, args=["--ctx", "50"]
            )
            self.assertEqual((len(made["ids"]), made["finish_reason"]), (n, "length"))

    def test_errors_tell_the_range_and_what_was_given(self):
        for field, value, expected in (
            ("temperature", 1e300, "a number from 0 to 1e+38, got 1e+300"),
            ("temperature", "1", "a number from 0 to 1e+38, got string"),
            ("repeat_penalty", 1e-40, "a number from 1e-37 to 1e+38, got 1e-40"),
            ("top_p", 1.5, "a number from 0 to 1, got 1.5"),
            ("top_k", -1, "a whole number from 0 to 2147483647, got -1"),
        ):
            with self.subTest(field=field, value=value):
                (answer,) = evaluate("generate", {"ids": IDS, field: value})
                self.assertEqual(answer, {"error": field + ": expected " + expected})

    def test_bad_requests(self):
        for field, values in {
            "temperature": (-1, "1", None, 1e300, [1]),
            "top_k": (-1, 1.5, "3", 2**31, 2**64),
            "top_p": (-0.1, 1.1, True),
            "min_p": (-0.1, 1.1, {}),
            "repeat_penalty": (0, -1, "x"),
            "presence_penalty": (1e300, "x"),
            "frequency_penalty": (-1e300, None),
            "penalty_window": (-2, 0.5),
            "seed": (-1, 1.5, "1", 2**64),
            "max_tokens": (-2, 1.5, "1", 2**31),
            "stop": ("", [""], 1, [1], [["x"]]),
            "ignore_eos": (1, "true", None),
            "temprature": (1,),
            "text": ("both ids and text",),
        }.items():
            for value in values:
                with self.subTest(field=field, value=value):
                    (answer,) = evaluate("generate", {"ids": IDS, "max_tokens": 1, field: value})
                    self.assertEqual(list(answer), ["error"])
                    self.assertIn(field, answer["error"] + ("stop" if field == "stop" else ""))


class Perplexity(unittest.TestCase):
    def test_equals_the_logits(self):
        (answer,) = evaluate("perplexity", {"ids": IDS})
        (logits,) = evaluate("logits", {"ids": IDS, "positions": list(range(7)), "top": N_VOCAB})
        total = 0
        for position, following in zip(logits["positions"], IDS[1:]):
            total += position["logsumexp"] - dict(map(tuple, position["top"]))[following]
        self.assertEqual(answer["n"], 7)
        self.assertAlmostEqual(answer["mean_nll"], total / 7, delta=1e-5)

    def test_text_gets_bos(self):
        (ids,) = evaluate("tokenize", {"text": "hello there"})
        text, with_bos = evaluate("perplexity", {"text": "hello there"}, {"ids": [2] + ids["ids"]})
        self.assertEqual(text, with_bos)

    def test_bad_requests(self):
        answers = evaluate("perplexity", {"ids": [2]}, {"ids": []}, {}, {"text": "a", "ids": [2]}, {"text": "a", "n": 1})
        self.assertEqual([list(answer) for answer in answers], [["error"]] * 5)


if __name__ == "__main__":
    unittest.main()
