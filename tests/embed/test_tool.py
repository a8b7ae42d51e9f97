"""What a function says of itself becomes a schema; what a client sends becomes its arguments."""

import functools
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal

import pydantic
import pytest

from gatepost.embed import ToolHost
from gatepost.embed.tool import parse_docstring, read_function
from gatepost.jsonrpc.mcp_clients import configuration, configuration_text


@dataclass
class Guest:
    name: str
    age: int | None = None
    likes: list[str] = field(default_factory=list)


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


def book(
    name: Annotated[str, "on whose name"],
    guests: list[Guest],
    kind: Literal["inside", "outside"] = "inside",
    note: str | None = None,
    extras: dict[str, int] = {},  # noqa: B006  what a user may write
    *,
    size: Size = Size.SMALL,
    at: float = 19.5,
) -> str:
    """Book a table. Use cancel to undo it.

    Args:
        name: overruled by the annotation
        guests (list[Guest]): who comes,
            one for each
        at: the hour

    Returns:
        The number of the booking.
    """
    return f"{name} {guests} {kind} {note} {extras} {size} {at}"


def test_signature_and_docstring_make_the_schema() -> None:
    tool = read_function(book)
    assert tool.name == "book"
    assert tool.description == "Book a table. Use cancel to undo it.\n\nReturns:\n    The number of the booking."
    shown = tool.schema["properties"]
    assert shown["name"] == {"type": "string", "description": "on whose name"}
    assert shown["guests"]["description"] == "who comes, one for each"
    assert shown["guests"]["items"] == {"$ref": "#/$defs/Guest"}
    assert shown["kind"] == {"enum": ["inside", "outside"], "default": "inside"}
    assert shown["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert shown["extras"] == {"type": "object", "additionalProperties": {"type": "integer"}, "default": {}}
    assert shown["size"]["default"] == "small"
    assert shown["at"] == {"type": "number", "default": 19.5, "description": "the hour"}
    assert tool.schema["required"] == ["name", "guests"]
    assert tool.schema["$defs"]["Guest"]["required"] == ["name"]


def test_arguments_become_what_the_function_wants() -> None:
    given = read_function(book).read(b'{"name":"Ann","guests":[{"name":"Bo","likes":["tea"]}],"size":"large","at":20}')
    assert given["guests"] == [Guest("Bo", None, ["tea"])]
    assert given["size"] is Size.LARGE
    assert (given["kind"], given["note"], given["at"]) == ("inside", None, 20.0)
    with pytest.raises(ValueError, match=r"Expected `str`, got `int` - at `\$.guests\[0\].name`"):
        read_function(book).read(b'{"name":"Ann","guests":[{"name":3}]}')


def test_a_pydantic_model_is_described_and_read() -> None:
    class Inner(pydantic.BaseModel):
        n: int

    class Order(pydantic.BaseModel):
        inner: Inner

    def take(order: Order) -> Order:
        return order

    take.__annotations__ = {"order": Order}
    tool = read_function(take)
    assert tool.schema["properties"]["order"]["properties"]["inner"] == {"$ref": "#/$defs/Inner"}
    assert tool.schema["$defs"]["Inner"]["required"] == ["n"]
    assert tool.read(b'{"order":{"inner":{"n":1}}}')["order"] == Order(inner=Inner(n=1))
    with pytest.raises(ValueError, match="valid integer"):
        tool.read(b'{"order":{"inner":{"n":"x"}}}')


def test_methods_partials_decorated_functions_and_objects_are_functions_too() -> None:
    class Shop:
        def price(self, item: str) -> str:
            """Return what it costs."""
            return item

        async def __call__(self, item: str) -> str:
            return item

    @functools.wraps(book)
    def decorated(*args: Any, **kwargs: Any) -> str:
        return book(*args, **kwargs)

    assert set(read_function(Shop().price).schema["properties"]) == {"item"}
    assert read_function(Shop().price).description == "Return what it costs."
    assert not read_function(Shop()).blocking
    assert set(read_function(functools.partial(book, kind="outside")).schema["required"]) == {"name", "guests"}
    assert read_function(decorated).schema == read_function(book).schema


def test_what_cannot_be_offered_is_refused_at_the_start() -> None:
    def any_number(*numbers: int) -> int:
        return sum(numbers)

    def odd(thing: ToolHost) -> None: ...

    with pytest.raises(ValueError, match="numbers"):
        ToolHost([any_number])
    with pytest.raises(ValueError, match="odd: no JSON schema can be made of ToolHost: make it a dataclass"):
        ToolHost([odd])
    with pytest.raises(ValueError, match="two tools are called book"):
        ToolHost([book, book])
    with pytest.raises(ValueError, match="<lambda>"):
        ToolHost([lambda: None])
    with pytest.raises(RuntimeError, match="not running"):
        ToolHost([book]).mcp_config()


@pytest.mark.parametrize(
    "text",
    [
        "Do it.\n\nArgs:\n    a: first\n        and on\n    b (int): second\n",
        "Do it.\n\n:param a: first\n    and on\n:param int b: second\n",
        "Do it.\n\nParameters\n----------\na : str\n    first\n    and on\nb\n    second\n",
    ],
)
def test_every_usual_docstring_is_understood(text: str) -> None:
    words = parse_docstring(text.strip())
    assert words.text == "Do it."
    assert words.parameters == {"a": "first and on", "b": "second"}


def test_every_client_has_its_form() -> None:
    command = ["python", "-I", "bridge.py", 'a"b.sock']
    assert configuration("claude", "shop", command) == {
        "mcpServers": {"shop": {"type": "stdio", "command": "python", "args": command[1:]}}
    }
    assert configuration("opencode", "shop", command)["mcp"]["shop"]["command"] == command
    assert configuration("cursor", "shop", command)["mcpServers"]["shop"]["args"] == command[1:]
    assert configuration_text("codex", "shop", command) == (
        '[mcp_servers."shop"]\ncommand = "python"\nargs = ["-I", "bridge.py", "a\\"b.sock"]\n'
    )
