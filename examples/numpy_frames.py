"""Raw video frames from ffmpeg as numpy arrays in penstock's pool: no copy after the read from the pipe.

    python examples/numpy_frames.py [--seconds 4]

Needs ffmpeg and numpy. Prints the mean colour of each second's last frame, and how fast the frames came.
"""

import argparse
import asyncio
from time import perf_counter

import numpy as np

import penstock
from penstock import framing

WIDTH, HEIGHT, FRAMES_PER_SECOND = 1920, 1080, 25


async def watch(seconds: int) -> None:
    """Read `seconds` of test picture as arrays of shape (height, width, 3)."""
    command = [
        *("ffmpeg", "-nostdin", "-v", "error"),
        *(
            "-f",
            "lavfi",
            "-i",
            f"testsrc2=size={WIDTH}x{HEIGHT}:rate={FRAMES_PER_SECOND}",
            "-t",
            str(seconds),
        ),
        *("-f", "rawvideo", "-pix_fmt", "rgb24", "-"),
    ]
    count = 0
    began = perf_counter()
    # A frame of 1920x1080 takes 6 MB in one run of the pool, so that it is whole without being joined; 64 MiB
    # hold ten.
    async with (
        penstock.Engine(memory="64MiB") as engine,
        penstock.open_process(command, framing=framing.Fixed(WIDTH * HEIGHT * 3), engine=engine) as stream,
    ):
        async for frame in stream:
            picture = np.frombuffer(memoryview(frame), np.uint8).reshape(HEIGHT, WIDTH, 3)
            count += 1
            if count % FRAMES_PER_SECOND == 0:
                red, green, blue = picture[::8, ::8].mean(axis=(0, 1))
                print(f"frame {count:4}: red {red:5.1f}  green {green:5.1f}  blue {blue:5.1f}")
        copied = engine.stats().pool.bytes_copied
        seconds_taken = perf_counter() - began
    size = count * WIDTH * HEIGHT * 3
    print(
        f"{count} frames, {size / 1e6:.0f} MB, {count / seconds_taken:.0f} frames/s; copied: {dict(copied)}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Read raw video frames as numpy arrays.")
    parser.add_argument("--seconds", type=int, default=4)
    asyncio.run(watch(parser.parse_args().seconds))
