"""Makes a site of the documentation: `make site`. It stands in `site/<version>`, beside the versions made before it.

A dead link, a dead anchor or a page that the menu lacks ends it with exit code 1. `llms.txt` lists all pages with their
first sentences, and each page lies there as Markdown, too.
"""

import html
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from gatepost import __version__

ROOT = Path(__file__).resolve().parent.parent
DOCS, SITE, BUILT, CONFIG = ROOT / "docs", ROOT / "site", ROOT / "build" / "site", ROOT / "mkdocs.yml"
LISTED = re.compile(r"^ +- (?:([^:\n]+): )?(\S+\.md)?$", re.MULTILINE)  # a line of the menu: a section or a page
SENTENCE = re.compile(r".*?[.?!](?=\s|\Z)")
SUMMARY = "A self-hosted gateway between chat platforms and sandboxed AI agents."


class SiteError(Exception):
    """Why there is no site, for whoever asked for it."""


def list_menu(config: str) -> list[tuple[str, str]]:
    """Return (title, page) for each line of the menu. A section has no page; a page may have no title here."""
    menu = config.partition("\nnav:\n")[2].partition("\nvalidation:")[0]
    return [(title or "", page or "") for title, page in LISTED.findall(menu.replace(":\n", ": \n"))]


def find_unlisted(pages: set[str], config: str) -> set[str]:
    """Return pages that the menu lacks, and those that it names and that are not there."""
    return pages ^ {page for _, page in list_menu(config) if page}


def list_pages(docs: Path) -> set[str]:
    return {each.relative_to(docs).as_posix() for each in docs.rglob("*.md")}


def read_head(text: str) -> tuple[str, str]:
    """Return the title of a page and the first sentence below it."""
    title, _, rest = text.partition("\n")
    paragraph = next((part for part in rest.split("\n\n") if part.strip()[:1].isalnum()), "")
    found = SENTENCE.match(" ".join(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph).split()))
    return title.strip("# "), found[0] if found else ""


def render_list(docs: Path, config: str) -> str:
    """Write `llms.txt`: what a program that reads the documentation wants to know first."""
    lines = [f"# Gatepost {__version__}", "", f"> {SUMMARY}"]
    for title, page in list_menu(config):
        if not page:
            lines += ["", f"## {title}", ""]
            continue
        name, sentence = read_head((docs / page).read_text(encoding="utf-8"))
        lines.append(f"- [{name}]({page}): {sentence}".rstrip(": "))
    return "\n".join(lines) + "\n"


def list_versions(site: Path) -> Iterator[dict[str, object]]:
    """Yield each version that lies in the folder, the newest first, as the menu of versions wants it."""
    found = [each.name for each in site.iterdir() if re.fullmatch(r"\d+(\.\d+)+\w*", each.name)]
    for at, name in enumerate(sorted(found, key=_order, reverse=True)):
        yield {"version": name, "title": name, "aliases": [] if at else ["latest"]}


def _order(version: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", version)]


def build() -> Path:
    config = CONFIG.read_text(encoding="utf-8")
    if wrong := find_unlisted(list_pages(DOCS), config):
        raise SiteError(f"the menu of {CONFIG.name} and docs/ differ in {', '.join(sorted(wrong))}")
    shutil.rmtree(BUILT, ignore_errors=True)
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict", "--clean"]
    done = subprocess.run(
        [*command, "--config-file", str(CONFIG)], cwd=ROOT, env={**os.environ, "NO_COLOR": "1"}, capture_output=True
    )
    if done.returncode != 0:
        raise SiteError((done.stdout + done.stderr).decode(errors="replace").partition("Traceback")[0].strip())
    for page in list_pages(DOCS):
        (BUILT / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(DOCS / page, BUILT / page)
    (BUILT / "llms.txt").write_text(render_list(DOCS, config), encoding="utf-8")
    place = SITE / __version__
    shutil.rmtree(place, ignore_errors=True)
    SITE.mkdir(exist_ok=True)
    BUILT.rename(place)
    versions = list(list_versions(SITE))
    (SITE / "versions.json").write_text(json.dumps(versions, indent=1), encoding="utf-8")
    newest = html.escape(str(versions[0]["version"]))
    (SITE / "index.html").write_text(
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={newest}/index.html">'
        f'<title>Gatepost</title><a href="{newest}/index.html">Gatepost {newest}</a>\n',
        encoding="utf-8",
    )
    return place


def main() -> int:
    try:
        place = build()
    except SiteError as error:
        print(f"site: {error}", file=sys.stderr)
        return 1
    print(f"{place.relative_to(ROOT)}/index.html is made; `python -m http.server -d site` shows it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
