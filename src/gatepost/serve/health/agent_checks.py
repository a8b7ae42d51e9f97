"""The doctor's checks of what agents are given: keys outside, programs, plug-ins, mounts and limits inside."""

import shutil
import stat
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from gatepost.core.errors import GatepostError, SetupError
from gatepost.core.home import Home
from gatepost.core.keyring import FILE, Keyring
from gatepost.core.money import render_usd
from gatepost.core.settings import Config
from gatepost.egress import audio, embeddings, speech, web_search
from gatepost.egress.prices import FILE as FILE_OF_PRICES
from gatepost.egress.prices import find_price, load_own_prices
from gatepost.flow.sessions.host.host_uids import sandbox_uid, uid_range, world_of
from gatepost.flow.sessions.sandbox.extra_mounts import (
    MountRequest,
    grant_mount,
    may_write,
    parse_mount_request,
    parse_mount_target,
)
from gatepost.flow.sessions.sandbox.group_limits import limits_of
from gatepost.flow.sessions.sandbox.provider_specs import load_spec
from gatepost.flow.sessions.sandbox.sandbox_requirements import (
    PROGRAMS,
    find_program,
    list_channel_needs,
    parse_programs,
)
from gatepost.flow.sessions.session_deps import PROVIDER
from gatepost.flow.skills.skill_needs import has_program
from gatepost.gate.policies import SEARCH_SERVICE
from gatepost.inside.sandbox_needs import DeclaredNeeds
from gatepost.sandboxes import cgroups
from gatepost.serve.health.findings import Finding, Mend
from gatepost.serve.health.machine_checks import CLOSE, list_open_paths
from gatepost.store.engine.place import StorePlace, get_place
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.port import Db
from gatepost.store.rights import secrets
from gatepost.store.rights.secret_rows import Secret
from gatepost.store.rooms import channel_instances
from gatepost.store.sessions import groups, skills
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.skills import AgreedSkill, SkillFacts, render_folder

WEB_LIBRARIES = ("trafilatura", "pypdf")  # of the extra `web`
MOST_NAMED = 5  # secrets that do not open
SET_KEYS = "if agents need them: `gatepost secret set`, then `gatepost secret bind NAME HOST`"


def check_agents(home: Home, config: Config) -> list[Finding]:
    every, sealed = _read_groups(get_place(home, config))
    return [
        *_keyring(home, sealed),
        *_plugins(home, config),
        *_programs(home, config, every),
        *_mounts(home, config, every),
        *_limits(config, every),
        *_voice(home, config),
        *_memory(home, config),
        *_web(config, sealed),
        *_skills(home, config, {each.name for each in sealed}),
    ]


def _read_groups(place: StorePlace) -> tuple[list[Group], list[Secret]]:
    """Read the groups and the secrets; none of them if the store cannot be read, which another check reports."""

    def read(db: Db) -> tuple[list[Group], list[Secret]]:
        return groups.list_all(db), secrets.list_all(db)

    try:
        return read_snapshot(place, read) if place.exists() else ([], [])
    except GatepostError:
        return [], []


def _keyring(home: Home, every: list[Secret]) -> Iterator[Finding]:
    sealed = len(every)
    keyring = Keyring(home)
    try:
        ring = keyring.read()
    except SetupError as error:
        mend = CLOSE if home.path / FILE in list_open_paths(home) else None
        yield Finding("fail", "key ring", str(error), "until then no secret can be opened", mend)
        return
    if ring is None and sealed:
        what = "1 secret is" if sealed == 1 else f"{sealed} secrets are"
        text = f"{keyring.where} is missing, and {what} sealed with it"
        yield Finding("fail", "key ring", text, "bring it back, or set the secrets anew: `gatepost secret set`")
    elif ring is None:
        yield Finding("ok", "key ring", "none yet; the first secret makes it")
    else:
        how = f", mode {stat.S_IMODE((home.path / FILE).stat().st_mode):04o}" if keyring.is_file else ", read-only"
        keys = f"{len(ring.keys)} key{'' if len(ring.keys) == 1 else 's'}"
        secrets = f"{sealed} secret{'' if sealed == 1 else 's'}"
        yield Finding("ok", "key ring", f"{keyring.where}{how}, {keys}, {secrets}")
        if shut := sorted({each.name for each in every if each.key_id not in ring.keys}):
            text = (
                f"{', '.join(shut[:MOST_NAMED])}{' and more' if len(shut) > MOST_NAMED else ''} were sealed with a key"
            )
            cure = "set each anew (`gatepost secret set`), or bring the ring back that has the key"
            yield Finding("fail", "key ring", f"{text} that the ring lacks: they do not open", cure)


def _plugins(home: Home, config: Config) -> Iterator[Finding]:
    """A provider's file is loaded inside, by another user than ours if we are root."""
    uid = _sandbox_uid(config)
    folder = home.plugins / "providers"
    if uid is None or not folder.is_dir():
        return
    closed = [path for path in (folder, *sorted(folder.rglob("*.py"))) if not may_read(path, uid)]
    if closed:
        more = f" and {len(closed) - 1} more" if len(closed) > 1 else ""
        text = f"{closed[0]}{more} cannot be read inside sandboxes, which are uid {uid} (a umask of 077 does that)"
        yield Finding("warn", "plug-ins", text, f"chmod -R go+rX {folder}")


def _sandbox_uid(config: Config) -> int | None:
    try:
        return sandbox_uid(config)
    except SetupError:
        return None  # the sandboxes' own check says so


def _get_group_uid(home: Home, config: Config, folder: str) -> int | None:
    """None: the gateway's own, or one that is not assigned yet."""
    usual = _sandbox_uid(config)
    try:
        if usual is None or uid_range(config) is None:
            return usual
        return read_snapshot(get_place(home, config), groups.get_uid, world_of(folder))
    except GatepostError:
        return None


def may_read(path: Path, uid: int) -> bool:
    """By its own mode; the folders above it are seen to when a sandbox starts."""
    found = path.stat()
    wanted = 0o5 if stat.S_ISDIR(found.st_mode) else 0o4
    shift = 6 if found.st_uid == uid else 3 if found.st_gid == uid else 0
    return (found.st_mode >> shift) & wanted == wanted


def _programs(home: Home, config: Config, every: list[Group]) -> Iterator[Finding]:
    uid = _sandbox_uid(config)
    for provider in sorted({group.provider or config[PROVIDER] for group in every} | {config[PROVIDER]}):
        try:
            spec = load_spec(home, provider)
            wanted = {name: find_program(config, home, name) for name in spec.programs}
        except GatepostError as error:
            yield Finding("fail", "programs", str(error))
            continue
        for name, found in wanted.items():
            path = found or (Path(visible) if (visible := shutil.which(name)) else None)
            if path is None:
                text = f"{provider} is in use and needs the program {name}, which is not here"
                cure = f"gatepost connect {provider}, or name it in `programs`"
                user = next((each.folder for each in every if each.provider in (provider, "")), "")
                mend = Mend("connect.install", "Install it", {"folder": user, "provider": provider})
                yield Finding("warn", "programs", text, cure, mend if spec.package and user else None)
            elif uid is not None and not (path.stat().st_mode & stat.S_IXOTH and may_read(path, uid)):
                text = f"{path} cannot be run inside sandboxes, which are uid {uid}"
                yield Finding("warn", "programs", text, f"chmod go+rx {path}")
            else:
                yield Finding("ok", "programs", f"{provider}: {name} is {path}")


def _list_channel_needs(home: Home, config: Config) -> list[tuple[str, DeclaredNeeds]]:
    """None if the settings or the store are not well, which is told of elsewhere."""
    try:
        place = get_place(home, config)
        rows = read_snapshot(place, channel_instances.list_all) if place.exists() else []
        return list(list_channel_needs(config, rows))
    except GatepostError:
        return []


def _mounts(home: Home, config: Config, every: list[Group]) -> Iterator[Finding]:
    """Those that would be refused at a start, or cannot be written to."""
    wishes = [(group, wish) for group in every for wish in group.mounts]
    for group, wish in wishes:
        try:
            granted = grant_mount(config, home, parse_mount_request(wish))
        except GatepostError as error:
            text = f"group {group.folder} cannot start: {error}"
            yield Finding("fail", "mounts", text, "gatepost group set FOLDER mounts=…")
            continue
        uid, source = _get_group_uid(home, config, group.folder), granted.mount.source
        if uid is not None and granted.mount.writable and not may_write(source, uid):
            text = f"agents of {group.folder}, which are uid {uid}, may not write in {source}"
            yield Finding("warn", "mounts", text, f"chown {uid} {source}, or set sandbox.uid for all of them")
    for name, needs in _list_channel_needs(home, config):
        for need in needs.mounts:
            try:
                grant_mount(config, home, MountRequest(need.source, parse_mount_target(need.target), need.writable))
            except GatepostError as error:
                yield Finding("warn", "mounts", f"the channel {name} goes without: {error}")


def _limits(config: Config, every: list[Group]) -> Iterator[Finding]:
    known = {group.folder: group for group in every}
    above = {folder: [known[each] for each in _parents(folder) if each in known] for folder in known}
    slowed = [folder for folder, group in known.items() if limits_of(config, group, above[folder]).cpu_percent]
    if slowed and sys.platform == "linux" and not cgroups.can_limit_cpu(cgroups.find_own_bases()):
        text = f"cpu_percent of {', '.join(slowed[:3])} does not hold in bubblewrap: no cpu cgroup can be made here"
        yield Finding("warn", "limits", text, "hand the cpu controller down (systemd: Delegate=yes), or use podman")


def _voice(home: Home, config: Config) -> Iterator[Finding]:
    """Say what makes the transcripts of recordings, and speech. Settings that are not well are told of elsewhere."""
    try:
        named, speaks = parse_programs(config), speech.split_command(config)
        endpoint, command = audio.find_transcription_endpoint(config), audio.split_command(config)
        own = load_own_prices(home, config)
    except GatepostError:
        return
    model = endpoint.model if endpoint is not None else config[audio.MODEL]
    if speaks:
        text = f"speech is made in a sandbox of its own by {speaks[0]}"
        remedy = f"install it below /usr, or name it in {PROGRAMS.name}; {speech.COMMAND.name} names it"
        found = shutil.which(speaks[0]) or speaks[0] in named
        yield (
            Finding("ok", "speech", text) if found else Finding("warn", "speech", f"{text}, which is not here", remedy)
        )
    if endpoint is None and command:
        found = shutil.which(command[0]) or command[0] in named
        text = f"transcripts of recordings are made inside each sandbox by {command[0]}"
        remedy = f"install it below /usr, or mount it; {audio.COMMAND.name} names it"
        yield Finding("ok", "voice", text) if found else Finding("warn", "voice", f"{text}, which is not here", remedy)
    elif not model:
        text = "nothing makes transcripts of recordings: agents get the files alone"
        yield Finding("note", "voice", text, f"{audio.BASE.name} names a server that does, {audio.MODEL.name} a model")
    else:
        listed = find_price(model, own)
        price = endpoint.price if endpoint is not None and endpoint.price is not None else listed
        where = endpoint.base.url if endpoint is not None else "the OpenAI endpoint of each group"
        if price is None or (price is listed and not price.minute):
            text = f"{model} is to make transcripts at {where}, and has no price for a minute: it is not asked"
            remedy = f"set {audio.PRICE.name}" if endpoint is not None else f"give it one in {FILE_OF_PRICES.name}"
            yield Finding("warn", "voice", text, remedy)
            return
        cost = f"{render_usd(price.minute)} a minute" if price.minute else "at no cost"
        yield Finding("ok", "voice", f"transcripts of recordings are made by {model} at {where}, {cost}")


def _memory(home: Home, config: Config) -> Iterator[Finding]:
    """Say how memories are found. Settings that are not well are told of elsewhere."""
    try:
        endpoint = embeddings.find_embedding_endpoint(config)
        price = embeddings.find_embedding_price(home, config) if endpoint is not None else None
    except GatepostError:
        return
    if endpoint is None or price is None:
        text = "memories are found by their words alone"
        yield Finding("note", "memory", text, f"{embeddings.BASE.name} names an endpoint for embeddings")
        return
    cost = f"{render_usd(price.input)} for a million tokens" if price.input else "at no cost"
    where = f"{endpoint.model} at {endpoint.base.url}"
    yield Finding("ok", "memory", f"memories are found by their words and their meaning ({where}, {cost})")


def _web(config: Config, sealed: list[Secret]) -> Iterator[Finding]:
    """Say what reads pages, and who is asked to search. Settings that are not well are told of elsewhere."""
    missing = [name for name in WEB_LIBRARIES if find_spec(name) is None]
    if missing:
        text = f"fetch reads pages with all that stands around their text, and no PDF: {', '.join(missing)} is missing"
        yield Finding("note", "web", text, "pip install 'gatepost[web]'")
    try:
        service = web_search.find_search_service(config)
    except GatepostError:
        return
    if service is None:
        yield Finding("note", "search", "agents have no search_web", f"{SEARCH_SERVICE.name} names a service")
        return
    where = service.connector or str(service.url.target if service.url is not None else "")
    text = f"search_web asks {service.kind} ({where}), {render_usd(service.price)} a query"
    if service.needs_key and not any(each.name == web_search.SEARCH_API_KEY for each in sealed):
        remedy = f"gatepost secret set {web_search.SEARCH_API_KEY}"
        yield Finding("warn", "search", f"{text}; its key is missing", remedy)
        return
    yield Finding("ok", "search", text)


def _skills(home: Home, config: Config, keys: set[str]) -> Iterator[Finding]:
    """Name the programs and keys that agreed skills say they need, and that are not here."""

    def read(db: Db) -> tuple[list[AgreedSkill], dict[str, SkillFacts]]:
        rows = skills.list_all(db)
        contents = skills.list_contents(db, sorted({each.digest for each in rows}))
        return rows, {each.digest: each.read_facts() for each in contents}

    try:
        place = get_place(home, config)
        rows, facts = read_snapshot(place, read) if place.exists() else ([], {})
    except GatepostError:
        return
    for row in rows:
        needs = facts.get(row.digest, SkillFacts())
        whose = f"the skill {row.name} of {render_folder(row.folder)}"
        if programs := [each for each in needs.programs if not has_program(home, config, each)]:
            text = f"{whose} needs {', '.join(programs)}, which is not here"
            yield Finding("warn", "skills", text, f"install it below /usr, or name it in {PROGRAMS.name}")
        if missing := [each for each in needs.env if each not in keys]:
            yield Finding("note", "skills", f"{whose} names keys that are not set: {', '.join(missing)}", SET_KEYS)


def _parents(folder: str) -> list[str]:
    """The nearest first."""
    parts = folder.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]
