"""What `gatepost connect local` says of the model that it tried out."""

import pytest

from gatepost.cli.model_names import describe_probe
from gatepost.serve.control.arguments.connect import LocalModel, ModelProbe

OLLAMA = LocalModel(server="Ollama", base_url="http://127.0.0.1:11434/v1", model="qwen3:8b")
OTHER = LocalModel(server="a model server", base_url="http://127.0.0.1:5000/v1", model="x")


@pytest.mark.parametrize(
    ("model", "probe", "said"),
    [
        (
            OLLAMA,
            ModelProbe(tools=True, vision=True, context=32_768, seconds=4.2),
            ["4 s, uses tools, sees pictures", "32,768 tokens"],
        ),
        (OLLAMA, ModelProbe(tools=True), ["uses tools, does not see pictures"]),
        (OLLAMA, ModelProbe(tools=True, context=4096), ["pictures", "4,096", "OLLAMA_CONTEXT_LENGTH=16384"]),
        (OTHER, ModelProbe(tools=True, context=4096), ["pictures", "4,096", "start its server with a longer context"]),
        (OTHER, ModelProbe(context=9000, cuts=True), ["uses no tools", "it can only talk", "cut without a word"]),
    ],
)
def test_each_lack_is_said_with_what_helps(model: LocalModel, probe: ModelProbe, said: list[str]) -> None:
    lines = describe_probe(model, probe)
    assert len(lines) == len(said)
    assert all(words in line for words, line in zip(said, lines, strict=True))
