"""Values of JSON that strangers wrote: what is not as expected counts as empty."""

from typing import Any


def read_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def list_objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def read_text(value: Any) -> str:
    return value if isinstance(value, str) else ""
