"""`gatepost connect`: from the demo to a real agent in one command; alone, what can be connected."""

from typing import Any

import click

from gatepost.cli.operation_runner import home_of


@click.command()
@click.argument("agent", required=False)
@click.argument("word", required=False)
@click.option("--folder", default="home", show_default=True, help="The group that is to run on it.")
@click.option("--model", default="", help="The model (default: what the group has, else the agent's own).")
@click.option("--base-url", default="", metavar="URL", help="A local or compatible endpoint, for this group alone.")
@click.option(
    "--price", default="", metavar="IN/OUT", help="The model's price in USD for a million tokens, kept; 0: it is free."
)
@click.option(
    "--command", "started_by", default="", help="The program with its arguments, for an agent that can be any program."
)
@click.option(
    "--vendor", default="", help="The vendor of the endpoint, anthropic or openai, for an agent that has a choice."
)
@click.option("--key-stdin", is_flag=True, help="Read the key from standard input.")
@click.option("--no-install", is_flag=True, help="Install nothing; say what is missing.")
@click.option("--yes", is_flag=True, help="Ask nothing: a key that is missing is an error.")
@click.option(
    "--timeout", type=click.FloatRange(1, 600), default=120.0, show_default=True, help="Seconds for the trial."
)
@click.option("--json", "as_json", is_flag=True, help="Print what came of it as one JSON object.")
@click.pass_obj
def connect_command(home: str | None, /, agent: str | None, word: str | None, as_json: bool, **wish: Any) -> int:
    """Connect AGENT, such as claude. Without one: which agents there are, and their state.

    `local` finds the models of Ollama, LM Studio, llama.cpp, vLLM and others on this machine and tries one out.
    `services` lists the model services that are known, those with WORD alone; each can be connected by its name,
    with --model.

    acp:ID is an agent of the ACP registry (setting providers.acp.registry). Its command is kept if you agree to it.

    The key comes from standard input, the store, or the vendor's variable (OPENAI_API_KEY …), or is asked for.
    Missing packages are installed. Then one turn runs in a session of its own, and the group is pointed at the agent.
    If the agent does not answer, nothing is changed. A group that comes from another agent gets the new one's own
    model, unless --model names one; connected again to the same agent, it keeps its model. For claude, a token from
    `claude setup-token` will do as well.
    """
    from gatepost.cli.connect_steps import connect, show_services, show_states

    place = home_of(home)
    if agent is None:
        return show_states(place, as_json)
    if agent == "services":
        return show_services(word or "", as_json)
    if word is not None:
        raise click.UsageError(f"{word!r} belongs behind `services`, and {agent} takes no word")
    return connect(place, agent, as_json, **wish)
