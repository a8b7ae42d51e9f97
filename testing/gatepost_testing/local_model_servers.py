"""The words in which model servers for one's own machine tell of themselves, for `ModelEndpoint(answers=…)`.

They have the fields of each server's documentation that Gatepost reads, and no others. What is not covered: loading and
unloading a model, several models in memory, Ollama's own chat API, and errors of a server that has no memory left.
"""

from typing import Any

Answers = dict[str, dict[str, Any]]


def ollama(*names: str, context: int = 0, can: tuple[str, ...] = ("completion", "tools")) -> Answers:
    """`context`: of the first one, which is then in memory."""
    models = [{"name": name, "size": 4_700_000_000, "details": {"family": "qwen3"}} for name in names]
    return {
        "GET /api/tags": {"models": models},
        "GET /api/ps": {"models": [{**each, "context_length": context} for each in models[:1] if context]},
        "POST /api/show": {
            "capabilities": list(can),
            "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40_960},
            "parameters": "temperature 0.6",
        },
        "GET /v1/models": _list_models(names, {"owned_by": "library"}),
    }


def lm_studio(name: str, context: int = 0) -> Answers:
    models = [
        {
            "id": name,
            "type": "vlm",
            "state": "loaded" if context else "not-loaded",
            "max_context_length": 131_072,
            "capabilities": ["tool_use"],
            **({"loaded_context_length": context} if context else {}),
        },
        {"id": "nomic-embed", "type": "embeddings", "state": "not-loaded", "max_context_length": 2048},
    ]
    return {
        "GET /api/v0/models": {"object": "list", "data": models},
        "GET /v1/models": _list_models((name, "nomic-embed"), {"owned_by": "organization_owner"}),
    }


def llama_cpp(name: str, context: int) -> Answers:
    meta = {"n_ctx_train": 32_768, "size": 2_019_377_376}
    return {
        "GET /props": {
            "default_generation_settings": {"n_ctx": context},
            "model_path": f"/models/{name}",
            "modalities": {"vision": False, "audio": False},
            "chat_template_caps": {"supports_tool_calls": True},
        },
        "GET /v1/models": _list_models((name,), {"owned_by": "llamacpp", "meta": meta}),
    }


def vllm(name: str, context: int) -> Answers:
    return {"GET /v1/models": _list_models((name,), {"owned_by": "vllm", "max_model_len": context})}


def searxng() -> Answers:
    return {"GET /config": {"instance_name": "SearXNG", "engines": [{"name": "duckduckgo"}]}}


def _list_models(names: tuple[str, ...], about: dict[str, Any]) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name, "object": "model", **about} for name in names]}
