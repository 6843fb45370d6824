"""Running programs, and ending them."""

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import tempfile
import threading
import time

MOST_SAID = 400  # characters of a program's words in a reason
MOST_LOGGED = 20_000


class Failure(Exception):
    """A step found something wrong."""


LEAST_TELLING = 10  # seconds after which a program that has not ended is taken for one that hangs


class Skip(Exception):
    """A step cannot run here."""


class Cut(BaseException):
    """A signal ends the run. Raised by what runs programs, not by the signal's handler: an exception in the midst of
    the threads' bookkeeping would leave its locks held."""


def telling(text):
    """The first lines that name an error, with what follows a colon on the next one, or else the end."""
    lines = [" ".join(found.split()) for found in re.findall(r".*(?:error|fail).*(?:(?<=:)\n.*)?", text, re.IGNORECASE)]
    return (" / ".join(dict.fromkeys(lines).keys()) or " ".join(text.split())[-MOST_SAID:])[:MOST_SAID]


class Runner:
    """Runs programs until the deadline. What they are and what they say goes into a log."""

    def __init__(self, log, deadline):
        self.log, self.deadline = log, deadline
        self.lock, self.running, self.stopped = threading.RLock(), set(), None

    def remaining(self):
        return self.deadline - time.monotonic()

    def note(self, text):
        with self.lock, self.log.open("a", encoding="utf-8") as file:
            file.write(text.rstrip("\n") + "\n")

    def stop(self, reason):
        """Ends what runs; whoever waits for it gets a Cut. For signal handlers, too, whose thread may hold the lock."""
        with self.lock:
            self.stopped = self.stopped or reason
            for process in self.running:
                kill(process)

    def check(self):
        if self.stopped:
            raise Cut(self.stopped)

    def start(self, command, **kwargs):
        with self.lock:
            self.check()
            try:
                process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
                                           **kwargs)
            except OSError as error:
                raise Failure(f"{command[0]} does not start: {error.strerror}") from error
            self.running.add(process)
            return process

    def run(self, command, stdin=b"", limit=None, codes=(0,), **kwargs):
        """The exit code and standard output of a program that ends with one of the codes."""
        command = [str(word) for word in command]
        limit = min(self.remaining(), limit or self.remaining())
        if limit <= 0:
            raise Failure("the budget is used up")
        with tempfile.TemporaryFile() as err:
            process = self.start(command, stderr=err, **kwargs)
            try:
                out, _ = process.communicate(stdin, timeout=limit)
            except subprocess.TimeoutExpired as error:
                left = ", all that was left of the budget" if limit < LEAST_TELLING else ""
                raise Failure(f"{pathlib.Path(command[0]).name} did not end within {limit:.1f} s{left}") from error
            finally:
                if process.poll() is None:
                    end(process)
                with self.lock:
                    self.running.discard(process)
                err.seek(0)
                said = err.read().decode(errors="replace")
                self.note(f"$ {shlex.join(command)}\n{said}[{process.returncode}]")
        self.check()
        if process.returncode not in codes:
            said += out.decode(errors="replace")
            self.note(said[-MOST_LOGGED:])
            raise Failure(f"{pathlib.Path(command[0]).name} ended with {process.returncode}: {telling(said)}")
        return process.returncode, out

    def report(self, command, **kwargs):
        """What a program prints as one JSON object."""
        _, out = self.run(command, **kwargs)
        try:
            return json.loads(out)
        except ValueError as error:
            raise Failure(f"{pathlib.Path(command[0]).name} printed no JSON: {out[:200]!r}") from error


def end(process):
    """One that does not even go when killed, such as in a driver that hangs, is left behind."""
    kill(process)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        pass


def kill(process):
    """With everything that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
