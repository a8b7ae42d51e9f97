"""Errors by which endpoints say that a request is larger than the model's context, in the words of each. Pure.

`limit` is what fits, `sent` what the request has, both in tokens, where the words say so.
"""

import re
from typing import TypeGuard

import msgspec

SMALLEST, LARGEST = 512, 100_000_000  # what else is said is no window
LONGEST = 4000  # characters of an error that are looked at


class ContextOverflow(msgspec.Struct, frozen=True):
    """The words of an endpoint about a request that is too large. 0: it does not say. `answer`: not the request is too
    large, but the answer that it asks for, which may have so many tokens."""

    limit: int = 0
    sent: int = 0
    answer: int = 0


_NUMBER = r"(?:\d[\d,_.]*\d|\d)"
_LIMIT, _SENT = f"(?P<limit>{_NUMBER})", f"(?P<sent>{_NUMBER})"
# The first that is found decides, so the ones with numbers come first.
_TEXTS = (
    # Anthropic; also on Bedrock, Vertex and OpenRouter
    rf"prompt is too long: {_SENT} tokens > {_LIMIT} maximum",
    rf"input length and `?max_tokens`? exceed context limit: {_SENT} \+ \d+ > {_LIMIT}",
    # OpenAI, DeepSeek, vLLM, SGLang, OpenRouter, Azure
    rf"maximum context length is {_LIMIT} tokens.{{0,40}}? you requested (?:about )?{_NUMBER} tokens"
    rf" \({_SENT} (?:of text input|in (?:the|your) (?:messages|prompt|input))",
    rf"maximum context length is {_LIMIT} tokens.{{0,80}}?(?:resulted in|request has|contains at least) {_SENT}"
    rf" (?:input )?tokens",
    rf"maximum context length is {_LIMIT} tokens",
    rf"(?:input|prompt) length \(?{_SENT}\)? (?:exceeds|is longer than) .{{0,60}}?(?:length|limit) (?:of )?\(?{_LIMIT}",
    rf"(?:decoder|encoder|LLM) prompt \(length {_SENT}\) is longer than the maximum model length of {_LIMIT}",
    rf"input \({_SENT} tokens\) is longer than the model's context length \({_LIMIT} tokens\)",
    rf"context length of {_LIMIT} tokens",
    rf"tokens per min(?:ute)? \(TPM\): Limit {_LIMIT}, Requested {_SENT}",  # one request above what a minute has
    # Google
    rf"input token count(?: \({_SENT}\))? exceeds the maximum number of tokens allowed \(?{_LIMIT}",
    rf"request contains {_SENT} tokens, which exceeds the limit of {_LIMIT}",
    # xAI
    rf"maximum prompt length is {_LIMIT} but the request contains {_SENT} tokens",
    # Mistral
    rf"prompt contains {_SENT} tokens.{{0,60}}?too large for model with {_LIMIT} maximum context length",
    # Copilot
    rf"prompt token count of {_SENT} exceeds the limit of {_LIMIT}",
    # Moonshot
    rf"exceeded model token limit: {_LIMIT}(?: \(requested: {_SENT}\))?",
    # Alibaba
    rf"range of input length should be \[\d+, ?{_LIMIT}\]",
    # Text Generation Inference, Together, Hugging Face
    rf"max_new_tokens`? must be <= {_LIMIT}\. Given: {_SENT} `?inputs?`? tokens",
    rf"tokens \+ `?max_new_tokens`? must be <= {_LIMIT}",
    rf"inputs`? must have less than {_LIMIT} tokens\. Given: {_SENT}",
    # llama.cpp, LM Studio, Ollama
    rf"\"n_prompt_tokens\": ?{_SENT}, ?\"n_ctx\": ?{_LIMIT}",
    rf"request \({_SENT} tokens\) exceeds the available context size \({_LIMIT} tokens\)",
    rf"n_keep:? ?\(?{_SENT}\)? ?>= n_ctx:? ?\(?{_LIMIT}",
    rf"keep the first {_SENT} tokens when context the overflows.{{0,80}}?context length of only {_LIMIT} tokens",
    rf"prompt has {_SENT} tokens, but the configured context size is {_LIMIT}",
    rf"requested tokens \({_SENT}\) exceed context window of {_LIMIT}",
    # without numbers
    r"context_length_exceeded|context_window_exceeded|exceed_context_size|model_max_prompt_tokens_exceeded",
    r"exceeds? (?:the )?(?:model(?:'s)? )?(?:available |maximum )?context (?:window|size|length|limit)",
    r"context (?:window|length|size|limit) (?:has been |was )?exceed(?:ed|s)",
    r"greater than the context length",
    r"(?:input|prompt|input context|request) is too long|prompt too long|input length is too long",
    r"reduce the length of the (?:messages|prompt|input)|reduce your message size",
    r"number of input tokens .{0,40}exceed|exceeds the maximum number of (?:input )?tokens",
    r"request_too_large|request exceeds the maximum size",
    r"token limit exceeded|too many total text bytes|too many input tokens",
)
_ANSWERS = (
    # Anthropic, OpenAI, DeepSeek and Alibaba, Groq
    rf"max_tokens: {_NUMBER} > (?P<answer>{_NUMBER}), which is the maximum allowed number of output tokens",
    rf"supports at most (?P<answer>{_NUMBER}) completion tokens",
    rf"range of max_tokens (?:is|should be) \[\d+, ?(?P<answer>{_NUMBER})\]",
    rf"`?max_(?:completion_)?tokens`? must be less than or equal to `?(?P<answer>{_NUMBER})",
)
_PACE = r"rate limit reached|per minute.{0,200}\bUsed \d"  # passes by waiting
_FLAGS = re.IGNORECASE | re.DOTALL


def is_window(said: object) -> TypeGuard[int]:
    return isinstance(said, int) and not isinstance(said, bool) and SMALLEST <= said <= LARGEST


def find_overflow(words: str) -> ContextOverflow | None:
    """Return what an error says about the size of the request; None if it is about something else.

    The patterns are compiled when an error comes, because each start of a sandbox would pay for them.
    """
    words = words[:LONGEST]
    if re.search(_PACE, words, _FLAGS):
        return None
    for text in (*_ANSWERS, *_TEXTS):
        if found := re.search(text, words, _FLAGS):
            named = found.groupdict()
            if answer := _read_number(named.get("answer")):
                return ContextOverflow(answer=answer)
            limit, sent = _read_number(named.get("limit")), _read_number(named.get("sent"))
            return ContextOverflow(limit if is_window(limit) else 0, sent)
    return None


def _read_number(said: str | None) -> int:
    digits = re.sub(r"\D", "", said or "")
    return int(digits) if digits and len(digits) < 12 else 0
