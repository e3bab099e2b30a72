#!/usr/bin/env bash
# PID 1 of one node: its own mount, PID and network namespaces; started by node.py with the node's names in the
# environment. When it ends, everything on the node ends, as in a power cut.
set -uo pipefail
: "${NODE_NAME:?}" "${NODE_ADDRESS:?}" "${NODE_DIR:?}" "${NODE_BIN:?}" "${NODE_CGROUP:?}"
mount --make-rprivate /
for folder in /run/netns /var/lib/cni /var/log/containers /var/log/pods; do
    mkdir -p "$folder" && mount -t tmpfs tmpfs "$folder"
done
# The kubelet's folder is a constant for drivers and device plugins.
mkdir -p /var/lib/kubelet "$NODE_DIR/kubelet" && mount --bind "$NODE_DIR/kubelet" /var/lib/kubelet
# Six settings that the kubelet writes are the whole machine's: it finds plain files with the wished values instead.
mkdir -p "$NODE_DIR/sysctl"
while read -r path value; do
    file="$NODE_DIR/sysctl/${path//\//.}"
    echo "$value" >"$file" && mount --bind "$file" "/proc/sys/$path"
done <<'SETTINGS'
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
SETTINGS
echo 1 >/proc/sys/net/ipv4/ip_forward
for hierarchy in /sys/fs/cgroup/*/; do
    group="$hierarchy$NODE_CGROUP"
    mkdir -p "$group"
    # A new group of cpuset takes no process until it has CPUs and memory nodes.
    for file in cpuset.cpus cpuset.mems; do
        [[ -f $group/$file ]] && cat "$hierarchy$file" >"$group/$file"
    done
done
PATH=$NODE_BIN:$PATH

keep() { # keep NAME COMMAND...: runs it again when it ends, as a service manager does
    local name=$1
    shift
    while :; do
        "$@" >>"$NODE_DIR/$name.log" 2>&1
        echo "--- $name ended with $?, again in 1 s" >>"$NODE_DIR/$name.log"
        sleep 1
    done
}
keep containerd containerd --config "$NODE_DIR/containerd.toml" &
for _ in {1..200}; do
    [[ -S $NODE_DIR/containerd.sock ]] && break
    sleep 0.05
done
keep kubelet kubelet --config="$NODE_DIR/kubelet.json" --kubeconfig="$NODE_DIR/kubelet.kubeconfig" \
    --hostname-override="$NODE_NAME" --node-ip="$NODE_ADDRESS" &
keep proxy kube-proxy --config="$NODE_DIR/proxy.json" &
keep driver gpu-driver --kubeconfig="$NODE_DIR/driver.kubeconfig" --node="$NODE_NAME" \
    --devices="$NODE_DIR/devices.json" --cdi="$NODE_DIR/cdi" &
trap 'exit 0' TERM
while :; do wait -n 2>/dev/null || sleep 1; done
