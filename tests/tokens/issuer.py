"""The issuer of tokens, which publishes its keys, in tests."""

import json
import time
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from penstock.testing import Peer
from penstock.tokens import Jwt, Key
from support.client import answer

SECRET = b"a secret of two and thirty bytes"

# Once for all tests: an RSA key takes longer than most of them.
_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass(frozen=True)
class Signer:
    """A key and its one algorithm."""

    algorithm: str
    private: Any
    id: str | None = None

    @classmethod
    def make(cls, algorithm: str, name: str | None = None) -> "Signer":
        match algorithm:
            case "ES256":
                return cls(algorithm, ec.generate_private_key(ec.SECP256R1()), name)
            case "ES384":
                return cls(algorithm, ec.generate_private_key(ec.SECP384R1()), name)
            case "EdDSA":
                return cls(algorithm, ed25519.Ed25519PrivateKey.generate(), name)
            case _ if algorithm.startswith("HS"):
                return cls(algorithm, SECRET * 2, name)
            case _:
                return cls(algorithm, _RSA, name)

    def token(self, claims: dict[str, Any] | None = None, **header: Any) -> str:
        claims = {"exp": int(time.time()) + 600, **(claims or {})}
        named = header if self.id is None else {"kid": self.id, **header}
        return jwt.encode(claims, self.private, algorithm=self.algorithm, headers=named)

    @property
    def public(self) -> Any:
        """What verifies: bytes of a secret, or a key."""
        return self.private if isinstance(self.private, bytes) else self.private.public_key()

    @property
    def pem(self) -> str:
        return self.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    def jwk(self, **more: Any) -> dict[str, Any]:
        kind = {"E": ECAlgorithm, "R": RSAAlgorithm, "P": RSAAlgorithm}[self.algorithm[0]]
        if self.algorithm == "EdDSA":
            kind = OKPAlgorithm
        text = kind.to_jwk(self.public)
        # PyJWT says what its key may be used for; few issuers do.
        jwk = {name: value for name, value in json.loads(text).items() if name != "key_ops"}
        named = {} if self.id is None else {"kid": self.id}
        return {**jwk, **named, "alg": self.algorithm, **more}


@dataclass
class Publisher:
    """Publishes a set of keys, counts who asks, and does what it is told."""

    keys: list[dict[str, Any]] = field(default_factory=list)
    fields: tuple[str, ...] = ()
    response: bytes | None = None
    asked: int = 0

    async def __call__(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            assert request.target == "/jwks.json"
            self.asked += 1
            if self.response is not None:
                await peer.send(self.response)
                continue
            body = json.dumps({"keys": self.keys}).encode()
            await peer.send(answer(f"Content-Length: {len(body)}", *self.fields, body=body))


ALGORITHMS = (
    "HS256",
    "HS384",
    "HS512",
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "EdDSA",
)


def rules(signer: Signer, **options: Any) -> Jwt:
    key = signer.private if isinstance(signer.private, bytes) else signer.pem
    return Jwt(keys=(Key(signer.algorithm, key, id=signer.id),), **options)  # type: ignore[arg-type]
