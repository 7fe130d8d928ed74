"""A server of gRPC in four shapes. It says its port, and messages are bytes without a schema."""

import threading
from collections.abc import Iterable, Iterator
from concurrent import futures
from typing import Any

import grpc

SIZE = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
cancelled = threading.Semaphore(0)


def unary(request: bytes, context: Any) -> bytes:
    if request == b"metadata":
        sent = sorted((k, v) for k, v in context.invocation_metadata() if k in {"x-a", "x-bin"})
        return repr(sent).encode()
    if request == b"field":
        request = next((v.encode() for k, v in context.invocation_metadata() if k == "x-a"), b"")
    if request == b"wait":
        context.add_callback(cancelled.release)
        threading.Event().wait(60)
    if request == b"was cancelled":
        return b"yes" if cancelled.acquire(timeout=30) else b"no"
    if request.startswith(b"fail "):
        context.set_trailing_metadata((("x-why", "because"), ("x-why-bin", b"\0\xff")))
        context.abort(next(c for c in grpc.StatusCode if c.value[0] == int(request[5:])), "50 % of é\nfailed")
    if request.startswith(b"left"):
        return b"in time" if 10 < context.time_remaining() < 51 else b"%f" % context.time_remaining()
    context.send_initial_metadata((("x-first", "1"), ("x-first-bin", b"\1\2")))
    context.set_trailing_metadata((("x-last", "2"), ("x-last", "3")))
    return request


def many(request: bytes, context: Any) -> Iterator[bytes]:
    count, size, *fails = (int(part) for part in request.split())
    for number in range(count):
        yield bytes([number % 256]) * size
    if fails:
        context.abort(grpc.StatusCode.DATA_LOSS, "after some")


def total(requests: Iterable[bytes], _context: Any) -> bytes:
    return b"%d" % sum(len(request) for request in requests)


def echo(requests: Iterable[bytes], _context: Any) -> Iterator[bytes]:
    for request in requests:
        if request == b"end":
            return
        yield request


def unpacked(message: bytes) -> bytes:
    """The bytes of `message Bytes { bytes data = 1; }`."""
    return message[2:]


def packed(data: bytes) -> bytes:
    """Such a message, of at most 127 bytes."""
    return b"\x0a%c%s" % (len(data), data) if data else b""


class Handlers(grpc.GenericRpcHandler):
    def service(self, details: Any) -> Any:
        return {
            "/test.Test/Unary": grpc.unary_unary_rpc_method_handler(unary),
            "/test.Test/Many": grpc.unary_stream_rpc_method_handler(many),
            "/test.Test/Total": grpc.stream_unary_rpc_method_handler(total),
            "/test.Test/Echo": grpc.stream_stream_rpc_method_handler(echo),
            # The same for clients that cannot do without a schema.
            "/test.Short/Unary": grpc.unary_unary_rpc_method_handler(unary, unpacked, packed),
            "/test.Short/Many": grpc.unary_stream_rpc_method_handler(many, unpacked, packed),
        }.get(details.method)


def main() -> None:
    server = grpc.server(
        futures.ThreadPoolExecutor(16), options=SIZE, compression=grpc.Compression.NoCompression
    )
    server.add_generic_rpc_handlers((Handlers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)  # noqa: T201 (what its starter reads)
    server.wait_for_termination()


main()
