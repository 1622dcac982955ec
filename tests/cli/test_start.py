"""The command's first moments."""

import re
import signal
import subprocess
import sys
import time

import pytest


@pytest.mark.parametrize("after_s", [0.1, 0.3, 0.6])
def test_ctrl_c_at_any_moment_prints_no_traceback(after_s: float) -> None:
    started = subprocess.Popen(
        [sys.executable, "-m", "headwater", "lab", "spectrum"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(after_s)
    started.send_signal(signal.SIGINT)
    _, errors = started.communicate()
    assert started.returncode != 0
    ours = set(re.findall(r"headwater/[\w/]*\.py", errors))
    assert ours <= {"headwater/__init__.py"}, errors  # before the first line of the command
