"""A title of HLS with one rendition, whose segments are one file that nginx sends: for players of `penstock load`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.processes import Process, free_port
from harness.segments import origin_command
from harness.settings import FULL

SEGMENTS = 100


@contextmanager
def title_server(runtime: Path, size: int, seconds: int) -> Iterator[int]:
    """Serve `/master.m3u8`, and `/segment.m4s` of `size` bytes and so many seconds; gives the port."""
    root = runtime / "root"
    root.mkdir()
    (root / "segment.m4s").write_bytes(os.urandom(size))
    bitrate = size * 8 // seconds
    (root / "master.m3u8").write_text(f"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH={bitrate}\nmedia.m3u8\n")
    rows = f"#EXTINF:{seconds},\nsegment.m4s\n" * SEGMENTS
    (root / "media.m3u8").write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:{seconds}\n{rows}#EXT-X-ENDLIST\n")
    port = free_port()
    nginx = origin_command(runtime, port, root, expires="off")
    with Process(nginx, core=FULL.gateway_core, runtime=runtime) as server:
        server.wait_until_listening(port)
        yield port
