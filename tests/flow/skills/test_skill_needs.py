"""Steps before a skill can work: keys to set and to bind, programs to install."""

from pathlib import Path

from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.skills.skill_needs import has_program, list_steps
from gatepost.store.sessions.skills import SkillFacts

FACTS = SkillFacts(env=("OVEN_KEY", "MILL_KEY"), programs=("jq", "git"), hosts=("oven.example",))


def test_a_key_that_is_not_set_is_named_with_the_commands_and_its_host() -> None:
    (step,) = list_steps(FACTS, "acme", ["MILL_KEY"], lambda name: True)
    assert "`gatepost secret set OVEN_KEY --folder acme`" in step
    assert "`gatepost secret bind OVEN_KEY oven.example --folder acme`" in step


def test_with_several_hosts_nobody_is_told_to_send_the_key_to_one_of_them() -> None:
    two = SkillFacts(env=("OVEN_KEY",), hosts=("evil.example", "oven.example"))
    (step,) = list_steps(two, "", [], lambda name: True)
    assert "secret bind OVEN_KEY HOST`" in step and "example" not in step


def test_a_program_that_is_not_here_is_named_with_the_way_out() -> None:
    (step,) = list_steps(FACTS, "", FACTS.env, lambda name: name == "git")
    assert "the program jq is not here" in step and "`programs`" not in step and "programs" in step


def test_programs_are_looked_for_where_sandboxes_find_them(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert has_program(home, Config(), "sh") and not has_program(home, Config(), "no-such-program")
    broken = Config({"programs": ("no-such-program=/no/such/place",)})
    assert not has_program(home, broken, "no-such-program")
