"""Reads the token stream of a chat completion with penstock as a library, event by event.

    python examples/token_stream.py
    python examples/token_stream.py https://host/v1/chat/completions "A question" --model NAME --key KEY

Without a URL it asks the demo's embedded origin, so that it runs alone.
"""

import argparse
import asyncio
import json
from http import HTTPStatus

from aiohttp import web

import penstock
from penstock import framing
from penstock.demo.origin import make_origin


async def tell(url: str, question: str, model: str, key: str | None) -> None:
    """Ask `question` and print the answer as it arrives, then what the stream cost."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": question}]}
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    async with (
        penstock.Engine(memory="16MiB") as engine,
        engine.request("POST", url, headers=headers, body=json.dumps(body).encode()) as response,
    ):
        if response.status != HTTPStatus.OK:
            raise SystemExit(f"{response.status} {response.reason}: {(await response.bytes()).decode()}")
        async for event in response.frames(framing.Events()):
            # A view of the pool: what is kept longer than this turn of the loop has to be copied, as
            # json.loads does.
            data = bytes(event.data)
            if data == b"[DONE]":
                break
            for choice in json.loads(data)["choices"]:
                print(choice["delta"].get("content") or "", end="", flush=True)
        timings = response.timings
        waited, woken = 1000 * timings.first_byte, engine.stats().wakeups
        print(f"\n\nfirst byte after {waited:.1f} ms; Python was woken {woken} times")


async def main() -> None:
    """Ask the URL that was named, or the demo's origin."""
    parser = argparse.ArgumentParser(description="Print a chat completion token by token.")
    parser.add_argument("url", nargs="?", help="of the chat completions; none: the demo's embedded origin")
    parser.add_argument("question", nargs="?", default="Where do the bytes go?")
    parser.add_argument("--model", default="penstock-demo")
    parser.add_argument("--key", help="sent as a bearer token")
    arguments = parser.parse_args()
    runner = web.AppRunner(make_origin())
    await runner.setup()
    try:
        if arguments.url is None:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            arguments.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/chat/completions"
        await tell(arguments.url, arguments.question, arguments.model, arguments.key)
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
