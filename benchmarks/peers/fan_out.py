"""The limit of what a cache on one thread can do for a crowd: no cache, and no HTTP but what a crowd needs.

Answers /warm. Asks the origin once for what else the first client wants, and writes what comes to all clients, one
after the other, as soon as it has come. One that asks later first gets what is there.
"""

from __future__ import annotations

import argparse
import select
import socket

WARM = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
READ = 64 * 1024


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("listen", type=address)
    parser.add_argument("origin", type=address)
    arguments = parser.parse_args()
    listener = socket.create_server(arguments.listen, backlog=4096)
    poll = select.epoll()
    poll.register(listener.fileno(), select.EPOLLIN)
    clients: dict[int, socket.socket] = {}
    following: list[socket.socket] = []
    origin: socket.socket | None = None
    come = bytearray()
    while True:
        for number, _ in poll.poll():
            if number == listener.fileno():
                client, _ = listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                clients[client.fileno()] = client
                poll.register(client.fileno(), select.EPOLLIN)
            elif origin is not None and number == origin.fileno():
                data = origin.recv(READ)
                if not data:
                    raise EOFError("the origin has left")
                come += data
                # Blocking: who does not read holds up the others, which no client of a benchmark does.
                for client in following:
                    client.sendall(data)
            else:
                client = clients[number]
                request = client.recv(READ)
                if not request:
                    poll.unregister(number)
                    clients.pop(number).close()
                elif request.startswith(b"GET /warm"):
                    client.sendall(WARM)
                else:
                    if origin is None:
                        origin = socket.create_connection(arguments.origin)
                        poll.register(origin.fileno(), select.EPOLLIN)
                        origin.sendall(request)
                    client.sendall(come)
                    following.append(client)


if __name__ == "__main__":
    main()
