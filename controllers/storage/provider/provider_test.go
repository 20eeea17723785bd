// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit/kittest"
)

func wasBound(s *v1alpha1.ShadowVolumeClaim) {
	s.Status.Phase, s.Status.VolumeName = v1alpha1.ShadowVolumeClaimBound, volumeName
}

func existing(s *v1alpha1.ShadowVolumeClaim) { s.Spec.Existing = true }

func retainedVolume(pv *corev1.PersistentVolume) {
	*pv = *retained(pv, "rome")
}

func conditionOf(t *testing.T, shadow *v1alpha1.ShadowVolumeClaim, kind string) string {
	t.Helper()
	condition := meta.FindStatusCondition(shadow.Status.Conditions, kind)
	if condition == nil {
		return ""
	}
	return string(condition.Status) + " " + condition.Reason
}

func TestShadowVolumeClaimReportsItsClaim(t *testing.T) {
	immediate, first := aClass(storagev1.VolumeBindingImmediate), aClass(storagev1.VolumeBindingWaitForFirstConsumer)
	allocating := func(c *corev1.PersistentVolumeClaim) {
		boundClaim(c)
		c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	}
	larger := func(s *v1alpha1.ShadowVolumeClaim) { s.Spec.Storage = resource.MustParse("2Gi") }
	requested := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	}
	condition := func(kind corev1.PersistentVolumeClaimConditionType) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) {
			c.Status.Conditions = append(c.Status.Conditions,
				corev1.PersistentVolumeClaimCondition{Type: kind, Status: corev1.ConditionTrue, Message: "full"})
		}
	}
	const pending, bound, lost = v1alpha1.ShadowVolumeClaimPending, v1alpha1.ShadowVolumeClaimBound,
		v1alpha1.ShadowVolumeClaimLost
	for _, test := range []struct {
		name          string
		objects       []client.Object
		phase         v1alpha1.ShadowVolumeClaimPhase
		bound         string
		resized       string
		claims        bool
		event         string
		requeuesAfter time.Duration
	}{
		{name: "new, immediate", objects: []client.Object{aShadow(), immediate}, phase: pending, bound: "False Provisioning", claims: true, requeuesAfter: 2 * time.Minute},
		{name: "new, first consumer", objects: []client.Object{aShadow(), first}, phase: pending, bound: "False WaitForFirstConsumer", claims: true},
		{name: "no class", objects: []client.Object{aShadow()}, phase: pending, bound: "False ProvisioningFailed", claims: true, event: "Warning ProvisioningFailed"},
		{name: "first consumer has a node",
			objects: []client.Object{aShadow(), first, aClaim(func(c *corev1.PersistentVolumeClaim) {
				c.Annotations[volume.AnnotationSelectedNode] = "worker"
			})}, phase: pending, bound: "False Provisioning", claims: true, requeuesAfter: 2 * time.Minute},
		{name: "provisioner fails", objects: []client.Object{aShadow(), immediate, aClaim(), &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: remoteNamespace}, Type: corev1.EventTypeWarning,
			Message:        "no space",
			InvolvedObject: corev1.ObjectReference{UID: "claim"}, LastTimestamp: metav1.NewTime(kittest.Epoch),
		}}, phase: pending, bound: "False ProvisioningFailed", claims: true, event: "Warning ProvisioningFailed no space",
			requeuesAfter: 2 * time.Minute},
		{name: "provisioning for a moment",
			objects: []client.Object{aShadow(), immediate, aClaim(func(c *corev1.PersistentVolumeClaim) {
				c.CreationTimestamp = metav1.NewTime(kittest.Epoch.Add(-time.Second))
			})}, phase: pending, bound: "False Provisioning", claims: true, requeuesAfter: 5 * time.Second},
		{name: "provisioning for a while",
			objects: []client.Object{aShadow(), immediate, aClaim(func(c *corev1.PersistentVolumeClaim) {
				c.CreationTimestamp = metav1.NewTime(kittest.Epoch.Add(-20 * time.Second))
			})}, phase: pending, bound: "False Provisioning", claims: true, requeuesAfter: 20 * time.Second},
		{name: "bound", objects: []client.Object{aShadow(), immediate, aClaim(boundClaim), boundVolume("claim")}, phase: bound, bound: "True Bound", resized: "True Resized", claims: true},
		{name: "adopted after a restore",
			objects: []client.Object{aShadow(func(s *v1alpha1.ShadowVolumeClaim) { s.UID = "restored" }), immediate,
				aClaim(boundClaim), boundVolume("claim", retainedVolume)}, phase: bound, bound: "True Bound",
			resized: "True Resized", claims: true},
		{name: "another claim of the name", objects: []client.Object{aShadow(), immediate, aClaim(func(c *corev1.PersistentVolumeClaim) { c.Labels = nil })},
			bound: "False NameConflict", claims: true, event: "Warning NameConflict"},
		{name: "claim of another origin",
			objects: []client.Object{aShadow(), immediate, aClaim(func(c *corev1.PersistentVolumeClaim) {
				c.Annotations[volume.AnnotationOriginClaim] = "data-db-1"
			})}, bound: "False NameConflict", claims: true, event: "Warning NameConflict"},
		{name: "claim deleted", objects: []client.Object{aShadow(wasBound), immediate, boundVolume("former", retainedVolume)},
			phase: lost, bound: "False Lost",
			event: "Warning Lost The claim was deleted on the provider; its data is kept on PersistentVolume pvc-1."},
		{name: "claim deleted, and its volume prepared for it again", objects: []client.Object{aShadow(wasBound), immediate, boundVolume("", retainedVolume)},
			phase: pending, bound: "False Provisioning", claims: true, requeuesAfter: 2 * time.Minute},
		{name: "existing, with its claim", objects: []client.Object{aShadow(existing), immediate, aClaim(boundClaim,
			func(c *corev1.PersistentVolumeClaim) {
				c.Annotations[volume.AnnotationOriginClaim] = "move-1-target"
			}), boundVolume("claim", retainedVolume)}, phase: bound, bound: "True Bound", resized: "True Resized", claims: true},
		{name: "existing, with its volume", objects: []client.Object{aShadow(existing), immediate, boundVolume("former", retainedVolume)},
			phase: lost, bound: "False Lost",
			event: "Warning Lost The claim was deleted on the provider; its data is kept on PersistentVolume pvc-1."},
		{name: "existing, without claim and volume", objects: []client.Object{aShadow(existing), immediate}, phase: lost, bound: "False Lost", event: "Warning Lost"},
		{name: "existing, with a claim of another consumer",
			objects: []client.Object{aShadow(existing), immediate, aClaim(func(c *corev1.PersistentVolumeClaim) {
				c.Labels[v1alpha1.LabelForeignCluster] = "naples"
			})}, phase: lost, bound: "False Lost", claims: true, event: "Warning Lost"},
		{name: "claim and volume deleted", objects: []client.Object{aShadow(wasBound), immediate}, phase: lost, bound: "False Lost", event: "Warning Lost"},
		{name: "claim deleted before its volume was reported", objects: []client.Object{aShadow(), immediate, boundVolume("former")}, phase: lost, bound: "False Lost", event: "Warning Lost"},
		{name: "volume prepared by an administrator", objects: []client.Object{aShadow(), immediate, boundVolume("")}, phase: pending, bound: "False Provisioning", claims: true, requeuesAfter: 2 * time.Minute},
		{name: "volume deleted", objects: []client.Object{aShadow(wasBound), immediate, aClaim(boundClaim,
			func(c *corev1.PersistentVolumeClaim) {
				c.Status.Phase = corev1.ClaimLost
			})}, phase: lost, bound: "False Lost", claims: true, event: "Warning Lost"},
		{name: "claim replaced by another one", objects: []client.Object{aShadow(wasBound), immediate, aClaim(func(c *corev1.PersistentVolumeClaim) { c.Labels = nil })},
			phase: lost, bound: "False Lost", claims: true, event: "Warning Lost"},
		{name: "expansion begins", objects: []client.Object{aShadow(wasBound, larger), immediate, aClaim(boundClaim), boundVolume("claim", retainedVolume)},
			phase: bound, bound: "True Bound", resized: "False Resizing", claims: true},
		{name: "expansion waits for a pod", objects: []client.Object{aShadow(wasBound, larger), immediate,
			aClaim(allocating, requested, condition(corev1.PersistentVolumeClaimFileSystemResizePending)),
			boundVolume("claim", retainedVolume)},
			phase: bound, bound: "True Bound", resized: "False FileSystemResizePending", claims: true},
		{name: "expansion fails", objects: []client.Object{aShadow(wasBound, larger), immediate,
			aClaim(allocating, requested, condition(corev1.PersistentVolumeClaimControllerResizeError)),
			boundVolume("claim", retainedVolume)},
			phase: bound, bound: "True Bound", resized: "False ResizeFailed", claims: true},
		{name: "shrunk after a failed expansion", objects: []client.Object{aShadow(wasBound), immediate, aClaim(allocating, requested), boundVolume("claim", retainedVolume)},
			phase: bound, bound: "True Bound", resized: "True Resized", claims: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.objects...)
			after, err := w.pass()
			if err != nil {
				t.Fatal(err)
			}
			shadow := w.shadow()
			if shadow.Status.Phase != test.phase || after != test.requeuesAfter {
				t.Errorf("phase %q, requeued after %v, want %q and %v", shadow.Status.Phase, after, test.phase, test.requeuesAfter)
			}
			if got := conditionOf(t, shadow, v1alpha1.ConditionVolumeBound); got != test.bound {
				t.Errorf("VolumeBound is %q, want %q", got, test.bound)
			}
			if got := conditionOf(t, shadow, v1alpha1.ConditionVolumeResized); got != test.resized {
				t.Errorf("VolumeResized is %q, want %q", got, test.resized)
			}
			if claim := w.claim(); (claim != nil) != test.claims {
				t.Errorf("claim %v, want one: %v", claim, test.claims)
			} else if claim != nil && test.resized != "" &&
				claim.Spec.Resources.Requests.Storage().Cmp(shadow.Spec.Storage) != 0 {
				t.Errorf("the claim requests %s, want %s", claim.Spec.Resources.Requests.Storage(), &shadow.Spec.Storage)
			}
			if test.phase == bound && w.pv().Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
				t.Error("the bound volume is not retained")
			}
			if got := w.event(); !strings.HasPrefix(got, test.event) || test.event == "" && got != "" {
				t.Errorf("event %q, want %q", got, test.event)
			}
			writes := len(w.Writes)
			if _, err := w.pass(); err != nil || len(w.Writes) != writes {
				t.Errorf("a second pass wrote %v, error %v", w.Writes[writes:], err)
			}
		})
	}
}

func (w *world) event() string {
	select {
	case e := <-w.Events.Events:
		return e
	default:
		return ""
	}
}

func TestClaimIsCreatedForItsConsumer(t *testing.T) {
	w := newWorld(t, aShadow(func(s *v1alpha1.ShadowVolumeClaim) {
		s.Labels = map[string]string{v1alpha1.LabelForeignCluster: "milan", "app": "db"}
	}), aClass(storagev1.VolumeBindingImmediate))
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	got := w.claim()
	want := aClaim(func(c *corev1.PersistentVolumeClaim) { c.UID, c.ResourceVersion = got.UID, got.ResourceVersion })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("claim (-want +got):\n%s", diff)
	}
	if len(got.OwnerReferences) > 0 {
		t.Error("the garbage collector would delete the claim after a restore")
	}
}

func TestClaimIsCreatedInRemoteNamespacesOnly(t *testing.T) {
	w := newWorld(t, aShadow(), aClass(storagev1.VolumeBindingImmediate))
	kittest.Change(w.Cluster, "", remoteNamespace, &corev1.Namespace{}, func(n *corev1.Namespace) { n.Labels = nil })
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	if got := conditionOf(t, w.shadow(), v1alpha1.ConditionVolumeBound); w.claim() != nil ||
		got != "False NotARemoteNamespace" {
		t.Errorf("claim %v, condition %q", w.claim(), got)
	}
}

func TestRefusedClaimIsReportedAndRetried(t *testing.T) {
	for name, answer := range map[string]error{
		"refused": apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), claimName, errors.New(
			"exceeded quota: federation, requested: count/persistentvolumeclaims=1, used: a, limited: b")),
		"unreachable": apierrors.NewInternalError(errors.New("etcd")),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, aShadow(), aClass(storagev1.VolumeBindingImmediate))
			w.Fault = func(kittest.Write, bool) error {
				if len(w.Writes) == 1 {
					return answer
				}
				return nil
			}
			after, err := w.pass()
			if refused := name == "refused"; refused != (err == nil) || refused != (after == refusalRetry) {
				t.Errorf("requeued after %v, error %v", after, err)
			}
			if got := w.shadow().Status; name == "refused" &&
				(got.Phase != "" || conditionOf(t, w.shadow(), v1alpha1.ConditionVolumeBound) != "False ProviderRefused" ||
					!strings.Contains(got.Conditions[0].Message, "spec.incomingPolicy.objects")) {
				t.Errorf("status %+v", got)
			}
		})
	}
}

func TestRefusedSizeIsReported(t *testing.T) {
	w := newWorld(t, aShadow(wasBound, func(s *v1alpha1.ShadowVolumeClaim) { s.Spec.Storage = resource.MustParse("2Gi") }),
		aClass(storagev1.VolumeBindingImmediate), aClaim(boundClaim), boundVolume("claim", retainedVolume))
	w.Fault = func(kittest.Write, bool) error {
		if len(w.Writes) == 1 {
			return apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), claimName,
				errors.New("the class does not support resize"))
		}
		return nil
	}
	after, err := w.pass()
	if err != nil || after != refusalRetry {
		t.Errorf("requeued after %v, error %v", after, err)
	}
	if got := conditionOf(t, w.shadow(), v1alpha1.ConditionVolumeResized); got != "False ResizeRefused" {
		t.Errorf("VolumeResized is %q", got)
	}
}

func TestAllocatedIsTheLargestSizeThatTheProviderReserves(t *testing.T) {
	for _, test := range []struct{ requested, allocated, want string }{
		{"1Gi", "", ""},
		{"1Gi", "1Gi", ""},
		{"1Gi", "3Gi", "3Gi"},
		{"2Gi", "", "2Gi"},
		{"2Gi", "3Gi", "3Gi"},
		{"3Gi", "2Gi", "3Gi"},
	} {
		claim := aClaim(boundClaim)
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(test.requested)
		if test.allocated != "" {
			claim.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(test.allocated)}
		}
		got := ""
		if allocated := (&observed{claim: claim}).allocated(); allocated != nil {
			got = allocated.String()
		}
		if got != test.want {
			t.Errorf("requested %s, allocated %q of 1Gi: %q, want %q", test.requested, test.allocated, got, test.want)
		}
	}
}
