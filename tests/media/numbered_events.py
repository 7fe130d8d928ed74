"""Server-sent events that can be told apart: stream and number give every byte of each.

Shared by the two programs of the load test, so that the reader checks bytes and not a summary of them.
Lengths and shapes vary, so that events end anywhere in a read and no two neighbours have one length.
"""


def event(stream: int, number: int) -> bytes:
    """Event `number` of `stream`, with the blank line that ends it."""
    filler = "x" * ((stream * 7 + number * 131) % 700)
    name = "event: tick\n" if number % 3 == 0 else ""
    second_line = f"data: {filler}\n" if number % 2 else ""
    return f"id: {number}\n{name}data: stream {stream} number {number}\n{second_line}\n".encode()
