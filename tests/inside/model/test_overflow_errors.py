"""What endpoints say about a request that is larger than the model's context."""

import json

import pytest

from gatepost.inside.model.overflow_errors import ContextOverflow, find_overflow
from gatepost.inside.provider_errors import parse_provider_error
from gatepost.mailbox.runner_frames import TurnErrorClass

SAID = {
    "Anthropic": ("prompt is too long: 213462 tokens > 200000 maximum", 200_000, 213_462),
    "Anthropic with the answer": (
        "input length and `max_tokens` exceed context limit: 198157 + 21333 > 200000, decrease input length or"
        " `max_tokens` and try again",
        200_000,
        198_157,
    ),
    "Anthropic by bytes": ("request_too_large: Request exceeds the maximum size", 0, 0),
    "Bedrock": ("Input is too long for requested model.", 0, 0),
    "OpenAI": (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens. Please"
        " reduce the length of the messages.",
        8192,
        8545,
    ),
    "OpenAI with the answer": (
        "This model's maximum context length is 4097 tokens, however you requested 4162 tokens (1090 in your prompt;"
        " 3072 for the completion). Please reduce your prompt; or completion length.",
        4097,
        1090,
    ),
    "OpenAI's Responses": (
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        0,
        0,
    ),
    "OpenAI's code": ("context_length_exceeded", 0, 0),
    "OpenAI, more than a minute has": (
        "Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Requested 34521. The"
        " input or output tokens must be reduced in order to run successfully.",
        30_000,
        34_521,
    ),
    "DeepSeek": (
        "This model's maximum context length is 65536 tokens. However, you requested 70214 tokens (62022 in the"
        " messages, 8192 in the completion). Please reduce the length of the messages or completion.",
        65_536,
        62_022,
    ),
    "OpenRouter": (
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 140213 tokens (132021 of"
        ' text input, 8192 in the output). Please reduce the length of either one, or use the "middle-out" transform',
        131_072,
        132_021,
    ),
    "vLLM": (
        "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 tokens"
        " and your request has 2104 input tokens (2000 > 4096 - 2104).",
        4096,
        2104,
    ),
    "vLLM, the prompt alone": (
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        8192,
        9000,
    ),
    "SGLang": (
        "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of",
        131_072,
        0,
    ),
    "SGLang, the prompt alone": (
        "Input length (265330) exceeds model's maximum context length (262144).",
        262_144,
        265_330,
    ),
    "Gemini": (
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        1_048_575,
        1_196_265,
    ),
    "Gemini without the count": (
        "The input token count exceeds the maximum number of tokens allowed 1048576.",
        1_048_576,
        0,
    ),
    "xAI": (
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        131_072,
        537_812,
    ),
    "Mistral": (
        "Prompt contains 40046 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        32_768,
        40_046,
    ),
    "Groq": ("Please reduce the length of the messages or completion.", 0, 0),
    "Groq, more than a minute has": (
        "Request too large for model `llama-3.3-70b` on tokens per minute (TPM): Limit 6000, Requested 7012, please"
        " reduce your message size and try again.",
        6000,
        7012,
    ),
    "Together": (
        "The input (33000 tokens) is longer than the model's context length (32768 tokens).",
        32_768,
        33_000,
    ),
    "Together, with the answer": (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 8000 `inputs` tokens and"
        " 1000 `max_new_tokens`",
        8193,
        8000,
    ),
    "Copilot": ("prompt token count of 51808 exceeds the limit of 12288", 12_288, 51_808),
    "Moonshot": (
        "Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)",
        131_072,
        140_000,
    ),
    "Alibaba": ("Range of input length should be [1, 129024]", 129_024, 0),
    "MiniMax": ("invalid params, context window exceeds limit", 0, 0),
    "Z.ai": ("model_context_window_exceeded", 0, 0),
    "llama.cpp": (
        '{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":'
        '"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}',
        8192,
        14_429,
    ),
    "llama.cpp, newer": (
        "request (14429 tokens) exceeds the available context size (8192 tokens), try increasing it",
        8192,
        14_429,
    ),
    "llama-cpp-python": ("Requested tokens (2285) exceed context window of 2048", 2048, 2285),
    "LM Studio": (
        "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>="
        " n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input.",
        4096,
        13_055,
    ),
    "LM Studio, newer": ("Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)", 7424, 15_028),
    "LM Studio, older": (
        "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with context"
        " length of only 32768 tokens, which is not enough.",
        32_768,
        111_490,
    ),
    "LM Studio without numbers": (
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        0,
        0,
    ),
    "Ollama": ("prompt too long; exceeded max context length by 4096 tokens", 0, 0),
    "DeepSpeed, ds4": ("Prompt has 5000 tokens, but the configured context size is 4096 tokens", 4096, 5000),
}
OTHERS = (
    "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again",
    "This request would exceed your organization's rate limit of 40,000 input tokens per minute",
    "invalid x-api-key",
    "Overloaded",
    "messages.0.content.0.image.source.base64: image exceeds 5 MB maximum",
    "Your credit balance is too low to access the API",
)


@pytest.mark.parametrize("name", SAID)
def test_what_a_vendor_says_of_a_request_that_is_too_large_is_understood(name: str) -> None:
    words, limit, sent = SAID[name]

    assert find_overflow(words) == ContextOverflow(limit, sent)


@pytest.mark.parametrize(
    "words",
    [
        "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for claude-3-haiku",
        "max_tokens is too large: 8192. This model supports at most 4096 completion tokens, whereas you provided 8192.",
        "Invalid max_tokens value, the valid range of max_tokens is [1, 4096]",
        "Range of max_tokens should be [1, 4096]",
        "`max_tokens` must be less than or equal to `4096`, the maximum value for `max_tokens` is less than the",
    ],
)
def test_an_answer_that_may_not_be_so_long_is_told_from_a_request_that_is_too_large(words: str) -> None:
    assert find_overflow(words) == ContextOverflow(answer=4096)
    assert parse_provider_error(400, words.encode()).kind is TurnErrorClass.FATAL


@pytest.mark.parametrize("words", OTHERS)
def test_other_errors_are_not_taken_for_it(words: str) -> None:
    assert find_overflow(words) is None


@pytest.mark.parametrize("status", [400, 413, 429, 500, 0])
def test_it_is_a_class_of_its_own_whatever_its_status(status: int) -> None:
    words, limit, _ = SAID["Groq, more than a minute has"]
    body = json.dumps({"error": {"message": words, "type": "tokens", "code": "rate_limit_exceeded"}}).encode()
    trouble = parse_provider_error(status, body)

    assert trouble.kind is TurnErrorClass.OVERFLOW
    assert trouble.overflow is not None and trouble.overflow.limit == limit


def test_numbers_that_stand_beside_the_words_are_read() -> None:
    trouble = parse_provider_error(500, SAID["llama.cpp"][0].encode())

    assert trouble.overflow == ContextOverflow(8192, 14_429)


def test_an_error_of_any_length_takes_no_time() -> None:
    assert find_overflow("maximum context length is " * 100_000) is None
    assert find_overflow("1" * 1_000_000) is None
