"""Facts and edges from the standard input and from pipes of the shell's, whose format is told by the first lines."""

import gzip
import io
import os
import subprocess
import sys
import threading

import pytest

from semi_naive import Program
from semi_naive.__main__ import main
from semi_naive.io import files
from semi_naive.io.errors import BadInput
from semi_naive.io.formats.layouts import extension_of

READS = ".decl e(x: number, y: number)\n.input e\n.decl r(x: number, z: number)\n.output r\nr(x, z) :- e(x, y), e(y, z)."
TEXTS = {
    b"1\t2\n2\t3\n": ".tsv", b"1,2\n2,3\n": ".csv", b"# with, a comma\n1 2\n2 3\n": ".txt", b"[[1, 2],\n [2, 3]]": ".json",
    b'{"x": 1, "y": 2}\n{"x": 2, "y": 3}\n': ".jsonl", gzip.compress(b"1,2\n2,3\n", mtime=0): ".csv",
}  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_read_yet(monkeypatch):
    monkeypatch.setattr(files, "_pipes", {})


@pytest.fixture
def piped(monkeypatch):
    """Give the standard input some bytes."""
    return lambda data: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize("data, extension", TEXTS.items())
@pytest.mark.parametrize("path", ["-", "/dev/stdin"])
def test_the_standard_input_is_read_by_its_contents(piped, data, extension, path, capsys):
    piped(data)
    assert extension_of(path) == extension
    with Program(READS).run({"e": path}) as result:
        assert result["r"].to_list() == [(1, 3)]
    main(["tc", path, "--quiet"])
    assert capsys.readouterr().out == "3\n"


def test_a_pipe_is_opened_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[b"1,2\n2,3\n"])
    writer.start()
    with Program(READS).run({"e": str(tmp_path / "pipe")}) as result:
        assert result["r"].to_list() == [(1, 3)]
    writer.join()


def test_the_shell_names_pipes():
    command = "{0} -m semi_naive run -e 'r(x, z) :- e(x, y), f(y, z).' -F e=<(echo 1,2) -F f=- --quiet"
    ran = subprocess.run(["bash", "-c", command.format(sys.executable)], input="2\t3\n", capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "1\t3\n"), ran.stderr


@pytest.mark.parametrize("data, said", [(b"PAR1....", "only text is read from a pipe"), (b"1,x\n", "-:1:3: ")])
def test_errors_name_the_pipe(piped, data, said):
    piped(data)
    with pytest.raises(BadInput) as error:
        Program(READS).run({"e": "-"})
    assert said in str(error.value)
