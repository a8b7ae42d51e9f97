"""What a model behind an API does in its sandbox: files and commands."""

import os
from pathlib import Path
from typing import Any

import pytest

from gatepost.inside.local_tools import (
    LONGEST_OUTPUT,
    LONGEST_PART,
    MOST_LISTED,
    call_local_tool,
    find_local_tool,
    list_local_tools,
)
from gatepost.inside.mcp_client import McpToolResult
from gatepost.inside.providers.contract import ProviderContext
from gatepost.inside.workspace_files import LARGEST
from gatepost_testing.provider_context import make_context


@pytest.fixture
def place(tmp_path: Path) -> ProviderContext:
    (tmp_path / "ws" / "in" / "files").mkdir(parents=True)
    (tmp_path / "agent" / "skills").mkdir(parents=True)
    (tmp_path / "secret").write_text("not yours")
    return make_context(
        tmp_path / "ws", agent=tmp_path / "agent", start=tmp_path / "agent", router=tmp_path / "router.sock"
    )


async def use(place: ProviderContext, tool: str, **arguments: Any) -> McpToolResult:
    found = find_local_tool(tool, shell=True)
    assert found is not None
    return await call_local_tool(found, place, arguments)


async def test_it_reads_its_own_folder_and_what_came_with_messages(place: ProviderContext) -> None:
    (place.agent / "skills" / "a.md").write_text("how to")
    (place.workspace / "in" / "files" / "b.txt").write_text("words")

    assert (await use(place, "read_file", path="skills/a.md")).text == "how to"
    assert (await use(place, "read_file", path=str(place.workspace / "in" / "files" / "b.txt"))).text == "words"


async def test_a_picture_is_shown_and_one_that_is_too_large_is_not(place: ProviderContext) -> None:
    png = b"\x89PNG\r\n\x1a\n" + b"\0" * 100
    (place.agent / "a.txt").write_bytes(png)
    (place.agent / "b.png").write_bytes(png + b"x" * 3_700_000)
    assert (await use(place, "read_file", path="a.txt")).pictures == (png,)
    assert "make it smaller" in (await use(place, "read_file", path="b.png")).text


async def test_a_long_file_comes_in_parts(place: ProviderContext) -> None:
    (place.agent / "a.md").write_text("x" * LONGEST_PART + "end")
    first = (await use(place, "read_file", path="a.md")).text

    assert f"3 characters left; go on with offset {LONGEST_PART}" in first
    assert (await use(place, "read_file", path="a.md", offset=LONGEST_PART)).text == "end"


@pytest.mark.parametrize("path", ["../secret", "link", "missing", "pipe", "binary", "", ".", "a\0b", None, 7])
@pytest.mark.parametrize("tool", ["read_file", "edit_file"])
async def test_whatever_is_not_its_own_text_is_refused_in_words(tool: str, place: ProviderContext, path: Any) -> None:
    (place.agent / "link").symlink_to(place.agent.parent / "secret")
    (place.agent / "binary").write_bytes(b"\0\1\xff")
    os.mkfifo(place.agent / "pipe")
    more = {"old": "not", "new": "all"} if tool == "edit_file" else {}
    answer = await use(place, tool, path=path, **more)

    assert answer.is_error and answer.text and "not yours" not in answer.text
    assert (place.agent.parent / "secret").read_text() == "not yours"


async def test_a_file_is_written_whole_with_the_folders_above_it(place: ProviderContext) -> None:
    answer = await use(place, "write_file", path="notes/new/a.md", content="größer\n")
    assert (answer.is_error, answer.text) == (False, "notes/new/a.md: 9 bytes written")
    assert (place.agent / "notes/new/a.md").read_text() == "größer\n"
    assert [each.name for each in (place.agent / "notes/new").iterdir()] == ["a.md"]


@pytest.mark.parametrize("path", ["../out", "link", "skills", "pipe", "", "a\0b", None])
async def test_nothing_is_written_outside_or_over_what_is_no_file(path: Any, place: ProviderContext) -> None:
    (place.agent / "link").symlink_to(place.agent.parent / "secret")
    os.mkfifo(place.agent / "pipe")
    answer = await use(place, "write_file", path=path, content="mine")
    assert answer.is_error and answer.text
    assert (place.agent.parent / "secret").read_text() == "not yours"
    assert not (place.agent.parent / "out").exists()


async def test_a_text_that_is_too_large_leaves_the_file_as_it_was(place: ProviderContext) -> None:
    (place.agent / "a.md").write_text("old")
    answer = await use(place, "write_file", path="a.md", content="x" * (LARGEST + 1))
    assert answer.is_error and "more than" in answer.text
    assert (place.agent / "a.md").read_text() == "old"
    assert [each.name for each in place.agent.iterdir() if each.is_file()] == ["a.md"]


async def test_a_piece_is_replaced_where_it_stands_once_or_everywhere_if_asked(place: ProviderContext) -> None:
    (place.agent / "run.sh").write_text("one two one")
    (place.agent / "run.sh").chmod(0o755)
    assert "stands there 2 times" in (await use(place, "edit_file", path="run.sh", old="one", new="1")).text
    assert "does not stand there" in (await use(place, "edit_file", path="run.sh", old="six", new="6")).text
    assert (await use(place, "edit_file", path="run.sh", old="two", new="2")).text == "run.sh: 1 replaced"
    assert (await use(place, "edit_file", path="run.sh", old="one", new="1", all=True)).text == "run.sh: 2 replaced"
    assert (place.agent / "run.sh").read_text() == "1 2 1"
    assert (place.agent / "run.sh").stat().st_mode & 0o777 == 0o755


async def test_a_folder_is_listed_and_files_are_found_by_a_pattern(place: ProviderContext) -> None:
    (place.agent / "skills" / "a.md").write_text("12345")
    (place.agent / "loop").symlink_to(place.agent)
    assert (await use(place, "list_files")).text.splitlines()[-1] == "skills/"
    assert (await use(place, "list_files", pattern="**/*.md")).text == "skills/a.md  5"
    assert (await use(place, "list_files", path="..")).is_error
    assert (await use(place, "list_files", pattern="/etc/*")).is_error
    assert (await use(place, "list_files", path="nowhere")).is_error


async def test_a_listing_is_bounded_and_says_so(place: ProviderContext) -> None:
    for number in range(MOST_LISTED + 5):
        (place.agent / f"f{number}").touch()
    lines = (await use(place, "list_files")).text.splitlines()
    assert len(lines) == MOST_LISTED + 1
    assert lines[-1].startswith("[6 more")  # with the folder of skills


async def test_a_command_runs_where_the_agent_starts_and_says_how_it_ended(place: ProviderContext) -> None:
    ok = await use(place, "run", command="pwd; echo oops >&2; touch made")
    assert (ok.is_error, ok.text.splitlines()) == (False, [str(place.agent), "oops"])
    assert (place.agent / "made").exists()
    failed = await use(place, "run", command="echo partly; exit 3")
    assert (failed.is_error, failed.text) == (True, "partly\n[exit code 3]")
    assert (await use(place, "run", command="true")).text == "(no output)"


async def test_a_command_that_takes_too_long_is_ended_with_its_children(place: ProviderContext) -> None:
    answer = await use(place, "run", command="(sleep 30; touch late) & sleep 30", seconds=1)
    assert answer.is_error and "more than 1 seconds" in answer.text


async def test_long_output_keeps_its_beginning_and_its_end(place: ProviderContext) -> None:
    answer = await use(place, "run", command="echo first; yes | head -c 100000; echo last")
    assert answer.text.startswith("first\n") and answer.text.endswith("last")
    assert "characters left out" in answer.text and len(answer.text) < LONGEST_OUTPUT + 100


async def test_an_argument_that_there_is_not_is_named_with_those_that_there_are(place: ProviderContext) -> None:
    answer = await use(place, "run", cmd="true")
    assert (answer.is_error, answer.text) == (True, "cmd: there is no such argument; there are command, seconds")


def test_without_a_shell_no_command_is_offered_or_run() -> None:
    assert "run" not in [each.name for each in list_local_tools(shell=False)]
    assert find_local_tool("run", shell=False) is None
    assert find_local_tool("write_file", shell=False) is not None
