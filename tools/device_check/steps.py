"""The steps, in the order of their importance."""

import json
import random
import shutil
import time
import xml.etree.ElementTree

from .build import build, tests_of_device
from .check import ALL_LOGITS, fail_with, first_difference
from .programs import MOST_LOGGED, Failure, Skip
from .report import ROOT, Step

TINY = ROOT / "tests/golden/tiny"
# How far logits may be from the references, by the type of the KV cache: those of tests/tiny_logits_test.cc.
BOUNDS = {"f32": 1e-3, "f16": 5e-3}
# What the driver hands out at a time; and what a host allocator may keep of a hundred loads.
MEMORY_SLACK = {"cuda": 2 << 20, "cpu": 16 << 20, "simt": 16 << 20}


def run_tests(check, figures):
    if check.device != "cuda":
        raise Skip("the tests labelled gpu are a card's")
    names = tests_of_device(check)
    if not names:
        raise Skip("no test is labelled gpu" if "tests" not in check.left_out else f"not built: {check.left_out['tests']}")
    results = check.scratch / "tests.xml"
    code, _ = check.runner.run(["ctest", "--test-dir", check.folder, "-L", "^gpu$", "--timeout", "120", "--output-junit",
                                results], codes=(0, 8))  # 8: some failed
    found = {"passed": [], "failed": [], "skipped": []}
    reasons = {}  # a set in order
    for case in xml.etree.ElementTree.parse(results).iter("testcase"):
        skipped = case.find("skipped")  # also a program that is not there
        skips_itself = skipped is not None and skipped.get("message", "").startswith("SKIP_RETURN_CODE")
        status = "passed" if case.get("status") == "run" else "skipped" if skips_itself else "failed"
        found[status].append(case.get("name"))
        said = case.findtext("system-out", "").strip()
        if status != "passed":
            check.runner.note(f"{case.get('name')} {status}:\n{said[-MOST_LOGGED:]}")
        if skips_itself and said:
            reasons[said.splitlines()[-1]] = None
    figures.update({status: len(names) for status, names in found.items()})
    if code != 0 or found["failed"]:
        raise Failure("failed or not built: " + ", ".join(found["failed"]))
    if found["skipped"]:
        raise Skip("; ".join(["skipped themselves: " + ", ".join(found["skipped"]), *reasons]))


def distance(reference, answer):
    """The largest difference from a reference's position."""
    logits = dict(map(tuple, answer["top"]))
    pairs = [*reference["top"], *enumerate(reference["logits_first16"])]
    return max([abs(answer["logsumexp"] - reference["logsumexp"]), *(abs(logits[id] - logit) for id, logit in pairs)])


def check_tiny(check, text, kv):
    """Of one model: how far its logits are from the reference's, and what is wrong."""
    model, ids = TINY / text["file"], text["ids"][:check.sizes.n_ids]
    positions = [p for p in text["positions"] if p["pos"] < len(ids)]
    prefixes = [ids[:n] for n in check.sizes.prompts if n < len(ids)]
    requests = [{"ids": ids, "positions": [p["pos"] for p in positions], "top": ALL_LOGITS}]
    requests += [{"ids": prefix, "top": ALL_LOGITS} for prefix in prefixes]
    options = ("--kv", kv, "--quiet")
    here, there = check.both("logits", model, requests, options)
    problems = [first_difference(requests, here, there)]
    far = max(distance(*pair) for pair in zip(positions, json.loads(here[0])["positions"]))
    if not far <= BOUNDS[kv]:
        problems.append(f"{far:.3g} from the reference, more than {BOUNDS[kv]:g}")
    requests = [{"ids": prefix, "temperature": 0, "max_tokens": check.sizes.answer, "ignore_eos": True} for prefix in prefixes]
    problems.append(first_difference(requests, *check.both("generate", model, requests, options)))
    return far, [f"{text['file']}, {kv} cache: {problem}" for problem in problems if problem]


def tiny(check, figures):
    check.program("gemma-eval")
    texts = json.loads((TINY / "logits.json").read_text())
    texts = [text for text in texts if not check.sizes.models or text["file"] in check.sizes.models]
    figures["models"] = len(texts)

    def one(text, kv):
        try:
            return check_tiny(check, text, kv)
        except Failure as failure:
            return None, [f"{text['file']}, {kv} cache: {failure}"]

    problems = []
    for kv in BOUNDS:
        results = check.at_once([lambda text=text, kv=kv: one(text, kv) for text in texts])
        distances = [far for far, _ in results if far is not None]
        if distances:
            figures[f"largest_distance_from_the_references_{kv}"] = max(distances)
        problems += [problem for _, found in results for problem in found]
    fail_with(problems)


def random_ids(n, n_vocab):
    """The same in every run. The first is the beginning of a text."""
    draw = random.Random(n)
    return [2] + [draw.randrange(n_vocab) for _ in range(n - 1)]


def bits_of_model(check, figures):
    check.program("gemma-eval")
    model = check.describe_model(figures)
    (line,) = check.answers("logits", model, [{"ids": [2], "top": ALL_LOGITS}], "cpu")
    n_vocab = len(json.loads(line)["positions"][0]["top"])
    prompts = [random_ids(n, n_vocab) for n in check.sizes.prompts]
    problems = []
    requests = [{"ids": ids, "positions": sorted({len(ids) // 2, len(ids) - 1}), "top": ALL_LOGITS} for ids in prompts]
    problems.append(first_difference(requests, *check.both("logits", model, requests)))
    figures["prompts"], figures["logits_compared"] = list(check.sizes.prompts), n_vocab * sum(
        len(request["positions"]) for request in requests)
    requests = [{"ids": ids, "temperature": 0, "max_tokens": check.sizes.answer, "ignore_eos": True} for ids in prompts]
    problems.append(first_difference(requests, *check.both("generate", model, requests)))
    figures["tokens_compared"] = check.sizes.answer * len(prompts)
    fail_with([problem for problem in problems if problem])


def determinism(check, figures):
    """Within a session, and in another process; the most likely tokens, and drawn ones."""
    check.program("gemma-eval")
    model = check.describe_model(figures)
    shared = {"ids": [2], "max_tokens": check.sizes.long_answer, "ignore_eos": True}
    greedy, drawn = {**shared, "temperature": 0}, {**shared, "temperature": 1, "seed": 7}
    first = check.answers("generate", model, [greedy, drawn, greedy, drawn])
    second = check.answers("generate", model, [greedy, drawn])
    figures["tokens"] = check.sizes.long_answer
    problems = [first_difference([greedy, drawn], first[:2], first[2:]), first_difference([greedy, drawn], first[:2], second)]
    fail_with([problem for problem in problems if problem])


def bandwidth(check, figures):
    if check.device != "cuda":
        raise Skip("only a card's memory is measured")
    figures.update(check.runner.report([check.program("device-probe")]))
    check.read_bandwidth = figures["read_bytes_per_second"]


def latency(check, figures):
    bench, model = check.program("engine-bench"), check.describe_model(figures)
    shared = ["-m", model, "--device", check.device, "--repeat", check.sizes.repeat]
    for n in check.sizes.first_tokens:
        report = check.runner.report([bench, "ttft", n, *shared])
        figures[f"first_token_after_{n}_ms"] = {"p50": 1e3 * report["seconds"], "least": 1e3 * min(report["runs"]),
                                                "most": 1e3 * max(report["runs"])}
    steps = check.sizes.steps
    report = check.runner.report([bench, "tg", steps, "--greedy", "--depth", check.sizes.depth, *shared])
    per_token = [1e3 * seconds / steps for seconds in report["runs"]]
    figures["backend"] = report["backend"]
    figures[f"between_tokens_at_context_{check.sizes.depth + steps // 2}_ms"] = {
        "p50": 1e3 * report["seconds"] / steps, "least": min(per_token), "most": max(per_token)}
    figures["weight_bytes_read_per_second"] = report["weight_bytes"] * report["tokens_per_second"]
    if check.read_bandwidth:
        figures["share_of_read_bandwidth"] = figures["weight_bytes_read_per_second"] / check.read_bandwidth


def reload(check, figures):
    program = check.program("reload-model")
    model = check.describe_model(figures)
    problems = []
    for path, n in ((TINY / "tiny-mqa-Q4_K_M.gguf", check.sizes.loads), (model, check.sizes.big_loads)):
        report = check.runner.report([program, path, check.device, n])
        figures[path.name] = report
        grown = report["end_bytes"] - report["base_bytes"]
        if grown > MEMORY_SLACK[check.device]:
            problems.append(f"{path.name}: {grown} bytes more in use after {n} loads than after 2")
    fail_with(problems)


def sanitizer(check, figures):
    if check.device != "cuda":
        raise Skip("compute-sanitizer is for a card")
    program = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if not program:
        raise Skip("compute-sanitizer is not installed")
    evaluate = [check.program("gemma-eval"), "logits", "-m", TINY / "tiny-mqa-Q4_K_M.gguf", "--device", "cuda", "--ctx", 64]
    requests = b"".join(json.dumps({"ids": random_ids(n, 512)}).encode() + b"\n" for n in (1, 20))
    tools, problems, late = ("memcheck", "racecheck", "synccheck"), [], []
    for i, tool in enumerate(tools):
        limit = check.runner.remaining() / (len(tools) - i)
        began = time.monotonic()
        try:
            check.runner.run([program, "--tool", tool, "--error-exitcode", 99, *evaluate], requests, limit)
            figures[tool] = f"nothing found in {time.monotonic() - began:.1f} s"
        except Failure as failure:
            (late if "did not end" in str(failure) else problems).append(f"{tool}: {failure}")
    fail_with(problems)
    if late:
        raise Skip("; ".join(late))


def make_steps(sizes):
    steps = ((build, "build", 60, 1), (run_tests, "tests", 10, 0.5), (tiny, "tiny", 15, 0.5),
             (bits_of_model, "model", 20, 0.5), (determinism, "determinism", 10, 0.5), (bandwidth, "bandwidth", 5, 0.5),
             (latency, "latency", 15, 0.5), (reload, "reload", 20, 0.5), (sanitizer, "sanitizer", 20, 1))
    return [Step(name, function, needs * sizes.least_seconds, share) for function, name, needs, share in steps]
