// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit/kittest"
)

func deleting(policy v1alpha1.VolumeDeletionPolicy) func(*v1alpha1.ShadowVolumeClaim) {
	return func(s *v1alpha1.ShadowVolumeClaim) {
		s.DeletionTimestamp = &metav1.Time{Time: kittest.Epoch}
		s.Spec.DeletionPolicy = policy
	}
}

func TestDeletionKeepsOrDeletesTheData(t *testing.T) {
	class := aClass(storagev1.VolumeBindingImmediate)
	retainingClass := func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		retainedVolume(pv)
	}
	released := func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeReleased }
	for _, test := range []struct {
		name    string
		objects []client.Object
		// removed and volume are whether the ShadowVolumeClaim is removed and whether the volume exists at the end.
		removed, volume bool
		// foreign is whether the volume belongs to another claim of the same name.
		foreign   bool
		event     string
		condition string
	}{
		{name: "retain", objects: []client.Object{aShadow(wasBound, deleting("")), aClaim(boundClaim), boundVolume("claim", retainedVolume)}, removed: true, volume: true, event: "Normal VolumeRetained"},
		{name: "retain, not retained yet", objects: []client.Object{aShadow(wasBound, deleting("Retain")), aClaim(boundClaim), boundVolume("claim")}, removed: true, volume: true, event: "Normal VolumeRetained"},
		{name: "delete", objects: []client.Object{aShadow(wasBound, deleting("Delete")), aClaim(boundClaim), boundVolume("claim", retainedVolume)}, removed: true},
		{name: "delete, the class retains", objects: []client.Object{aShadow(wasBound, deleting("Delete")), aClaim(boundClaim), boundVolume("claim", retainingClass)}, removed: true, volume: true, event: "Warning VolumeRetained"},
		{name: "delete, in use", objects: []client.Object{aShadow(wasBound, deleting("Delete")), aClaim(boundClaim), boundVolume("claim", retainedVolume), aPod("db-0")}, volume: true, condition: "True InUse"},
		{name: "delete, pod ended", objects: []client.Object{aShadow(wasBound, deleting("Delete")), aClaim(boundClaim),
			boundVolume("claim", retainedVolume),
			aPod("db-0", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}, removed: true},
		{name: "delete, never bound", objects: []client.Object{aShadow(deleting("Delete"))}, removed: true},
		{name: "delete, lost", objects: []client.Object{aShadow(wasBound, deleting("Delete")), boundVolume("former", retainedVolume, released)}, removed: true},
		{name: "delete, a volume that was never retained",
			objects: []client.Object{aShadow(deleting("Delete")), boundVolume("former", released,
				func(pv *corev1.PersistentVolume) {
					pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
				})}, removed: true, volume: true, foreign: true},
		{name: "delete, volume released by an earlier ShadowVolumeClaim of the name",
			objects: []client.Object{aShadow(deleting("Delete")),
				boundVolume("former", retainedVolume, released)}, removed: true, volume: true},
		{name: "delete, bound and not recorded", objects: []client.Object{aShadow(deleting("Delete")), aClaim(boundClaim), boundVolume("claim", retainedVolume)}, removed: true},
		{name: "delete, being bound", objects: []client.Object{aShadow(deleting("Delete")),
			aClaim(func(c *corev1.PersistentVolumeClaim) {
				c.Spec.VolumeName = volumeName
			}), boundVolume("claim", retainedVolume)}, removed: true},
		{name: "delete, another claim of the name", objects: []client.Object{aShadow(deleting("Delete")),
			aClaim(boundClaim, func(c *corev1.PersistentVolumeClaim) { c.Labels = nil }), boundVolume("claim")},
			removed: true, volume: true, foreign: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, append(test.objects, class)...)
			w.settle()
			if removed := w.shadow() == nil; removed != test.removed {
				t.Errorf("removed: %v, want %v", removed, test.removed)
			}
			if kept := w.pv() != nil; kept != test.volume {
				t.Errorf("volume kept: %v, want %v", kept, test.volume)
			}
			if test.removed && test.volume && !test.foreign && !countsItself(w.pv()) {
				t.Errorf("the kept volume has the labels %v, and does not count", w.pv().Labels)
			}
			if shadow := w.shadow(); shadow != nil && conditionOf(t, shadow, v1alpha1.ConditionVolumeBound) != test.condition {
				t.Errorf("VolumeBound is %q, want %q", conditionOf(t, shadow, v1alpha1.ConditionVolumeBound), test.condition)
			}
			if got := w.event(); !strings.HasPrefix(got, test.event) || test.event == "" && got != "" {
				t.Errorf("event %q, want %q", got, test.event)
			}
		})
	}
}

// countsItself reports whether a volume counts towards the quota of its consumer without a ShadowVolumeClaim.
func countsItself(pv *corev1.PersistentVolume) bool {
	return labels.SelectorFromSet(volume.Retained("rome")).Matches(labels.Set(pv.Labels))
}

func TestRetainedVolumeCountsBeforeItsClaimIsReleased(t *testing.T) {
	for _, policy := range []corev1.PersistentVolumeReclaimPolicy{
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain,
	} {
		t.Run(string(policy), func(t *testing.T) {
			w := newWorld(t, aShadow(wasBound, deleting(v1alpha1.VolumeDeletionRetain)), aClaim(boundClaim),
				boundVolume("claim", func(pv *corev1.PersistentVolume) { pv.Spec.PersistentVolumeReclaimPolicy = policy }),
				aClass(storagev1.VolumeBindingImmediate))
			w.Fault = func(_ kittest.Write, done bool) error {
				if done && w.shadow() == nil && !countsItself(w.pv()) {
					t.Error("neither the claim nor its volume counts")
				}
				return nil
			}
			w.settle()
			if w.shadow() != nil {
				t.Error("the ShadowVolumeClaim is not released")
			}
		})
	}
}

func TestVolumeThatTheCacheLacksCountsToo(t *testing.T) {
	w := newWorld(t, aShadow(wasBound, deleting(v1alpha1.VolumeDeletionRetain)), boundVolume("former", retainedVolume),
		aClass(storagev1.VolumeBindingImmediate))
	cached := w.reconciler.Client.(client.WithWatch)
	w.reconciler.Client = interceptor.NewClient(cached, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*corev1.PersistentVolumeList); ok {
				return nil
			}
			return c.List(ctx, list, options...)
		},
	})
	w.settle()
	if w.shadow() != nil || !countsItself(w.pv()) {
		t.Errorf("ShadowVolumeClaim %v, labels of the volume %v", w.shadow(), w.pv().Labels)
	}
}

// releasedAfter returns a change to a provisioned volume that was released at this age.
func releasedAfter(age time.Duration) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) {
		pv.CreationTimestamp = metav1.NewTime(kittest.Epoch)
		pv.Annotations = map[string]string{volume.AnnotationProvisionedBy: "csi.example.com"}
		pv.Status.Phase = corev1.VolumeReleased
		pv.Status.LastPhaseTransitionTime = ptr.To(metav1.NewTime(kittest.Epoch.Add(age)))
	}
}

func TestVolumesOfEarlierClaimsCount(t *testing.T) {
	atOnce, later := releasedAfter(time.Second), releasedAfter(time.Hour)
	static := func(pv *corev1.PersistentVolume) { pv.Annotations = nil }
	takenOver := func(pv *corev1.PersistentVolume) { pv.Labels = map[string]string{volume.LabelRetained: "true"} }
	for _, test := range []struct {
		name    string
		objects []client.Object
		counts  bool
	}{
		{"the volume of a claim", []client.Object{aClaim(boundClaim), boundVolume("claim")}, false},
		{"the volume of a bound ShadowVolumeClaim", []client.Object{aShadow(wasBound), aClaim(boundClaim),
			boundVolume("claim", retainedVolume)}, false},
		{"the volume of a lost ShadowVolumeClaim", []client.Object{aShadow(wasBound), boundVolume("former", retainedVolume)},
			false},
		{"provisioned after the deletion", []client.Object{boundVolume("former", atOnce)}, true},
		{"provisioned after the deletion, with a new ShadowVolumeClaim",
			[]client.Object{aShadow(), aClaim(), boundVolume("former", atOnce)}, true},
		{"provisioned after the deletion, with a lost ShadowVolumeClaim",
			[]client.Object{aShadow(), boundVolume("former", atOnce)}, true},
		{"retained by an earlier version", []client.Object{boundVolume("former", later, retainedVolume)}, true},
		{"taken over by an administrator", []client.Object{boundVolume("former", atOnce, takenOver)}, false},
		{"of a claim of the provider", []client.Object{boundVolume("former", later)}, false},
		{"of a claim of the provider, not provisioned", []client.Object{boundVolume("former", atOnce, static)}, false},
		{"prepared for a claim", []client.Object{boundVolume("")}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, append(test.objects, aClass(storagev1.VolumeBindingImmediate))...)
			if _, err := w.pass(); err != nil {
				t.Fatal(err)
			}
			if got := countsItself(w.pv()); got != test.counts {
				t.Errorf("counts: %v, want %v; labels %v", got, test.counts, w.pv().Labels)
			}
		})
	}
}

func TestVolumeThatCannotBeLabelledDoesNotBlockTheNextClaim(t *testing.T) {
	w := newWorld(t, aShadow(), aClaim(), aClass(storagev1.VolumeBindingImmediate),
		boundVolume("former", releasedAfter(0)))
	cached := w.reconciler.Client.(client.WithWatch)
	refused := errors.New("refused by a webhook")
	w.reconciler.Client = interceptor.NewClient(cached, interceptor.Funcs{
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption,
		) error {
			if _, ok := o.(*corev1.PersistentVolume); ok {
				return refused
			}
			return c.Patch(ctx, o, patch, options...)
		},
	})
	if _, err := w.pass(); !errors.Is(err, refused) {
		t.Errorf("error %v, want %v", err, refused)
	}
	if w.shadow().Status.Phase == "" {
		t.Error("the claim is not reconciled")
	}
}

func TestVolumeThatIsBoundAgainCountsOnce(t *testing.T) {
	w := newWorld(t, aShadow(existing), boundVolume("", retainedVolume,
		func(pv *corev1.PersistentVolume) { pv.Labels = volume.Retained("rome") }), aClass(storagev1.VolumeBindingImmediate))
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	kittest.Change(w.Cluster, "", volumeName, &corev1.PersistentVolume{},
		func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.UID = w.claim().UID })
	w.settle()
	if w.shadow().Status.Phase != v1alpha1.ShadowVolumeClaimBound || countsItself(w.pv()) {
		t.Errorf("phase %q, labels of the volume %v", w.shadow().Status.Phase, w.pv().Labels)
	}
}

func TestVolumeThatCannotBeDeletedIsReported(t *testing.T) {
	w := newWorld(t, aShadow(wasBound, deleting("Delete")), boundVolume("former", retainedVolume,
		func(pv *corev1.PersistentVolume) {
			pv.Status.Phase, pv.Status.Message = corev1.VolumeFailed, "the disk is attached"
		}))
	if _, err := w.pass(); err != nil {
		t.Fatal(err)
	}
	if got := conditionOf(t, w.shadow(), v1alpha1.ConditionVolumeBound); got != "False DeletionFailed" {
		t.Errorf("VolumeBound is %q", got)
	}
}

func TestClaimWithoutShadowVolumeClaimIsReportedAndKept(t *testing.T) {
	w := newWorld(t, aClass(storagev1.VolumeBindingImmediate), aClaim(boundClaim), boundVolume("claim", retainedVolume))
	for range 2 {
		if _, err := w.pass(); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.event(); !strings.HasPrefix(got, "Warning ShadowVolumeClaimMissing") {
		t.Errorf("event %q", got)
	}
	if got := w.event(); got != "" {
		t.Errorf("a second event %q", got)
	}
	if len(w.reconciler.orphans.byClaim) != 1 || w.claim() == nil || len(w.Writes) > 0 {
		t.Errorf("orphans %v, claim %v, writes %v", w.reconciler.orphans.byClaim, w.claim(), w.Writes)
	}
	w.must(w.Create(t.Context(), aShadow()))
	w.settle()
	if len(w.reconciler.orphans.byClaim) > 0 || w.shadow().Status.Phase != v1alpha1.ShadowVolumeClaimBound {
		t.Errorf("orphans %v, phase %q: it was not adopted", w.reconciler.orphans.byClaim, w.shadow().Status.Phase)
	}
}
