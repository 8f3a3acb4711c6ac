"""`semi-naive serve` as a command: its options, its signals, its certificate."""

import contextlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import pytest
from serving import PATIENCE, Client
from session_cases import PATHS


def test_the_command_has_limits_by_default(run, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(
        "semi_naive.cli.serve.open_session", lambda program, state, options, retain: given.append(options["options"])
    )
    (tmp_path / "p.dl").write_text(PATHS)
    for options in ([], ["--query-seconds", "5", "--query-bytes", "none"]):
        with contextlib.suppress(TypeError, AttributeError):  # of a session that is none
            run("serve", "p.dl", "--port", "0", *options)
    assert given[0]["query_seconds"] == 60 and given[0]["query_bytes"] > 1 << 28
    assert given[1] == {"query_seconds": "5", "query_bytes": "none"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_ended_and_keeps_its_state(tmp_path, number):
    (tmp_path / "p.dl").write_text(PATHS)
    command = [sys.executable, "-m", "semi_naive", "serve", "p.dl", "--state", "s", "--port", "0"]
    for epoch in (1, 2):
        child = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        try:
            line = child.stderr.readline()
            assert line.startswith("serving p.dl at http://127.0.0.1:"), line
            call = Client(int(line.rpartition(":")[2]))
            with call.events("/changes/path") as told:
                assert call("/transactions", [{"insert": "edge", "rows": [[epoch, epoch + 1]]}])[1]["epoch"] == epoch
                assert told()[0] == epoch
                child.send_signal(number)
                child.wait(PATIENCE)
        finally:
            child.kill()
            rest = child.communicate()[1]
        assert "Traceback" not in rest and child.returncode in (130, 143), rest


def test_a_port_that_is_taken_and_packages_that_are_missing(run, tmp_path, monkeypatch):
    (tmp_path / "p.dl").write_text(PATHS)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, out, err = run("serve", "p.dl", "--port", taken.getsockname()[1])
        assert status == 2 and f"127.0.0.1, port {taken.getsockname()[1]}: Address already in use\n  --port names" in err
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    status, out, err = run("serve", "p.dl", "--port", 0)
    assert status == 2 and "needs the package uvicorn" in err and "pip install 'semi-naive[serve]'" in err


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a program and a token."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.dl").write_text(PATHS)
    (tmp_path / "token").write_text("0123456789abcdef0123\n")
    (tmp_path / "token").chmod(0o600)
    return tmp_path


def test_an_address_that_others_reach_needs_a_token(run, folder):
    for host in ("0.0.0.0", "::"):
        status, out, err = run("serve", "p.dl", "--port", 0, "--host", host)
        assert status == 2 and f"others can reach {host}, and would be asked for no token\n  --token FILE names" in err
    for options, told in {
        ("--token", "none"): "none: the token file cannot be read: No such file or directory",
        ("--certificate", "token"): "--certificate and --key belong together",
        ("--certificate", "token", "--key", "token"): "token and token cannot be used",
        ("--certificate", "none", "--key", "token"): "none and token cannot be used: No such file or directory",
        ("--sandbox", "none"): "sandbox none does not exist",
    }.items():
        status, out, err = run("serve", "p.dl", "--port", 0, *options)
        assert status == 2 and told in err, err


def test_the_sandbox_of_the_command(run, folder):
    (folder / "box").mkdir()
    (folder / "secret.facts").write_text("1\t2\n")
    (folder / "box" / "p.dl").write_text(PATHS.replace(".input edge", '.input edge(filename="../secret.facts")'))
    status, out, err = run("serve", "box/p.dl", "--port", 0, "-F", "box", "--sandbox", "box")
    assert status == 2 and "secret.facts is outside of the sandbox" in err
    (folder / "box" / "q.dl").write_text('.include "../p.dl"')
    status, out, err = run("session", "box/q.dl", "--sandbox", "box")
    assert status == 1 and '../p.dl" is outside of the sandbox' in err


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_the_command_serves_encrypted_and_asks_for_its_token(folder):
    subject = ["-subj", "/CN=localhost", "-days", "2", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject], check=True, capture_output=True)
    command = [sys.executable, "-m", "semi_naive", "serve", "p.dl", "--host", "0.0.0.0", "--port", "0", "--token", "token"]
    command += ["--certificate", "cert.pem", "--key", "key.pem", "--alias", "facts.example"]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        line = child.stderr.readline()
        assert line.startswith("serving p.dl at https://0.0.0.0:"), line
        encrypted, url = ssl.create_default_context(cafile="cert.pem"), f"https://localhost:{int(line.rpartition(':')[2])}"
        for host, token, status in (
            ("localhost", "0123456789abcdef0123", 200), ("localhost", "0123456789abcdef0124", 401), ("localhost", "", 401),
            ("facts.example", "0123456789abcdef0123", 200), ("elsewhere.example", "0123456789abcdef0123", 400),
        ):  # fmt: skip
            asked = urllib.request.Request(f"{url}/relations", headers={"host": host, "authorization": f"Bearer {token}"})
            try:
                with urllib.request.urlopen(asked, timeout=PATIENCE, context=encrypted) as answer:
                    found = answer.status
            except urllib.error.HTTPError as wrong:
                found = wrong.code
            assert found == status, (host, token)
        child.send_signal(signal.SIGTERM)
        child.wait(PATIENCE)
    finally:
        child.kill()
        rest = child.communicate()[1]
    assert "Traceback" not in rest and child.returncode == 143, rest
