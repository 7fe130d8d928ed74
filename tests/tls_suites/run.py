"""Runs testssl.sh and sslyze against `penstock serve` over TLS: `make test-tls`.

Neither is part of this repository: testssl.sh is a program of the system (`sudo apt-get install testssl.sh`), sslyze a
package that the make target installs. Each looks at a server with a certificate of ECDSA and at one with RSA; sslyze
also at one that speaks TLS 1.3 alone. What testssl.sh finds above its level "INFO" must be what EXPECTED says, and
sslyze must find the server compliant with Mozilla's recommendations, "intermediate" or "modern".
"""

import datetime as dt
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

EXPECTED: Final = {"DNS_CAArecord": "the name is of this machine alone, and no server answers for DNS"}

# What sites are recommended to send. They are the origin's: a gateway does not know what its pages may do.
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

# The fewest findings of a whole run of testssl.sh.
_WHOLE: Final = 100


class _Origin(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_HEAD = do_GET  # noqa: N815 (the name that http.server looks for)

    def log_message(self, *_: object) -> None:
        """Nothing: requests are not what is looked at."""


@contextmanager
def origin() -> Iterator[str]:
    """The URL of a server of plain HTTP."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Origin)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def certificates(directory: Path, key: Key) -> None:
    """Write `ca.pem`, and `cert.pem` and `key.pem` for localhost, such as public authorities sign them."""
    authority = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    issuer = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "An authority for a test")])

    def begun(name: x509.Name, of: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder(issuer, name, of, x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(days=89))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(of), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False
            )
        )

    ca = (
        begun(issuer, authority.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    lists = x509.UniformResourceIdentifier("http://crl.example/list.crl")
    leaf = (
        begun(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]), key.public_key())
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.CRLDistributionPoints([x509.DistributionPoint([lists], None, None, None)]), critical=False
        )
    )
    for name, certificate in (("ca.pem", ca), ("cert.pem", leaf)):
        signed = certificate.sign(authority, hashes.SHA256())
        (directory / name).write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (directory / "key.pem").write_bytes(key.private_bytes(*form))


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


@contextmanager
def serving(directory: Path, url: str, *options: str) -> Iterator[int]:
    """The port of `penstock serve` with the certificate in `directory`."""
    command = [sys.executable, "-m", "penstock", "serve", "--origin", url, "--listen", "127.0.0.1:0"]
    command += ["--tls-cert", str(directory / "cert.pem"), "--tls-key", str(directory / "key.pem")]
    command += ["--hsts", "31536000", "--no-access-log", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if found := re.search(r"listening on https://\S+:(\d+)", line):
                    yield int(found[1])
                    break
            else:
                sys.exit("tls_suites: penstock has not begun to listen")
        finally:
            process.terminate()


def testssl(directory: Path, port: int) -> list[str]:
    """What testssl.sh finds above "INFO", and EXPECTED does not say."""
    program = shutil.which("testssl") or shutil.which("testssl.sh")
    if program is None:
        sys.exit("tls_suites: there is no testssl.sh: sudo apt-get install testssl.sh")
    report = directory / "testssl.json"
    options = ["--quiet", "--color", "0", "--warnings", "off", "--ip", "one", "--jsonfile", str(report)]
    command = [program, *options, "--add-ca", str(directory / "ca.pem"), f"https://localhost:{port}"]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, timeout=900)
    found = json.loads(report.read_text())
    if len(found) < _WHOLE:
        return [f"testssl.sh was not whole: {len(found)} findings"]
    return [
        f"{each['id']}: {each['severity']}: {each['finding']}"
        for each in found
        if each["severity"] not in {"OK", "INFO"} and each["id"] not in EXPECTED
    ]


def sslyze(directory: Path, port: int, profile: str) -> list[str]:
    """What sslyze finds that is not as Mozilla's `profile` has it."""
    program = Path(sys.prefix).with_name(".venv-tls") / "bin" / "sslyze"
    report = directory / "sslyze.json"
    options = ["--mozilla_config", profile, "--certinfo_ca_file", str(directory / "ca.pem")]
    command = [str(program), *options, f"--json_out={report}", f"localhost:{port}"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900)
    _, _, verdict = ended.stdout.partition("COMPLIANCE AGAINST TLS CONFIGURATION")
    if ended.returncode == 0 and "OK - Compliant" in verdict:
        return []
    return [line.strip() for line in verdict.splitlines() if "*" in line or "FAILED" in line] or [
        f"sslyze ended with {ended.returncode}: {ended.stderr.strip() or ended.stdout.strip()}"
    ]


def main() -> None:
    keys: dict[str, Key] = {
        "ECDSA": ec.generate_private_key(ec.SECP256R1()),
        "RSA": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    }
    wrong = []
    with origin() as url, tempfile.TemporaryDirectory() as root:
        for name, key in keys.items():
            directory = Path(root) / name
            directory.mkdir()
            certificates(directory, key)
            with serving(directory, url) as port:
                runs = {"testssl.sh": testssl(directory, port)}
                runs["sslyze (intermediate)"] = sslyze(directory, port, "intermediate")
            if name == "ECDSA":
                with serving(directory, url, "--tls-min-version", "1.3") as port:
                    runs["sslyze (modern)"] = sslyze(directory, port, "modern")
            for suite, found in runs.items():
                print(f"{name}: {suite}: {'; '.join(found) if found else 'nothing'}", flush=True)
                wrong += found
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
