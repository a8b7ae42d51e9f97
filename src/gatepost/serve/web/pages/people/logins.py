"""Sign-ins: the browsers in which a person is signed in, how to end one or all, and their passkeys."""

from collections.abc import Sequence

from gatepost.core.records import replace
from gatepost.serve.control.arguments.credentials import (
    LOGINS_READ,
    BrowserLoginView,
    ListLoginsArgs,
    ListPasskeysArgs,
    PasskeyList,
    PasskeyView,
    ShowSignInArgs,
    SignInState,
)
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import made, make_columns, make_facts, make_table
from gatepost.serve.web.dashboard.view import (
    Action,
    Badge,
    Block,
    Cell,
    EmptyState,
    Filter,
    FormInput,
    InputKind,
    Note,
    PageView,
    ScriptForm,
    Tone,
)

WHOSE = (("", "Mine"), ("all", "Everybody's"))
EMPTY = EmptyState(
    text="No browser is signed in as you. This prints an address that does it:", command="gatepost login"
)
LEAD = "Each browser stays signed in for some weeks. Sign out what you do not know or use no more."
PASSKEY = make_columns(PasskeyView)
OWN_PASSKEY = make_columns(PasskeyView, without=("person",))
NO_PASSKEY = EmptyState(text="You have no passkey. Add one below: then you sign in with your device alone.")
PASSKEYS_OFF = "Passkeys are off, so these sign nobody in. The setting web.passkey_login switches them on."
PASSKEY_HELP = (
    "Your phone, computer or security key keeps it. It works for the address by which you open this page now, which"
    " must begin with https:// or be http://localhost. Add it within ten minutes of signing in."
)
PASSKEY_FORM = ScriptForm(
    script="passkey_form.js",
    inputs=[FormInput(name="label", label="What you call it", kind=InputKind.TEXT, required=True, example="My phone")],
    submit="Add a passkey",
    title="Add a passkey",
    help=PASSKEY_HELP,
)


def _show_this(login: BrowserLoginView) -> Cell:
    return Badge("this browser", Tone.GOOD) if login.is_this else ""


THIS = {"is_this": made("is_this", "Where", _show_this)}
BROWSER = make_columns(BrowserLoginView, THIS)
OWN_BROWSER = make_columns(BrowserLoginView, THIS, without=("person",))


@page("/logins", "Sign-ins", Section.ACCESS, "login.list", order=40)
async def show_logins(request: PageRequest) -> PageView:
    sees_all = await request.has_right(LOGINS_READ)
    everybody = sees_all and request.query.get("whose") == "all"
    found = await request.ask(ListLoginsArgs(everybody=everybody))
    view = make_logins_view(found, await request.ask(ShowSignInArgs()), sees_all, everybody)
    passkeys = await request.ask(ListPasskeysArgs(everybody=everybody))
    return replace(view, blocks=[*view.blocks, *make_passkey_blocks(passkeys, everybody)])


def make_logins_view(
    found: Sequence[BrowserLoginView], state: SignInState, sees_all: bool, everybody: bool
) -> PageView:
    """`state`: how the person signs in. `sees_all`: they may see those of other people; `everybody`: they do."""
    fields = BROWSER if everybody else OWN_BROWSER
    whose = Filter(name="whose", label="Whose", choices=WHOSE, chosen="all" if everybody else "")
    return PageView(
        blocks=[*_list_facts(state), make_table(found, fields, EMPTY, actions=list_actions)],
        lead=LEAD,
        filters=(whose,) if sees_all else (),
        actions=(
            *_list_password_actions(state),
            Action(label="Sign out elsewhere", operation="login.end_all", args={"keep_this": True}, asks=True),
            Action(label="Sign out everywhere", operation="login.end_all", asks=True, tone=Tone.BAD),
        ),
    )


def list_actions(login: BrowserLoginView) -> tuple[Action, ...]:
    return (Action(label="Sign out", operation="login.end", args={"id": login.id}, asks=True, tone=Tone.BAD),)


def _list_facts(state: SignInState) -> list[Block]:
    return [make_facts(state, make_columns(SignInState))] if state.password_login else []


def _list_password_actions(state: SignInState) -> tuple[Action, ...]:
    if not state.password_login:
        return ()
    label = "Change password" if state.changed_at else "Set a password"
    change = Action(label=label, operation="login.set_password", asks=True)
    remove = Action(label="Remove password", operation="login.remove_password", asks=True, tone=Tone.BAD)
    return (change, remove) if state.changed_at else (change,)


def make_passkey_blocks(answer: PasskeyList, everybody: bool) -> list[Block]:
    """Make the blocks of passkeys: those of a person, and the form that adds one. No blocks if they are off and unused.

    `everybody`: those of other people are among them.
    """
    fields = PASSKEY if everybody else OWN_PASSKEY
    table = make_table(answer.passkeys, fields, NO_PASSKEY, title="Passkeys", actions=list_passkey_actions)
    if answer.missing:
        return [table, Note(text="The library for passkeys is not installed.", hint=answer.missing, tone=Tone.WARN)]
    if answer.is_on:
        return [table, PASSKEY_FORM]
    return [table, Note(text=PASSKEYS_OFF, tone=Tone.QUIET)] if answer.passkeys else []


def list_passkey_actions(passkey: PasskeyView) -> tuple[Action, ...]:
    return (Action(label="Remove", operation="passkey.rm", args={"id": passkey.id}, asks=True, tone=Tone.BAD),)
