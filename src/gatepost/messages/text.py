"""Text is cleaned at the edge: what the store and the mailbox hold is always encodable and free of NUL."""


def one_line(text: str) -> str:
    """What can be seen of it, on one line: for titles and names, which others read in lists."""
    return " ".join("".join(char if char.isprintable() else " " for char in clean(text)).split())


def clean(text: str) -> str:
    """Without NUL and lone surrogates; everything else stays as it was written."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
