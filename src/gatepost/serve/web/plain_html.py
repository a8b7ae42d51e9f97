"""A text as it was written: what the page shows where markdown is not rendered."""

from html import escape


def render_plain(text: str) -> str:
    """Safe HTML that shows every character of a text and gives no meaning to any of them."""
    return f"<pre>{escape(text)}</pre>"
