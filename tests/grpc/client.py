"""Makes the calls of a matrix, and writes what came of each as JSON: `client.py TARGET [CA]`."""

import json
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

SIZE = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
# A message has five bytes more: around the first windows and the longest frames.
SIZES = (0, 1, 16_378, 16_379, 16_380, 65_529, 65_530, 65_531, 65_535, 65_536, 4 << 20)
OF_GATEWAYS = {"via", "date"}


class Calls:
    def __init__(self, target: str, authority: str | None) -> None:
        if authority is None:
            self.channel = grpc.insecure_channel(target, options=SIZE)
        else:
            roots = grpc.ssl_channel_credentials(Path(authority).read_bytes())
            self.channel = grpc.secure_channel(target, roots, options=SIZE)
        self.unary = self.channel.unary_unary("/test.Test/Unary")
        self.many = self.channel.unary_stream("/test.Test/Many")
        self.total = self.channel.stream_unary("/test.Test/Total")
        self.echo = self.channel.stream_stream("/test.Test/Echo")


def shown(metadata: Any) -> list[list[str]]:
    return sorted([key, repr(value)] for key, value in metadata or () if key not in OF_GATEWAYS)


def ended(call: Any, *said: object) -> list[object]:
    """What is known of a call at its end."""
    return [
        *said,
        call.code().name,
        call.details(),
        shown(call.initial_metadata()),
        shown(call.trailing_metadata()),
    ]


def unary(calls: Calls, request: bytes, **options: Any) -> list[object]:
    try:
        response, call = calls.unary.with_call(request, timeout=options.pop("timeout", 60), **options)
    except grpc.RpcError as error:
        return ended(error)
    return ended(call, len(response), "the same" if response == request else response[:99].decode())


def many(calls: Calls, request: bytes) -> list[object]:
    call = calls.many(request, timeout=60)
    lengths = []
    with suppress(grpc.RpcError):
        lengths.extend(len(response) for response in call)
    return ended(call, len(lengths), sum(lengths))


def total(calls: Calls, count: int, size: int) -> list[object]:
    response, call = calls.total.with_call((bytes(size) for _ in range(count)), timeout=60)
    return ended(call, response.decode())


def conversation(calls: Calls) -> list[object]:
    """Each request is sent after the response to the last one."""
    requests: queue.Queue[bytes | None] = queue.Queue()
    call = calls.echo(iter(requests.get, None), timeout=60)
    said = []
    for number in range(20):
        requests.put(b"%d" % number * number * 100)
        said.append(len(next(call)))
    requests.put(None)
    return ended(call, said, list(call))


def server_ends(calls: Calls) -> list[object]:
    """The server ends while the client might go on."""
    requests: queue.Queue[bytes | None] = queue.Queue()
    call = calls.echo(iter(requests.get, None), timeout=60)
    requests.put(b"one")
    said = next(call).decode()
    requests.put(b"end")
    rest = list(call)
    requests.put(None)
    return ended(call, said, rest)


def cancelled(calls: Calls) -> list[object]:
    call = calls.unary.future(b"wait", timeout=60)
    threading.Timer(0.2, call.cancel).start()
    try:
        call.result()
    except grpc.FutureCancelledError:
        return ["cancelled", *unary(calls, b"was cancelled")]
    return ["not cancelled"]


def at_once(calls: Calls) -> list[object]:
    asked = [calls.unary.future(b"%d" % number, timeout=60) for number in range(300)]
    return [all(call.result() == b"%d" % number for number, call in enumerate(asked))]


CASES: dict[str, Callable[[Calls], list[object]]] = {
    **{f"unary of {size}": lambda calls, size=size: unary(calls, bytes(size)) for size in SIZES},
    **{
        f"status {code.value[0]}": lambda calls, code=code: unary(calls, b"fail %d" % code.value[0])
        for code in grpc.StatusCode
        if code is not grpc.StatusCode.OK
    },
    "metadata": lambda calls: unary(
        calls, b"metadata", metadata=(("x-a", "1"), ("x-a", "2"), ("x-bin", b"\0\xff\n"))
    ),
    "deadline": lambda calls: [unary(calls, b"wait", timeout=0.3)[0], unary(calls, b"was cancelled")[:2]],
    "deadline is told": lambda calls: unary(calls, b"left", timeout=50),
    "cancelled": cancelled,
    "compressed": lambda calls: unary(calls, b"z" * 100_000, compression=grpc.Compression.Gzip),
    "no such method": lambda calls: _of(calls.channel.unary_unary("/test.Test/None")),
    "many": lambda calls: many(calls, b"2000 10"),
    "many that are large": lambda calls: many(calls, b"20 300000"),
    "none": lambda calls: many(calls, b"0 0"),
    "many that fail": lambda calls: many(calls, b"3 70000 1"),
    "total": lambda calls: total(calls, 3000, 1000),
    "total of large ones": lambda calls: total(calls, 10, 1 << 20),
    "total of nothing": lambda calls: total(calls, 0, 0),
    "conversation": conversation,
    "the server ends": server_ends,
    "at once": at_once,
}


def _of(method: Any) -> list[object]:
    try:
        return ended(method.with_call(b"", timeout=60)[1])
    except grpc.RpcError as error:
        return ended(error)


def main() -> None:
    calls = Calls(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
    print(json.dumps({name: case(calls) for name, case in CASES.items()}))  # noqa: T201 (what its starter reads)


if __name__ == "__main__":
    main()
