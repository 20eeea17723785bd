// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

func aPod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "bakery"}}
}

// endingPod returns a pod that was deleted ago in the past with a grace period.
func endingPod(ago, grace time.Duration) *corev1.Pod {
	pod := ending(aPod())
	pod.DeletionTimestamp = &metav1.Time{Time: kittest.Epoch.Add(grace - ago)}
	pod.DeletionGracePeriodSeconds = ptr.To(int64(grace / time.Second))
	return pod
}

func aVolume() *v1alpha1.ShadowVolumeClaim {
	return &v1alpha1.ShadowVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-db-0-0a1b2c3d", Namespace: "bakery"}}
}

func TestRemoteNamespaceIsEmptiedBeforeItIsDeleted(t *testing.T) {
	endless := endingPod(time.Second, time.Minute)
	endless.DeletionGracePeriodSeconds = ptr.To[int64](10_000_000_000)
	shadow := &v1alpha1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "bakery"}}
	const quota, namespace = "create ResourceQuota federation", "delete Namespace bakery"
	const shadows, pods = "deletecollection ShadowPod", "deletecollection Pod"
	for _, test := range []struct {
		name    string
		objects []client.Object
		wrote   []string
		again   bool
	}{
		{"shadow pods are deleted first", []client.Object{shadow, aPod()}, []string{quota, shadows, shadows},
			true},
		{"pods are deleted without shadow pods", []client.Object{aPod()}, []string{quota, pods}, true},
		{"a pod that is ending", []client.Object{endingPod(time.Second, 0)}, nil, true},
		{"a pod that did not end within the timeout", []client.Object{endingPod(timeout, 0)}, []string{namespace}, false},
		{"a pod within its grace period", []client.Object{endingPod(time.Minute, time.Hour)}, nil, true},
		{"a grace period longer than the timeout", []client.Object{endingPod(timeout, 365*24*time.Hour)}, []string{pods, namespace},
			false},
		{"a grace period that ends at no valid date", []client.Object{endless}, []string{pods, namespace}, false},
		{"no pods", nil, []string{namespace}, false},
		{"a volume", []client.Object{aVolume()}, nil, true},
		{"a volume after the pods ended", []client.Object{aVolume(), endingPod(timeout, 0)}, nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := kittest.New(t, append(test.objects, remoteNamespace("bakery", "bakery"))...)
			again := pass(t, newReconciler(c))
			if diff := cmp.Diff(test.wrote, c.WritesSince(0)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if (again > 0) != test.again {
				t.Errorf("reconciled again after %s", again)
			}
		})
	}
}

// A ResourceQuota deletes nothing: objects that a consumer could create during a deletion without a limit would stay
// once it requests the namespace again.
func TestDeletionRaisesNoLimitOfARemoteNamespace(t *testing.T) {
	const nodePorts, secrets = corev1.ResourceServicesNodePorts, "count/secrets"
	limits := func(nodePort, secret string) corev1.ResourceList {
		return resources(string(nodePorts), nodePort, secrets, secret)
	}
	disabled := foreignCluster()
	disabled.Spec.Incoming = v1alpha1.PeeringDisabled
	permitted := foreignCluster()
	permitted.Spec.IncomingPolicy.Objects = limits("5", "10")
	with := func(list corev1.ResourceList, pairs ...string) corev1.ResourceList {
		maps.Copy(list, resources(pairs...))
		return list
	}
	for _, test := range []struct {
		name string
		fc   *v1alpha1.ForeignCluster
		// quota are the limits before the deletion; nil if there is no ResourceQuota.
		quota corev1.ResourceList
		want  corev1.ResourceList
		// again are the limits after the namespace is requested again; nil if it cannot be.
		again corev1.ResourceList
	}{
		{"limits of objects", permitted, with(limits("5", "10"), "pods", "10", "requests.cpu", "2"),
			with(limits("5", "10"), "pods", "0", "requests.cpu", "2"),
			with(limits("5", "10"), "pods", "10", "requests.cpu", "2")},
		{"limits that changed meanwhile", permitted, with(limits("0", "20"), "pods", "10"),
			with(limits("0", "10"), "pods", "0"), with(limits("5", "10"), "pods", "10", "requests.cpu", "2")},
		{"no limits of objects before", permitted, resources("pods", "10"), with(limits("5", "10"), "pods", "0"),
			with(limits("5", "10"), "pods", "10", "requests.cpu", "2")},
		{"no ResourceQuota", permitted, nil, with(limits("5", "10"), "pods", "0"),
			with(limits("5", "10"), "pods", "10", "requests.cpu", "2")},
		{"disabled peering", disabled, with(limits("0", "10"), "pods", "10"), with(limits("0", "10"), "pods", "0"), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			objects := []client.Object{
				test.fc.DeepCopy(), tenantNamespace(), binding(naming.TenantNamespace("milan"), tenantBinding, consumer),
				requesting(), offer(), remoteNamespace("bakery", "bakery"), aPod(),
			}
			if test.quota != nil {
				objects = append(objects, quotaIn("bakery", test.quota))
			}
			c := kittest.New(t, objects...)
			r := newReconciler(c)
			pass(t, r)
			hard := func() corev1.ResourceList {
				return kittest.Read(c, "bakery", naming.RemoteNamespaceQuota, &corev1.ResourceQuota{}).Spec.Hard
			}
			if diff := cmp.Diff(test.want, hard()); diff != "" {
				t.Errorf("limits during the deletion (-want +got):\n%s", diff)
			}
			if test.again == nil {
				return
			}
			kittest.Change(c, naming.TenantNamespace("milan"), "rome", &v1alpha1.NamespaceMap{}, func(m *v1alpha1.NamespaceMap) {
				m.Spec = requesting("bakery").Spec
			})
			pass(t, r)
			if diff := cmp.Diff(test.again, hard()); diff != "" {
				t.Errorf("limits of a namespace that is requested again (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatusNamesTheVolumesThatKeepARemoteNamespace(t *testing.T) {
	c := kittest.New(t, append(peered(), reported(requesting(), "bakery"), remoteNamespace("bakery", "bakery"),
		aVolume())...)
	if again := pass(t, newReconciler(c)); again != volumesInterval {
		t.Fatalf("reconciled again after %s, want %s", again, volumesInterval)
	}
	want := []v1alpha1.NamespaceMappingStatus{{
		Name: "bakery", RemoteName: "bakery", Phase: v1alpha1.NamespaceMappingTerminating,
		Message: "the remote namespace is kept without pods while it has volumes: " +
			"move or delete the ShadowVolumeClaims data-db-0-0a1b2c3d",
	}}
	got := kittest.Read(c, naming.TenantNamespace("milan"), "rome", &v1alpha1.NamespaceMap{}).Status.Namespaces
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// A remote namespace whose deletion failed must not stay for ever.
func TestNamespaceDeleteErrorRequeues(t *testing.T) {
	c := kittest.New(t, remoteNamespace("bakery", "bakery"))
	refused := errors.New("refused")
	c.Fault = func(kittest.Write, bool) error { return refused }
	r := newReconciler(c)
	for range 2 {
		// The controller requeues after an error.
		if _, err := r.Reconcile(t.Context(), kit.Request("", "milan")); !errors.Is(err, refused) {
			t.Fatalf("the pass returns %v, want %v", err, refused)
		}
	}
	c.Fault = nil
	pass(t, r)
	if c.Has(remoteNamespace("bakery", "bakery")) {
		t.Error("after an error it is not deleted any more")
	}
}

// TestRemoteNamespaceSurvivesACrashAtEachWrite creates and removes a remote namespace with a
// pod while the process ends once, before or after each of its writes.
func TestRemoteNamespaceSurvivesACrashAtEachWrite(t *testing.T) {
	for write := range liveThrough(t, func(*kittest.Cluster) {}) {
		for _, done := range []bool{false, true} {
			liveThrough(t, func(c *kittest.Cluster) { c.Kill(write, done) })
		}
	}
}

// liveThrough creates and removes a remote namespace, and returns the number of writes.
func liveThrough(t *testing.T, prepare func(*kittest.Cluster)) int {
	t.Helper()
	c := kittest.New(t, append(peered(), requesting("bakery"), offer())...)
	prepare(c)
	settle(t, c)
	kittest.Change(c, "bakery", naming.RemoteNamespaceQuota, &corev1.ResourceQuota{},
		func(q *corev1.ResourceQuota) { q.Status.Hard = q.Spec.Hard })
	settle(t, c)
	namespaceMap := kittest.Read(c, naming.TenantNamespace("milan"), "rome", &v1alpha1.NamespaceMap{})
	if diff := cmp.Diff(reported(requesting(), "bakery").Status.Namespaces, namespaceMap.Status.Namespaces); diff != "" {
		t.Fatalf("status of a new remote namespace (-want +got):\n%s", diff)
	}
	if err := c.Create(t.Context(), aPod()); err != nil {
		t.Fatal(err)
	}
	kittest.Change(c, namespaceMap.Namespace, "rome", namespaceMap,
		func(m *v1alpha1.NamespaceMap) { m.Spec.Namespaces = nil })
	settle(t, c)
	if c.Has(aPod()) || c.Has(remoteNamespace("bakery", "bakery")) {
		t.Fatalf("the pod or the remote namespace is left after %q", c.Writes)
	}
	return len(c.Writes)
}

// settle reconciles with new processes until one writes nothing.
func settle(t *testing.T, c *kittest.Cluster) {
	t.Helper()
	for range 20 {
		before := len(c.Writes)
		_, err := newReconciler(c).Reconcile(t.Context(), kit.Request("", "milan"))
		if err != nil && !errors.Is(err, kittest.ErrKilled) {
			t.Fatal(err)
		}
		if err == nil && len(c.Writes) == before {
			return
		}
	}
	t.Fatalf("still writes after %q", c.Writes)
}
