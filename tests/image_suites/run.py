"""Builds the image without Docker and runs it: `make test-image`.

packaging/image/Dockerfile is built by buildah on a base of Debian packages, which mmdebstrap makes, and with a wheel of
dist/. crun runs it as Kubernetes does: as user 10001, on a read-only root, without capabilities and new privileges. A
request is relayed, `penstock health` asks, SIGTERM ends it. What it weighs is printed.

Not shown by this: the base that the Dockerfile names, a build from source in it, and a container engine's network.

python run.py [DIRECTORY]       where the base and the image are kept; takes root, mmdebstrap, buildah and crun
"""

import contextlib
import http.client
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "packaging" / "image" / "Dockerfile"
SUITE = "bookworm"
USER = 10001
MOST_MEGABYTES = 120
DEADLINE = 60.0
NAME = "penstock-test"
STATUS = "unix:/run/penstock/status.sock"
DISK = ("--cache-disk=/var/cache/penstock/responses", "--cache-disk-size=8MiB")
OPTIONS = (f"--status-listen={STATUS}", "--cache=16MiB", *DISK)


def run(*command: str, **options: Any) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if ended.returncode:
        sys.exit(f"{' '.join(command[:4])} ...: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return ended.stdout


def buildah(work: Path, *arguments: str) -> str:
    environment = {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}
    places = ("--root", str(work / "store"), "--runroot", str(work / "run"))
    return run("buildah", *places, *arguments, env=environment).strip()


def make_base(work: Path) -> str:
    """An image of Debian's Python, in place of the one that the Dockerfile names."""
    archive = work / "base.tar"
    if not archive.exists():
        packages = "python3-minimal,python3-venv,ca-certificates"
        run("mmdebstrap", "--variant=minbase", f"--include={packages}", SUITE, str(archive))
    container = buildah(work, "from", "scratch")
    buildah(work, "add", "-q", container, str(archive), "/")
    buildah(work, "commit", "-q", container, "penstock-base")
    buildah(work, "rm", container)
    return "localhost/penstock-base"


def build(work: Path) -> str:
    """The image of the Dockerfile, which then has its own name."""
    # This machine's authorities, in case that its way to PyPI has one of its own.
    (work / "pip.conf").write_text("[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n")
    mounts = [f"--volume={work}/pip.conf:/etc/pip.conf:ro", "--volume=/etc/ssl/certs:/etc/ssl/certs:ro"]
    base = make_base(work)
    buildah(
        work,
        *("bud", "-q", "--layers=false", "--build-arg", f"BASE={base}", *mounts, "--network=host"),
        *("-f", str(DOCKERFILE), "-t", "penstock", str(ROOT)),
    )
    return "localhost/penstock"


def megabytes(path: Path) -> float:
    files = (each for each in path.rglob("*") if each.is_file() and not each.is_symlink())
    return sum(each.stat().st_size for each in files) / 1e6


class Origin(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = bytes(range(256)) * 256
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def bundle(directory: Path, rootfs: Path, config: dict[str, Any], arguments: list[str]) -> None:
    """What crun takes, as a kubelet would write it for the security context of the chart."""
    image = config["OCIv1"]["config"]
    user, _, group = image["User"].partition(":")
    temporary = ["nosuid", "nodev", "mode=1777"]
    mounts = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
        *(
            {"destination": place, "type": "tmpfs", "source": "tmpfs", "options": temporary}
            for place in ("/tmp", *image["Volumes"])
        ),
    ]
    (directory / "config.json").write_text(
        json.dumps(
            {
                "ociVersion": "1.0.2",
                "process": {
                    "user": {"uid": int(user), "gid": int(group)},
                    "args": [*image["Entrypoint"], *arguments],
                    "env": image["Env"],
                    "cwd": image["WorkingDir"],
                    "capabilities": {},
                    "noNewPrivileges": True,
                },
                "root": {"path": str(rootfs), "readonly": True},
                "mounts": mounts,
                # The network is this machine's.
                "linux": {"namespaces": [{"type": name} for name in ("pid", "ipc", "uts", "mount")]},
            }
        )
    )


def crun(directory: Path, *arguments: str) -> list[str]:
    command = ["crun", "--cgroup-manager=disabled", f"--root={directory}/crun", *arguments]
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return command
    # A machine that still has the first version of control groups: crun sees the second alone, and uses neither.
    alone = 'umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; exec "$@"'
    return ["unshare", "-m", "sh", "-c", alone, "sh", *command]


@contextlib.contextmanager
def contained(directory: Path, name: str) -> Iterator[subprocess.Popen[str]]:
    command = crun(directory, "run", f"--bundle={directory}", name)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        subprocess.run(crun(directory, "delete", "--force", name), capture_output=True, check=False)
        process.wait(DEADLINE)


def ask(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def line_with(process: subprocess.Popen[str], text: str) -> str:
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if text in line:
            return line
    sys.exit(f"the container has ended: {''.join(lines)}")


def check(rootfs: Path, config: dict[str, Any]) -> None:
    """Run it, relay a request, ask whether it is healthy, and stop it."""
    with (
        tempfile.TemporaryDirectory() as place,
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin) as origin,
    ):
        threading.Thread(target=origin.serve_forever, daemon=True).start()
        directory = Path(place)
        options = [f"--origin=http://127.0.0.1:{origin.server_port}", "--listen=127.0.0.1:0", *OPTIONS]
        bundle(directory, rootfs, config, options)
        with contained(directory, NAME) as process:
            port = int(line_with(process, "listening on").rpartition(":")[2])
            answer = ask(port, "/segment")
            assert answer == (200, bytes(range(256)) * 256), answer[0]
            inside = partial(crun, directory, "exec", f"--user={USER}:{USER}", NAME)
            asked = run(*inside("penstock", "health", "--status-listen", STATUS))
            assert asked == "healthy\n", asked
            state = json.loads(run(*crun(directory, "state", NAME)))
            seen = Path(f"/proc/{state['pid']}/status").read_text()
            assert f"Uid:\t{USER}\t{USER}" in seen
            assert "CapEff:\t0000000000000000" in seen
            assert "NoNewPrivs:\t1" in seen
            written = subprocess.run(inside("touch", "/opt/penstock/x"), capture_output=True, check=False)
            assert written.returncode != 0, "the root can be written to"
            began = time.monotonic()
            run(*crun(directory, "kill", NAME, "TERM"))
            assert process.wait(DEADLINE) == 0
            print(f"relayed 64 KiB, healthy, ended {time.monotonic() - began:.2f} s after SIGTERM")
        origin.shutdown()


def main(work: Path) -> None:
    for program, package in (("mmdebstrap", "mmdebstrap"), ("buildah", "buildah"), ("crun", "crun")):
        if shutil.which(program) is None:
            sys.exit(f"run.py: {program} is not found: apt-get install {package}")
    if os.geteuid() != 0:
        sys.exit("run.py: this takes root")
    if not list((ROOT / "dist").glob("*.whl")):
        sys.exit(
            "run.py: there is no wheel in dist/: make wheel, or .venv/bin/maturin build --release --strip -o dist"
        )
    work.mkdir(parents=True, exist_ok=True)
    image = build(work)
    config = json.loads(buildah(work, "inspect", "--type=image", image))
    container = buildah(work, "from", "--pull-never", image)
    try:
        rootfs = Path(buildah(work, "mount", container))
        layer = megabytes(rootfs / "opt" / "penstock")
        print(f"/opt/penstock: {layer:.1f} MB; the whole, on Debian's Python: {megabytes(rootfs):.1f} MB")
        places = f"{rootfs}/usr/bin:{rootfs}/opt/penstock/bin"
        compilers = [
            name for name in ("cc", "gcc", "cargo", "rustc", "pip") if shutil.which(name, path=places)
        ]
        assert not compilers, compilers
        assert layer <= MOST_MEGABYTES, layer
        check(rootfs, config)
    finally:
        buildah(work, "rm", container)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.gettempdir()) / "penstock-image")
