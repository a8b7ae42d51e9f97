"""Files that a command is given by name, to be read."""

from gatepost.core.errors import Invalid
from gatepost.core.home import expand_user


def read_bytes(option: str, name: str, most: int | None = None) -> bytes:
    """Return the contents of a file. `option`: by which it was named; `most`: bytes that it may have."""
    try:
        with expand_user(name).open("rb") as file:
            data = file.read() if most is None else file.read(most + 1)
    except OSError as error:
        raise Invalid(option, f"{name} cannot be read: {error.strerror}") from None
    if most is not None and len(data) > most:
        raise Invalid(option, f"{name} has more than {most} bytes")
    return data


def read_text(option: str, name: str, most: int | None = None) -> str:
    """Return the text of a file, as `read_bytes` does."""
    try:
        return read_bytes(option, name, most).decode()
    except UnicodeDecodeError:
        raise Invalid(option, f"{name} is no text in UTF-8") from None
