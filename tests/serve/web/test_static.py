"""Scripts of the pages, as files."""

import json
import re
import struct
from collections import Counter
from pathlib import Path

import pytest

from gatepost.serve.web.static_pages import STATIC

SCRIPTS = sorted(STATIC.glob("*.js"))
NAMED = re.compile(r"^\s*(?:export )?(?:async )?(?:function|class) (\w+)", re.MULTILINE)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_no_function_of_a_script_stands_twice(script: Path) -> None:
    """A merge once put a part of a file into a listener: each time it ran, forms were sent once more."""
    names = Counter(NAMED.findall(script.read_text(encoding="utf-8")))
    assert [name for name, times in names.items() if times > 1] == []


def test_the_icons_of_the_installed_chat_have_the_sizes_that_the_manifest_says_and_are_small() -> None:
    icons = json.loads((STATIC / "manifest.json").read_text(encoding="utf-8"))["icons"]
    drawn = [each for each in icons if each["type"] == "image/png"]
    assert {each["sizes"] for each in drawn} == {"192x192", "512x512"}
    for each in drawn:
        data = (STATIC / Path(each["src"]).name).read_bytes()
        width, height = struct.unpack(">II", data[16:24])
        assert data.startswith(b"\x89PNG") and each["sizes"] == f"{width}x{height}"
        assert len(data) <= 10_000


WRITES_ITSELF = {
    "csrf.js",
    "login.js",
    "invite.js",
    "link_wire.js",
}  # signs in first, or shows a token of its own and no cookie


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_writes_by_the_one_function_that_adds_the_browsers_token(script: Path) -> None:
    found = re.search(r"\bfetch\([^;]*\bmethod:", script.read_text(encoding="utf-8"))
    assert found is None or script.name in WRITES_ITSELF, "use `send` of csrf.js: without the token it is refused"


def read_tokens(css: str) -> set[str]:
    return set(re.findall(r"(--[\w-]+):", css))


def test_every_colour_that_a_style_uses_is_declared_in_light_and_dark() -> None:
    """One that is not takes the whole line with it: a border of an unknown colour is no border."""
    for names in (("page.css",), ("page.css", "dashboard.css")):
        css = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in names)
        dark = "\n".join(re.findall(r"prefers-color-scheme: dark\) \{\n(.*?)\n\}", css, re.DOTALL))
        used = set(re.findall(r"var\((--[\w-]+)", css))
        fixed = set(re.findall(r"(--[\w-]+): #", css))  # others are made from these
        assert used <= read_tokens(css) and fixed <= read_tokens(dark)
