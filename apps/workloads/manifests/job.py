"""A job: a batch/v1 Job that runs to its end. Pure. Not yet run in a container."""

from apps.workloads.manifests import pods
from apps.workloads.manifests.pods import Manifest
from apps.workloads.specs import JobBlock, PlacementSpec, WorkloadSpec

CONTROLLER = "Job"
HOME = "/tmp"  # noqa: S108 - the one folder that every image lets any user write to


def build(spec: WorkloadSpec, place: PlacementSpec) -> list[Manifest]:
    """RULE: `spec.suspend` is never applied.

    Kueue suspends a Job on creation and owns that field; applying it would kill a running pod and remake it.
    `activeDeadlineSeconds` stands on the Job, not on its pods: there the clock starts at each admission, and
    the value may be raised while it runs, as extending the lease does.
    """
    block = spec.job or JobBlock()
    job = pods.manifest("batch/v1", CONTROLLER, place)
    job["spec"] = {
        "completions": block.completions,
        "parallelism": spec.pods,
        "backoffLimit": block.backoff_limit,
        "template": pods.template(spec, place, pods.container(spec, place, home=HOME), restart="Never"),
    }
    if spec.max_run_seconds is not None:
        job["spec"]["activeDeadlineSeconds"] = spec.max_run_seconds
    return [pods.queued(job, spec, place)]
