"""Text is cleaned at the edge: what the store and the mailbox hold is always encodable and free of NUL."""


def clean(text: str) -> str:
    """Without NUL and lone surrogates; everything else stays as it was written."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
