"""What providers and channels declare, and what of it comes into a sandbox."""

import importlib
from pathlib import Path

import pytest

from gatepost.channels.contract import CHANNELS, channel
from gatepost.core.errors import Invalid, SetupError
from gatepost.core.home import Home
from gatepost.core.registry import Registry
from gatepost.core.settings import Config
from gatepost.flow.sessions.sandbox import sandbox_requirements
from gatepost.flow.sessions.sandbox.provider_specs import list_own_providers, load_spec
from gatepost.inside.provider_spec import MediaHandling, MediaSupport, Mode, ProviderSpec
from gatepost.inside.providers.contract import SPECS
from gatepost.inside.sandbox_needs import DeclaredNeeds, Need

pytestmark = pytest.mark.on_disk

PLUGIN = """
from gatepost.inside.providers.contract import Need, provider
import nothing_that_is_here

PROGRAM = "bird"

@provider("parrot", programs=(PROGRAM, "seed"), mounts=(Need("/srv/songs", "songs"),), env={"BIRD_COLOUR": "green"})
class Parrot:
    pass
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.prepare()
    return made


def plug(home: Home, text: str, name: str = "parrot") -> None:
    (home.plugins / "providers" / f"{name}.py").write_text(text)


def program(path: Path, content: str = "\x7fELF") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    return path


def test_what_a_file_declares_is_read_and_the_file_not_run(home: Home) -> None:
    plug(home, PLUGIN)

    assert load_spec(home, "parrot").needs == DeclaredNeeds(
        programs=("bird", "seed"), mounts=(Need("/srv/songs", "songs"),), env={"BIRD_COLOUR": "green"}
    )
    assert load_spec(home, "nobody") == ProviderSpec(name="nobody")


@pytest.mark.parametrize("name", sorted(list_own_providers()))
def test_our_own_files_are_read_as_they_register_themselves(home: Home, name: str) -> None:
    importlib.import_module(f"gatepost.inside.providers.{name}")

    assert load_spec(home, name) == SPECS[name]


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ('env={"KEY": Need(secret="KEY")}', "wants the secret KEY.*bind it to the host"),
        ('mounts=(Need(secret="KEY"),)', "wants the secret KEY"),
        ('env={"GATEPOST_RUN": "/tmp"}', "sandbox's own"),
        ('env={"LD_PRELOAD": "/x"}', "sandbox's own"),
        ('env={"PATH": "/x"}', "sandbox's own"),
        ('programs=("../sh",)', "bare name"),
        ('mounts=(Need("songs", "songs"),)', "absolute path"),
        ("programs=find_them()", "written out"),
        ('colour="green"', "unknown field `colour`"),
        ('vendor="parrots"', "Invalid enum value 'parrots'"),
        ('package="--prefix=/"', "matching regex"),
        ('media={"image": "song"}', "Invalid enum value 'song'"),
        ('modes=("plan",)', "Expected `object`"),
        ('modes=(Mode("plan"),)', "written out"),
        ('modes=(Mode("p" * 3, "Plan"),)', "written out"),
        (f'title="{"x" * 81}"', "length <= 80"),
        ("title=1", "Expected `str`"),
        (f"env={dict.fromkeys(map('V{}'.format, range(33)), '')}", "length <= 32"),
    ],
)
def test_what_cannot_be_declared_is_refused_by_its_file(home: Home, declared: str, why: str) -> None:
    plug(home, f'@provider("parrot", {declared})\nclass Parrot: ...\n')

    with pytest.raises(SetupError, match=f"parrot.py.*{why}"):
        load_spec(home, "parrot")


def test_modes_media_and_the_way_to_connect_are_read_from_the_file_too(home: Home) -> None:
    folder = home.plugins / "providers" / "parrot"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        'PLAN = "plan"\n'
        '@provider("parrot", title="Parrot", modes=(Mode(PLAN, "Plan", description="Later."),), mode_option="song",'
        ' media={"audio": "both"}, vendor="openai", package="@birds/parrot", trial={"retries": 1})\nclass P: ...\n'
    )

    assert load_spec(home, "parrot") == ProviderSpec(
        name="parrot",
        title="Parrot",
        modes=(Mode("plan", "Plan", "Later."),),
        mode_option="song",
        media=MediaSupport(audio=MediaHandling.BOTH),
        vendor="openai",
        package="@birds/parrot",
        trial={"retries": 1},
    )


def test_every_argument_of_the_decorator_is_described() -> None:
    page = (Path(__file__).parents[4] / "docs" / "extend" / "provider.md").read_text(encoding="utf-8")

    assert [
        name for name in ProviderSpec.__struct_fields__ if f"`{name}`" not in page and f"    {name}=" not in page
    ] == ["name"]


def test_a_file_that_is_exchanged_is_read_again(home: Home) -> None:
    plug(home, '@provider("parrot", programs=("a",))\nclass P: ...\n')
    before = load_spec(home, "parrot").programs
    plug(home, '@provider("parrot", programs=("a", "b"))\nclass P: ...\n')

    assert (before, load_spec(home, "parrot").programs) == (("a",), ("a", "b"))


def test_a_program_is_the_named_one_then_the_connected_then_that_on_path(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = program(tmp_path / "bin/bird")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert sandbox_requirements.find_program(Config(), home, "bird") == on_path

    (home.path / "programs").mkdir()
    (home.path / "programs/bird").symlink_to(connected := program(tmp_path / "opt/bird-1.2"))
    assert sandbox_requirements.find_program(Config(), home, "bird") == connected

    named = program(tmp_path / "named")
    config = Config({"programs": (f"bird={named}",)})
    assert sandbox_requirements.find_program(config, home, "bird") == named
    assert sandbox_requirements.find_program(config, home, "unheard-of") is None


def test_what_lies_in_usr_needs_no_mount(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")

    assert sandbox_requirements.find_program(Config(), home, "true") is None


def test_usual_programs_are_seen_wherever_this_machine_has_them(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, data in (("rg", b"\x7fELF and so on"), ("uv", b"#!/nowhere/python")):
        program(tmp_path / name).write_bytes(data)
    monkeypatch.setenv("PATH", str(tmp_path))
    mounts = sandbox_requirements.program_mounts(Config(), home, "demo")
    assert {each.target: each.source for each in mounts} == {"/opt/gatepost/bin/rg": tmp_path / "rg"}


def test_a_provider_gets_its_own_programs_and_those_that_the_operator_named(home: Home, tmp_path: Path) -> None:
    plug(home, '@provider("parrot", programs=("bird", "unheard-of"))\nclass Parrot: ...\n')
    bird, tool = program(tmp_path / "bird"), program(tmp_path / "tool")
    (home.path / "programs").mkdir()
    (home.path / "programs/bird").symlink_to(bird)
    config = Config({"programs": (f"tool={tool}",)})

    assert {
        mount.target: (mount.source, mount.writable)
        for mount in sandbox_requirements.program_mounts(config, home, "parrot")
    } == {
        "/opt/gatepost/bin/tool": (tool, False),
        "/opt/gatepost/bin/bird": (bird, False),
    }
    assert [mount.source for mount in sandbox_requirements.program_mounts(config, home, "demo")] == [tool]


@pytest.mark.parametrize("entry", ["bird", "bird=bin/bird", "=/bin/bird", "a/b=/bin/bird"])
def test_a_named_program_must_be_a_name_and_a_path(home: Home, entry: str) -> None:
    with pytest.raises(SetupError, match="name=/absolute/path"):
        sandbox_requirements.program_mounts(Config({"programs": (entry,)}), home, "demo")


def test_a_named_program_that_is_gone_is_told_of(home: Home) -> None:
    with pytest.raises(SetupError, match="bird=/nowhere/bird is not there"):
        sandbox_requirements.program_mounts(Config({"programs": ("bird=/nowhere/bird",)}), home, "demo")


def test_a_providers_mount_that_is_not_allowed_keeps_it_from_starting(home: Home, tmp_path: Path) -> None:
    songs = tmp_path / "songs"
    songs.mkdir()
    plug(home, f'@provider("parrot", mounts=(Need("{songs}", "songs"),))\nclass Parrot: ...\n')

    with pytest.raises(Invalid, match=r"the provider parrot needs .*mounts_allowed"):
        sandbox_requirements.declared_mounts(Config(), home, "parrot")
    (granted,) = sandbox_requirements.declared_mounts(Config({"sandbox.mounts_allowed": (str(songs),)}), home, "parrot")
    assert granted.mount.target == "/workspace/extra/songs"


@pytest.fixture
def postcards(tmp_path: Path) -> Path:
    """A channel that wants something in every sandbox."""
    folder = tmp_path / "stamps"
    folder.mkdir()
    channel("postcards", mounts=(Need(str(folder), "stamps"),), env={"STAMPS": "/workspace/extra/stamps"})(
        type("P", (), {})
    )
    return folder


def test_a_channel_that_runs_gives_every_sandbox_what_it_declares(home: Home, postcards: Path) -> None:
    try:
        on = Config({"channels.on": ("mine=postcards",), "sandbox.mounts_allowed": (str(postcards),)})
        importlib.import_module("gatepost.app")  # which declares channels.on

        assert [each.mount.source for each in sandbox_requirements.declared_mounts(on, home, "demo")] == [postcards]
        assert sandbox_requirements.variables(on, home, "demo") == {"STAMPS": "/workspace/extra/stamps"}
        assert sandbox_requirements.variables(Config(), home, "demo") == {}
        assert sandbox_requirements.declared_mounts(Config({"channels.on": ("postcards",)}), home, "demo") == []
    finally:
        CHANNELS.drop("postcards")


def test_a_channel_cannot_bring_a_secret_inside() -> None:
    with pytest.raises(ValueError, match="the channel postcards wants the secret TOKEN"):
        channel("postcards", env={"TOKEN": Need(secret="TOKEN")}, registry=Registry("channel"))(type("P", (), {}))
