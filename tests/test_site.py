"""The site of the documentation: its menu, its list for programs, its versions; and what stops it."""

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from gatepost import __version__

ROOT = Path(__file__).resolve().parent.parent
NEEDS_ZENSICAL = pytest.mark.skipif(not importlib.util.find_spec("zensical"), reason="`make test-all` installs it")


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """Of a copy of the documentation."""
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "scripts" / "build_site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    places = {"DOCS": "docs", "SITE": "site", "BUILT": "build/site", "CONFIG": "mkdocs.yml"}
    for name, place in {"ROOT": ".", **places}.items():
        monkeypatch.setattr(module, name, tmp_path / place)
    return module


def test_the_menu_lists_every_page_once(site: ModuleType) -> None:
    menu = [page for _, page in site.list_menu(site.CONFIG.read_text()) if page]
    assert sorted(menu) == sorted(site.list_pages(site.DOCS))


def test_a_page_that_the_menu_lacks_stops_the_site(site: ModuleType) -> None:
    (site.DOCS / "lost.md").write_text("# Lost\n")
    with pytest.raises(site.SiteError, match=r"differ in lost\.md"):
        site.build()


def test_the_list_for_programs_has_each_page_with_its_first_sentence(site: ModuleType) -> None:
    (site.DOCS / "guides" / "at-home.md").write_text("# At home\n\n- a list\n\nOne [machine](x.md). Two.\n")
    lines = site.render_list(site.DOCS, site.CONFIG.read_text()).splitlines()
    assert lines[0] == f"# Gatepost {__version__}"
    assert lines[lines.index("## Guides") + 2] == "- [At home](guides/at-home.md): One machine."
    assert sum(line.startswith("- [") for line in lines) == len(site.list_pages(site.DOCS))


def test_versions_are_listed_by_their_numbers_the_newest_as_the_latest(site: ModuleType, tmp_path: Path) -> None:
    for name in ("0.9.0", "0.10.0", "assets"):
        (tmp_path / "s" / name).mkdir(parents=True)
    found = [(each["version"], each["aliases"]) for each in site.list_versions(tmp_path / "s")]
    assert found == [("0.10.0", ["latest"]), ("0.9.0", [])]


@pytest.mark.slow
@NEEDS_ZENSICAL
def test_a_site_lies_beside_those_of_other_versions_and_asks_no_other_host(site: ModuleType) -> None:
    (site.SITE / "0.0.1").mkdir(parents=True)
    place = site.build()
    assert place == site.SITE / __version__
    assert [each["version"] for each in json.loads((site.SITE / "versions.json").read_text())] == [__version__, "0.0.1"]
    assert __version__ in (site.SITE / "index.html").read_text()
    page = (place / "guides" / "at-home.html").read_text()
    assert "Run it at home" in page and (place / "guides" / "at-home.md").exists() and (place / "llms.txt").exists()
    assert not [host for host in ("fonts.googleapis", "cdn.", "unpkg") if host in page]


@pytest.mark.slow
@NEEDS_ZENSICAL
@pytest.mark.parametrize("link", ["nowhere.md", "install.md#nowhere"])
def test_a_dead_link_stops_the_site_and_is_named(site: ModuleType, link: str) -> None:
    with (site.DOCS / "concepts.md").open("a") as page:
        page.write(f"\n[dead]({link})\n")
    with pytest.raises(site.SiteError, match="concepts"):
        site.build()
