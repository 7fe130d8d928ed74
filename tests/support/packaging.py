"""HLS made by ffmpeg from its own test sources: a minute on the shelf, or ten seconds as they happen."""

from pathlib import Path

PICTURES_PER_SECOND = 25

_SOURCES = (
    *("-f", "lavfi", "-i", f"testsrc2=size=320x180:rate={PICTURES_PER_SECOND}"),
    *("-f", "lavfi", "-i", "sine=frequency=440:beep_factor=4:sample_rate=48000"),
)
_CODECS = (
    *("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-b:v", "600k"),
    *("-g", str(PICTURES_PER_SECOND), "-keyint_min", str(PICTURES_PER_SECOND), "-sc_threshold", "0"),
    *("-c:a", "aac", "-b:a", "64k"),
)
CONTAINERS = {
    "fmp4": ("-hls_segment_type", "fmp4", "-hls_segment_filename", "segment%03d.m4s"),
    "ts": ("-hls_segment_type", "mpegts", "-hls_segment_filename", "segment%03d.ts"),
}
"""Segment container to the options that choose it."""


def on_demand(ffmpeg: str, container: str, seconds: int) -> tuple[str, ...]:
    """The command that packages `seconds` of test stream in the working directory as `main.m3u8`."""
    return (
        *(ffmpeg, "-nostdin", "-v", "error", *_SOURCES, "-t", str(seconds), *_CODECS),
        *("-f", "hls", "-hls_time", "2", "-hls_playlist_type", "vod", "-master_pl_name", "main.m3u8"),
        *(*CONTAINERS[container], "media.m3u8"),
    )


def live(ffmpeg: str, container: str, seconds: int) -> tuple[str, ...]:
    """The command that writes a sliding `live.m3u8` in real time, and ends it after `seconds`."""
    sources = tuple(part for each in (_SOURCES[:4], _SOURCES[4:]) for part in ("-re", *each))
    return (
        *(ffmpeg, "-nostdin", "-v", "error", *sources, "-t", str(seconds), *_CODECS),
        *("-f", "hls", "-hls_time", "1", "-hls_list_size", "6", *CONTAINERS[container], "live.m3u8"),
    )


def playing(ffmpeg: str, url: str) -> tuple[str, ...]:
    """The command that plays `url` to its end, gives up at the first error and reports what it decoded."""
    return (
        *(ffmpeg, "-nostdin", "-v", "error", "-xerror", "-live_start_index", "0", "-i", url),
        *("-f", "null", "-progress", "pipe:1", "-"),
    )


def counting(ffprobe: str, target: str | Path) -> tuple[str, ...]:
    """The command that decodes `target` and prints, as CSV, how many frames each of its streams has."""
    entries = "stream=codec_name,nb_read_frames"
    return (ffprobe, "-v", "error", "-count_frames", "-show_entries", entries, "-of", "csv", str(target))
