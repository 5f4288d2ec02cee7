import os
import subprocess
import sys

PROGRAM = """
import os, signal, subprocess, sys, time
from penstock.cli.cluster.forked import fork

nothing, held = os.pipe()
output, writing = os.pipe()

def run():
    print("in the copy", os.read(0, 1) == b"", flush=True)
    return 7

process = fork(run, stdin=nothing, stdout=writing, close=[held])
try:
    process.wait(0.05)
    raise SystemExit("it did not wait for the end of its input")
except subprocess.TimeoutExpired:
    pass
os.close(held)
assert process.wait(30) == 7, process.poll()
assert os.read(output, 100) == b"in the copy True\\n"

signal.signal(signal.SIGTERM, lambda *_: sys.exit("the copy has the handler of its parent"))
held_again = os.pipe()
sleeping = fork(lambda: time.sleep(60), stdin=held_again[0], stdout=writing, close=[])
sleeping.send_signal(signal.SIGTERM)
assert sleeping.wait(30) == -signal.SIGTERM, sleeping.poll()

failing = fork(lambda: 1 // 0, stdin=nothing, stdout=writing, close=[])
assert failing.wait(30) == 1
failing.send_signal(signal.SIGTERM)
print("done")
"""


def test_a_copy_runs_a_function_and_ends_with_its_code() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ)
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert "ZeroDivisionError" in done.stderr
