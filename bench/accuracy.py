#!/usr/bin/env python3
"""Accuracy of a program's logits against the independent reference in tests/golden/logits.json.

usage: accuracy.py NAME=COMMAND [NAME=COMMAND ...]

COMMAND reads JSON lines {"ids", "positions", "top"} and answers as `gemma-eval logits` does. Prints a Markdown row
for each: mean divergence (one half of sum p (d ln p)^2 over the reference's top ids), the largest one, and how
often the most likely token differs, over all positions and over those where the reference's margin exceeds 0.01.
"""
import json
import math
import pathlib
import subprocess
import sys

TOP = 512  # enough for every reference id to be among them, even for a program that strays
TEXTS = json.loads((pathlib.Path(__file__).parent.parent / "tests/golden/logits.json").read_text())


def ask(command):
    lines = "".join(
        json.dumps({"ids": t["ids"], "positions": [p["pos"] for p in t["positions"]], "top": TOP}) + "\n" for t in TEXTS)
    out = subprocess.run(command, shell=True, input=lines, capture_output=True, text=True, check=True).stdout
    return [json.loads(line)["positions"] for line in out.splitlines()]


def divergence(reference, got):
    logits = dict((i, l) for i, l in got["top"])
    total = 0.0
    for token, logit in reference["top"]:
        if token not in logits:
            return math.inf
        expected = logit - reference["logsumexp"]
        total += math.exp(expected) * (logits[token] - got["logsumexp"] - expected) ** 2
    return total / 2


def main():
    print("| engine | positions | mean divergence | largest | argmax changed | … with margin > 0.01 |")
    print("|---|---|---|---|---|---|")
    for argument in sys.argv[1:]:
        name, command = argument.split("=", 1)
        pairs = [(r, g) for text, answer in zip(TEXTS, ask(command)) for r, g in zip(text["positions"], answer)]
        divergences = [divergence(r, g) for r, g in pairs]
        changed = [(r, g) for r, g in pairs if r["top"][0][0] != g["top"][0][0]]
        clear = [1 for r, _ in changed if r["top"][0][1] - r["top"][1][1] > 0.01]
        print(f"| {name} | {len(pairs)} | {sum(divergences) / len(pairs):.2g} | {max(divergences):.2g} "
              f"| {len(changed)} | {len(clear)} |")


if __name__ == "__main__":
    main()
