"""What the steps share."""

import concurrent.futures
import json
import os
import pathlib
from dataclasses import dataclass

from .programs import Failure, Skip
from .report import ROOT

ALL_LOGITS = 2**31 - 1


@dataclass(frozen=True)
class Sizes:
    models: tuple = ()  # of tests/golden/tiny; empty: all
    n_ids: int = 100  # of their texts
    prompts: tuple = (1, 2, 5, 16, 33, 64, 128, 257, 513, 700)  # around the kernels' tiles, the window and the chunk
    answer: int = 32
    long_answer: int = 1000
    first_tokens: tuple = (16, 512)
    depth: int = 84  # with half the steps behind it, a context of 100
    steps: int = 32
    repeat: int = 15
    loads: int = 100
    big_loads: int = 5
    least_seconds: float = 1.0  # factor of the steps' needs


QUICK = Sizes(models=("tiny-nano-F32.gguf", "tiny-mqa-Q4_K_M.gguf"), n_ids=10, prompts=(1, 2, 17), answer=3, long_answer=6,
              first_tokens=(4,), depth=4, steps=2, repeat=3, loads=20, big_loads=6, least_seconds=0.02)


class Check:
    """One run: its options, its programs, its models."""

    def __init__(self, args, runner, scratch):
        self.args, self.runner, self.scratch = args, runner, scratch
        self.device, self.sizes = args.device, QUICK if args.quick else Sizes()
        self.folder = args.build_dir or ROOT / "build/gpu"
        self.left_out = {}  # why, by the name of the program
        self.made_model = None
        self.read_bandwidth = None  # bytes/s of the device, once measured

    def program(self, name):
        path = self.folder / "bin" / name
        if not path.is_file():
            raise Skip(f"{name} is not built" + (f": {self.left_out[name]}" if name in self.left_out else ""))
        return path

    def answers(self, command, model, requests, device=None, options=()):
        """gemma-eval's lines, one for each request."""
        program = [self.program("gemma-eval"), command, "-m", model, "--device", device or self.device, *options]
        _, out = self.runner.run(program, "".join(json.dumps(r) + "\n" for r in requests).encode())
        lines = out.decode().splitlines()
        if len(lines) != len(requests):
            raise Failure(f"gemma-eval answered {len(lines)} of {len(requests)} requests")
        for line in lines:
            if line.startswith('{"error"'):
                raise Failure(f"gemma-eval {command}: {line}")
        return lines

    def at_once(self, tasks):
        """The results of functions that mostly wait for programs; the first exception of one."""
        with concurrent.futures.ThreadPoolExecutor(max(2, min(4, self.args.jobs))) as pool:
            futures = [pool.submit(task) for task in tasks]
            # A signal that the system hands to another thread wakes nobody here: its handler waits for this one.
            while concurrent.futures.wait(futures, timeout=0.1).not_done:
                pass
            return [future.result() for future in futures]

    def both(self, command, model, requests, options=()):
        """The lines of the device, and of the CPU."""
        return self.at_once([lambda: self.answers(command, model, requests, options=options),
                             lambda: self.answers(command, model, requests, "cpu", options)])

    def model(self):
        """The file given, or one that is there, or one made here."""
        given = self.args.model or (None if self.args.quick else os.environ.get("ENGINE_MODEL"))
        found = [] if self.args.quick else sorted((ROOT / "models").glob("*.gguf"))
        if given or found:
            return pathlib.Path(given or found[0])
        if not self.made_model:
            path = self.scratch / "synthetic.gguf"
            self.runner.run([self.program("make-model"), "small" if self.args.quick else "270m", path])
            self.made_model = path
        return self.made_model

    def describe_model(self, figures):
        path = self.model()
        figures["model"] = f"{'made up, ' if path == self.made_model else ''}{path.name}, {path.stat().st_size} bytes"
        return path


def first_difference(requests, here, there):
    """What differs first between two answers to the same requests; None if nothing does."""
    for request, ours, theirs in zip(requests, here, there):
        if ours == theirs:
            continue
        where = f"{len(request['ids'])} tokens"
        ours, theirs = json.loads(ours), json.loads(theirs)
        if "positions" not in ours:
            n = next((i for i, pair in enumerate(zip(ours["ids"], theirs["ids"])) if pair[0] != pair[1]), None)
            return f"answer to {where}: token {n} is {ours['ids'][n]}, not {theirs['ids'][n]}" if n is not None else \
                f"answer to {where}: {ours['finish_reason']} after {len(ours['ids'])} tokens, not {len(theirs['ids'])}"
        for a, b in zip(ours["positions"], theirs["positions"]):
            if a != b:
                a_logits, b_logits = dict(map(tuple, a["top"])), dict(map(tuple, b["top"]))
                different = sorted(id for id in b_logits if a_logits.get(id) != b_logits[id])
                if not different:
                    return f"{where}, position {a['pos']}: logsumexp {a['logsumexp']}, not {b['logsumexp']}"
                distance = max(abs(a_logits.get(id, float("inf")) - b_logits[id]) for id in different)
                worst = different[0]
                return (f"{where}, position {a['pos']}: {len(different)} of {len(b_logits)} logits differ, at most by "
                        f"{distance:.3g}, the first of token {worst}: {a_logits.get(worst)}, not {b_logits[worst]}")
        return f"{where}: the texts of equal numbers differ"
    return None


def fail_with(problems):
    if problems:
        more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
        raise Failure("; ".join(problems[:3]) + more)
