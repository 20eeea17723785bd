// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/bench/figures"
	"liqo.io/federation/test/harness"
)

const (
	// storing is the offloaded namespace of pods that mount claims.
	storing = "bench-storing"
	// virtualClass is the virtual StorageClass of the chart. waitingClass and immediateClass are
	// classes of the playground: the first binds a claim when a pod of the claim is scheduled, the
	// second at once.
	virtualClass, waitingClass, immediateClass = "liqo", "local", "immediate"
	// toolsImage contains a shell and is available on every node of the playground.
	toolsImage = "registry.k8s.io/e2e-test-images/agnhost:2.65"
)

// storageRow is one line of the table of storage.
type storageRow struct{ measure, plain, federation, ratio, budget string }

// storagePart is a measurement of storage that can be selected by name.
type storagePart struct {
	name    string
	measure func(*bench, context.Context) ([]storageRow, error)
}

// storageParts has all measurements of storage in the order in which they run.
var storageParts = []storagePart{
	{"provisioning", (*bench).measureProvisioning},
	{"requests", (*bench).measureClaimRequests},
	{"moves", (*bench).measureMoves},
}

// measureStorage runs the selected measurements of storage, and prints their table.
func (b *bench) measureStorage(ctx context.Context) error {
	if err := b.setUpStorage(ctx); err != nil {
		return fmt.Errorf("setting up storage: %w", err)
	}
	var rows []storageRow
	for _, part := range storageParts {
		if len(b.options.storage) > 0 && !slices.Contains(b.options.storage, part.name) {
			continue
		}
		measured, err := part.measure(b, ctx)
		if err != nil {
			return fmt.Errorf("measuring %s: %w", part.name, err)
		}
		rows = append(rows, measured...)
	}
	fmt.Fprintf(os.Stdout, "\n%s\nMedians of %d runs, in parentheses from the least to the most.\n\n",
		figures.Machine(), b.options.runs)
	fmt.Fprintln(os.Stdout, "| measure | plain | the federation | ratio | budget |\n| --- | --- | --- | ---: | --- |")
	for _, r := range rows {
		figures.Line(os.Stdout, r.measure, r.plain, r.federation, r.ratio, r.budget)
	}
	return nil
}

// setUpStorage offers the provider's node that has a kubelet, and its storage, to the consumer, and connects the
// clusters by a tunnel. Fake nodes cannot run the movers of a move.
func (b *bench) setUpStorage(ctx context.Context) error {
	if err := b.reserve(ctx, false); err != nil {
		return err
	}
	for _, cluster := range []*harness.Cluster{b.rome, b.milan} {
		values, err := b.tunnelValues(ctx, cluster)
		if err != nil {
			return err
		}
		if err := cluster.Install(ctx, append(values, "consumerAPIServer="+cluster.Config.Host)...); err != nil {
			return err
		}
	}
	if err := b.offerStorage(ctx); err != nil {
		return err
	}
	if err := createNamespace(ctx, b.rome, storing); err != nil {
		return err
	}
	var err error
	if b.storingRemote, err = b.offload(ctx, storing, v1alpha1.LocalAndRemote); err != nil {
		return err
	}
	return b.networkEstablished(ctx)
}

// offerStorage makes milan offer both of its classes to rome, and waits until rome's virtual node
// has them.
func (b *bench) offerStorage(ctx context.Context) error {
	patch := fmt.Sprintf(`{"spec":{"incomingPolicy":{"limits":{"requests.storage":"200Gi"},"storageClasses":[%q,%q]}}}`,
		waitingClass, immediateClass)
	peers := b.milan.Federation.FederationV1alpha1().ForeignClusters()
	_, err := peers.Patch(ctx, b.rome.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return harness.Eventually(ctx, patience, "the virtual node to list storage classes",
		func(ctx context.Context) (bool, string, error) {
			client := b.rome.Federation.FederationV1alpha1().VirtualNodes(metav1.NamespaceAll)
			nodes, err := client.List(ctx, metav1.ListOptions{})
			if err != nil || len(nodes.Items) != 1 {
				return false, "no virtual node", err
			}
			classes := nodes.Items[0].Status.StorageClasses
			return slices.Contains(classes, immediateClass), fmt.Sprint(classes), nil
		})
}

// networkEstablished waits until both clusters report an established network.
func (b *bench) networkEstablished(ctx context.Context) error {
	for _, side := range []struct{ of, with *harness.Cluster }{{b.rome, b.milan}, {b.milan, b.rome}} {
		what := fmt.Sprintf("networking of %s with %s", side.of.Name, side.with.Name)
		err := harness.Eventually(ctx, patience, what, func(ctx context.Context) (bool, string, error) {
			peer, err := side.of.Federation.FederationV1alpha1().ForeignClusters().Get(ctx, side.with.Name, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			return peer.Status.Networking == v1alpha1.PeeringEstablished, string(peer.Status.Networking), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tunnelValues returns the chart values of a tunnel for a cluster. They name only endpoints of nodes with a kubelet,
// because fake nodes have no network, and permit gateways on the control plane's node.
func (b *bench) tunnelValues(ctx context.Context, cluster *harness.Cluster) ([]string, error) {
	nodes, err := cluster.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var endpoints []string
	var network netip.Prefix
	for _, node := range nodes.Items {
		if !slices.Contains(b.nodes, node.Name) {
			continue
		}
		for _, address := range node.Status.Addresses {
			if address.Type != corev1.NodeInternalIP {
				continue
			}
			ip, err := netip.ParseAddr(address.Address)
			if err != nil {
				return nil, fmt.Errorf("reading the address of node %s: %w", node.Name, err)
			}
			network = netip.PrefixFrom(ip, 24).Masked()
			endpoints = append(endpoints, address.Address+":51820")
		}
	}
	services, err := cluster.Kube.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return []string{
		"networking=Tunnel", "network.enabled=true",
		"network.gateway.tolerations[0].key=node-role.kubernetes.io/control-plane",
		"network.gateway.tolerations[0].operator=Exists",
		"network.podCIDRs={10.244.0.0/16}",
		"network.serviceCIDRs={" + strings.Join(services.Spec.CIDRs, `\,`) + "}",
		"network.nodeCIDRs={" + network.String() + "}",
		"network.endpoints={" + strings.Join(endpoints, ",") + "}",
	}, nil
}

// claimOf returns a claim of a class. For the virtual class, remoteClass is the provider's class;
// empty selects the provider's default.
func claimOf(name, class, remoteClass, size string) corev1.PersistentVolumeClaim {
	claim := corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To(class),
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			},
		},
	}
	if remoteClass != "" {
		claim.Annotations = map[string]string{v1alpha1.AnnotationRemoteStorageClass: remoteClass}
	}
	return claim
}

// where returns the node selector of pods on the virtual node, or on the consumer's worker node if remote is false.
func where(remote bool) map[string]string {
	if remote {
		return map[string]string{v1alpha1.LabelType: v1alpha1.TypeVirtualNode}
	}
	return map[string]string{corev1.LabelHostname: "rome-worker-1"}
}

// mounting returns the spec of a pod that mounts a claim at /data; an empty claim mounts nothing.
// Its container has a shell and terminates without delay.
func mounting(claim string, selector map[string]string) corev1.PodSpec {
	spec := corev1.PodSpec{
		NodeSelector:                  selector,
		AutomountServiceAccountToken:  ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To[int64](5),
		SecurityContext:               &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](0)},
		Containers: []corev1.Container{{
			Name: "tools", Image: toolsImage, ImagePullPolicy: corev1.PullIfNotPresent,
			Command: []string{"sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait"},
		}},
	}
	if claim != "" {
		spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}
	}
	return spec
}

// shell runs a script in the container of a pod.
func (b *bench) shell(ctx context.Context, pod, script string) error {
	return b.rome.Kubectl(ctx, "exec", "-n", storing, pod, "-c", "tools", "--", "sh", "-ec", script).Err
}
