"""The process of a command imports what its run needs, and ends at once with its status."""

import gc
import subprocess
import sys

import pytest

from curvfed.deployments.start import collector_off

RUN = """
import sys
from curvfed.deployments.commands.command import main

words = ["num-supernodes=1", "num-rounds=1", "report=false", f"results-dir={sys.argv[1]}"]
assert main(["simulate", "method=fedavg", *words]) == 0
print(*{"scipy", "torch_geometric", "pandas", "matplotlib", "sklearn", "networkx"} & sys.modules.keys())
"""

END = """
import atexit, sys, threading, time
from curvfed.deployments.start import end_with

class Kept:
    def __del__(self):
        print("freed")

kept = Kept()

def speak():
    time.sleep(0.2)
    print("thread")

def work():
    threading.Thread(target=speak).start()
    atexit.register(print, "exit")
    print("work", end=" ")
    return 3

end_with(work if len(sys.argv) == 1 else lambda: 1 // 0)
"""

IMPORTS = """
import atexit, sys, types
from curvfed.__main__ import start

class Command(types.ModuleType):
    def __getattr__(self, name):
        if name == "main":
            if "interrupted" in sys.argv:
                raise KeyboardInterrupt
            atexit.register(print, "registered by an import")
            return lambda: 3
        raise AttributeError(name)

place = "curvfed.deployments.commands.command"
sys.modules[place] = Command(place)
start()
"""


def python(program: str, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_run_of_one_client_imports_no_library_that_it_does_not_use(tmp_path):
    done = python(RUN, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == ""


def test_a_process_ends_with_its_status_after_threads_and_functions_for_the_exit():
    done = python(END)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout == "work thread\nexit\n"


def test_functions_that_the_imports_of_the_command_register_are_called():
    done = python(IMPORTS)
    assert (done.returncode, done.stdout, done.stderr) == (3, "registered by an import\n", "")


def test_an_interrupt_of_the_imports_of_the_command_ends_with_130():
    done = python(IMPORTS, "interrupted")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_error_of_the_work_ends_the_process_by_itself():
    done = python(END, "error")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize("is_on", [True, False])
def test_the_collector_is_as_before(is_on, monkeypatch):
    was_on = gc.isenabled()
    try:
        (gc.enable if is_on else gc.disable)()
        with collector_off():
            assert not gc.isenabled()
        assert gc.isenabled() is is_on
    finally:
        (gc.enable if was_on else gc.disable)()
