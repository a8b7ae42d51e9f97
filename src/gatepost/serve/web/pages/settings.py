"""Settings: what is set, where from, what it means; a change is shown as a diff of gatepost.toml before it is
written."""

from collections.abc import Sequence

from gatepost.core.errors import Invalid, NotFound, SetupError
from gatepost.serve.control.arguments.settings import (
    ListSettingsArgs,
    SetSettingArgs,
    SettingChange,
    SettingOrigin,
    SettingShape,
    SettingView,
    UnsetSettingArgs,
)
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import link, made, make_facts, make_table, shorten
from gatepost.serve.web.dashboard.view import (
    Action,
    Badge,
    Block,
    Code,
    DiffBlock,
    Disclosure,
    EmptyState,
    Filter,
    FormInput,
    InputKind,
    Link,
    Note,
    PageView,
    Prose,
    StepForm,
    Tone,
)

# By the first part of their names.
SUBJECTS = {
    "Agents and conversations": (
        "agents",
        "engagement",
        "errands",
        "groups",
        "people",
        "programs",
        "providers",
        "questions",
        "sessions",
        "skills",
        "worktrees",
    ),
    "Models and money": ("anthropic", "budget", "embeddings", "google", "media", "memory", "openai", "prices", "tts"),
    "What agents can reach": ("connectors", "egress", "search", "tools"),
    "Walls and limits": ("sandbox",),
    "Messages and tasks": ("approvals", "delivery", "files", "intake", "language", "schedule"),
    "Channels": ("channels",),
    "Page and sign-in": ("control", "control_socket", "http", "listen", "web"),
    "Keeping, backups and alerts": ("alerts", "backup", "keep", "restore", "store"),
    "This machine": ("gateway", "gateways", "log", "telemetry", "timezone", "watchdog"),
}
SUBJECT_OF = {part: subject for subject, parts in SUBJECTS.items() for part in parts}
OTHER = "More"
WHICH = (("", "All"), ("set", "Set by somebody"), ("pending", "Waiting for a restart"))
NOTHING = EmptyState(text="Every setting has its default. Open one to change it.")
RESTART = "Settings were changed since the gateway started. `gatepost down` and `gatepost up` put them in use."


def render_value(value: object) -> str:
    """As it is written in the form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple | dict) else str(value)


def show_value(value: object, longest: int = 400) -> Code | None:
    return Code(shorten(render_value(value), longest)) if render_value(value) else None


SHORT_VALUE = made("value", "Value", lambda each: show_value(each.value, 22))
VALUE = made("value", "Value", lambda each: show_value(each.value))


def show_origin(setting: SettingView) -> Badge:
    if setting.is_pending:
        return Badge(f"{setting.origin}, after a restart", Tone.WARN)
    return Badge(setting.origin, Tone.QUIET if setting.origin == SettingOrigin.DEFAULT else Tone.GOOD)


ORIGIN = made("origin", "From", show_origin)
MEANING = made("help", "Meaning", lambda each: Prose(shorten(each.help, 110)))
SETTING = (link("name", "Setting", "/settings/{name}"), SHORT_VALUE, ORIGIN, MEANING)
DETAILS = (
    VALUE,
    ORIGIN,
    made("default", "Default", lambda each: show_value(each.default)),
    made("variable", "Variable", lambda each: Code(each.variable) if each.variable else None),
)


@page("/settings", "Settings", Section.SYSTEM, "settings.list", order=20)
async def show_settings(request: PageRequest) -> PageView:
    which = request.query.get("which", "")
    found = await request.ask(ListSettingsArgs())
    pending = any(each.is_pending for each in found)
    shown = [each for each in found if is_shown(each, which)]
    by_subject = not which and not request.query.get("q", "").strip()
    return PageView(
        blocks=[
            *([Note(text=RESTART, tone=Tone.WARN)] if pending else []),
            *(list_by_subject(shown) if by_subject else [make_table(shown, SETTING, NOTHING)]),
        ],
        filters=(Filter(name="which", label="Show", choices=WHICH, chosen=which),),
    )


def list_by_subject(found: Sequence[SettingView]) -> list[Block]:
    """Those that somebody set, then each subject, folded."""
    changed = [each for each in found if each.origin != SettingOrigin.DEFAULT]
    blocks: list[Block] = [make_table(changed, SETTING, NOTHING, title="Set by somebody")] if changed else []
    for subject in (*SUBJECTS, OTHER):
        if those := [each for each in found if find_subject(each.name) == subject]:
            table = make_table(those, SETTING, NOTHING)
            blocks.append(Disclosure(label=f"{subject} ({len(those)})", blocks=[table]))
    return blocks


def find_subject(name: str) -> str:
    return SUBJECT_OF.get(name.partition(".")[0], OTHER)


def is_shown(setting: SettingView, which: str) -> bool:
    if which == "pending":
        return setting.is_pending
    return which != "set" or setting.origin != SettingOrigin.DEFAULT


@page("/settings/{name}", "Setting", Section.SYSTEM, "settings.list")
async def show_setting(request: PageRequest) -> PageView:
    name = request.params["name"]
    setting = next((each for each in await request.ask(ListSettingsArgs()) if each.name == name), None)
    if setting is None:
        raise NotFound("setting", name[:80], "the page of settings lists them")
    blocks: list[Block] = [make_facts(setting, DETAILS)]
    if setting.is_pending:
        used = shorten(render_value(setting.in_use)) or "nothing"
        blocks.append(Note(text=f"The running gateway still uses {used}. {RESTART}", tone=Tone.WARN))
    if await request.may("settings.set"):
        wanted = request.query.get("value")
        blocks += make_change(setting, wanted)
        if wanted is not None or "unset" in request.query:
            blocks += await _preview(request, name, wanted)
    return PageView(title=name, lead=setting.help, blocks=blocks)


async def _preview(request: PageRequest, name: str, wanted: str | None) -> list[Block]:
    """Show the change before it is made. An error in a value stands below the form, which keeps the value."""
    try:
        if wanted is None:
            return make_preview(await request.ask(UnsetSettingArgs(name=name, dry_run=True)), None)
        return make_preview(await request.ask(SetSettingArgs(name=name, value=wanted, dry_run=True)), wanted)
    except (Invalid, SetupError) as error:
        return [Note(text=str(error), tone=Tone.BAD)]


def make_change(setting: SettingView, wanted: str | None) -> list[Block]:
    """A form whose answer is this page again, with what would change."""
    if setting.shape == SettingShape.SECRET:
        return [Note(text="It is a secret, kept sealed in the store. The page of channels sets it.")]
    if setting.shape == SettingShape.TABLE:
        return [Note(text="It is a table of tables, which is written in gatepost.toml by hand.")]
    if setting.origin == SettingOrigin.ENVIRONMENT:
        return [Note(text=f"{setting.variable} sets it, and wins over the file. Change it where that is set.")]
    choices = setting.choices or (("true", "false") if setting.shape == SettingShape.FLAG else ())
    value = FormInput(
        name="value",
        label="New value",
        kind=InputKind.CHOICE if choices else InputKind.TEXT,
        value=render_value(setting.value) if wanted is None else wanted,
        required=False,
        choices=choices,
        description="Several are parted by commas." if setting.shape == SettingShape.LIST else "",
    )
    usual = Link("Back to the default", "?unset=1") if setting.origin == SettingOrigin.FILE else None
    return [StepForm(steps=(), inputs=[value], submit="Show the change", skip=usual)]


def make_preview(change: SettingChange, wanted: str | None) -> list[Block]:
    """`wanted`: the new value; None: the setting is removed."""
    if not change.diff:
        return [Note(text=change.text, tone=Tone.GOOD)]
    args = {"name": change.name}
    if wanted is None:
        action = Action(label="Remove it", operation="settings.unset", args=args, tone=Tone.GOOD)
    else:
        action = Action(label="Write it", operation="settings.set", args=args | {"value": wanted}, tone=Tone.GOOD)
    return [
        DiffBlock(title="What changes in gatepost.toml", lines=change.diff),
        Note(text=change.text, action=action),
    ]
