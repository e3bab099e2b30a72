"""Settings: nothing is needed for development; every mistake is named at once, with what to do."""

import json

import pytest

from portal import config


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "DATABASE_URL", "REDIS_URL", "MODE", "DEMO", "PORT", "BIND"):
        monkeypatch.delenv(f"ALLOTMENT_{name}", raising=False)


def test_development_needs_no_variable() -> None:
    loaded = config.load()
    assert (loaded.mode, loaded.url, loaded.is_https) == ("development", "http://127.0.0.1:8000", False)


def test_every_mistake_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOTMENT_PORT", "99999")
    monkeypatch.setenv("ALLOTMENT_DATABASE_URL", "mysql://here")
    monkeypatch.setenv("ALLOTMENT_REDIS_URL", "amqp://there")
    monkeypatch.setenv("ALLOTMENT_DEMO", "1")
    monkeypatch.setenv("ALLOTMENT_BIND", "0.0.0.0")  # noqa: S104 - what must be refused
    with pytest.raises(config.ConfigError) as refusal:
        config.load()
    words = str(refusal.value)
    assert "ALLOTMENT_PORT" in words
    assert "ALLOTMENT_DATABASE_URL: must start with postgresql://" in words
    assert "ALLOTMENT_REDIS_URL: must start with redis://" in words
    assert "ALLOTMENT_DEMO has sign-in buttons without a password" in words, (
        "also what only does not go together"
    )


def test_production_says_all_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOTMENT_MODE", "production")
    monkeypatch.setenv("ALLOTMENT_DEMO", "1")
    with pytest.raises(config.ConfigError) as refusal:
        config.load()
    words = str(refusal.value)
    for name in ("SECRET_KEY", "PUBLIC_URL", "DATABASE_URL", "DEMO"):
        assert f"ALLOTMENT_{name}" in words


def test_a_gateway_needs_the_door_that_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOTMENT_GATEWAY", "edge/public")
    monkeypatch.setenv("ALLOTMENT_DOOR_CLUSTER", "north")
    with pytest.raises(config.ConfigError, match="set ALLOTMENT_DOOR_SERVICE too"):
        config.load()
    monkeypatch.setenv("ALLOTMENT_DOOR_SERVICE", "allotment-door")
    assert config.load().gateway == "edge/public"


def test_the_demo_is_refused_on_an_address_that_others_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOTMENT_DEMO", "1")
    monkeypatch.setenv("ALLOTMENT_BIND", "0.0.0.0")  # noqa: S104 - what must be refused
    with pytest.raises(config.ConfigError, match="sign-in buttons without a password"):
        config.load()


def test_proxies_and_clusters_addresses_are_read_or_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOTMENT_TRUSTED_PROXIES", "10.0.0.0/24, fd00::1")
    monkeypatch.setenv("ALLOTMENT_CLUSTER_ADDRESSES", "127.0.0.0/8,LocalHost")
    loaded = config.load()
    assert [str(each) for each in loaded.proxies] == ["10.0.0.0/24", "fd00::1/128"]
    assert loaded.development_clusters == ("127.0.0.0/8", "localhost")
    monkeypatch.setenv("ALLOTMENT_TRUSTED_PROXIES", "10.0.0.1/24, proxy")
    monkeypatch.setenv("ALLOTMENT_CLUSTER_ADDRESSES", "127.0.0.1/8")
    with pytest.raises(config.ConfigError) as refusal:
        config.load()
    for name in ("TRUSTED_PROXIES", "CLUSTER_ADDRESSES"):
        assert f"ALLOTMENT_{name}: must be networks such as 10.0.0.0/24" in str(refusal.value)


def test_the_domains_of_invited_people_are_read_or_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALLOTMENT_INVITED_DOMAINS", raising=False)
    assert config.load().invitable == frozenset()
    monkeypatch.setenv("ALLOTMENT_INVITED_DOMAINS", "Example.org, lab.example.org")
    assert config.load().invitable == {"example.org", "lab.example.org"}
    for wrong in ("@example.org", "*.example.org", "kim@example.org", "example"):
        monkeypatch.setenv("ALLOTMENT_INVITED_DOMAINS", wrong)
        with pytest.raises(config.ConfigError, match="INVITED_DOMAINS: must be domains"):
            config.load()


def test_nobody_is_a_proxy_and_no_cluster_an_exception_unless_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRUSTED_PROXIES", "CLUSTER_ADDRESSES"):
        monkeypatch.delenv(f"ALLOTMENT_{name}", raising=False)
    loaded = config.load()
    assert (loaded.proxies, loaded.development_clusters) == ((), ())


def said(**more: str) -> dict[str, str]:
    return {"slug": "a", "name": "A", "issuer": "https://a.example", "client_id": "x", **more}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "must be a JSON list of providers"),
        (json.dumps([said(slug="A b")]), "0.slug"),
        (json.dumps([said(issuer="http://far.example")]), "must be https"),
        (json.dumps([said(scopes="email")]), "must include openid"),
        (json.dumps([said(), said(name="B")]), "the slug a stands there twice"),
        (json.dumps([said(secret="tell-nobody")]), "0.secret"),
    ],
)
def test_a_wrong_provider_is_named_without_its_secret(
    text: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALLOTMENT_OIDC", text)
    with pytest.raises(config.ConfigError) as refusal:
        config.load()
    assert "ALLOTMENT_OIDC" in str(refusal.value)
    assert words in str(refusal.value)
    assert "tell-nobody" not in str(refusal.value)


def test_passwords_are_not_switched_off_where_nobody_could_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOTMENT_PASSWORD_SIGN_IN", "break-glass")
    monkeypatch.setenv("ALLOTMENT_BREAK_GLASS_USER", "keeper")
    with pytest.raises(config.ConfigError, match="ALLOTMENT_OIDC"):
        config.load()
    monkeypatch.setenv("ALLOTMENT_OIDC", json.dumps([said(client_secret="s3")]))
    loaded = config.load()
    assert [each.slug for each in loaded.providers] == ["a"]
    assert "s3" not in repr(loaded) + repr(loaded.providers)
