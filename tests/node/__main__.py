"""Command line of the real nodes: build, up, down.

`up` prints the product's kubeconfig as its last line; everything else that it says goes to standard error.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

from tests.controlplane import binaries
from tests.controlplane.network import PortsTakenError
from tests.controlplane.pki import PkiError
from tests.controlplane.plane import PlaneError
from tests.node import programs
from tests.node.cluster import NodeCluster
from tests.node.images import recipes
from tests.node.network import NetworkError

logger = logging.getLogger("tests.node")

_USE = """nodes up in %.0f s
  kubectl:           %s --kubeconfig %s
  notebook image:    %s
  job image:         %s
  private image:     %s (account %s:%s)
  pods:              by their IP from this machine, for example curl http://10.x.1.y:8888/api
  the portal on it:  make demo CLUSTER=%s"""


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; 0 if it did what was asked."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(prog="python -m tests.node", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build programs and images into the cache")
    for name in ("up", "down"):
        command = commands.add_parser(name)
        command.add_argument("--dir", type=Path, required=True, help="folder of the cluster")
        if name == "up":
            command.add_argument("--nodes", type=int, default=1)
    options = parser.parse_args(arguments)
    try:
        if options.command == "down":
            NodeCluster(options.dir).down()
        elif options.command == "build":
            recipes.ensure(binaries.ensure(programs.NODE))
        else:
            _up(options.dir, options.nodes)
    except (PlaneError, PkiError, PortsTakenError, NetworkError, binaries.BuildError) as error:
        logger.error("%s", error)  # noqa: TRY400 the words are for a person, the trace is not
        return 1
    return 0


def _up(folder: Path, nodes: int) -> None:
    binaries.ensure()
    started = time.monotonic()
    cluster = NodeCluster(folder)
    cluster.up(nodes)
    plane, named = cluster.plane, map(recipes.reference, (recipes.NOTEBOOK, recipes.PYTHON, recipes.PRIVATE))
    logger.info(
        _USE, time.monotonic() - started, plane.kubectl_path, plane.admin_kubeconfig, *named,
        *cluster.pull_account, plane.kubeconfig,
    )  # fmt: skip
    sys.stdout.write(f"{plane.kubeconfig}\n")


if __name__ == "__main__":
    sys.exit(main())
