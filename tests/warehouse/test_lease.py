"""The lease: one runner at a time, and a replaced one finds out."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.errors import BusyError, EngineError, FencedError, HeadwaterError, InputError
from headwater.warehouse import lease as module
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.identity import owner_of
from headwater.warehouse.lease import Lease, current_runner
from headwater.warehouse.warehouse import Warehouse


def run_once(folder: Path) -> Lease:
    lease = Lease(folder)
    lease.acquire()
    lease.release()
    return lease


def damage(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)


def wait_until(condition: Callable[[], bool], limit_s: float = 60.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


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


def test_the_identity_outlasts_the_lease_file_and_the_other_way_round(tmp_path: Path) -> None:
    owner = owner_of(tmp_path)
    assert len(owner) == 8
    run_once(tmp_path)
    (tmp_path / "lease.json").unlink()
    assert owner_of(tmp_path) == run_once(tmp_path).warehouse == owner
    (tmp_path / "warehouse.json").write_bytes(b"")
    assert owner_of(tmp_path) == owner


def test_an_identity_of_before_is_kept(tmp_path: Path) -> None:
    (tmp_path / "lease.json").write_text(json.dumps({"warehouse": "0123456789ab", "epoch": 4}))
    assert owner_of(tmp_path) == "01234567"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"format": 2, "id": "01234567"}, "has the format 2, .*upgrade Headwater"),
        ({"format": 0, "id": "01234567"}, "has the format 0, .*an old one"),
        ({"id": "01234567"}, "does not say which format it has"),
    ],
)
def test_a_warehouse_of_another_format_is_refused(
    tmp_path: Path, told: dict[str, object], words: str
) -> None:
    internal = tmp_path / "_headwater"
    internal.mkdir()
    (internal / "warehouse.json").write_text(json.dumps(told))
    with pytest.raises(InputError, match=rf"warehouse\.json {words}"):
        Lease(internal).acquire()
    with pytest.raises(InputError, match=words):
        Warehouse(tmp_path)  # to read it is refused as well


def test_a_damaged_identity_that_nothing_repeats_is_named(tmp_path: Path) -> None:
    (tmp_path / "warehouse.json").write_bytes(b"\0\0\0")
    with pytest.raises(InputError, match=r"warehouse\.json is damaged"):
        owner_of(tmp_path)


@pytest.mark.parametrize("content", [None, b"", b"\xff\0", b"[]", b'{"epoch": "x", "runner": 7}'])
def test_epochs_go_on_when_the_lease_file_is_lost_or_damaged(
    tmp_path: Path, content: bytes | None
) -> None:
    epoch = run_once(tmp_path).epoch
    damage(tmp_path / "lease.json", content)
    assert run_once(tmp_path).epoch == epoch + 1


def test_epochs_follow_the_change_logs_when_everything_else_is_lost(tmp_path: Path) -> None:
    for _ in range(3):
        run_once(tmp_path)
    log = ChangeLog(tmp_path / "changes", "s")
    log.open(3)
    log.close()
    for name in ("lease.json", "lease.lock", "epoch"):
        (tmp_path / name).unlink()
    assert run_once(tmp_path).epoch == 4


@pytest.mark.parametrize("content", [None, b"", b"{"])
def test_a_runner_writes_a_lease_file_again_that_was_deleted_under_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    monkeypatch.setattr(module, "RENEW_S", 0.01)
    lease = Lease(tmp_path)
    lease.acquire()
    damage(tmp_path / "lease.json", content)
    with lease.guard():
        pass
    wait_until(lambda: current_runner(tmp_path) is not None)
    with pytest.raises(BusyError):
        Lease(tmp_path).acquire()
    lease.release()


def test_a_runner_that_was_replaced_stays_so_when_the_lease_file_is_deleted(tmp_path: Path) -> None:
    first, second = Lease(tmp_path), Lease(tmp_path)
    first.acquire()
    kept = (tmp_path / "lease.json").read_bytes()
    (tmp_path / "lease.json").unlink()
    second.acquire()
    (tmp_path / "lease.json").unlink()
    assert (first.lost, second.lost) == (True, False)
    (tmp_path / "lease.json").write_bytes(kept)
    assert first.lost
    first.release()
    second.release()


def test_a_lease_lock_that_was_deleted_is_not_held_by_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOCK_TRIES", 20)
    first, second = Lease(tmp_path), Lease(tmp_path)
    first.acquire()
    with first.guard():
        (tmp_path / "lease.lock").unlink()
    with first.guard(), pytest.raises(BusyError):
        second.acquire()
    first.release()


def test_a_process_of_another_container_is_not_taken_for_dead(tmp_path: Path) -> None:
    """As if written beside this one, under the same host name, where numbers mean others."""
    lease = Lease(tmp_path)
    lease.acquire()
    lease.release()
    data = json.loads((tmp_path / "lease.json").read_text())
    boot, namespace = data["machine"].split("/")
    beside = {"machine": f"{boot}/{int(namespace) + 1}", "started": "1", "released": False}
    (tmp_path / "lease.json").write_text(json.dumps(data | beside | {"renewed": time.time()}))
    with pytest.raises(BusyError):
        Lease(tmp_path).acquire()
    silent = {"renewed": time.time() - module.STALE_S - 1}
    (tmp_path / "lease.json").write_text(json.dumps(data | beside | silent))
    run_once(tmp_path)


@contextmanager
def no_space() -> Iterator[None]:
    """No file can grow, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_without_space_the_lease_is_refused_and_the_folder_named(tmp_path: Path) -> None:
    owner_of(tmp_path)
    lease = Lease(tmp_path)
    with no_space(), pytest.raises(HeadwaterError, match="cannot be written") as caught:
        lease.acquire()
    assert str(tmp_path) in str(caught.value)
    assert "None" not in str(caught.value)


def test_without_space_a_release_does_not_hide_the_reason_for_the_end(tmp_path: Path) -> None:
    lease = Lease(tmp_path)
    lease.acquire()
    with no_space():
        lease.release()


def test_a_release_after_the_warehouse_was_deleted_does_not_raise(tmp_path: Path) -> None:
    folder = tmp_path / "internal"
    lease = Lease(folder)
    lease.acquire()
    shutil.rmtree(folder)
    lease.release()
    assert not folder.exists()


def test_a_runner_whose_warehouse_was_deleted_is_told_so(tmp_path: Path) -> None:
    folder = tmp_path / "internal"
    lease = Lease(folder)
    lease.acquire()
    shutil.rmtree(folder)
    try:
        with pytest.raises(EngineError, match="internal is gone"):
            lease.check()
        with pytest.raises(EngineError, match="internal is gone"), lease.guard():
            pass
    finally:
        lease.release()
