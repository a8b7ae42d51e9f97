"""Passkeys on the page of sign-ins: those that a person has, and how they add one."""

from collections.abc import Mapping
from typing import Any

from gatepost.serve.web.dashboard.tables import Answer, code, make_table, moment, text
from gatepost.serve.web.dashboard.view import (
    Action,
    Block,
    EmptyState,
    FormInput,
    InputKind,
    Note,
    ScriptForm,
    Tone,
)

FIELDS = (
    text("label", "Passkey"),
    code("host", "Works on"),
    moment("last_used_at", "Last used"),
    moment("created_at", "Added"),
)
PERSON = text("person", "Person")
EMPTY = EmptyState(text="You have no passkey. Add one below: then you sign in with your device alone.")
OFF = "Passkeys are off, so these sign nobody in. The setting web.passkey_login switches them on."
HELP = (
    "Your phone, computer or security key keeps it. It works for the address by which you open this page now, which"
    " must begin with https:// or be http://localhost. Add it within ten minutes of signing in."
)
FORM = ScriptForm(
    script="passkey_form.js",
    inputs=[FormInput(name="label", label="What you call it", kind=InputKind.TEXT, required=True, example="My phone")],
    submit="Add a passkey",
    title="Add a passkey",
    help=HELP,
)


def make_passkey_blocks(answer: Mapping[str, Any], everybody: bool) -> list[Block]:
    """None if they are off and there are none. `everybody`: those of other people are among them."""
    fields = (PERSON, *FIELDS) if everybody else FIELDS
    found: list[Answer] = answer["passkeys"]
    table = make_table(found, fields, EMPTY, title="Passkeys", actions=list_actions)
    if answer["missing"]:
        return [table, Note(text="The library for passkeys is not installed.", hint=answer["missing"], tone=Tone.WARN)]
    if answer["is_on"]:
        return [table, FORM]
    return [table, Note(text=OFF, tone=Tone.QUIET)] if found else []


def list_actions(passkey: Answer) -> tuple[Action, ...]:
    return (Action(label="Remove", operation="passkey.rm", args={"id": passkey["id"]}, asks=True, tone=Tone.BAD),)
