"""Names in certificates, and the rules that map them to users."""

import datetime

import pytest

from penstock.model.errors import InvalidConfig
from penstock.security.names import InvalidCertificate, map_name, parse_rules, subject_of


def map_with(rules: str, name: str) -> str:
    return map_name(parse_rules(rules), name)


NAME = "CN=Alice Adams,OU=Sales,O=Example,C=US"


@pytest.mark.parametrize(
    ("rules", "user"),
    [
        ("DEFAULT", NAME),
        ("RULE:^CN=([^,]*),.*$/$1/", "Alice Adams"),
        ("RULE:^CN=([^,]*),OU=(.*?),.*$/$2 $1/L", "sales alice adams"),
        ("RULE:CN=([^,]*),.*/$1/U,DEFAULT", "ALICE ADAMS"),
        ("RULE:^CN=nobody$/x/,RULE:^(.*)$/$1@here/", NAME + "@here"),
        ("RULE:CN=Alice/x/,DEFAULT", NAME),
        ("RULE:^.*$/a\\/b/", "a/b"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_applies(rules: str, user: str) -> None:
    assert map_with(rules, NAME) == user


def test_a_name_that_no_rule_matches_is_rejected() -> None:
    with pytest.raises(InvalidCertificate):
        map_with("RULE:^x$/y/", NAME)


@pytest.mark.parametrize("rules", ["RULE:a", "RULE:a/b", "RULE:a/b/X", "default", "DEFAULTDEFAULT", "RULE:(/x/"])
def test_malformed_rules_are_rejected(rules: str) -> None:
    with pytest.raises(InvalidConfig):
        parse_rules(rules)


def certificate(*names: tuple[str, str]) -> bytes:
    pytest.importorskip("cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.ObjectIdentifier(oid), value) for oid, value in names])
    begin = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    data: bytes = built.public_bytes(serialization.Encoding.DER)
    return data


def test_the_subject_has_the_form_of_java() -> None:
    data = certificate(("2.5.4.6", "DE"), ("2.5.4.10", 'Smith, "J" & Söhne'), ("2.5.4.3", " a+b "))
    assert subject_of(data) == 'CN=\\ a\\+b\\ ,O=Smith\\, \\"J\\" & Söhne,C=DE'


def test_attributes_without_a_short_name_are_hexadecimal() -> None:
    data = certificate(("2.5.4.3", "x"), ("1.2.840.113549.1.9.1", "a@b"))
    assert subject_of(data) == "1.2.840.113549.1.9.1=#1603614062,CN=x"


@pytest.mark.parametrize("data", [b"", b"\x30", b"\x30\x80", b"\x30\x03\x02\x01\x01", b"\x30\x84\xff\xff\xff\xff"])
def test_a_malformed_certificate_is_rejected(data: bytes) -> None:
    with pytest.raises(InvalidCertificate):
        subject_of(data)
