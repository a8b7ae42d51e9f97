"""What a user sees of the command itself: an answer or one line, never a traceback."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from tests.cli.conftest import Ran

from gatepost import __version__
from gatepost.cli import commands, program
from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.core.registry import load_package

Run = Callable[..., Ran]


@pytest.fixture
def home(bare_home: Home) -> Home:
    """Most of these commands must not make one."""
    return bare_home


def test_help_lists_every_command_with_a_line_and_imports_none(run: Run) -> None:
    before = set(sys.modules)

    told = run("--help")

    assert told.code == 0
    for name in ("up", "down", "status", "doctor", "logs", "ledger", "trace", "route", "group", "settings", "audit"):
        assert f"\n  {name} " in told.out
    assert {each for each in set(sys.modules) - before if each.startswith("gatepost.cli.commands.")} == set()


def test_the_table_of_commands_names_each_in_the_file_of_its_subject() -> None:
    found = {
        name.removesuffix("_command"): module.__name__.rpartition(".")[2]
        for module in load_package(commands.__name__)
        for name, each in vars(module).items()
        if isinstance(each, click.Command) and name.endswith("_command")
    }

    assert found == {name: entry.subject for name, entry in commands.COMMANDS.items()}


def test_every_command_has_a_help_page_that_fits(run: Run) -> None:
    group = program.gatepost
    assert isinstance(group, program.CommandFolderGroup)
    for name in group.list_commands(click.Context(group)):
        told = run(name, "--help")
        assert told.code == 0 and "--home" in told.out, name
        assert max(len(line) for line in told.out.splitlines()) <= 100, name


def test_a_mistyped_command_is_told_the_near_one(run: Run) -> None:
    told = run("statsu")

    assert (told.code, told.out) == (2, "")
    assert "did you mean 'status'?" in told.err


@pytest.mark.parametrize("words", [("keep",), ("ledger",)])
def test_a_command_that_only_holds_others_shows_its_help_alone(run: Run, words: tuple[str, ...]) -> None:
    told = run(*words)

    assert (told.code, told.out) == (2, "")
    assert told.err.count("Usage:") == 1 and "Error" not in told.err
    assert "\nCommands:\n" in told.err


def test_a_wrong_option_is_a_usage_error(run: Run) -> None:
    assert run("ledger", "check", "--colour").code == 2
    assert run("trace").code == 2


def test_home_may_stand_before_or_after_the_command(run: Run, tmp_path: Path) -> None:
    for args in (
        ("--home", str(tmp_path / "x"), "ledger", "check"),
        ("ledger", "check", "--home", str(tmp_path / "x")),
    ):
        told = run(*args)
        assert told.code == 1 and f"there is no store in {tmp_path / 'x'}" in told.err


@pytest.mark.parametrize(
    "words",
    [
        ("--home", "~nobody-has-this-name/x", "status"),
        ("backup", "verify", "~nobody-has-this-name/x"),
    ],
)
def test_the_home_folder_of_somebody_unknown_is_refused_in_words(run: Run, words: tuple[str, ...]) -> None:
    told = run(*words)

    assert told.code == 1 and told.err.count("\n") == 1
    assert "write the whole path" in told.err and "should not happen" not in told.err


@pytest.mark.parametrize("words", [("login", "list"), ("passkey", "list"), ("site", "list"), ("token", "api", "list")])
def test_who_only_looks_makes_no_home(run: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    told = run("--home", str(tmp_path / "mistyped"), *words)

    assert told.code == 1 and "`--home` chooses another home" in told.err
    assert not (tmp_path / "mistyped").exists()


def test_what_is_refused_is_one_line(run: Run) -> None:
    told = run("group", "list")

    assert (told.code, told.out) == (1, "")
    assert told.err.startswith("gatepost: there is no store in") and told.err.count("\n") == 1


@pytest.mark.parametrize(
    ("raised", "code"), [(KeyboardInterrupt(), 130), (SetupError("a\nb"), 1), (click.UsageError("x"), 2)]
)
def test_how_a_command_ends_is_told_by_its_exit_code(
    run: Run, monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: int
) -> None:
    def end(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr("gatepost.cli.operation_command.home_of", end)

    assert run("audit", "verify").code == code


@pytest.mark.slow
def test_the_unexpected_is_a_short_line_and_names_the_log(home: Home) -> None:
    home.path.mkdir()
    broken = (
        "import gatepost.cli.operation_command as a; a.home_of = None; from gatepost.cli import program; program.run"
    )
    code = f"{broken}(['audit', 'verify'])"

    short = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    long = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "GATEPOST_DEBUG": "1"}
    )

    assert short.returncode == long.returncode == 1
    assert short.stderr.count("\n") == 1 and str(home.logs) in short.stderr and "Traceback" not in short.stderr
    assert "Traceback" in long.stderr


def test_the_version_is_told_before_anything_is_imported() -> None:
    code = (
        "import sys; sys.argv = ['gatepost', '--version']; from gatepost.cli.main import main; main();"
        " print([name for name in ('click', 'apsw', 'msgspec', 'asyncio', 'logging') if name in sys.modules])"
    )

    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert told.stdout.splitlines() == [f"gatepost {__version__}", "[]"]


@pytest.mark.slow
def test_a_reader_who_has_enough_ends_it_quietly(run: Run, home: Home) -> None:
    assert run("group", "add", "acme").code == 0
    reader, writer = os.pipe()
    os.close(reader)

    told = subprocess.run(
        [sys.executable, "-m", "gatepost", "group", "list", "--json"], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)

    assert told.stderr == ""


def test_python_m_gatepost_is_the_command() -> None:
    told = subprocess.run([sys.executable, "-m", "gatepost", "--version"], capture_output=True, text=True)

    assert told.stdout == f"gatepost {__version__}\n"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("connect", "cluade"), "claude"),
        (("policy", "explain", "home", "snd"), "send"),
        (("policy", "explain", "home", "speek"), "speak"),
        (("policy", "explain", "hom", "send"), "home"),
        (("group", "show", "hmoe"), "home"),
        (("group", "shwo", "home"), "show"),
        (("group", "set", "home", "provider=antropic"), "anthropic"),
        (("group", "set", "home", "sandbox=bubblewarp"), "bubblewrap"),
        (("group", "set", "home", "modle=x"), "model"),
        (("group", "set", "home", "limits.memroy_mb=5"), "memory_mb"),
        (("route", "add", "--match", "room=x", "--target", "hoem"), "home"),
        (("statsu",), "status"),
    ],
)
def test_stranger_e_a_name_with_a_typo_is_answered_with_the_one_that_was_meant(
    run: Run, words: tuple[str, ...], meant: str
) -> None:
    run("group", "add", "acme")
    told = run(*words)

    assert told.code != 0 and f"did you mean {meant!r}?" in told.err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("panic", "off"), "did you mean --off?"),
        (("budget", "rm", "home"), "`gatepost budget set FOLDER --daily none` takes a limit away"),
        (("budget", "delete"), "`gatepost budget set FOLDER --daily none` takes a limit away"),
        (("restore", "x.tar.gz"), "`gatepost backup restore` puts a backup back"),
        (("start",), "`gatepost up` starts the gateway"),
        (("task", "rm", "t-1"), "did you mean 'cancel'?"),
        (("settings", "remove", "x"), "did you mean 'unset'?"),
        (("secret", "add", "x"), "did you mean 'set'?"),
        (("route", "delete", "1"), "did you mean 'rm'?"),
        (("overview", "zzz"), "unexpected extra argument (zzz)\n"),
    ],
)
def test_a_command_that_there_is_not_is_answered_with_the_one_that_does_it(
    run: Run, words: tuple[str, ...], meant: str
) -> None:
    told = run(*words)
    assert told.code == 2 and meant in told.err


def test_stranger_e_a_channel_and_a_setting_with_a_typo_are_answered_so_too(
    run: Run, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("group", "add", "acme")
    (home.path / "gatepost.toml").write_text('timezoen = "UTC"\n')
    assert "did you mean 'timezone'?" in run("up").err
    (home.path / "gatepost.toml").write_text('channels.on = ["wbe"]\n')
    assert "did you mean 'web'?" in run("up").err


def test_a_start_that_is_refused_leaves_the_limits_of_the_process_as_they_were(run: Run, home: Home) -> None:
    def limits() -> tuple[object, ...]:
        return sys.get_int_max_str_digits(), resource.getrlimit(resource.RLIMIT_NOFILE)

    before = limits()
    run("group", "add", "acme")
    (home.path / "gatepost.toml").write_text('timezone = "Nowhere"\n')
    assert run("up").code != 0
    assert limits() == before


def test_stranger_e_shell_completion_is_documented_and_works(home: Home) -> None:
    documented = (Path(__file__).parents[2] / "docs" / "install.md").read_text()
    for shell in ("bash", "zsh", "fish"):
        assert f"_GATEPOST_COMPLETE={shell}_source gatepost" in documented
    env = {**os.environ, "_GATEPOST_COMPLETE": "bash_complete", "COMP_WORDS": "gatepost back", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-m", "gatepost"], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["plain,backup"]
