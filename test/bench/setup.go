// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

const (
	// fakeTaint and fakeLabel are on the playground's fake nodes, which run no containers.
	fakeTaint  = "playground.liqo.io/fake"
	fakeLabel  = "type"
	fakeValue  = "kwok"
	fakeNodes  = "4"
	virtual    = "liqo-milan"
	vanilla    = "bench-vanilla"
	offloaded  = "bench-offloaded"
	serving    = "bench-serving"
	patience   = 3 * time.Minute
	idlePeriod = 10 * time.Second
)

// bench is two peered clusters, the consumer rome and the provider milan, and the results of measurements during their
// setup.
type bench struct {
	playground  *harness.Playground
	options     options
	rome, milan *harness.Cluster
	nodes       []string
	// remote, servingRemote and storingRemote are the remote namespaces of the namespaces
	// offloaded, serving and storing.
	remote, servingRemote, storingRemote string
	// peered is the duration of peering. It is 0 if an existing instance is used.
	peered time.Duration
	// idle is the number of cores that each program uses in idle clusters, and resting has the
	// product's processes at that time.
	idle    map[string]float64
	resting []ownProcess
}

func (b *bench) setUp(ctx context.Context) error {
	if !b.options.keep {
		if err := b.playground.Down(ctx); err != nil {
			return err
		}
	}
	// The product's etcd syncs every write to disk, so the clusters' etcds have to do the same.
	err := b.playground.Up(ctx, []string{"rome", "milan"}, "--workers", "1", "--fake-nodes", fakeNodes,
		"--audit", "--durable")
	if err != nil {
		return err
	}
	if err := b.playground.LoadImages(ctx); err != nil {
		return err
	}
	if b.rome, err = b.playground.Connect("rome"); err != nil {
		return err
	}
	if b.milan, err = b.playground.Connect("milan"); err != nil {
		return err
	}
	if err := b.reserve(ctx, false); err != nil {
		return err
	}
	for _, cluster := range []*harness.Cluster{b.rome, b.milan} {
		// Pods mount tokens of their ServiceAccounts, which are reflected only with this value.
		if err := cluster.Install(ctx, "consumerAPIServer="+cluster.Config.Host); err != nil {
			return err
		}
	}
	if err := b.findNodes(ctx); err != nil {
		return err
	}
	if err := b.reserve(ctx, true); err != nil {
		return err
	}
	if err := b.peer(ctx); err != nil {
		return err
	}
	return b.namespaces(ctx)
}

// peer peers the clusters, and measures the time until the virtual node is Ready. For an existing instance, whose
// clusters are peered, it only waits until the virtual node is Ready.
func (b *bench) peer(ctx context.Context) error {
	start := time.Now()
	_, err := b.rome.Federation.FederationV1alpha1().ForeignClusters().Get(ctx, b.milan.Name, metav1.GetOptions{})
	peered := err == nil
	if apierrors.IsNotFound(err) {
		err = harness.Peer(ctx, b.rome, b.milan)
	}
	if err != nil {
		return err
	}
	err = harness.Eventually(ctx, patience, "node "+virtual+" to be Ready",
		func(ctx context.Context) (bool, string, error) {
			node, err := b.rome.Kube.CoreV1().Nodes().Get(ctx, virtual, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			})
			return ready, fmt.Sprint(node.Status.Conditions), nil
		})
	if !peered {
		b.peered = time.Since(start)
	}
	return err
}

// findNodes records the names of the nodes of both clusters that are not fake.
func (b *bench) findNodes(ctx context.Context) error {
	for _, cluster := range []*harness.Cluster{b.rome, b.milan} {
		nodes, err := cluster.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: fakeLabel + "!=" + fakeValue})
		if err != nil {
			return err
		}
		for _, node := range nodes.Items {
			if node.Name != virtual {
				b.nodes = append(b.nodes, node.Name)
			}
		}
	}
	return nil
}

// reserve makes the provider's fake nodes schedulable if reserved is true, and its nodes with a kubelet unschedulable.
// If reserved is false, it does the reverse. A provider offers only schedulable nodes. The product's own pods must have
// been scheduled before the fake nodes are reserved for offloaded pods, because fake nodes start no containers.
func (b *bench) reserve(ctx context.Context, reserved bool) error {
	nodes, err := b.milan.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, node := range nodes.Items {
		patch := fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, reserved)
		if node.Labels[fakeLabel] == fakeValue {
			patch = fmt.Sprintf(`{"spec":{"unschedulable":%t,"taints":null}}`, !reserved)
		}
		if _, err := b.milan.Kube.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) namespaces(ctx context.Context) error {
	for _, n := range []struct {
		cluster *harness.Cluster
		name    string
	}{{b.rome, vanilla}, {b.milan, vanilla}, {b.rome, offloaded}, {b.rome, serving}} {
		if err := createNamespace(ctx, n.cluster, n.name); err != nil {
			return err
		}
	}
	var err error
	if b.remote, err = b.offload(ctx, offloaded, v1alpha1.Remote); err != nil {
		return err
	}
	b.servingRemote, err = b.offload(ctx, serving, v1alpha1.LocalAndRemote)
	return err
}

// createNamespace creates a namespace if it does not exist.
func createNamespace(ctx context.Context, cluster *harness.Cluster, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := cluster.Kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	return unless(apierrors.IsAlreadyExists, err)
}

// offload offloads a namespace, waits for its remote namespace and returns the name.
func (b *bench) offload(ctx context.Context, namespace string,
	strategy v1alpha1.PodOffloadingStrategy) (remote string, err error) {
	client := b.rome.Federation.FederationV1alpha1().NamespaceOffloadings(namespace)
	verb := &v1alpha1.Offload{Spec: v1alpha1.NamespaceOffloadingSpec{PodOffloadingStrategy: strategy}}
	if _, err := client.CreateOffload(ctx, v1alpha1.NamespaceOffloadingName, verb, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	err = harness.Eventually(ctx, patience, "namespace "+namespace+" to be offloaded",
		func(ctx context.Context) (bool, string, error) {
			nsof, err := client.Get(ctx, v1alpha1.NamespaceOffloadingName, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			remote = nsof.Status.RemoteNamespaceName
			return nsof.Status.Phase == v1alpha1.OffloadingReady, fmt.Sprint(nsof.Status), nil
		})
	return remote, err
}
