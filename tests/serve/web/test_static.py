"""Scripts of the pages, as files."""

import re
from collections import Counter
from pathlib import Path

import pytest

from gatepost.serve.web.site import STATIC

SCRIPTS = sorted(STATIC.glob("*.js"))
NAMED = re.compile(r"^\s*(?:export )?(?:async )?(?:function|class) (\w+)", re.MULTILINE)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_no_function_of_a_script_stands_twice(script: Path) -> None:
    """A merge once put a part of a file into a listener: each time it ran, forms were sent once more."""
    names = Counter(NAMED.findall(script.read_text(encoding="utf-8")))
    assert [name for name, times in names.items() if times > 1] == []
