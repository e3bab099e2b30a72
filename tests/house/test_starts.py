"""What a process reads at its start stays in its memory: none reads what only another has a use for."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.house.reading import ROOT

PARTS = """
import json, sys
import portal.run.beat, django
django.setup()
import portal.clock
read = {"clock": list(sys.modules)}
import portal.door.app
read["door"] = list(sys.modules)
from django.core.management import load_command_class
command = load_command_class("apps.cluster", "watch_cluster")
command.requires_system_checks and command.check()
read["watcher"] = list(sys.modules)
import portal.run.worker, celery.apps.worker
portal.run.worker.app.loader.import_default_modules()
read["worker"] = list(sys.modules)
print(json.dumps(read))
"""
"""Each as it starts, one after the other: what an earlier one reads a later one has as well."""

ROUTES = ("portal.urls", "portal.pages.urls")
REST = (
    *ROUTES,
    "rest_framework.serializers",
    "drf_spectacular.generators",
    "click_repl",
    "django.contrib.admin",
)
"""Pages, REST, Celery's shell, and Django's admin, which the records use."""
USELESS = {
    "worker": REST,
    "watcher": (*REST, "apps.workloads.tasks", "asyncssh"),
    "door": (*REST, "apps.workloads.tasks", "asyncssh"),
    "clock": (*REST, "apps.workloads.tasks", "asyncssh", "httpx"),
}


def test_no_process_reads_what_only_another_has_a_use_for(tmp_path: Path) -> None:
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings", "ALLOTMENT_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PARTS], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    read = json.loads(done.stdout)
    useless = {part: sorted(set(names) & set(read[part])) for part, names in USELESS.items()}
    assert not any(useless.values()), useless
