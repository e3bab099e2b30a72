"""What is taken as a public SSH key, what is not, and in which words."""

import base64
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.serialization import PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.ssh_keys import public_keys
from apps.accounts.ssh_keys.public_keys import TYPES, read
from apps.errors import Invalid
from tests.accounts import ssh_lines
from tests.accounts.ssh_lines import ED25519, line, number, written

SK_ED25519, SK_ECDSA = "sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"
GITHUB = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
"""GitHub's host key: key and fingerprint are published."""
BODY = line("ada").split()[1]
CUT = base64.b64encode(base64.b64decode(BODY)[:-1]).decode()
WHOLE = base64.b64decode(BODY)


def refusal(pasted: str) -> str:
    with pytest.raises(Invalid) as refused:
        read(pasted)
    (problem,) = refused.value.problems
    assert problem.pointer == "/text"
    return problem.detail


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        (ED25519, lambda: line("ada")),
        *((f"ecdsa-sha2-nistp{bits}", lambda bits=bits: ssh_lines.ecdsa(bits)) for bits in ssh_lines.CURVES),
        ("ssh-rsa", lambda: ssh_lines.rsa_of(2048)),
        (SK_ED25519, lambda: ssh_lines.of_a_security_key(SK_ED25519)),
        (SK_ECDSA, lambda: ssh_lines.of_a_security_key(SK_ECDSA)),
    ],
)
def test_every_type_is_taken_with_or_without_a_comment(kind: str, make: Callable[[], str]) -> None:
    text = make()
    key = read(f"  {text}\tada at  home \r\n")
    assert (key.type, key.text, key.comment) == (kind, text, "ada at  home")
    assert (kind in TYPES, read(text).comment, read(text).fingerprint) == (True, "", key.fingerprint)


def test_the_fingerprint_is_the_one_that_openssh_prints() -> None:
    assert read(GITHUB).fingerprint == "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"


def test_a_comment_is_printable() -> None:
    assert read(f"{line('ada')} a\x1b[31mb\u202ec").comment == "a[31mbc"


@pytest.mark.parametrize(
    "pasted",
    [
        ssh_lines.private(PrivateFormat.OpenSSH),
        ssh_lines.private(PrivateFormat.PKCS8),
        ssh_lines.private(PrivateFormat.OpenSSH).replace("\n", " "),
        ssh_lines.private(PrivateFormat.OpenSSH).replace("\n", "\\n"),
        "".join(ssh_lines.private(PrivateFormat.OpenSSH).splitlines()[1:-1]),
        "\n".join(ssh_lines.private(PrivateFormat.OpenSSH).splitlines()[1:]),
        f"{line('ada')}\n{ssh_lines.private(PrivateFormat.PKCS8)}",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIGj",
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nP2/5",
        "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none",
        "Private-Lines: 1\nAAAA",
        f"-----BEGIN RSA PRIVATE KEY-----{'A' * public_keys.MOST_BYTES}",
    ],
)
def test_a_private_key_is_known_in_every_form_and_never_repeated(pasted: str) -> None:
    assert refusal(pasted) == (
        "This is a private key. Paste the .pub file's line; make a new key pair, because this one was sent."
    )


@pytest.mark.parametrize(
    ("pasted", "words"),
    [
        (" \n", "Paste the line of a .pub file"),
        ("ssh-dss AAAAB3NzaC1kc3MAAACBAP", "DSA keys are not safe"),
        (f"ssh-ed25519-cert-v01@openssh.com {BODY}", "This is a certificate"),
        (f'from="10.0.0.0/8",no-pty {line("ada")}', "without options"),
        (f'command="echo {ED25519}" ssh-rsa AAAA', "without options"),
        (f"portal.example {line('ada')}", "without options"),
        (f"{line('ada')}\n{line('rosa')}", "These are several lines"),
        (f"{ED25519}\n{BODY}", "These are several lines"),
        ("-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----", "another form"),
        ("---- BEGIN SSH2 PUBLIC KEY ----\nAAAA", "another form"),
        (BODY, "begins with its type. Taken are ssh-ed25519, "),
        (f"SSH-ED25519 {BODY}", "begins with its type"),
        (ED25519, "no whole key"),
        (f"{ED25519} {BODY[:-3]}", "not base64"),
        (f"{ED25519} {BODY[:20]}~{BODY[20:]}", "not base64"),
        (f"{ED25519} schlüssel", "not base64"),
        (f"{ED25519} {CUT}", "no whole key"),
        (f"{ED25519} ====", "no"),
        (f"{ED25519} {base64.b64encode(WHOLE + b'more').decode()}", "no whole key"),
        (f"ssh-rsa {BODY}", "not the type of the key behind it"),
        (f"{line('ada')} {'a' * public_keys.MOST_BYTES}", "16 KiB at most"),
        (ssh_lines.rsa_of(1024), "has 1024 bits: 2048 are the least, 3072 are better"),
        (written("ssh-rsa", number(65537), number(2**16384 + 1)), "has 16385 bits: 16384 are the most"),
        (written("ssh-rsa", number(65537), b"\0" + number(2**2048 + 1)), "no whole key"),
        (written("ecdsa-sha2-nistp256", b"nistp384", b"\x04" * 97), "no whole key"),
        (written("ecdsa-sha2-nistp256", b"nistp256", b"\x04" + b"\1" * 64), "no whole key"),
        (written(SK_ED25519, b"k" * 31, b"ssh:"), "no whole key"),
        (written(SK_ED25519, b"k" * 32), "no whole key"),
        (written(SK_ED25519, b"k" * 32, b""), "no whole key"),
        (written(SK_ED25519, b"k" * 32, b"ssh:", b"more"), "no whole key"),
        (written(SK_ED25519, b"k" * 32, b"ssh:\n\xff"), "no whole key"),
        (written(SK_ECDSA, b"nistp384", b"\x04" * 65, b"ssh:"), "no whole key"),
        (written(SK_ECDSA, b"nistp256", b"\x04" + b"\1" * 64, b"ssh:"), "no whole key"),
        (written(SK_ECDSA, b"nistp256", b"\x02" + b"\1" * 32, b"ssh:"), "no whole key"),
    ],
)
def test_what_is_no_public_key_is_refused_with_what_to_do(pasted: str, words: str) -> None:
    assert words in refusal(pasted)


@given(st.sampled_from(TYPES), st.lists(st.binary(max_size=140), max_size=4), st.binary(max_size=3))
def test_whatever_follows_a_type_is_taken_or_refused(kind: str, parts: list[bytes], rest: bytes) -> None:
    body = base64.b64decode(written(kind, *parts).split()[1]) + rest
    try:
        key = read(f"{kind} {base64.b64encode(body).decode()}")
    except Invalid:
        return
    assert (key.type, rest) == (kind, b"")
