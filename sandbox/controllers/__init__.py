"""The controllers of the simulated cluster: workloads, pods on nodes, devices, and Kueue."""

from __future__ import annotations

from collections.abc import Mapping

from sandbox.api.cluster.client import Client
from sandbox.api.cluster.simulated import Cluster
from sandbox.api.controllers.manager import Manager


def install(cluster: Cluster, manager: Manager, class_mapping: Mapping[str, str] | None = None) -> None:
    """Add every controller, Kueue's webhooks and its visibility views, and what pods do by their namespace.

    `class_mapping` is Kueue's deviceClassMappings: DeviceClass name to the resource its claim templates
    charge.
    """
    from sandbox.controllers.arrivals import NamespaceBehaviour
    from sandbox.controllers.deployment import DeploymentController, ReplicaSetController
    from sandbox.controllers.dra.claims import ClaimController
    from sandbox.controllers.job import JobController
    from sandbox.controllers.jobsets import JobSetController
    from sandbox.controllers.kubelet import Kubelet
    from sandbox.controllers.scheduler import Scheduler
    from sandbox.controllers.statefulset import StatefulSetController
    from sandbox.controllers.volumes import VolumeController

    def client(account: str) -> Client:
        return cluster.client(f"system:serviceaccount:kube-system:{account}", account)

    cluster.admission.append(NamespaceBehaviour())
    jobset = cluster.client("system:serviceaccount:jobset-system:jobset-controller-manager", "jobset")
    manager.add(StatefulSetController(client("statefulset-controller")))
    manager.add(ReplicaSetController(client("replicaset-controller")))
    manager.add(DeploymentController(client("deployment-controller")))
    manager.add(JobController(client("job-controller")))
    manager.add(JobSetController(jobset))
    manager.add(ClaimController(client("resource-claim-controller")))
    manager.add(VolumeController(client("persistent-volume-binder")))
    manager.add(Scheduler(cluster.client("system:kube-scheduler", "kube-scheduler")))
    manager.add(Kubelet(cluster.client("system:node", "kubelet"), cluster.ids))
    _install_kueue(cluster, manager, dict(class_mapping or {}))


def _install_kueue(cluster: Cluster, manager: Manager, mapping: Mapping[str, str]) -> None:
    from sandbox.controllers.kueue import visibility
    from sandbox.controllers.kueue.jobs import JobIntegration, PodIntegration
    from sandbox.controllers.kueue.jobsets import JobSetIntegration
    from sandbox.controllers.kueue.scheduler import KueueScheduler
    from sandbox.controllers.kueue.statefulsets import StatefulSetIntegration
    from sandbox.controllers.kueue.webhooks import KueueWebhooks

    kueue = cluster.client("system:serviceaccount:kueue-system:kueue-controller-manager", "kueue")
    manager.add(KueueScheduler(kueue, mapping))
    manager.add(JobIntegration(kueue))
    manager.add(JobSetIntegration(kueue))
    manager.add(PodIntegration(kueue))
    manager.add(StatefulSetIntegration(kueue))
    cluster.admission.append(KueueWebhooks())
    visibility.register(cluster, kueue, mapping)
