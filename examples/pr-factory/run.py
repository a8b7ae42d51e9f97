"""A factory for reviews of pull requests: from signed webhooks to two reviews side by side."""

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from gatepost_testing.platforms.github import GitHubPlatform  # noqa: E402
from stage import ExampleFailed, Stage, play  # noqa: E402  from the folder above

ADMIN, FACTORY = "terminal:admin", "terminal:factory"
WORKER, SKILL = "factory/manager/worker", "review"
DIFF = "```diff\n+PASSWORD = 'tulip'\n+cache.set(page)\n```"


class Factory:
    """GitHub, played on this machine, and the people who write there."""

    def __init__(self, github: GitHubPlatform) -> None:
        self.github = github

    def act(self, stage: Stage) -> None:
        self.connect(stage)
        cache, queue = self.open_pull_requests(stage)
        self.talk(stage, cache)
        self.close_and_open_again(stage, queue)
        self.ask_about_work(stage)
        self.replay(stage, cache)
        self.change_skill(stage)
        self.compare(stage, cache)

    def connect(self, stage: Stage) -> None:
        stage.title("GitHub gets the bot's webhook; one that is not signed is refused")
        for name, value in self.github.get_secrets().items():
            stage.gatepost("secret", "set", f"CHANNEL_GITHUB_{name.upper()}", value, shown=False)
        stage.gatepost("channel", "restart", "github")
        self.github.hook_url = f"{stage.url}/channels/github"
        stage.note(f"forged webhook: {post_forged(self.github.hook_url)}")

    def open_pull_requests(self, stage: Stage) -> tuple[int, int]:
        stage.title("Two pull requests, two workers")
        cache = self.open("Cache the login page", f"@gatebot please review.\n\n{DIFF}", "ann")
        stage.wait_for_answer(get_room(cache), "Review")
        queue = self.open("Use a queue for mails", "@gatebot please review.", "bob")
        stage.wait_for_answer(get_room(queue), "Review")
        return cache, queue

    def talk(self, stage: Stage, number: int) -> None:
        stage.title("The worker stays in its thread; feedback goes to the supervisor, and the worker does not see it")
        self.write(number, "Why a test?", "ann")
        stage.wait_for_answer(get_room(number), "shares the cache")
        self.write(number, "@supervisor the review missed the password", "ann")
        stage.wait_for_answer(get_room(number), "next version")

    def close_and_open_again(self, stage: Stage, number: int) -> None:
        stage.title("Closed, the worker keeps silent; opened again, it knows where it was, and sees what is pushed")
        print(f"bob closes #{number}", flush=True)
        self.github.close(number, sender="bob")
        stage.wait_for_answer(get_room(number), "Closed")
        self.write(number, "Thanks everybody!", "bob")
        stage.wait_until(lambda: find_state(stage, "Thanks everybody!") == "observed", "a message that wakes nobody")
        stage.note("that woke nobody")
        print(f"bob opens #{number} again", flush=True)
        self.github.reopen(number, sender="bob")
        stage.wait_for_answer(get_room(number), "back at")
        print(f"bob pushes to #{number}", flush=True)
        self.github.push(number, "retry", sender="bob")
        stage.wait_for_answer(get_room(number), "Review")
        print(f"ann merges #{number}", flush=True)
        self.github.close(number, sender="ann", merge=True)
        stage.wait_for_answer(get_room(number), "Merged")

    def ask_about_work(self, stage: Stage) -> None:
        stage.title("The manager knows what was said; what agents did is for the supervisor")
        for question in ("Which pull requests are there?", "What was the last word?", "What did the worker do?"):
            stage.say(question, "factory")
            stage.wait_for_answer(FACTORY)
        stage.say("Show the work of the worker.", "admin")
        stage.wait_for_answer(ADMIN)
        stage.note("the supervisor may see that")

    def replay(self, stage: Stage, number: int) -> None:
        stage.title("Before anything changes: the same messages with another skill, of which nothing is delivered")
        before = stage.list_said(get_room(number))
        stage.say("What feedback is there?", "admin")
        stage.wait_for_answer(ADMIN, "password")
        stage.say(f"Replay {number} with a check for secrets.", "admin")
        replay = stage.wait_for_answer(ADMIN, "The replay is").rpartition(" ")[2].rstrip(".")
        stage.wait_until(lambda: stage.daemon.gatepost("session", "compare", replay).returncode == 0, "the replay")
        stage.say(f"Show the replay {replay}.", "admin")
        stage.wait_for_answer(ADMIN, "Would be")
        if stage.list_said(get_room(number)) != before:
            raise ExampleFailed("the replay said something in the pull request")

    def change_skill(self, stage: Stage) -> None:
        stage.title("The supervisor suggests another skill; the card shows the difference, and the owner decides")
        stage.say("Let the workers check for secrets.", "admin")
        stage.wait_for_answer(ADMIN, "waits for your approval")
        if has_password_check(stage):
            raise ExampleFailed("the skill was changed before anybody approved it")
        (waiting,) = stage.daemon.json("permit", "ls")
        stage.say(f"/approve {waiting['request']['id']}", "admin")
        stage.wait_until(lambda: has_password_check(stage), "the changed skill")
        stage.note("the skill is changed")

    def compare(self, stage: Stage, number: int) -> None:
        stage.title("The same pull request again: a fresh conversation with the new skill, both reviews side by side")
        stage.say(f"Review {number} again.", "admin")
        stage.wait_for_answer(ADMIN, "reviews again")
        stage.wait_for_answer(get_room(number), "Review")
        stage.say(f"Compare the reviews of {number}.", "admin")
        stage.wait_for_answer(ADMIN, "Two reviews")

    def open(self, title: str, body: str, sender: str) -> int:
        number = self.github.open_pull_request(title, body, sender=sender)
        print(f"{sender} opens #{number}: {title}", flush=True)
        return number

    def write(self, number: int, text: str, sender: str) -> None:
        print(f"{sender} in #{number}: {text}", flush=True)
        self.github.send(text, room=f"issue {number}", sender=sender)


def has_password_check(stage: Stage) -> bool:
    return "password" in json.dumps(stage.daemon.json("skill", "show", SKILL, "--group", WORKER))


def get_room(number: int) -> str:
    return f"github:acme/site/issue/{number}"


def find_state(stage: Stage, text: str) -> str:
    """What became of a message."""
    return next((str(row.state) for row in stage.list_rows() if row.text == text), "")


def post_forged(url: str) -> int:
    """The answer to a webhook that somebody without the secret sends."""
    headers = {"x-github-event": "pull_request", "x-hub-signature-256": f"sha256={'0' * 64}"}
    request = urllib.request.Request(url, data=b'{"action": "opened"}', headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


if __name__ == "__main__":
    with GitHubPlatform() as platform:
        play(HERE, Factory(platform).act, f'api_url = "{platform.url}"\n')
