// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/storage/consumer"
	"liqo.io/federation/test/integration/framework"
)

const storageNamespace = "liqo-storage"

// runStorageConsumer runs the controllers of the virtual StorageClass until the test ends, with the
// account and the permissions of the chart.
func runStorageConsumer(t *testing.T, env *framework.Environment) {
	t.Helper()
	account := env.ServiceAccount(t, framework.Namespace, controllerManager)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	manager, err := kit.NewManager(account, klog.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := kit.IndexVolumes(ctx, manager); err != nil {
		t.Fatal(err)
	}
	if err := consumer.Prepare(ctx, manager); err != nil {
		t.Fatal(err)
	}
	published, err := consumer.NewPublished(manager, storageNamespace)
	if err != nil {
		t.Fatal(err)
	}
	shared := &consumer.Config{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: record.NewFakeRecorder(1000),
		Shadows: consumer.NewShadows(
			remote.NewPeersWith(func(*remote.Identity) (*remote.Clients, error) { return &remote.Clients{}, nil })),
		ClusterID: thisID, ClusterName: framework.ClusterName, Namespace: storageNamespace,
	}
	capacity := &consumer.Capacity{Config: shared, Published: published, Clock: clock.RealClock{}}
	for _, controller := range []interface{ SetupWithManager(ctrl.Manager) error }{
		capacity, &consumer.Provisioner{Config: shared, Capacity: capacity}, &consumer.VirtualVolumes{Config: shared},
		&consumer.Expander{Config: shared, Clock: clock.RealClock{}}, &consumer.Releaser{Config: shared},
	} {
		if err := controller.SetupWithManager(manager); err != nil {
			t.Fatal(err)
		}
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := manager.Start(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// A claim of the virtual class is provisioned on a local node when its first pod is scheduled, and
// its data is deleted with the claim. Kubernetes' own scheduler and volume controllers run.
func TestVirtualClassOnALocalNode(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	installRoles(t, env)
	for _, template := range []string{"storage.yaml", "rbac-storage-consumer.yaml", "policies-storage.yaml"} {
		env.Kubectl(t, env.Chart(t, template), "apply", "-f", "-")
	}
	kube, federation := clients(t, env)
	makeClass(t, env, "real", storagev1.VolumeBindingWaitForFirstConsumer)
	patchDefault := []byte(`{"metadata":{"annotations":{"storageclass.kubernetes.io/is-default-class":"true"}}}`)
	must(t)(kube.StorageV1().StorageClasses().Patch(t.Context(), "real", "application/merge-patch+json", patchDefault,
		metav1.PatchOptions{}))
	node := must2[*corev1.Node](t)(kube.CoreV1().Nodes().Create(t.Context(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "storage-worker"}}, metav1.CreateOptions{}))
	// No controller removes the taint of a new node, so the test replaces it by a taint that only
	// its own pods tolerate.
	taint := corev1.Taint{Key: "test.liqo.io/storage", Effect: corev1.TaintEffectNoSchedule}
	node.Spec.Taints = []corev1.Taint{taint}
	node = must2[*corev1.Node](t)(kube.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}))
	node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10"),
		corev1.ResourceCPU: resource.MustParse("1")}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	must(t)(kube.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}))
	undo(t, func(ctx context.Context) error {
		return kube.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{})
	})
	const namespace, name = "storage-shop", "data-db-0"
	must(t)(kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))
	must(t)(kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}))
	must(t)(kube.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("liqo"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{}))
	env.StartVolumeControllers(t)
	runProvisioner(t, env)
	runStorageConsumer(t, env)

	described := func(phase v1alpha1.VirtualVolumePhase) {
		t.Helper()
		until(t, "the virtual volume is "+string(phase), func(ctx context.Context) (bool, error) {
			got, err := federation.FederationV1alpha1().VirtualVolumes(namespace).Get(ctx, name, metav1.GetOptions{})
			return err == nil && got.Status.Phase == phase, ignoreNotFound(err)
		})
	}
	described(v1alpha1.VirtualVolumePending)
	until(t, "the driver is created", func(ctx context.Context) (bool, error) {
		_, err := kube.StorageV1().CSIDrivers().Get(ctx, v1alpha1.StorageProvisioner, metav1.GetOptions{})
		return err == nil, ignoreNotFound(err)
	})
	must(t)(kube.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "db-0"},
		Spec: corev1.PodSpec{
			Containers:  []corev1.Container{{Name: "db", Image: "db"}},
			Tolerations: []corev1.Toleration{{Key: taint.Key, Operator: corev1.TolerationOpExists}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}}},
		},
	}, metav1.CreateOptions{}))
	described(v1alpha1.VirtualVolumeBound)
	claim := must2[*corev1.PersistentVolumeClaim](t)(kube.CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), name,
		metav1.GetOptions{}))
	pv := must2[*corev1.PersistentVolume](t)(kube.CoreV1().PersistentVolumes().Get(t.Context(), claim.Spec.VolumeName,
		metav1.GetOptions{}))
	if pv.Spec.StorageClassName != "liqo" || pv.Annotations[volume.AnnotationStorageClass] != "real" ||
		pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("the volume is %+v", pv.Spec)
	}
	until(t, "the pod has a node", func(ctx context.Context) (bool, error) {
		pod, err := kube.CoreV1().Pods(namespace).Get(ctx, "db-0", metav1.GetOptions{})
		return err == nil && pod.Spec.NodeName == node.Name, err
	})
	until(t, "the intermediate claim is gone", func(ctx context.Context) (bool, error) {
		left, err := kube.CoreV1().PersistentVolumeClaims(storageNamespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(left.Items) == 0, err
	})

	if err := kube.CoreV1().Pods(namespace).Delete(t.Context(), "db-0",
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		t.Fatal(err)
	}
	if err := kube.CoreV1().PersistentVolumeClaims(namespace).Delete(t.Context(), name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the volume is deleted by its own provisioner", func(ctx context.Context) (bool, error) {
		_, err := kube.CoreV1().PersistentVolumes().Get(ctx, pv.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
	until(t, "the virtual volume is gone", func(ctx context.Context) (bool, error) {
		_, err := federation.FederationV1alpha1().VirtualVolumes(namespace).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
}

// must2 returns a function that returns the result of a call, and fails the test if the call
// failed.
func must2[T any](t *testing.T) func(T, error) T {
	return func(result T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
}
