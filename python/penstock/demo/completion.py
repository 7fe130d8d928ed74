"""A chat completion that needs no model: written answers, told token by token.

Owns the answers and the wire shape (the chunks of an OpenAI chat completion); `penstock.demo.origin` puts it
on HTTP. The shape is the one that gateways for language models carry all day: many events of some two hundred
bytes, a usage chunk, and a last `data: [DONE]`.
"""

import json
import re
import time
import uuid
from collections.abc import Iterator
from typing import Any

TOKENS_PER_SECOND = 20

ANSWERS = {
    "What is a penstock?": (
        "A penstock is the gated pipe between a reservoir and a turbine. This one stands between an "
        "origin and its viewers. The gate is an ordinary aiohttp application: it says who may see what, "
        "and from where. The pipe is an engine written in Rust: it fetches, holds and frames the bytes, "
        "in a pool that never grows past its budget.\n\n"
        "You are looking at both. The picture beside this text and the text itself left the same small "
        "origin, and came through the same gateway."
    ),
    "Where do the bytes go?": (
        "From the origin's socket into a slab of the pool, and from that slab to your socket. Python is "
        "shown a memoryview of the slab, asks aiohttp to write it, and lets go; penstock makes no copy of "
        "it on the way. When the last view is dropped the slab goes back to the pool.\n\n"
        "A viewer who reads slowly holds on to a few slabs, and no more: the engine stops reading from "
        "that origin until some of them come back. Other origins are not affected."
    ),
    "What if the origin breaks?": (
        "Then you are told, and told exactly. Every stage has a limit of its own: resolving, connecting, "
        "the first byte, the pause between two reads. Whatever runs out ends in an error with a stable "
        "number, such as 0x102 for a read that timed out, and in a 502, 503 or 504 if the answer had not "
        "begun.\n\n"
        "If it had begun, the connection is broken off, so that half a segment can never be taken for a "
        "whole one."
    ),
}
"""Question to answer. What is asked and not found here is answered with the first."""


def tokens(text: str) -> list[str]:
    """Cut `text` into pieces of at most six letters and the white space before them."""
    return re.findall(r"\s*\S{1,6}", text)


class Completion:
    """One answer in the shape of a chat completion.

    Args:
        question: what was asked; a question that is not in `ANSWERS` gets the first answer.
        model: the name to report.
    """

    def __init__(self, question: str, model: str) -> None:
        self._text = ANSWERS.get(question) or next(iter(ANSWERS.values()))
        self._prompt_tokens = len(tokens(question))
        self._head: dict[str, Any] = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": model,
        }

    @property
    def _usage(self) -> dict[str, int]:
        told = len(tokens(self._text))
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": told,
            "total_tokens": self._prompt_tokens + told,
        }

    def whole(self) -> dict[str, Any]:
        """The answer as a single `chat.completion` object."""
        message = {"role": "assistant", "content": self._text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self._usage}

    def events(self) -> Iterator[bytes]:
        """The answer as server-sent events: the role, each token, the finish reason, the usage, `[DONE]`."""
        yield self._event([_choice({"role": "assistant", "content": ""})])
        for token in tokens(self._text):
            yield self._event([_choice({"content": token})])
        yield self._event([_choice({}, finish_reason="stop")])
        yield self._event([], usage=self._usage)
        yield b"data: [DONE]\n\n"

    def _event(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": choices, **more}
        return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"


def _choice(delta: dict[str, str], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish_reason}
