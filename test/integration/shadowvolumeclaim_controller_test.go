// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/storage/provider"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/integration/framework"
)

// runShadowVolumeClaims runs the controller of ShadowVolumeClaims until the test ends, with the
// account and the permissions of the chart.
func runShadowVolumeClaims(t *testing.T, env *framework.Environment) {
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
	reconciler := &provider.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(),
		Events: record.NewFakeRecorder(1000), Clock: clock.RealClock{},
	}
	if err := reconciler.SetupWithManager(manager); err != nil {
		t.Fatal(err)
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

// volumeTest is a consumer with a remote namespace and a quota of storage.
type volumeTest struct {
	*testing.T
	env        *framework.Environment
	federation versioned.Interface
	namespace  string
}

func newVolumeTest(t *testing.T, consumer string) *volumeTest {
	t.Helper()
	env := framework.Get(t)
	installPolicies(t, env)
	installRoles(t, env)
	tenancy := makeTenancy(t, env, consumer)
	v := &volumeTest{T: t, env: env, federation: versioned.NewForConfigOrDie(env.Admin), namespace: tenancy.remote}
	immediate, first := consumer+"-immediate", consumer+"-first"
	makeClass(t, env, immediate, storagev1.VolumeBindingImmediate)
	makeClass(t, env, first, storagev1.VolumeBindingWaitForFirstConsumer)
	must(t)(v.federation.FederationV1alpha1().ResourceOffers(tenancy.tenant).Create(t.Context(), &v1alpha1.ResourceOffer{
		ObjectMeta: metav1.ObjectMeta{Name: "storage"},
		Spec: v1alpha1.ResourceOfferSpec{
			ClusterID: thisID, Resources: amounts("cpu", "1"), Storage: amounts("requests.storage", "100Gi"),
			StorageClasses: []string{immediate, first},
		},
	}, metav1.CreateOptions{}))
	accept(t, v.federation, tenancy.tenant, "storage")
	env.StartVolumeControllers(t)
	runProvisioner(t, env)
	runShadowVolumeClaims(t, env)
	return v
}

func (v *volumeTest) create(name, class string) {
	v.Helper()
	must(v.T)(v.federation.FederationV1alpha1().ShadowVolumeClaims(v.namespace).Create(v.Context(),
		&v1alpha1.ShadowVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{volume.AnnotationOriginClaim: "data"}},
			Spec: v1alpha1.ShadowVolumeClaimSpec{
				StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Storage: resource.MustParse("1Gi"),
			},
		}, metav1.CreateOptions{}))
}

func (v *volumeTest) patch(name, patch string) {
	v.Helper()
	must(v.T)(v.federation.FederationV1alpha1().ShadowVolumeClaims(v.namespace).Patch(v.Context(), name,
		types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{}))
}

func (v *volumeTest) delete(name string) {
	v.Helper()
	if err := v.federation.FederationV1alpha1().ShadowVolumeClaims(v.namespace).Delete(v.Context(), name,
		metav1.DeleteOptions{}); err != nil {
		v.Fatal(err)
	}
}

// reports waits until a condition of a ShadowVolumeClaim has this reason and also returns true, and
// returns the ShadowVolumeClaim. A nil also is always true.
func (v *volumeTest) reports(name, condition, reason string,
	also func(*v1alpha1.ShadowVolumeClaim) bool) *v1alpha1.ShadowVolumeClaim {
	v.Helper()
	var shadow *v1alpha1.ShadowVolumeClaim
	until(v.T, fmt.Sprintf("%s of %s is %s", condition, name, reason), func(ctx context.Context) (bool, error) {
		var err error
		shadow, err = v.federation.FederationV1alpha1().ShadowVolumeClaims(v.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		found := meta.FindStatusCondition(shadow.Status.Conditions, condition)
		return found != nil && found.Reason == reason && (also == nil || also(shadow)), nil
	})
	return shadow
}

func (v *volumeTest) gone(name string) {
	v.Helper()
	until(v.T, "shadow volume claim "+name+" is gone", func(ctx context.Context) (bool, error) {
		_, err := v.federation.FederationV1alpha1().ShadowVolumeClaims(v.namespace).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

func (v *volumeTest) volume(name string) (*corev1.PersistentVolume, bool) {
	v.Helper()
	pv, err := v.env.Kube.CoreV1().PersistentVolumes().Get(v.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		v.Fatal(err)
	}
	return pv, err == nil
}

// Kubernetes' own volume controllers and scheduler run in this test.
func TestClaimsOfAConsumerFollowItsRequests(t *testing.T) {
	v := newVolumeTest(t, "lecco")
	claims := v.env.Kube.CoreV1().PersistentVolumeClaims(v.namespace)
	bound := func(name string) *v1alpha1.ShadowVolumeClaim {
		t.Helper()
		shadow := v.reports(name, v1alpha1.ConditionVolumeBound, "Bound", nil)
		pv, _ := v.volume(shadow.Status.VolumeName)
		if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
			t.Errorf("the volume of %s has policy %s", name, pv.Spec.PersistentVolumeReclaimPolicy)
		}
		return shadow
	}

	v.create("kept", "lecco-immediate")
	kept := bound("kept")
	v.patch("kept", `{"spec":{"storage":"2Gi"}}`)
	v.reports("kept", v1alpha1.ConditionVolumeResized, "Resized", func(s *v1alpha1.ShadowVolumeClaim) bool {
		return s.Status.Capacity.String() == "2Gi"
	})
	v.patch("kept", `{"spec":{"storage":"8Gi"}}`)
	v.reports("kept", v1alpha1.ConditionVolumeResized, "ResizeFailed", func(s *v1alpha1.ShadowVolumeClaim) bool {
		return s.Status.Allocated != nil && s.Status.Allocated.String() == "8Gi"
	})
	v.patch("kept", `{"spec":{"storage":"3Gi"}}`)
	v.reports("kept", v1alpha1.ConditionVolumeResized, "Resized", func(s *v1alpha1.ShadowVolumeClaim) bool {
		return s.Status.Allocated == nil && s.Status.Capacity.String() == "3Gi"
	})
	v.delete("kept")
	v.gone("kept")
	if pv, ok := v.volume(kept.Status.VolumeName); !ok || pv.DeletionTimestamp != nil {
		t.Error("deletion policy Retain deleted the volume")
	}

	v.create("deleted", "lecco-first")
	v.reports("deleted", v1alpha1.ConditionVolumeBound, "WaitForFirstConsumer", func(s *v1alpha1.ShadowVolumeClaim) bool {
		return s.Status.Phase == v1alpha1.ShadowVolumeClaimPending
	})
	makeSchedulable(t, v.env, "worker-of-lecco")
	user := pod(nil)
	user.Name, user.Spec.NodeSelector = "db-0", map[string]string{corev1.LabelHostname: "worker-of-lecco"}
	// kube-apiserver taints new nodes until a kubelet reports them as ready, so the pod tolerates
	// everything.
	user.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	user.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "deleted"},
	}}}
	user, err := v.env.Kube.CoreV1().Pods(v.namespace).Create(t.Context(), user, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	deleted := bound("deleted")
	v.patch("deleted", `{"spec":{"deletionPolicy":"Delete","fence":"move-1"}}`)
	v.reports("deleted", v1alpha1.ConditionVolumeBound, "Bound", func(s *v1alpha1.ShadowVolumeClaim) bool {
		return s.Status.Fence != nil && len(s.Status.Fence.Users) == 1 && s.Status.Fence.Users[0] == "db-0"
	})
	v.delete("deleted")
	v.reports("deleted", v1alpha1.ConditionVolumeBound, "InUse", nil)
	if err := v.env.Kube.CoreV1().Pods(v.namespace).Delete(t.Context(), "db-0", now(user)); err != nil {
		t.Fatal(err)
	}
	v.gone("deleted")
	if _, ok := v.volume(deleted.Status.VolumeName); ok {
		t.Error("the quota was released before the volume was gone")
	}

	v.create("lost", "lecco-immediate")
	lost := bound("lost")
	if err := claims.Delete(t.Context(), "lost", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	v.reports("lost", v1alpha1.ConditionVolumeBound, "Lost", nil)
	if _, err := claims.Get(t.Context(), "lost", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the lost claim was created again: %v", err)
	}
	if _, ok := v.volume(lost.Status.VolumeName); !ok {
		t.Error("the volume of a lost claim was deleted")
	}
	v.patch("lost", `{"spec":{"deletionPolicy":"Delete"}}`)
	v.delete("lost")
	v.gone("lost")
	if _, ok := v.volume(lost.Status.VolumeName); ok {
		t.Error("the volume of a lost claim was kept against its deletion policy")
	}
}

// makeSchedulable creates a node on which the scheduler can place pods.
func makeSchedulable(t *testing.T, env *framework.Environment, name string) {
	t.Helper()
	must(t)(env.Kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Allocatable: amounts("cpu", "8", "memory", "8Gi", "pods", "110"),
			Capacity:    amounts("cpu", "8", "memory", "8Gi", "pods", "110"),
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}, metav1.CreateOptions{}))
	undo(t, func(ctx context.Context) error {
		return env.Kube.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	})
}
