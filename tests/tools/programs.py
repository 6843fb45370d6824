"""Running the programs, for the tests of this folder. ENGINE_BIN is the folder that holds them."""

import os
import pathlib
import subprocess

BIN = pathlib.Path(os.environ["ENGINE_BIN"])
TINY = pathlib.Path(__file__).resolve().parent.parent / "golden" / "tiny"
MODEL = str(TINY / "tiny-nano-F32.gguf")
N_VOCAB = 512


def start(name, *args, **kwargs):
    """The program as a process; streams are closed pipes unless given. Signals as by default."""
    return subprocess.Popen([str(BIN / name), *map(str, args)], **kwargs)


def run(name, *args, stdin=b"", timeout=120, **kwargs):
    """Runs the program to its end; the result has returncode, stdout and stderr (bytes)."""
    if isinstance(stdin, bytes):
        kwargs["input"] = stdin
    else:
        kwargs["stdin"] = stdin
    kwargs.setdefault("stdout", subprocess.PIPE)
    kwargs.setdefault("stderr", subprocess.PIPE)
    return subprocess.run([str(BIN / name), *map(str, args)], timeout=timeout, **kwargs)
