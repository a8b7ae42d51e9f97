"""The reader of markdown that judges adapters: it agrees with the product's own where both must."""

import pytest

from gatepost.messages.markdown.markup import strip_markdown as strip_by_product
from gatepost_testing.markdown_scanner import MarkdownScanner, strip_markdown

SAMPLES = [
    "**bold** and *thin* and __bold__ and _thin_ and ~~gone~~",
    "# Title\n\ntext",
    "see [the docs](https://example.org/a_b)",
    "run `make *all*` now",
    "```python\nx = a * b * c\n```\ndone",
    "2 * 3 * 4 and snake_case_name",
    r"a \*star\*",
    "- one\n- two",
]


@pytest.mark.parametrize("text", SAMPLES)
def test_both_readers_show_the_same_words(text: str) -> None:
    assert strip_markdown(text) == strip_by_product(text)


@pytest.mark.parametrize("unit", ["`a``b```c", '[a](b "', " **a", "*a _b ", "\\", "``` `"])
def test_the_work_grows_with_the_length_of_a_text_alone(unit: str) -> None:
    def count(size: int) -> int:
        scanner = MarkdownScanner()
        scanner.plain((unit * size)[:size])
        return scanner.visits

    assert count(8_000) <= 2.2 * count(4_000) + 100
