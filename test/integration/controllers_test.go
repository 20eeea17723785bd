// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/consumer/offloading"
	"liqo.io/federation/controllers/kit/watches"
	"liqo.io/federation/controllers/provider/namespace"
	"liqo.io/federation/controllers/provider/shadowpod"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

const (
	// thisID is the ID of the cluster, and thatID is the ID of its peer.
	thisID = "11111111-1111-4111-8111-111111111111"
	thatID = "22222222-2222-4222-8222-222222222222"
	// patience is the maximal time until a controller has reconciled an object. kube-apiserver also
	// needs half a minute to compile an admission policy and to find its parameters.
	patience = 3 * time.Minute
)

// clients returns clients of both APIs with all permissions and without rate limits.
func clients(t *testing.T, env *framework.Environment) (kubernetes.Interface, versioned.Interface) {
	t.Helper()
	return clientsOf(t, env.Admin)
}

func clientsOf(t *testing.T, config *rest.Config) (kubernetes.Interface, versioned.Interface) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	federation, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return kube, federation
}

// runOffloading runs the controllers of namespaces and pods of both clusters until the test ends.
func runOffloading(t *testing.T, env *framework.Environment) {
	t.Helper()
	kube, _ := clients(t, env)
	events := &record.FakeRecorder{}
	runManager(t, env.Admin, func(manager ctrl.Manager) error {
		shared := &offloading.Config{
			Client: manager.GetClient(), Live: manager.GetAPIReader(), Clock: clock.RealClock{},
			ClusterName: framework.ClusterName, ClusterID: thisID, Pods: watches.PodsOfNamespaces(kube), Volumes: noVolumes{},
		}
		if err := (&offloading.Reconciler{Config: shared, Events: events}).SetupWithManager(manager); err != nil {
			return err
		}
		return (&offloading.MapReconciler{Config: shared}).SetupWithManager(manager)
	}, func(manager ctrl.Manager) error {
		return (&namespace.Reconciler{
			Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: events, Clock: clock.RealClock{},
			ClusterID: thisID, Reserved: []string{framework.Namespace},
			Account: types.NamespacedName{Namespace: framework.Namespace, Name: controllerManager},
		}).SetupWithManager(manager)
	}, shadowPods)
}

// noVolumes implements the volumes of offloaded namespaces for namespaces without volumes.
type noVolumes struct{}

func (noVolumes) Held(context.Context, string, string) ([]string, error) { return nil, nil }

func (noVolumes) Release(context.Context, *v1alpha1.NamespaceOffloading, string) error { return nil }

func (noVolumes) Obstacles(string, string) []string { return nil }

// offeredNode is the ID in every offer of the node named worker, which is in zone north.
const offeredNode = "0a1b2c3d4e5f6071"

// allNodes is a Placer with which every consumer may use the node worker.
type allNodes struct{}

// Place returns the placement of a pod on the offered node with this ID. It is empty for an unknown
// ID.
func (allNodes) Place(_ context.Context, _, offered string) (shadowpod.Placement, error) {
	if offered == offeredNode {
		return shadowpod.Placement{Labels: map[string]string{corev1.LabelTopologyZone: "north"}, Node: "worker"}, nil
	}
	return shadowpod.Placement{}, nil
}

func (allNodes) Limits(context.Context, string) (shadowpod.Limits, error) {
	return shadowpod.Limits{}, nil
}

// shadowPods adds the controller of ShadowPods to a manager.
func shadowPods(manager ctrl.Manager) error {
	return (&shadowpod.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Placer: allNodes{},
		Events: &record.FakeRecorder{}, Clock: clock.RealClock{},
	}).SetupWithManager(manager)
}

// runShadows runs only the controller of ShadowPods until the test ends.
func runShadows(t *testing.T, config *rest.Config) {
	t.Helper()
	runManager(t, config, shadowPods)
}

// until waits until check returns true. It fails the test after patience, or if check fails.
func until(t *testing.T, what string, check func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// killed deletes a pod without a grace period, as its kubelet does after its containers have
// stopped.
func killed(ctx context.Context, kube kubernetes.Interface, pod *corev1.Pod) error {
	return kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, now(pod))
}
