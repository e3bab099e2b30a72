"""The suites of `make verify` that measure: long drills, races, growth and scores, each with its settings."""

from tests.verify.suite import TWO_PROCESSES, Suite

DRILLS = "tests/drills"

MEASURED: dict[str, Suite] = {
    "crash": Suite(
        "a worker may die before and after every call and every database write",
        (f"{DRILLS}/test_crash_at_every_write.py", f"{DRILLS}/test_lost_answers.py"),
        product=("apps/cluster/gateway/", "apps/cluster/reconciling/", "apps/workloads/lifecycle/"),
        settings={"DRILL_CRASH_EVERY": "1"},
    ),
    "schedules": Suite(
        "lost, repeated and reordered hints: the last generation wins in every schedule",
        (f"{DRILLS}/test_queue_is_a_hint.py",),
        product=("apps/cluster/reconciling/", "apps/quotas/wake/", "apps/workloads/lifecycle/"),
        settings={"DRILL_SCHEDULES": "1050", "DRILL_STEPS": "40"},
    ),
    "race": Suite(
        "100 ask for the last slice, on the sandbox",
        (f"{DRILLS}/test_last_slice.py",),
        product=("apps/quotas/allowances/", "apps/workloads/queue/", "apps/workloads/waiting/"),
        settings={"DRILL_RACE_ROUNDS": "40", "DRILL_RACE_ASKERS": "100"},
    ),
    "budget-race": Suite(
        "100 ask while a budget runs out: it is overrun by at most one billing tick",
        (f"{DRILLS}/test_budget_race.py",),
        product=("apps/metering/billing/", "apps/quotas/budgets/"),
        settings={"DRILL_BUDGET_ASKERS": "100"},
    ),
    "race-plane": Suite(
        "100 ask for the last slice at once, over REST on the real control plane",
        (f"{DRILLS}/test_on_plane.py",),
        ("-k", "last_slice"),
        ("apps/quotas/allowances/", "apps/workloads/queue/"),
        settings={"DRILL_PLANE_ROUNDS": "12", "DRILL_PLANE_ASKERS": "100"},
        on_plane=True,
    ),
    "kill": Suite(
        "24 workers killed at work with SIGKILL, 6 asleep past their lease, on the real control plane",
        (f"{DRILLS}/test_real_workers.py",),
        product=("apps/cluster/reconciling/", "portal/celery.py"),
        settings={"DRILL_KILLS": "24", "DRILL_SLEEPS": "6"},
        on_plane=True,
    ),
    "redis": Suite(
        "the queue emptied in a burst of 200 requests, 20 at once, and hanging for 60 s, on the real plane",
        (f"{DRILLS}/test_real_redis.py",),
        product=("apps/quotas/wake/", "portal/celery.py"),
        settings={"DRILL_BURST": "200", "DRILL_AT_ONCE": "20", "DRILL_REDIS_SECONDS": "60"},
        on_plane=True,
    ),
    "hung": Suite(
        "the real API server stands still for 60 s: the portal answers and says since when",
        (f"{DRILLS}/test_on_plane.py",),
        ("-k", "hung"),
        ("apps/cluster/gateway/",),
        settings={"DRILL_HUNG_SECONDS": "60"},
        on_plane=True,
    ),
    "predict": Suite(
        "200 changes of quota: what was predicted is what Kueue then did, on the real control plane",
        ("tests/quotas/test_predict_on_plane.py",),
        product=("apps/quotas/allowances/", "apps/quotas/kueue/"),
        settings={"PREDICT_CASES": "200"},
        on_plane=True,
    ),
    "advice": Suite(
        "300 times advice that says it starts now, and 300 times less of what waits: the scheduler agrees",
        ("tests/workloads/test_advice_scored.py",),
        product=("apps/workloads/advice/",),
        settings={"ADVICE_SITUATIONS": "300"},
    ),
    "histories": Suite(
        "200 random histories of tenancy and quota: the cluster is as after a fresh creation, no orphans",
        ("tests/tenants/test_histories.py",),
        product=("apps/quotas/", "apps/tenants/", "tests/tenants/histories.py"),
        settings={"DRILL_HISTORIES": "200", "DRILL_HISTORY_STEPS": "25"},
    ),
    "queue-growth": Suite(
        "asking for one's place costs the same from 10 to 10,000 waiting",
        (f"{DRILLS}/test_queue_growth.py",),
        product=("apps/workloads/queue/", "apps/workloads/waiting/"),
        settings={"DRILL_WAITING": "10000"},
    ),
    "tenant-growth": Suite(
        "a tenant costs the same among 10, 1,000 and 10,000: writes, pages, watches, memory",
        (f"{DRILLS}/test_tenant_growth.py",),
        product=("apps/cluster/mirror/", "apps/cluster/watching/"),
        settings={"DRILL_TENANTS": "10000"},
    ),
    "detectors": Suite(
        "the detector on 200 unseen seeds of two generators: precision and recall of every finding",
        ("tests/metering/test_detector.py",),
        product=("apps/metering/detector/",),
        settings={"DETECTOR_FIRST_SEED": "201", "DETECTOR_SEEDS": "200"},
    ),
    "focus": Suite(
        "the files in FOCUS's columns, judged by the FinOps Foundation's own validator",
        ("tests/metering/test_focus_validator.py",),
        product=("apps/metering/billing/rules/focus.py", "apps/metering/billing/selectors/focus_export.py"),
    ),
    "ledger": Suite(
        "100,000 random events, with re-cuts, late data and corrections: every share is somebody's, once",
        (
            "tests/metering/test_ledger.py",
            "tests/metering/test_rolling.py",
            "tests/metering/test_rolling_at_once.py",
            "tests/metering/test_verify_ledger.py",
        ),
        product=("apps/metering/ledger/",),
        settings={"LEDGER_EVENTS": "100000", "LEDGER_ROLLS": "120"},
        on_postgres=True,
    ),
    "streams": Suite(
        "every stream, the door's too, ends 1 s after its right; 200 follow a log, first byte within 500 ms",
        (
            "tests/workloads/test_stream_rights.py",
            "tests/workloads/test_followers.py",
            "tests/door/test_gateway.py",
            "tests/door/test_rights.py",
        ),
        product=("apps/web/streams/", "portal/door/"),
        settings={"STREAM_ENDS_WITHIN": "1", "FOLLOWERS_FIRST_BYTE_MS": "500"},
    ),
    "fuzz": Suite(
        "20,000 random requests of every role against the OpenAPI document, and sequences along its links",
        ("tests/fuzz",),
        TWO_PROCESSES,
        product=("portal/api/", "tests/matrix/"),
        settings={"FUZZ_CASES": "24000"},
    ),
    "stack": Suite(
        "two of every part are restarted for 5 minutes, upgraded and rolled back: no request fails",
        ("tests/stack/test_rolling.py",),
        product=("Procfile", "portal/run/", "tests/stack/"),
        settings={"STACK_ROLLED_SECONDS": "300"},
        on_plane=True,
    ),
    "kills": Suite(
        "every part killed, and its servers and the cluster away, 5 minutes at most: nothing is lost",
        ("tests/stack/test_kills.py",),
        product=("Procfile", "portal/run/", "tests/stack/"),
        settings={"STACK_AWAY_SECONDS": "300"},
        on_plane=True,
    ),
}
