"""The pages: what is printed from code is as printed, links lead somewhere, and what is shown can be done."""

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gatepost.cli.commands import COMMANDS
from gatepost_testing import fork_server

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").glob("**/README.md"),
    ]
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```[a-z]*\n(.*?)```", re.DOTALL)


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def test_what_is_printed_from_code_is_as_printed() -> None:
    """In a process of its own: tests that load plug-ins would have theirs printed, too."""
    command = [sys.executable, str(ROOT / "scripts" / "print_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_proof_that_the_readme_names_runs_every_test_of_its_file() -> None:
    """`make test` leaves slow tests out, unless it is told otherwise."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    proofs = re.findall(r"`make test TESTS=(\S+?)( ARGS=\"-m ''\")?`", text)
    left_out = [
        path
        for path, every in proofs
        if not every and re.search(r"mark\.(slow|alone)", (ROOT / path).read_text("utf-8"))
    ]
    assert len(proofs) >= 4 and left_out == []


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_the_completion_that_is_printed_for_bash_completes_a_command() -> None:
    file = ROOT / "ops" / "share" / "bash-completion" / "completions" / "gatepost"
    typed = "COMP_WORDS=(gatepost unin) COMP_CWORD=1"
    script = f". {shlex.quote(str(file))}; {typed}; _gatepost_completion gatepost; echo $COMPREPLY"
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "uninstall"


def test_the_page_of_tools_tells_each_ones_parameters_tier_and_checks() -> None:
    """In words that a declaration alone decides; the page as a whole is compared above."""
    text = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
    sections = {part.partition("\n")[0]: part for part in text.split("\n### ")[1:]}

    assert (
        "Down to tier 2 (agent)" in sections["send"]
        and "`chatJid` is a room that the group reaches" in sections["send"]
    )
    assert "a person must agree to each call" in sections["write_skill"]
    assert "costs money: refused when the budget is spent" in sections["send_voice"]
    assert "is a group within the caller's reach: own or below" in sections["reset_session"]
    assert "only reads" in sections["refresh_groups"]
    assert all("Down to tier " in part for part in sections.values())


def test_the_page_of_the_servers_for_agents_tells_every_parameter() -> None:
    text = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
    sections = {part.partition("\n")[0]: part for part in text.split("\n### ")[1:]}
    assert {"create_agent", "respond_to_permission", "create_worktree", "set_title", "set_branch"} <= set(sections)
    rows = re.findall(r"^\| `(\w+)`.*\| (.*) \|$", text, re.MULTILINE)
    assert len(rows) > 30 and [name for name, meaning in rows if not meaning.strip()] == []


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"https?://", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_the_commands_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    shown = [line for block in CODE.findall(text) for line in block.splitlines()] + re.findall(r"`([^`\n]+)`", text)
    used = {found[1] for line in shown if (found := re.match(r"\s*gatepost ([a-z][a-z-]*)\b(?!/)", line))}
    targets = {found for line in shown for found in re.findall(r"^\s*make ([a-z][a-z-]*)", line)}
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

    assert used - set(COMMANDS) == ({"is"} & used)  # the ready line begins with "gatepost is"
    assert targets - known == set()


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_the_settings_that_are_named_exist(page: Path) -> None:
    declared = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^\| `([\w.]+)`", declared, re.MULTILINE))
    prefixes = {name.partition(".")[0] for name in known if "." in name} - {"channels"}
    named = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)(?: = [^`]*)?`", page.read_text(encoding="utf-8")))

    files = {
        "control.sock",
        "control.token",
        "prices.toml",
        "search.py",
        "files.read",
        "files.write",
    }  # the last are rights
    examples = {name for name in named if name.startswith("sandbox.niced.")} | files
    assert {name for name in named if name.partition(".")[0] in prefixes} - known - examples == set()


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_the_addresses_of_health_that_are_named_are_served(page: Path) -> None:
    served = (ROOT / "src" / "gatepost" / "serve" / "web" / "api_routes.py").read_text(encoding="utf-8")
    named = re.findall(r"`(/[a-z]+z)`", page.read_text(encoding="utf-8"))
    assert [each for each in named if f'Route("{each}"' not in served] == []


def test_the_routes_that_are_shown_can_be_added(tmp_path: Path) -> None:
    env = {**os.environ, "GATEPOST_HOME": str(tmp_path / "home")}

    def gatepost(*args: str) -> str:
        done = fork_server.run(args, env)
        assert done.returncode == 0, f"{shlex.join(args)}: {done.stderr}"
        return done.stdout

    blocks = CODE.findall((ROOT / "docs" / "routes.md").read_text(encoding="utf-8"))
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("gatepost ")]
    for line in lines:
        gatepost(*shlex.split(line)[1:])

    assert len(lines) > 8
    assert "→ acme" in gatepost("route", "test", "web:acme/eng")
    assert "drop" in gatepost("route", "test", "web:acme/eng", "--text", "please UNSUBSCRIBE me")


def test_the_flags_of_a_container_that_are_shown_are_those_of_the_compose_file() -> None:
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8").replace("\\\n", " ")
    words = shlex.split(next(line for line in text.splitlines() if line.startswith("podman run ")))
    given = list(itertools.pairwise(words))

    def list_values(option: str) -> list[str]:
        return [value for name, value in given if name == option]

    whole = yaml.safe_load((ROOT / "ops" / "container" / "compose.yaml").read_text(encoding="utf-8"))
    composed = whole["services"]["gatepost"]
    assert (
        list_values("--security-opt") == composed["security_opt"] and list_values("--cap-drop") == composed["cap_drop"]
    )
    assert list_values("--tmpfs") == composed["tmpfs"] and list_values("-p") == composed["ports"]
    assert [each.partition("=")[2] for each in list_values("-e")] == list(composed["environment"].values())
    assert list_values("--restart") == [composed["restart"]] and words[-1] == composed["image"]
    assert ("--init" in words, "--read-only" in words) == (composed["init"], composed["read_only"]) == (True, True)
    assert [each.partition(":")[2] for each in list_values("-v")] == [
        each.partition(":")[2] for each in composed["volumes"]
    ]


def test_every_row_of_the_security_table_names_tests_that_are_there() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    section = text.partition("## What is enforced")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| ") and "shown by" not in line]
    shown = {row[0].strip(): re.findall(r"`(tests/[\w/]+\.py)`", row[2]) for row in rows if len(row) == 3}
    assert len(shown) > 15
    missing = {what: name for what, names in shown.items() for name in names if not (ROOT / name).is_file()}
    assert missing == {}
    unprotected = {row[0].strip() for row in rows if len(row) == 3 and row[1].strip().startswith("not protected")}
    assert {what for what, names in shown.items() if not names} == unprotected


def test_the_page_of_each_channel_is_linked() -> None:
    text = (ROOT / "docs" / "channels.md").read_text(encoding="utf-8")
    assert [
        path.name for path in (ROOT / "docs" / "channels").glob("*.md") if f"(channels/{path.name})" not in text
    ] == []
