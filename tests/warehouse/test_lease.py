"""The lease: one runner at a time, and a replaced one finds out."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.errors import BusyError, FencedError
from headwater.warehouse import lease as module
from headwater.warehouse.lease import Lease, current_runner


def test_two_runners_exclude_each_other(tmp_path: Path) -> None:
    first = Lease(tmp_path)
    first.acquire()
    try:
        with pytest.raises(BusyError, match=str(os.getpid())):
            Lease(tmp_path).acquire()
    finally:
        first.release()


def test_after_release_the_next_runner_has_a_higher_epoch(tmp_path: Path) -> None:
    first, second = Lease(tmp_path), Lease(tmp_path)
    first.acquire()
    first.release()
    assert current_runner(tmp_path) is None
    second.acquire()
    second.release()
    assert second.epoch == first.epoch + 1


def test_a_runner_that_was_killed_is_replaced_at_once(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, time; from headwater.warehouse.lease import Lease\n"
        "Lease(pathlib.Path(sys.argv[1])).acquire(); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(BusyError):
            Lease(tmp_path).acquire()
        process.send_signal(signal.SIGKILL)
        process.wait()
    lease = Lease(tmp_path)
    lease.acquire()
    lease.release()


def test_a_silent_runner_is_replaced_and_may_do_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, next_one = Lease(tmp_path), Lease(tmp_path)
    silent.acquire()
    with silent.guard():
        pass
    data = json.loads((tmp_path / "lease.json").read_text())
    data["renewed"] -= module.STALE_S + 1
    (tmp_path / "lease.json").write_text(json.dumps(data))
    next_one.acquire()
    assert silent.lost
    with pytest.raises(FencedError, match="taken over"), silent.guard():
        pytest.fail("a replaced runner was let in")
    silent.release()
    assert current_runner(tmp_path) is not None
    next_one.release()


def test_a_warehouse_keeps_its_identity_and_others_have_another(tmp_path: Path) -> None:
    leases = [Lease(tmp_path / "a"), Lease(tmp_path / "a"), Lease(tmp_path / "b")]
    for lease in leases:
        lease.acquire()
        lease.release()
    assert leases[0].warehouse == leases[1].warehouse != leases[2].warehouse
