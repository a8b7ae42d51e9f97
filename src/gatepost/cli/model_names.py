"""Names that `gatepost connect` takes for an endpoint and a model: `local`, which finds one on this machine, and the
model services."""

import click
from msgspec import Struct, field

from gatepost.cli import output
from gatepost.cli.operation_command import call_operation
from gatepost.core.errors import Invalid, NotFound, SetupError
from gatepost.core.home import Home
from gatepost.egress.model_services import list_services
from gatepost.serve.control.arguments.connect import (
    FindLocalModelsArgs,
    LocalFindings,
    LocalModel,
    LocalService,
    ModelProbe,
    ProbeModelArgs,
)
from gatepost.serve.control.local_models import FIND_S, PROBE_S, choose_model

LOCAL, SERVED_BY = "local", "openai"  # the agent that speaks their API
LEAST_WINDOW = 8192  # tokens: half of it is the prompt, the tools and an answer
MARGIN_S = 15.0


class NamedEndpoint(Struct, frozen=True, kw_only=True):
    """The service or endpoint that a name stands for."""

    agent: str = SERVED_BY
    base_url: str
    model: str
    price: str = ""
    options: dict[str, str] = field(default_factory=dict)


def find_short_name(
    home: Home, name: str, model: str, base_url: str, tell: output.ProgressPrinter, *, ask: bool
) -> NamedEndpoint | None:
    """None: it is the name of an agent, or of nothing."""
    if name == LOCAL:
        return _find_local(home, model, base_url, tell, ask=ask)
    service = list_services().get(name)
    if service is None:
        return None
    tell.step("service", f"{service.title}; its keys are made at {service.keys}")
    if not model:
        lists = f"curl -H 'Authorization: Bearer KEY' {base_url or service.base_url}/models"
        raise Invalid("--model", f"name the model that {service.title} is to be asked for; `{lists}` lists them")
    return NamedEndpoint(base_url=base_url or service.base_url, model=model)


def _find_local(home: Home, model: str, base_url: str, tell: output.ProgressPrinter, *, ask: bool) -> NamedEndpoint:
    tell.step("looking", f"at {base_url or 'the ports of Ollama, LM Studio, llama.cpp, vLLM and others'} …")
    given = {"base_url": base_url}
    found: LocalFindings = call_operation(home, FindLocalModelsArgs, given, FIND_S + MARGIN_S, awake=True)
    _show(found, tell)
    chosen = _choose(found.models, model, base_url, ask=ask)
    tell.step("model", f"trying {chosen.model} out: a tool, a picture, a long text …")
    wanted = {"base_url": chosen.base_url, "model": chosen.model}
    probe: ModelProbe = call_operation(home, ProbeModelArgs, wanted, PROBE_S + MARGIN_S, awake=True)
    if probe.trouble:
        raise SetupError(f"{chosen.model} of {chosen.server} does not answer: {probe.trouble}")
    for line in describe_probe(chosen, probe):
        tell.step("", line)
    options = {"context": str(probe.context)} if probe.context else {}
    return NamedEndpoint(base_url=chosen.base_url, model=chosen.model, price="0", options=options)


def _show(found: LocalFindings, tell: output.ProgressPrinter) -> None:
    if tell.is_quiet:
        return
    if found.models:
        output.print_records(LocalModel, found.models)
    if found.services:
        output.print_records(LocalService, found.services)


def _choose(models: tuple[LocalModel, ...], wanted: str, base_url: str, *, ask: bool) -> LocalModel:
    where = f"at {base_url}" if base_url else "on this machine"
    if not models:
        raise SetupError(
            f"no model server answers {where}; start one, like `ollama serve`, or name its address:"
            " gatepost connect local --base-url http://HOST:PORT/v1"
        )
    if wanted:
        named = next((each for each in models if each.model == wanted), None)
        if named is None:
            raise NotFound("model", wanted, f"there are: {', '.join(each.model for each in models)}")
        return named
    likeliest = choose_model(models)
    assert likeliest is not None
    if len(models) == 1 or not ask:
        return likeliest
    names = [each.model for each in models]
    said = click.prompt("Model", type=click.Choice(names), default=likeliest.model, show_choices=False)
    return models[names.index(said)]


def describe_probe(model: LocalModel, probe: ModelProbe) -> list[str]:
    """Return the outcome of the trial, and how to mend what is missing."""
    uses, sees = "uses tools" if probe.tools else "uses no tools", "sees" if probe.vision else "does not see"
    lines = [f"it answers in {output.format_duration(probe.seconds)}, {uses}, {sees} pictures"]
    if not probe.tools:
        lines.append("without tools it can only talk: choose another for reminders, files and memory")
    if probe.context:
        cut = ", and what is longer is cut without a word: Gatepost keeps below it" if probe.cuts else ""
        lines.append(f"its window has {probe.context:,} tokens{cut}")
    if 0 < probe.context < LEAST_WINDOW:
        lines.append(f"that is little for an agent; {_how_to_widen(model)}")
    return lines


def _how_to_widen(model: LocalModel) -> str:
    return {
        "Ollama": "start Ollama with OLLAMA_CONTEXT_LENGTH=16384",
        "llama.cpp": "start llama-server with --ctx-size 16384",
        "LM Studio": "load the model with a longer context in LM Studio",
        "vLLM": "start vLLM with --max-model-len 16384",
    }.get(model.server, "start its server with a longer context")
