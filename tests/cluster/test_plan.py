"""What has to be applied and deleted, as a table."""

from typing import Any

from apps.cluster.objects.fields import digest
from apps.cluster.reconciling.rules.plan import Why, diff
from apps.cluster.specs import ObjectRef, Observed, ref_of

ME = "row-1"


def manifest(kind: str, name: str, namespace: str = "ns", **rest: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **rest}


def seen(wanted: dict[str, Any], **facts: Any) -> dict[ObjectRef, Observed]:
    same = {
        "sent_hash": digest(wanted),
        "applied_hash": "h",
        "live_hash": "h",
        "is_managed": True,
        "owner_id": ME,
    }
    return {ref_of(wanted): Observed(ref=ref_of(wanted), uid="u", **{**same, **facts})}


SERVICE = manifest("Service", "nb", spec={"ports": []})


def test_what_is_there_as_we_sent_it_costs_no_call() -> None:
    plan = diff([SERVICE], seen(SERVICE), owner_id=ME)

    assert plan.is_empty
    assert plan.unchanged == 1


def test_what_is_not_there_is_applied() -> None:
    plan = diff([SERVICE], {}, owner_id=ME)

    assert [apply.why for apply in plan.levels[0]] == [Why.MISSING]


def test_what_was_made_by_somebody_else_under_our_name_is_applied() -> None:
    plan = diff([SERVICE], seen(SERVICE, sent_hash="", applied_hash="", live_hash=""), owner_id=ME)

    assert [apply.why for apply in plan.levels[0]] == [Why.MISSING]


def test_a_new_wish_is_applied() -> None:
    plan = diff([SERVICE], seen(SERVICE, sent_hash="older"), owner_id=ME)

    assert [apply.why for apply in plan.levels[0]] == [Why.CHANGED]


def test_a_field_of_ours_that_somebody_changed_is_applied_again() -> None:
    plan = diff([SERVICE], seen(SERVICE, live_hash="other"), owner_id=ME)

    assert [apply.why for apply in plan.levels[0]] == [Why.DRIFTED]


def test_what_is_being_deleted_is_waited_for_and_neither_applied_nor_deleted() -> None:
    plan = diff([SERVICE], seen(SERVICE, deleting=True), owner_id=ME)

    assert plan.is_empty
    assert plan.waiting == (ObjectRef("Service", "ns", "nb"),)
    assert diff([], seen(SERVICE, deleting=True), owner_id=ME).is_empty


def test_what_is_no_longer_wanted_is_deleted_by_its_uid() -> None:
    (delete,) = diff([], seen(SERVICE), owner_id=ME).deletes

    assert (delete.ref.name, delete.uid) == ("nb", "u")


def test_nothing_of_anybody_else_is_ever_deleted() -> None:
    for facts in (
        {"is_managed": False},
        {"owner_id": "another-row"},
        {"controller_uid": "its-controller"},
    ):
        assert diff([], seen(SERVICE, **facts), owner_id=ME).deletes == ()


def test_what_others_make_is_left_to_them_though_it_has_our_labels() -> None:
    for kind in ("ResourceClaim", "Workload", "Event"):
        assert diff([], seen(manifest(kind, "x")), owner_id=ME).deletes == ()
    of_a_job = seen(manifest("Pod", "x"), controller_uid="its-job")
    assert diff([], of_a_job, owner_id=ME).deletes == ()


def test_a_namespace_comes_before_what_hardens_it_and_that_before_what_lives_in_it() -> None:
    wanted = [
        manifest("StatefulSet", "nb"),
        manifest("ResourceQuota", "objects"),
        manifest("Namespace", "ns", namespace=""),
        manifest("Service", "nb"),
    ]

    levels = diff(wanted, {}, owner_id=ME).levels

    assert [{apply.ref.kind for apply in level} for level in levels] == [
        {"Namespace"},
        {"ResourceQuota"},
        {"StatefulSet", "Service"},
    ]


def test_what_does_not_build_on_each_other_is_one_level() -> None:
    wanted = [manifest("NetworkPolicy", "nb"), manifest("StatefulSet", "nb"), manifest("Service", "nb")]

    (level,) = diff(wanted, {}, owner_id=ME, in_order=False).levels

    assert {apply.ref.kind for apply in level} == {"NetworkPolicy", "StatefulSet", "Service"}
    assert diff([], {}, owner_id=ME, in_order=False).is_empty


def test_a_right_ends_before_the_account_and_the_account_before_the_namespace() -> None:
    gone = seen(manifest("Namespace", "ns", namespace="")) | seen(manifest("ServiceAccount", "a"))
    gone |= seen(manifest("RoleBinding", "a"))

    deletes = diff([], gone, owner_id=ME).deletes

    assert [delete.ref.kind for delete in deletes] == ["RoleBinding", "ServiceAccount", "Namespace"]
