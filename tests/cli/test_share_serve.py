"""`headwater share serve` and what meets it, as people start them."""

import json
import signal
from pathlib import Path

import pytest

from headwater.sharing import SharingNode
from tests.cli.commands import failing, quick
from tests.nodes.certificates import certificates
from tests.sharing.far_peers import TOKEN, ServeCommand, served
from tests.sharing.genes import V1, owners, rename


@pytest.fixture
def genes(tmp_path: Path) -> Path:
    n1, *_ = owners(tmp_path)
    n1.define("V1", V1)
    n1.hold("V1")
    n1.publish("V1")
    rename(n1)
    return tmp_path


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_SHARE_TOKEN", TOKEN)


def test_a_node_is_served_until_it_is_told_to_stop(genes: Path) -> None:
    server = ServeCommand(genes / "N1", "-v")
    try:
        done = quick("share", "exchange", server.url, "-c", str(genes / "N9"), "--node", "N9")
        assert done.out == ("✓ N1 to N9: 3 nodes, 3 relations, 1 view, 4 contents, 1 updategram\n")
        server.process.send_signal(signal.SIGTERM)
    finally:
        said = server.end()
    assert server.process.returncode == 0
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert events[-1] == {"event": "stopped", "node": "N1"}
    asked = [event for event in events if event["event"] == "request"]
    assert len([each for each in asked if each["path"].endswith(".jsonl")]) == 12
    assert {(each["method"], each["status"]) for each in asked} == {("GET", 200)}
    assert TOKEN not in said


def test_a_view_is_brought_up_to_date_over_http(genes: Path) -> None:
    with served(genes / "N1") as url:
        here = ["-c", str(genes / "N9")]
        done = quick("share", "exchange", url, *here, "--node", "N9", "--only", "V1")
        assert done.out.splitlines()[1].startswith("✓ V1 is at (Genes 4, Variants 7), by its cont")
        again = quick("share", "exchange", url, *here, "--only", "V1", "--json").out.splitlines()
    assert json.loads(again[1])["by"] == "nothing new"
    assert len(SharingNode.open(genes / "N9").query("V1").rows) == 2


def test_changes_are_coalesced_by_a_command(genes: Path) -> None:
    here = ["-c", str(genes / "N1")]
    assert "there is one updategram" in quick("share", "coalesce", "Genes", *here).out
    SharingNode.open(genes / "N1").update("Genes", inserted=[(8, "NEW", "1p1")])
    shown = quick("share", "coalesce", "Genes", *here).out
    assert shown == "✓ Genes: (Genes 3) to (Genes 5) as one, 3 rows\n"


def test_tls_is_by_certificates_and_both_sides_may_ask_for_one(genes: Path) -> None:
    certificates(genes)
    certificates(genes, "-strange")
    files = {name: str(genes / f"{name}.pem") for name in ("cert", "key", "ca", "ca-strange")}
    own = ["--certificate", files["cert"], "--key", files["key"]]
    server = ServeCommand(genes / "N1", *own, "--authorities", files["ca"])
    take = ["share", "exchange", server.url, "-c", str(genes / "N9"), "--node", "N9"]
    try:
        assert server.url.startswith("https://")
        with pytest.raises(Exception, match=r"certificate of .* is not trusted"):
            quick(*take, *own, "--authorities", files["ca-strange"])
        with pytest.raises(Exception, match="is away"):
            quick(*take, "--authorities", files["ca"])
        assert quick(*take, *own, "--authorities", files["ca"]).out.startswith("✓ N1 to N9: ")
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "-c", "nowhere"], "is not a catalog of shared objects"),
        (["serve", "-c", "N1", "--listen", "7450"], "--listen 7450: is no address"),
        (["serve", "-c", "N1", "--token-file", "short"], "The token in short is none"),
        (["serve", "-c", "N1", "--token-file", "none"], "The token in none cannot be read"),
        (["serve", "-c", "N1", "--certificate", "x"], "TLS needs --certificate and --key, both"),
        (["serve", "-c", "N1", "--certificate", "x", "--key", "x"], "cannot be used"),
        (["exchange", "http://a:b@h/", "-c", "N1"], "has a name or a password in it"),
        (["exchange", "gopher://h/", "-c", "N1"], "is an address of a kind that is not known"),
        (["exchange", "https://h/", "--authorities", "no", "-c", "N1"], "cannot be used"),
        (["mirror", "folder", "-c", "N1"], "is an address of a kind that is not known"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    genes: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(genes)
    Path("short").write_text("short")
    found = failing(monkeypatch, capsys, "share", *arguments)
    assert found.code == 2
    assert message in found.err
    assert found.err.count("\n") == 1


def test_an_address_that_others_reach_asks_for_a_token(
    genes: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HEADWATER_SHARE_TOKEN")
    command = ["share", "serve", "-c", str(genes / "N1"), "--listen", "0.0.0.0:0"]
    found = failing(monkeypatch, capsys, *command)
    assert found.code == 2
    assert "nothing says who may ask. Give a token in HEADWATER_SHARE_TOKEN" in found.err


def test_a_peer_that_is_away_is_exit_code_1(
    genes: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(genes / "N1") as url:
        pass
    found = failing(monkeypatch, capsys, "share", "exchange", url, "-c", str(genes / "N2"))
    assert (found.code, found.err.count("\n")) == (1, 1)
    assert f"The node at {url} is away: connection refused." in found.err
