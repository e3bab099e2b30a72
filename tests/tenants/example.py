"""One tenant as a value."""

from apps.tenants.specs import MemberSpec, Role, Suspend, TenantSpec

TENANT = TenantSpec(
    id="5b1f6a1e-2f64-4a39-8c7c-4b1d8d3f0002",
    slug="vision",
    object_name="vision-dddddddddd",
    cohort="research-eeeeeeeeee",
    generation=3,
    suspend=Suspend.NONE,
    members=(MemberSpec("member-1111111111", Role.MEMBER), MemberSpec("member-2222222222", Role.LEAD)),
)
