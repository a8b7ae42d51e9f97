"""Files that a release has beside its packages: the bill of materials, the notes, and the sums of all.

The bill is CycloneDX in JSON. It lists what the wheel asks for in its metadata and what that needs in turn, in the
versions and with the hashes of the locks, and who needs whom. What an extra brings is marked as optional. Licences come
from the metadata of what is installed here, which has to be what is locked.
"""

import hashlib
import json
import re
import uuid
from collections.abc import Iterable
from email.message import Message
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCKED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^ ;\\]+)", re.MULTILINE)
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
SPEC = "1.6"
NOTES, SUMS = "RELEASE_NOTES.md", "SHA256SUMS"
LONGEST_LICENCE = 100  # characters; some put the whole text where its name belongs

Locked = dict[str, tuple[str, list[str]]]  # by name, the version and the hashes of its files


def read_locks(paths: Iterable[Path]) -> Locked:
    found: Locked = {}
    for path in paths:
        text = path.read_text(encoding="utf-8")
        starts = [*LOCKED.finditer(text)]
        for number, each in enumerate(starts):
            end = starts[number + 1].start() if number + 1 < len(starts) else len(text)
            found.setdefault(canonicalize_name(each[1]), (each[2], HASH.findall(text[each.start() : end])))
    return found


def read_wheel(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(name).decode())


def list_needed(requirements: Iterable[str], extras: Iterable[str]) -> list[Requirement]:
    """Return those that hold here with one of these extras; '' stands for none."""
    environment = {key: str(value) for key, value in default_environment().items()}
    parsed = map(Requirement, requirements)
    return [
        each
        for each in parsed
        if each.marker is None or any(each.marker.evaluate({**environment, "extra": extra}) for extra in extras)
    ]


def follow(direct: Iterable[Requirement], locked: Locked) -> dict[str, list[str]]:
    """Return what is needed, directly or not, with what each of it needs. What is not locked is left out."""
    needs: dict[str, set[str]] = {}
    seen: dict[str, set[str]] = {}
    waiting = [(canonicalize_name(each.name), frozenset(each.extras)) for each in direct]
    while waiting:
        name, extras = waiting.pop()
        if name not in locked or {"", *extras} <= seen.get(name, set()):
            continue
        seen.setdefault(name, set()).update(("", *extras))
        further = list_needed(_find_requirements(name), seen[name])
        named = {canonicalize_name(each.name) for each in further} & locked.keys()
        needs.setdefault(name, set()).update(named)
        waiting += [(canonicalize_name(each.name), frozenset(each.extras)) for each in further]
    return {name: sorted(needs[name]) for name in sorted(needs)}


def _find_requirements(name: str) -> list[str]:
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:  # of an extra that is not installed here
        return []


def make_bill(wheel: Path, locks: Iterable[Path], made_at: str) -> dict[str, object]:
    """`made_at`: a moment as RFC 3339 has it."""
    about, locked = read_wheel(wheel), read_locks(locks)
    requirements = [str(each) for each in about.get_all("Requires-Dist", [])]
    extras = [str(each) for each in about.get_all("Provides-Extra", [])]
    core = list_needed(requirements, [""])
    needed = follow(core, locked)
    every = follow(list_needed(requirements, ["", *extras]), locked)
    name, version = str(about["Name"]), str(about["Version"])
    own, digest = _make_purl(name, version), hashlib.sha256(wheel.read_bytes()).hexdigest()
    direct = sorted({canonicalize_name(each.name) for each in core} & locked.keys())
    components = [_make_component(each, *locked[each], optional=each not in needed) for each in every]
    graph = [{"ref": own, "dependsOn": [_refer(each, locked) for each in direct]}]
    graph += [
        {"ref": _refer(each, locked), "dependsOn": [_refer(other, locked) for other in others]}
        for each, others in every.items()
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{own}#{digest}')}",
        "version": 1,
        "metadata": {
            "timestamp": made_at,
            "lifecycles": [{"phase": "build"}],
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": name,
                "version": version,
                "description": str(about["Summary"]),
                "licenses": [{"expression": str(about["License-Expression"])}],
                "purl": own,
                "hashes": [{"alg": "SHA-256", "content": digest}],
            },
        },
        "components": components,
        "dependencies": graph,
    }


def _make_purl(name: str, version: str) -> str:
    return f"pkg:pypi/{canonicalize_name(name)}@{version}"


def _refer(name: str, locked: Locked) -> str:
    return _make_purl(name, locked[name][0])


def _make_component(name: str, version: str, hashes: list[str], *, optional: bool) -> dict[str, object]:
    purl = _make_purl(name, version)
    made: dict[str, object] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "scope": "optional" if optional else "required",
        "purl": purl,
        "externalReferences": [
            {
                "type": "distribution",
                "url": purl,
                "comment": "the files that the lock takes for it",
                "hashes": [{"alg": "SHA-256", "content": each} for each in hashes],
            }
        ],
    }
    if licence := _find_licence(name, version):
        made["licenses"] = [licence]
    return made


def _find_licence(name: str, version: str) -> dict[str, object] | None:
    """None: it is not installed, or says nothing short enough to be a name."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    if canonicalize_name(version) != canonicalize_name(about["Version"]):
        raise ValueError(f"{name} {version} is locked, and {about['Version']} is installed; run `make setup-test`")
    if "License-Expression" in about:
        return {"expression": about["License-Expression"]}
    classified = [each.rpartition(" :: ")[2] for each in about.get_all("Classifier") or () if "License ::" in each]
    text = classified[0] if classified else about.get("License", "")
    return {"license": {"name": text}} if 0 < len(text) <= LONGEST_LICENCE and "\n" not in text else None


def cut_notes(changelog: str, version: str) -> str:
    """Return the section of a version as a text of its own."""
    _, marker, rest = changelog.partition(f"\n## [{version}] - ")
    day, _, entries = rest.partition("\n")
    if not marker:
        raise ValueError(f"the changelog has no section {version}")
    return f"# Gatepost {version}\n\n{day}\n\n{entries.partition(chr(10) + '## [')[0].strip()}\n"


def render_sums(paths: Iterable[Path]) -> str:
    """Return the lines that `sha256sum --check` reads."""
    return "".join(f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in sorted(paths))


def write_beside(wheel: Path, locks: Iterable[Path], changelog: str, version: str, made_at: str) -> None:
    """Write the bill, the notes and the sums into the folder of the packages."""
    folder = wheel.parent
    bill = json.dumps(make_bill(wheel, locks, made_at), indent=1) + "\n"
    (folder / f"gatepost-{version}.cdx.json").write_text(bill, encoding="utf-8")
    (folder / NOTES).write_text(cut_notes(changelog, version), encoding="utf-8")
    packages = [each for each in folder.iterdir() if each.name != SUMS]
    (folder / SUMS).write_text(render_sums(packages), encoding="utf-8")
