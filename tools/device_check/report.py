"""What a run says of the machine, of the sources and of its steps."""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import time
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclass
class Step:
    name: str
    run: object  # (Check, figures): fills in the figures; raises Failure or Skip
    needs: float  # seconds without which it is not begun
    share: float  # of the seconds left that it may take, so that a hang leaves something to the steps after it
    status: str = "skipped"
    reason: str = "not reached"
    seconds: float = 0.0
    figures: dict = field(default_factory=dict)

    def entry(self):
        entry = {"name": self.name, "status": self.status, "seconds": round(self.seconds, 3), "figures": self.figures}
        return {**entry, "reason": self.reason} if self.reason else entry


def output_of(command):
    """What a program says of the machine or the sources; None if it cannot."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True, cwd=ROOT)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def nvcc():
    return shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")


def describe_machine():
    """What is known of it; the rest is absent."""
    facts = {"date": time.strftime("%Y-%m-%d %H:%M:%S %z"), "processors": len(os.sched_getaffinity(0)),
             "kernel": platform.release(), "python": platform.python_version()}
    cpu = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    facts["cpu"] = cpu.group(1) if cpu else platform.machine()
    fields = ("name", "driver_version", "memory.total", "compute_cap", "clocks.max.sm", "clocks.max.memory", "power.limit")
    cards = output_of(["nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader"])
    if cards:
        facts["card"] = dict(zip(fields, cards.splitlines()[0].split(", ")))
    toolkit = re.search(r"release (\S+),", output_of([nvcc(), "--version"]) or "") if nvcc() else None
    if toolkit:
        facts["toolkit"] = toolkit.group(1)
    return facts


def describe_source(given, build_dir):
    if given:
        return given
    if build_dir:
        return "unknown, because --build-dir was not built here"
    commit = output_of(["git", "rev-parse", "HEAD"])
    if not commit:
        return "unknown"
    return commit + (" with changes" if output_of(["git", "status", "--porcelain", "--untracked-files=no"]) else "")


def shown(value):
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {shown(part)}" for key, part in value.items())
    return "; ".join(map(shown, value)) if isinstance(value, (list, tuple)) else str(value)


# What a device must have passed before anybody relies on it.
DECISIVE = ("tiny", "model", "determinism")


def verdict(steps):
    named = {step["name"]: step["status"] for step in steps}
    failed = [name for name, status in named.items() if status == "failed"]
    open_ones = [name for name in DECISIVE if named.get(name) == "skipped"]
    if failed:
        return "not good: failed " + ", ".join(failed)
    return "not decided: skipped " + ", ".join(open_ones) if open_ones else "good: the CPU's bits, again and again"


def summary(report):
    statuses = [step["status"] for step in report["steps"]]
    yield f"# Check of device {report['device']}" + (", reduced sizes" if report["quick"] else "")
    yield ""
    yield f"Verdict: {verdict(report['steps'])}."
    yield ", ".join(f"{statuses.count(status)} {status}" for status in ("ok", "failed", "skipped"))
    yield f"in {report['seconds']:.0f} s of {report['budget']:.0f} s. Commit: {report['commit']}."
    yield ""
    for name, value in report["machine"].items():
        yield f"- {name}: {shown(value)}"
    yield ""
    yield "| step | status | seconds | why |\n|---|---|---|---|"
    for step in report["steps"]:
        reason = " ".join(step.get("reason", "").split()).replace("|", "\\|")
        yield f"| {step['name']} | {step['status']} | {step['seconds']:.1f} | {reason} |"
    for step in report["steps"]:
        if step["figures"]:
            yield f"\n## {step['name']}\n"
        for name, value in step["figures"].items():
            yield f"- {name if '.' in name else name.replace('_', ' ')}: {shown(value)}"


def replace_file(path, text):
    """Readers see the old text or the new one."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
