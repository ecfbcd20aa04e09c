"""JWTs: what is believed and what is not, and when keys are fetched."""

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any, ClassVar

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from server.access.jwt import KeyFile, KeyUrl, Verifier, fetch_keys, parse_keys

from .provider import AUDIENCE, ISSUER, document, key, published, signed


@pytest.fixture
def jwks(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_bytes(document(published("ES256", "k1"), published("RS256", "r1")))
    return path


@pytest.fixture
def verifier(jwks: Path) -> Verifier:
    return Verifier(ISSUER, AUDIENCE, KeyFile(jwks))


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256", "ES256", "EdDSA"])
@pytest.mark.parametrize("kid", ["k1", None])
def test_every_asymmetric_signature_counts(jwks: Path, algorithm: str, kid: str | None) -> None:
    kind = "RS256" if algorithm[1] == "S" and algorithm[0] != "E" else algorithm
    jwks.write_bytes(document(published(kind, "k1")))
    verifier = Verifier(ISSUER, AUDIENCE, KeyFile(jwks))
    body = {"iss": ISSUER, "aud": [AUDIENCE, "x"], "sub": "ann", "exp": time.time() + 9}
    head = {"kid": kid} if kid else {}
    assert verifier.name(jwt.encode(body, key(kind), algorithm, headers=head)) == "ann"


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": None}, {"exp": 0}, {"iss": "https://id.example/"}, {"iss": None}, {"aud": "other"},
        {"aud": None}, {"aud": []}, {"sub": None}, {"sub": ""}, {"sub": "a\nb"}, {"sub": "x" * 129},
        {"exp": time.time() - 31}, {"nbf": time.time() + 90_000}, {"iat": time.time() + 90_000},
    ],
)  # fmt: skip
def test_a_claim_that_is_missing_or_wrong(verifier: Verifier, claims: dict[str, Any]) -> None:
    assert verifier.name(signed()) == "ann"
    assert verifier.name(signed(**claims)) is None


def test_clocks_may_differ_a_little(verifier: Verifier) -> None:
    assert verifier.name(signed(exp=time.time() - 20, nbf=time.time() + 20)) == "ann"


def test_another_claim_may_name_the_caller(jwks: Path) -> None:
    verifier = Verifier(ISSUER, AUDIENCE, KeyFile(jwks), "email")
    assert verifier.name(signed(email="ann@example.com")) == "ann@example.com"
    assert verifier.name(signed()) is None
    assert verifier.name(signed(email=["ann"])) is None


def test_a_signature_of_somebody_else(verifier: Verifier) -> None:
    assert verifier.name(signed(which="stranger")) is None
    head, _, tail = signed().split(".")
    other = base64.urlsafe_b64encode(b'{"sub": "bob"}').rstrip(b"=").decode()
    assert verifier.name(f"{head}.{other}.{tail}") is None
    assert verifier.name(signed(kid="unknown")) is None
    assert verifier.name(signed(kid=None)) is None, "two keys, none named"


def test_no_secret_that_everyone_knows_signs(verifier: Verifier, jwks: Path) -> None:
    body = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": time.time() + 600}
    unsigned = jwt.encode(body, "", "none", headers={"kid": "r1"})
    assert verifier.name(unsigned) is None
    # The public key taken for a shared secret, by hand because libraries refuse to.
    head = {"alg": "HS256", "kid": "oct1"}
    secret = base64.urlsafe_b64encode(b"s" * 32).rstrip(b"=").decode()
    oct_entry = {"kty": "oct", "kid": "oct1", "k": secret, "alg": "HS256"}
    jwks.write_bytes(document(published("ES256", "k1"), oct_entry))
    assert verifier.name(jwt.encode(body, b"s" * 32, "HS256", headers=head)) is None
    assert verifier.name(signed()) == "ann"


def test_a_key_signs_only_as_it_says(jwks: Path) -> None:
    jwks.write_bytes(document(published("RS256", "k1", alg="RS256")))
    verifier = Verifier(ISSUER, AUDIENCE, KeyFile(jwks))
    assert verifier.name(signed("RS256")) == "ann"
    body = jwt.decode(signed("RS256"), options={"verify_signature": False})
    other = jwt.encode(body, key("RS256"), "PS256", headers={"kid": "k1"})
    assert verifier.name(other) is None


def test_what_a_header_must_not_say(verifier: Verifier) -> None:
    assert verifier.name(signed(headers={"crit": ["exp"], "exp": 1})) is None
    assert (
        verifier.name(signed(headers={"jwk": published("ES256", "k2", "own")}, which="own")) is None
    )


@pytest.mark.parametrize("text", ["", "a.b.c", "..", "ä.ö.ü", "e30.e30.", "." * 99, "vmt_a_b"])
def test_what_is_no_jwt(verifier: Verifier, text: str) -> None:
    assert verifier.name(text) is None
    assert verifier.may_wait(text) is False


def test_keys_that_are_not_for_this_are_left_out() -> None:
    weak = published("RS256", "weak", "weak")
    private = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key("RS256")))
    entries = [
        weak, {**private, "kid": "private"}, published("ES256", "enc", use="enc"), {"kid": "x"},
        {"kty": "EC", "crv": "P-256", "x": "!", "y": "!"}, published("EdDSA", "good", use="sig"),
    ]  # fmt: skip
    assert set(parse_keys(document(*entries))) == {"good"}


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"keys": 1}', b'{"keys": []}', b'{"keys": [1]}', b"\xff", b"[" * 9999]
)  # fmt: skip
def test_what_is_no_document(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        parse_keys(data)
    (tmp_path / "keys").write_bytes(data)
    with pytest.raises(ValueError):
        KeyFile(tmp_path / "keys")


def test_a_file_is_read_again_when_it_changes(verifier: Verifier, jwks: Path) -> None:
    assert verifier.name(signed(kid="k2", which="new")) is None
    jwks.write_bytes(document(published("ES256", "k2", "new")))
    assert verifier.name(signed(kid="k2", which="new")) == "ann"
    assert verifier.name(signed()) is None, "the old key is gone"
    jwks.write_text("{")
    assert verifier.name(signed(kid="k2", which="new")) == "ann", "a broken file changes nothing"
    jwks.unlink()
    assert verifier.name(signed(kid="k2", which="new")) == "ann"


class Provider:
    def __init__(self) -> None:
        self.now, self.asked = 5_000.0, 0
        self.answer: bytes | Exception = document(published("ES256", "k1"))

    def fetch(self, url: str) -> bytes:
        assert url == "https://id.example/keys"
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_keys_are_fetched_when_needed_and_not_more_than_once_a_minute() -> None:
    provider = Provider()
    keys = KeyUrl("https://id.example/keys", fetch=provider.fetch, clock=lambda: provider.now)
    verifier = Verifier(ISSUER, AUDIENCE, keys)
    assert provider.asked == 0
    assert verifier.may_wait(signed())
    assert verifier.name(signed()) == "ann"
    assert not verifier.may_wait(signed())
    for number in range(20):
        assert verifier.name(signed(kid=f"unknown{number}")) is None
    assert provider.asked == 1
    provider.answer = document(published("ES256", "k1"), published("ES256", "k2", "new"))
    provider.now += 59
    assert verifier.name(signed(kid="k2", which="new")) is None
    provider.now += 1
    assert verifier.may_wait(signed(kid="k2", which="new"))
    assert not verifier.may_wait(signed()), "known keys wait for nothing"
    assert verifier.name(signed(kid="k2", which="new")) == "ann"
    assert provider.asked == 2


def test_a_provider_that_is_away_changes_nothing() -> None:
    provider = Provider()
    keys = KeyUrl("https://id.example/keys", fetch=provider.fetch, clock=lambda: provider.now)
    verifier = Verifier(ISSUER, AUDIENCE, keys)
    assert verifier.name(signed()) == "ann"
    for away in (OSError("gone"), b"<html>", TimeoutError()):
        provider.answer = away
        provider.now += 601
        assert verifier.name(signed()) == "ann"
    assert provider.asked == 4
    provider.answer = document(published("ES256", "k2", "new"))
    provider.now += 61
    assert verifier.name(signed()) is None, "a key that was withdrawn no longer counts"


def test_of_many_who_wait_one_fetches() -> None:
    provider, going = Provider(), threading.Event()

    def fetch(url: str) -> bytes:
        assert going.wait(10)
        return provider.fetch(url)

    keys = KeyUrl("https://id.example/keys", fetch=fetch, clock=lambda: provider.now)
    verifier, names = Verifier(ISSUER, AUDIENCE, keys), list[str | None]()
    threads = [
        threading.Thread(target=lambda: names.append(verifier.name(signed()))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    going.set()
    for thread in threads:
        thread.join(10)
    assert (names, provider.asked) == (["ann"] * 8, 1)


# -- over the network -----------------------------------------------------------------------------


class Site(BaseHTTPRequestHandler):
    pages: ClassVar[dict[str, bytes]] = {}

    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/keys")
            self.end_headers()
            return
        body = self.pages.get(self.path)
        self.send_response(200 if body is not None else 404)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def site(folder: Path) -> Iterator[tuple[str, Path]]:
    """An https server with a certificate of its own: its address and the certificate."""
    owner = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now, private = datetime.now(UTC), key("ES256", "tls")
    certificate = (
        x509.CertificateBuilder()
        .subject_name(owner)
        .issuer_name(owner)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(private, hashes.SHA256())
    )
    pem, secret = folder / "cert.pem", folder / "key.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, secret)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}", pem
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_keys_come_over_https_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with site(tmp_path) as (address, pem):
        Site.pages = {"/keys": document(published("ES256", "k1")), "/big": b" " * (256 * 1024 + 1)}
        with pytest.raises(OSError):
            fetch_keys(f"{address}/keys")  # nobody vouches for the certificate
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
        verifier = Verifier(ISSUER, AUDIENCE, KeyUrl(f"{address}/keys"))
        assert verifier.name(signed()) == "ann"
        for page in ("/big", "/moved", "/absent"):
            with pytest.raises((OSError, ValueError)):
                fetch_keys(address + page)
        with pytest.raises(ValueError):
            fetch_keys(address.replace("https", "http") + "/keys")
        with pytest.raises(ValueError):
            fetch_keys(pem.as_uri())


def test_what_a_check_costs(verifier: Verifier) -> None:
    """Prints figures; wall-clock is nothing to fail by on a shared machine."""
    for algorithm, kid in (("ES256", "k1"), ("RS256", "r1")):
        token = signed(algorithm, kid)
        started = time.process_time()
        for _ in range(300):
            assert verifier.name(token) == "ann"
        print(f"\n{algorithm}: {(time.process_time() - started) / 300 * 1e6:.0f} µs")
