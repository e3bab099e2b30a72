// A DRA driver for devices that a file describes: it publishes them as NVIDIA's driver v0.4.1 does and gives a pod's
// containers their identifiers by CDI, in NVIDIA_VISIBLE_DEVICES. There is no GPU behind them.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const kind = "k8s.gpu.nvidia.com/claim"

type driver struct {
	name, specs string
	devices     []resourceapi.Device
}

// PrepareResourceClaims writes one CDI specification per claim; its name is the claim's and never used again.
func (d *driver) PrepareResourceClaims(
	_ context.Context, claims []*resourceapi.ResourceClaim,
) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := d.prepare(claim)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

func (d *driver) prepare(claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	var prepared []kubeletplugin.Device
	var identifiers []string
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != d.name {
			continue
		}
		identifier, err := d.identifier(result.Device)
		if err != nil {
			return nil, err
		}
		identifiers = append(identifiers, identifier)
		device := kubeletplugin.Device{
			Requests: []string{result.Request}, PoolName: result.Pool, DeviceName: result.Device,
		}
		if len(prepared) == 0 { // One CDI device carries all of a claim's identifiers: a variable has one value.
			device.CDIDeviceIDs = []string{fmt.Sprintf("%s=%s", kind, claim.UID)}
		}
		prepared = append(prepared, device)
	}
	return prepared, d.write(claim.UID, identifiers)
}

func (d *driver) identifier(name string) (string, error) {
	for _, device := range d.devices {
		if uuid := device.Attributes["uuid"].StringValue; device.Name == name && uuid != nil {
			return *uuid, nil
		}
	}
	return "", fmt.Errorf("no device %s on this node", name)
}

func (d *driver) write(claim types.UID, identifiers []string) error {
	specification, err := json.Marshal(map[string]any{
		"cdiVersion": "0.6.0",
		"kind":       kind,
		"devices": []any{map[string]any{
			"name": string(claim),
			"containerEdits": map[string]any{
				"env": []string{"NVIDIA_VISIBLE_DEVICES=" + strings.Join(identifiers, ",")},
			},
		}},
	})
	if err != nil {
		return err
	}
	part := d.path(claim) + ".part"
	if err := os.WriteFile(part, specification, 0o600); err != nil {
		return err
	}
	return os.Rename(part, d.path(claim))
}

func (d *driver) path(claim types.UID) string {
	return filepath.Join(d.specs, string(claim)+".json")
}

// UnprepareResourceClaims forgets the claims; one that is not prepared is no error.
func (d *driver) UnprepareResourceClaims(
	_ context.Context, claims []kubeletplugin.NamespacedObject,
) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		err := os.Remove(d.path(claim.UID))
		if os.IsNotExist(err) {
			err = nil
		}
		results[claim.UID] = err
	}
	return results, nil
}

// HandleError logs: what can be tried again is tried again by the helper.
func (d *driver) HandleError(ctx context.Context, err error, message string) {
	utilruntime.HandleErrorWithContext(ctx, err, message)
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	node := flag.String("node", "", "name of this node, and of its pool")
	devices := flag.String("devices", "", "file with a JSON list of devices, as in a ResourceSlice")
	specs := flag.String("cdi", "", "folder for CDI specifications")
	name := flag.String("driver", "gpu.nvidia.com", "name of the driver")
	flag.Parse()
	if err := serve(*kubeconfig, *node, *devices, &driver{name: *name, specs: *specs}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(kubeconfig, node, devices string, plugin *driver) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	content, err := os.ReadFile(devices)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, &plugin.devices); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	data := filepath.Join("/var/lib/kubelet/plugins", plugin.name)
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(
		ctx, plugin, kubeletplugin.DriverName(plugin.name), kubeletplugin.KubeClient(client),
		kubeletplugin.NodeName(node), kubeletplugin.PluginDataDirectoryPath(data),
	)
	if err != nil {
		return err
	}
	defer helper.Stop()
	slice := resourceslice.Slice{Devices: plugin.devices}
	published := resourceslice.DriverResources{
		Pools: map[string]resourceslice.Pool{node: {Slices: []resourceslice.Slice{slice}}},
	}
	if err := helper.PublishResources(ctx, published); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
