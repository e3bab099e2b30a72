"""The secret key is changed: everything that was sealed opens afterwards, and what people have goes on."""

import base64
import hashlib
from io import StringIO
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.apps import apps
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from apps import sealing
from apps.accounts.models import Authenticator, RecoveryCode
from apps.accounts.second_factor import factors
from apps.audit.models import AuditEvent
from apps.cluster.models import Cluster
from apps.errors import Conflict
from apps.sealing import AUTHENTICATOR, KUBECONFIG, REGISTRY, SECRET
from apps.tenants.models import RegistryCredential
from apps.workloads.lifecycle.services import verbs
from apps.workloads.models import WorkloadSecret
from apps.workloads.opening.services import reaching
from apps.workloads.specs import Phase
from portal.operate import rotation
from portal.operate.findings import NOTE, OK, WRONG
from tests.accounts.second_factors import give_app
from tests.conftest import Cast, as_actor
from tests.factories import NOW, make_user
from tests.workloads.asking import submit
from tests.workloads.in_process import House

pytestmark = [pytest.mark.django_db]
PASSWORD = "a long password of hers"
OLD, NEW, OTHER = (f"{word}-key-of-some-length-for-these-tests-alone" for word in ("old", "new", "other"))


@pytest.fixture(autouse=True)
def old_key(settings: Settings) -> None:
    settings.SECRET_KEY = OLD


def change(settings: Any, *former: str) -> None:
    """The new key seals; of the old ones these still open."""
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = NEW, list(former)


def sealed_before(text: str, purpose: str, secret: str = OLD) -> str:
    """As texts were sealed before they named their key."""
    digest = hashlib.sha256(f"allotment:{purpose}:".encode() + secret.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(digest)).encrypt(text.encode()).decode()


def fill(cast: Cast) -> None:
    """One row in every column of sealed texts; the kubeconfig as it was sealed before."""
    Cluster.objects.update(kubeconfig_sealed=sealed_before("kubeconfig", KUBECONFIG))
    by = {"set_by": "rosa", "set_at": NOW}
    login = sealing.seal("registry", REGISTRY)
    RegistryCredential.objects.create(tenant=cast.vision, registry="quay.io", sealed=login, **by)
    row = submit(cast)
    WorkloadSecret.objects.create(
        workload=row, name="K", into="env", sealed=sealing.seal("secret", SECRET), **by
    )
    Authenticator.objects.create(user=cast.rosa, sealed=sealing.seal("authenticator", AUTHENTICATOR))


def opened() -> list[str]:
    """What is in each column, in the order of `rotation.SEALED`."""
    texts = [(column, column.model._default_manager.get()) for column in rotation.SEALED]
    return [sealing.unseal(getattr(row, column.column), column.purpose) for column, row in texts]


def findings() -> dict[str, tuple[str, str]]:
    return {each.name: (each.state, each.seen) for each in rotation.check()}


def test_a_text_is_bound_to_its_key_and_its_purpose(settings: Settings) -> None:
    text = sealing.seal("kubeconfig")
    assert sealing.unseal(text) == "kubeconfig"
    assert sealing.key_of(text) == sealing.key_in_force()
    change(settings, OLD)
    assert sealing.unseal(text) == "kubeconfig"
    renamed = text.replace(sealing.key_of(text), sealing.key_in_force())
    body = bytearray(base64.urlsafe_b64decode(text.split(".")[2]))
    body[-1] ^= 1
    touched = ".".join([*text.split(".")[:2], base64.urlsafe_b64encode(body).decode()])
    wrong = [
        (text, SECRET),
        (renamed, KUBECONFIG),
        (touched, KUBECONFIG),
        ("1.", KUBECONFIG),
        ("", KUBECONFIG),
    ]
    for sealed, purpose in wrong:
        with pytest.raises(ValueError, match="another secret key, or changed since"):
            sealing.unseal(sealed, purpose)


def test_every_column_of_sealed_texts_is_known() -> None:
    columns = {
        (model, each.name)
        for model in apps.get_models()
        for each in model._meta.fields
        if "sealed" in each.name
    }
    assert columns == {(each.model, each.column) for each in rotation.SEALED}


@pytest.mark.both_databases
def test_what_was_sealed_opens_after_the_old_key_is_gone(cast: Cast, settings: Settings) -> None:
    fill(cast)
    change(settings, OLD)
    assert findings()["sealed texts"][0] == NOTE
    said = StringIO()
    call_command("rotate_secret_key", stdout=said)
    assert (
        "1 kubeconfigs, 1 logins of registries, 1 secrets of workloads, 1 authenticator apps"
        in said.getvalue()
    )
    change(settings)
    assert opened() == ["kubeconfig", "registry", "secret", "authenticator"]
    assert findings()["sealed texts"] == (OK, "4, all with the secret key in force")
    assert AuditEvent.objects.get(action="secret-key.rotated").actor == "system:operator"
    call_command("rotate_secret_key", stdout=said)
    assert "Sealed anew: nothing." in said.getvalue()
    assert AuditEvent.objects.filter(action="secret-key.rotated").count() == 1


def test_what_no_key_opens_is_left_alone_and_named(cast: Cast, settings: Settings) -> None:
    fill(cast)
    Authenticator.objects.update(sealed=sealed_before("lost", AUTHENTICATOR, OTHER))
    lost = Authenticator.objects.get().sealed
    change(settings, OLD)
    with pytest.raises(CommandError, match="No secret key opens 1 authenticator apps"):
        call_command("rotate_secret_key", stdout=StringIO())
    assert Authenticator.objects.get().sealed == lost
    assert findings()["sealed texts"] == (WRONG, "no secret key opens 1 authenticator apps")
    change(settings, OLD, OTHER)
    call_command("rotate_secret_key", stdout=StringIO())
    change(settings)
    assert opened()[-1] == "lost"


def test_what_somebody_sets_meanwhile_stays(cast: Cast, settings: Settings) -> None:
    fill(cast)
    change(settings, OLD)
    (read,) = rotation._former(rotation.SEALED[2])
    WorkloadSecret.objects.update(sealed=sealing.seal("theirs", SECRET))
    assert rotation._resealed(read) == 0
    assert sealing.unseal(WorkloadSecret.objects.get().sealed, SECRET) == "theirs"


def test_people_stay_signed_in_and_their_codes_open(settings: Settings) -> None:
    ada = make_user("ada", password=PASSWORD)
    _, codes = give_app(ada)
    client = Client()
    client.force_login(ada)
    change(settings, OLD)
    assert client.get("/me/sign-in/").status_code == 200
    assert factors.accepts_recovery(ada, codes[0], now=timezone.now())
    assert findings()["old secret keys"][1].endswith("1 people's recovery codes")
    change(settings)
    assert not factors.accepts_recovery(ada, codes[1], now=timezone.now())
    assert "of a secret key that is not here" in findings()["old secret keys"][1]


def test_rows_from_before_keys_had_names_are_of_the_oldest(settings: Settings) -> None:
    ada = make_user("ada", password=PASSWORD)
    _, codes = give_app(ada)
    RecoveryCode.objects.update(key="")
    change(settings, OTHER, OLD)
    call_command("rotate_secret_key", stdout=StringIO())
    assert set(RecoveryCode.objects.values_list("key", flat=True)) == {sealing.oldest_key()}
    assert factors.accepts_recovery(ada, codes[0], now=timezone.now())


def test_a_running_notebook_keeps_its_token_until_its_next_run(cast: Cast, settings: Settings) -> None:
    settings.CONFIG = settings.CONFIG.model_copy(update={"door_cluster": cast.vision.cluster.slug})
    house = House(submit(cast))
    assert house.start().phase == Phase.RUNNING
    token, calls = reaching.upstream(house.row).token, len(house.cluster.calls)
    change(settings, OLD)
    house.turn()
    assert (reaching.upstream(house.row).token, len(house.cluster.calls)) == (token, calls)
    assert rotation.still_needed() == {"running notebooks": 1}
    change(settings)
    with pytest.raises(Conflict, match="secret key that this installation no longer has"):
        reaching.upstream(house.row)
    for verb in ("stop", "resume"):
        act = getattr(verbs, f"{verb}_workload")
        act(actor=as_actor(cast.rosa), workload=house.row, reason="", now=timezone.now())
        house.turn()
        house.forget("Pod", "Workload", "ResourceClaim")
    house.start()
    assert reaching.upstream(house.row).token not in ("", token)
