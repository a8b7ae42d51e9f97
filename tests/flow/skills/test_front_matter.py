"""Front matter as others write it: what they mean is read, and nothing takes long."""

import pytest

from gatepost.flow.skills.front_matter import LARGEST, read_front_matter

READ = {
    "plain": ("name: bake\ndescription: Use it for bread.", "Use it for bread."),
    "folded": ("description: >-\n  Use it for\n  bread.\nlicense: x", "Use it for bread."),
    "literal": ("description: |\n  Use it\n  for bread.", "Use it for bread."),
    "double quotes": ('description: "Use it: for bread."', "Use it: for bread."),
    "single quotes": ("description: 'It''s for bread.'", "It's for bread."),
    "a colon in it": ("name: bake\ndescription: Use when: bread is wanted", "Use when: bread is wanted"),
    "on several lines": ("description: Use it\n  for bread.", "Use it for bread."),
    "a comment": ("description: Use it for bread.  # not cake", "Use it for bread."),
    "escapes": ('description: "Use it\\tfor \\u0062read."', "Use it for bread."),
    "another key first": ("metadata:\n  description: no\ndescription: Use it for bread.", "Use it for bread."),
    "a capital": ("Description: Use it for bread.", "Use it for bread."),
    "a date": ("name: 2024-01-01\ndescription: 2024-01-01", "2024-01-01"),
}


@pytest.mark.parametrize("written", READ)
def test_a_description_is_read_as_it_was_meant(written: str) -> None:
    front, meant = READ[written]
    for text in (f"---\n{front}\n---\n# Bake", f"\ufeff---\n{front}\n---\n".replace("\n", "\r\n")):
        assert read_front_matter(text).description == meant


def test_tools_license_and_needs_are_read_from_several_formats() -> None:
    own = read_front_matter(
        "---\ndescription: x\nlicense: MIT\nallowed-tools: Bash(git add *), Read\ncompatibility: Needs git\n"
        "requires:\n  bins: [gh]\n  env: [GH_TOKEN]\n---\n"
    )
    assert (own.license, own.compatibility, own.allowed_tools) == ("MIT", "Needs git", ("Bash(git add *)", "Read"))
    assert (own.env, own.programs) == (("GH_TOKEN",), ("gh",))
    nested = read_front_matter('---\ndescription: x\nmetadata: {"claw": {"requires": {"bins": ["jq"]}}}\n---\n')
    assert nested.programs == ("jq",)
    listed = read_front_matter("---\ndescription: x\nrequired_environment_variables:\n - name: KEY\n---\n")
    assert listed.env == ("KEY",)


def test_what_is_no_front_matter_is_said() -> None:
    assert "no front matter" in read_front_matter("Just words.").trouble
    assert "cannot be read" in read_front_matter("---\n- a\n- b\n---\n").trouble
    assert "line by line" in read_front_matter("---\ndescription: a: b\n---\n").trouble
    assert "no description" in read_front_matter("---\nname: x\n---\n").trouble


@pytest.mark.parametrize(
    "hostile",
    ["[" * LARGEST, "{" * LARGEST, "&a [*a]\nb: *a", "- " * 2000, "<<: *x", "!!python/object/apply:os.system [x]"],
)
def test_hostile_front_matter_is_read_as_nothing_and_at_once(hostile: str) -> None:
    found = read_front_matter(f"---\nrequires: {hostile}\n---\n")
    assert (found.description, found.env) == ("", ())


NEEDS = {
    "metadata:\n  openclaw:\n    requires:\n      bins: [uv]\n      env: [A_KEY]\n    primaryEnv: A_KEY": (
        ("A_KEY",),
        ("uv",),
    ),
    "prerequisites:\n  env_vars: [A_KEY]\n  commands: [curl, jq]": (("A_KEY",), ("curl", "jq")),
    'requirements:\n  env: "A_KEY, B_KEY"\n  programs: ffmpeg': (("A_KEY", "B_KEY"), ("ffmpeg",)),
    "env:\n  PATH: x\nbins: [not-asked-for]": ((), ()),
    "requires:\n  bins: [../../bin/sh, '-rf', 'a b']\n  env: ['A=B', '$(x)']": ((), ()),
}


@pytest.mark.parametrize("written", NEEDS)
def test_what_a_skill_needs_is_read_by_the_names_that_others_have_for_it(written: str) -> None:
    found = read_front_matter(f"---\ndescription: x\n{written}\n---\n")
    assert (found.env, found.programs) == NEEDS[written]
