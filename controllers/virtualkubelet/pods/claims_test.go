// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/virtualkubelet/translate"
	"liqo.io/federation/test/fakes"
)

// boundClaim returns a claim and the volume that it is bound to, whose data milan stores.
func boundClaim(name string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, UID: types.UID(name)},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pvc-" + name},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	return claim, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + name},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "demo", Name: name, UID: types.UID(name)},
			PersistentVolumeSource: volume.RemoteSource(
				volume.Handle{ClusterID: "milan", Namespace: "demo-rome", Claim: name + "-01234567"}),
		},
	}
}

func claimVolume(name, claim string, readOnly bool) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim, ReadOnly: readOnly},
	}}
}

func ephemeralVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}},
	}}
}

func TestAShadowPodMountsTheProvidersClaims(t *testing.T) {
	data, dataVolume := boundClaim("data")
	scratch, scratchVolume := boundClaim("web-scratch")
	scratch.OwnerReferences = []metav1.OwnerReference{{UID: "pod", Controller: ptr.To(true)}}
	s := newSender(t, func(string) error { return nil })
	local := kubefake.NewClientset(data, dataVolume, scratch, scratchVolume)
	s.Local = local
	pod := localPod("web")
	pod.Spec.Volumes = []corev1.Volume{
		claimVolume("data", "data", false),
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		claimVolume("data-again", "data", true),
		ephemeralVolume("scratch"),
		claimVolume("remote", "only-on-milan", true),
	}
	before := pod.DeepCopy()
	if err := s.create(t.Context(), cache.MetaObjectToName(pod), pod, s.remoteNamespace); err != nil {
		t.Fatal(err)
	}
	want := []corev1.Volume{
		claimVolume("data", "data-01234567", false),
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		claimVolume("data-again", "data-01234567", true),
		claimVolume("scratch", "web-scratch-01234567", false),
		claimVolume("remote", "only-on-milan", true),
	}
	get := func() []corev1.Volume {
		t.Helper()
		shadow, err := s.provider.FederationV1alpha1().ShadowPods("demo-rome").Get(
			t.Context(), "web", metav1.GetOptions{},
		)
		if err != nil {
			t.Fatal(err)
		}
		return shadow.Spec.Pod.Volumes
	}
	if diff := cmp.Diff(want, get()); diff != "" {
		t.Errorf("volumes of the shadow pod (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, pod); diff != "" {
		t.Errorf("the local pod changed (-want +got):\n%s", diff)
	}
	if requests := len(local.Actions()); requests != 5 {
		t.Errorf("%d requests for two claims and one that does not exist, want 5: %v", requests, local.Actions())
	}

	// An update of the pod does not read the claims again, and does not depend on their phase.
	data.Status.Phase = corev1.ClaimLost
	claims := corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	if err := local.Tracker().Update(claims, data, "demo"); err != nil {
		t.Fatal(err)
	}
	local.ClearActions()
	seen, err := s.provider.FederationV1alpha1().ShadowPods("demo-rome").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Spec.Containers[0].Image = "web:2"
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	if _, err := s.update(t.Context(), pod, seen); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, get()); diff != "" || len(local.Actions()) > 0 {
		t.Errorf("%d requests, volumes after an update (-want +got):\n%s", len(local.Actions()), diff)
	}
}

func TestPodWithoutClaimsCausesNoRequestForThem(t *testing.T) {
	s := newSender(t, func(string) error { return nil })
	local := kubefake.NewClientset()
	s.Local = local
	pod := localPod("web")
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	if err := s.create(t.Context(), cache.MetaObjectToName(pod), pod, s.remoteNamespace); err != nil ||
		len(local.Actions()) > 0 {
		t.Errorf("%v, requests %v", err, local.Actions())
	}
}

func TestPodWaitsForVolumesThatItCannotUse(t *testing.T) {
	type (
		claimOf  = *corev1.PersistentVolumeClaim
		volumeOf = *corev1.PersistentVolume
	)
	deleted := metav1.Now()
	remote := volume.RemoteSource
	for _, test := range []struct {
		name            string
		ephemeral       bool
		change          func(claimOf, volumeOf)
		missing         bool
		reason, message string
	}{
		{name: "unbound", change: func(c claimOf, _ volumeOf) {
			c.Status.Phase, c.Spec.VolumeName = corev1.ClaimPending, ""
		}, reason: translate.ReasonVolumeNotBound, message: "is not bound"},
		{name: "bound by name only", change: func(c claimOf, _ volumeOf) {
			c.Status.Phase = corev1.ClaimPending
		}, reason: translate.ReasonVolumeNotBound, message: "is not bound"},
		{name: "lost", change: func(c claimOf, _ volumeOf) {
			c.Status.Phase = corev1.ClaimLost
		}, reason: translate.ReasonVolumeNotBound, message: "is Lost"},
		{name: "bound to another claim", change: func(_ claimOf, v volumeOf) {
			v.Spec.ClaimRef.UID = "other"
		}, reason: translate.ReasonVolumeNotBound, message: "is bound to another claim"},
		{name: "bound to no claim", change: func(_ claimOf, v volumeOf) {
			v.Spec.ClaimRef = nil
		}, reason: translate.ReasonVolumeNotBound, message: "is bound to another claim"},
		{name: "volume deleted", change: func(_ claimOf, v volumeOf) {
			v.Name = "another"
		}, reason: translate.ReasonVolumeNotBound, message: "does not exist any more"},
		{name: "deleted and not protected", change: func(c claimOf, _ volumeOf) {
			c.DeletionTimestamp, c.Finalizers = &deleted, []string{"example.org/other"}
		}, reason: translate.ReasonVolumeNotBound, message: "is being deleted"},
		{name: "deleted and protected", change: func(c claimOf, _ volumeOf) {
			c.DeletionTimestamp, c.Finalizers = &deleted, []string{"kubernetes.io/pvc-protection"}
		}},
		{name: "stored in this cluster", change: func(_ claimOf, v volumeOf) {
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
				Local: &corev1.LocalVolumeSource{Path: "/data"},
			}
		}, reason: translate.ReasonVolumeOfAnotherCluster, message: "is stored in this cluster"},
		{name: "another driver", change: func(_ claimOf, v volumeOf) {
			v.Spec.CSI.Driver = "csi.example.org"
		}, reason: translate.ReasonVolumeOfAnotherCluster, message: "is stored in this cluster"},
		{name: "stored in another provider", change: func(_ claimOf, v volumeOf) {
			v.Spec.PersistentVolumeSource = remote(
				volume.Handle{ClusterID: "turin", Namespace: "demo-rome", Claim: "data"},
			)
		}, reason: translate.ReasonVolumeOfAnotherCluster, message: "is stored in cluster turin"},
		{name: "stored in another namespace", change: func(_ claimOf, v volumeOf) {
			v.Spec.PersistentVolumeSource = remote(
				volume.Handle{ClusterID: "milan", Namespace: "shop-rome", Claim: "data"},
			)
		}, reason: translate.ReasonVolumeOfAnotherNamespace, message: "remote namespace shop-rome, not in demo-rome"},
		{name: "malformed handle", change: func(_ claimOf, v volumeOf) {
			v.Spec.CSI.VolumeHandle = "milan/demo-rome/../other"
		}, reason: translate.ReasonVolumeOfAnotherCluster, message: "does not state where its data is stored"},
		{name: "ephemeral claim of the pod", ephemeral: true, change: func(c claimOf, _ volumeOf) {
			c.OwnerReferences = []metav1.OwnerReference{{UID: "pod", Controller: ptr.To(true)}}
		}},
		{name: "ephemeral claim without an owner", ephemeral: true,
			change: func(claimOf, volumeOf) {},
			reason: translate.ReasonVolumeOfAnotherPod, message: "was not created for this pod"},
		{name: "ephemeral claim of the pod before", ephemeral: true, change: func(c claimOf, _ volumeOf) {
			c.OwnerReferences = []metav1.OwnerReference{{UID: "former", Controller: ptr.To(true)}}
		}, reason: translate.ReasonVolumeOfAnotherPod, message: "was not created for this pod"},
		{name: "ephemeral claim is missing", ephemeral: true, missing: true,
			reason: translate.ReasonVolumeNotBound, message: "does not exist yet"},
	} {
		t.Run(test.name, func(t *testing.T) {
			name, source := "data", claimVolume("data", "data", false)
			if test.ephemeral {
				name, source = "web-scratch", ephemeralVolume("scratch")
			}
			var objects []runtime.Object
			if !test.missing {
				claim, bound := boundClaim(name)
				test.change(claim, bound)
				objects = append(objects, claim, bound)
			}
			pod := localPod("web")
			pod.Spec.Volumes = []corev1.Volume{source}
			local := kubefake.NewClientset(append(objects, pod.DeepCopy())...)
			s := newSender(t, func(string) error { return nil })
			s.Local = local
			cached := kittest.Indexer()
			s.Lister = corev1listers.NewPodLister(cached)
			for range 2 {
				if err := cached.Add(pod); err != nil {
					t.Fatal(err)
				}
				err := s.create(t.Context(), cache.MetaObjectToName(pod), pod, s.remoteNamespace)
				if (err != nil) != (test.reason != "") {
					t.Fatalf("got %v", err)
				}
				if test.reason == "" {
					return
				}
				if len(s.provider.Actions()) > 0 {
					t.Fatalf("requests to the provider: %v", s.provider.Actions())
				}
				got, err := local.CoreV1().Pods("demo").Get(t.Context(), "web", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				status := got.Status
				message := status.Message
				if status.Reason != test.reason || !strings.Contains(message, test.message) ||
					!strings.Contains(message, name) {
					t.Errorf("status %s: %q", status.Reason, status.Message)
				}
				pod = got
			}
			event := <-s.events.Events
			reported := strings.HasPrefix(event, "Warning "+test.reason+" ") && strings.Contains(event, test.message)
			if !reported || len(s.events.Events) > 0 {
				t.Errorf("event %q, and %d more", event, len(s.events.Events))
			}
		})
	}
}

func TestUnreadableClaimDelaysThePod(t *testing.T) {
	for _, kind := range []string{"persistentvolumeclaims", "persistentvolumes"} {
		claim, bound := boundClaim("data")
		local := kubefake.NewClientset(claim, bound)
		fakes.React(local, "get", kind, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(corev1.Resource(kind), "data", errors.New("no role"))
		})
		s := newSender(t, func(string) error { return nil })
		s.Local = local
		pod := localPod("web")
		pod.Spec.Volumes = []corev1.Volume{claimVolume("data", "data", false)}
		if err := s.create(
			t.Context(), cache.MetaObjectToName(pod), pod, s.remoteNamespace,
		); !apierrors.IsForbidden(err) {
			t.Errorf("%s: got %v", kind, err)
		}
		if len(s.provider.Actions()) > 0 {
			t.Errorf("%s: requests to the provider: %v", kind, s.provider.Actions())
		}
	}
}
