"""The pages whose cost is watched: counted in `test_page_budget`, timed by `make bench SUITE=pages`."""

TEAM = (
    "/",
    "/notices/",
    "/me/tokens/",
    "/help/figures/",
    "/t/{tenant}/",
    "/t/{tenant}/workloads/",
    "/t/{tenant}/workloads/{workload}/",
    "/t/{tenant}/new/",
    "/t/{tenant}/new/notebook/",
    "/t/{tenant}/usage/",
    "/t/{tenant}/usage/?span=7d",
    "/t/{tenant}/usage/?span=7d&part=who",
    "/t/{tenant}/bill/",
    "/t/{tenant}/allocations/",
    "/t/{tenant}/findings/",
    "/t/{tenant}/quota/",
    "/t/{tenant}/quota/?part=lent",
    "/t/{tenant}/quota/?part=spent",
    "/t/{tenant}/members/",
    "/t/{tenant}/isolation/",
    "/t/{tenant}/audit/",
    "/t/{tenant}/disks/",
    "/t/{tenant}/idle-policy/",
)
CONSOLE = (
    "/console/",
    "/console/?part=picture",
    "/console/?span=7d&part=picture",
    "/console/?part=use",
    "/console/queue/",
    "/console/nodes/",
    "/console/findings/",
    "/console/offers/",
    "/console/quotas/",
    "/console/prices/",
    "/console/tenants/",
    "/console/tenants/{tenant}/",
    "/console/departments/",
    "/console/users/",
    "/console/requests/",
    "/console/telemetry/",
    "/console/drift/",
    "/console/health/",
    "/console/audit/",
    "/console/audit/check/",
    "/console/records/",
    "/console/records/workloads/workload/",
    "/console/records/workloads/workload/{workload}/",
)


def addresses(tenant: str, workload: object) -> dict[str, list[str]]:
    """Those of one tenant and one of its workloads, by who looks: its lead, and a platform engineer."""
    return {
        who: [page.format(tenant=tenant, workload=workload) for page in pages]
        for who, pages in (("lead", TEAM), ("platform", CONSOLE))
    }


def headers_of(url: str) -> dict[str, str]:
    """What a browser says beside: a part of a page is asked for by htmx."""
    return {"HX-Request": "true"} if "part=" in url else {}
