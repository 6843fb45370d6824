#!/usr/bin/env python3
"""Accuracy of a program's logits against the independent reference in tests/golden/logits.json.

COMMAND reads JSON lines {"ids", "positions", "top"} and answers as `gemma-eval logits` does. Prints a Markdown row
for each: mean divergence (one half of sum p (d ln p)^2 over the reference's top ids), the largest one, and how
often the most likely token differs, over all positions and over those where the reference's margin exceeds 0.01.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
from dataclasses import dataclass

TOP = 512  # enough for every reference id to be among them, even for a program that strays
TEXTS = json.loads((pathlib.Path(__file__).parent.parent / "tests/golden/logits.json").read_text())


class Failure(Exception):
    """A command that gives no logits, in words for who runs it."""


@dataclass
class Answer:
    logsumexp: float
    logits: dict  # of the top ids, the most likely first

    def most_likely(self):
        return next(iter(self.logits))


def parse(lines):
    """Answers of each text. Raises ValueError, TypeError or KeyError where the lines are none."""
    return [[Answer(float(p["logsumexp"]), {int(i): float(l) for i, l in p["top"]}) for p in json.loads(line)["positions"]]
            for line in lines]


def ask(command):
    lines = "".join(
        json.dumps({"ids": t["ids"], "positions": [p["pos"] for p in t["positions"]], "top": TOP}) + "\n" for t in TEXTS)
    done = subprocess.run(command, shell=True, input=lines.encode(), capture_output=True, check=False)
    if done.returncode != 0:
        message = " ".join(done.stderr.decode(errors="replace").split())[-500:]
        raise Failure(f"{command} ended with {done.returncode}: {message}")
    try:
        answers = parse(done.stdout.splitlines())
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Failure(f"{command} answers otherwise than gemma-eval logits: {error!r}") from error
    if [len(a) for a in answers] != [len(t["positions"]) for t in TEXTS] or not all(p.logits for a in answers for p in a):
        raise Failure(f"{command} does not answer for every position")
    return answers


def divergence(reference, got):
    total = 0.0
    for token, logit in reference["top"]:
        if token not in got.logits:
            return math.inf
        expected = logit - reference["logsumexp"]
        total += math.exp(expected) * (got.logits[token] - got.logsumexp - expected) ** 2
    return total / 2


def row(name, answers):
    pairs = [(r, g) for text, answer in zip(TEXTS, answers) for r, g in zip(text["positions"], answer)]
    divergences = [divergence(r, g) for r, g in pairs]
    changed = [r for r, g in pairs if r["top"][0][0] != g.most_likely()]
    clear = [r for r in changed if r["top"][0][1] - r["top"][1][1] > 0.01]
    return (f"| {name} | {len(pairs)} | {sum(divergences) / len(pairs):.2g} | {max(divergences):.2g} "
            f"| {len(changed)} | {len(clear)} |")


def named_command(text):
    name, equals, command = text.partition("=")
    if not (name and equals and command):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=COMMAND")
    return name, command


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"error: {message}\n")


def main():
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", metavar="NAME=COMMAND", nargs="+", type=named_command)
    args = parser.parse_args()
    print("| engine | positions | mean divergence | largest | argmax changed | … with margin > 0.01 |")
    print("|---|---|---|---|---|---|", flush=True)
    try:
        for name, command in args.commands:
            print(row(name, ask(command)), flush=True)
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
