#!/usr/bin/env python3
"""Decode speed and memory beside llama.cpp's llama-bench: runs alternate, medians and their ratio are printed.

Ours is the whole product path, gemma-cli with sampling and output; llama-bench times evaluation only.
"""
import argparse
import json
import pathlib
import platform
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROMPT = "The history of the Roman empire began with a small town on a river,"


def ours(args):
    """Tokens a second after the first token, and the peak resident memory in MB."""
    with tempfile.NamedTemporaryFile() as usage:
        command = [args.time, "-f", "%M", "-o", usage.name, str(args.program), "-m", args.model, "--json",
                   "--threads", str(args.threads), "--ctx", "4096", "--temp", "0", "--ignore-eos",
                   "-n", str(args.tokens + 1), "-p", PROMPT]
        answer = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        peak = int(pathlib.Path(usage.name).read_text()) / 1000
    seconds = answer["timings"]["total_seconds"] - answer["timings"]["first_token_seconds"]
    return args.tokens / seconds, peak


def theirs(args):
    command = [args.llama_bench, "-m", args.model, "-t", str(args.threads), "-p", "0", "-n", str(args.tokens),
               "-r", "1", "-o", "json"]
    rows = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    return rows[0]["avg_ts"]


def machine():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--llama-bench", required=True)
    parser.add_argument("--program", default=ROOT / "build/release/bin/gemma-cli")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--time", default="/usr/bin/time", help="GNU time, for the peak memory")
    args = parser.parse_args()
    pairs = [(ours(args), theirs(args)) for _ in range(args.runs)]
    speeds, peer = [o[0] for o, _ in pairs], [t for _, t in pairs]
    print(f"{time.strftime('%Y-%m-%d')}, {machine()}, {args.threads} threads, {args.tokens} tokens, {args.runs} runs each")
    print(f"engine     {statistics.median(speeds):7.1f} tokens/s (min {min(speeds):.1f}, max {max(speeds):.1f}), "
          f"peak memory {max(o[1] for o, _ in pairs):.0f} MB at context 4096")
    print(f"llama.cpp  {statistics.median(peer):7.1f} tokens/s (min {min(peer):.1f}, max {max(peer):.1f})")
    ratios = [o[0] / t for o, t in pairs]
    print(f"ratio      {statistics.median(ratios):7.2f} (median of pairs)")


if __name__ == "__main__":
    main()
