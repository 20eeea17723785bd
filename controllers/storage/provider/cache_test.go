// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// late makes the cache lack the claim and the mark of its volume for one reconcile.
func (w *world) late() {
	cached := w.reconciler.Client.(client.WithWatch)
	w.reconciler.Client = interceptor.NewClient(cached, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			if _, ok := o.(*corev1.PersistentVolumeClaim); ok {
				return apierrors.NewNotFound(corev1.Resource("persistentvolumeclaims"), key.Name)
			}
			return c.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if volumes, ok := list.(*corev1.PersistentVolumeList); ok {
				for i := range volumes.Items {
					volumes.Items[i].Labels = nil
				}
			}
			return err
		},
	})
	if _, err := w.pass(); err != nil {
		w.t.Fatal(err)
	}
	w.reconciler.Client = cached
}

func TestCacheThatLacksTheClaimDecidesNothing(t *testing.T) {
	for _, test := range []struct {
		name    string
		objects []client.Object
		// phase is the expected phase of the ShadowVolumeClaim; empty if it does not exist.
		phase         v1alpha1.ShadowVolumeClaimPhase
		claim, volume bool
	}{
		{"a new claim with a cached volume", []client.Object{aShadow(), aClaim(boundClaim), boundVolume("claim")},
			v1alpha1.ShadowVolumeClaimBound, true, true},
		{"a new claim that is deleted", []client.Object{aShadow(deleting("Delete")), aClaim()}, "", false, false},
		{"a released volume that was retained",
			[]client.Object{aShadow(wasBound, deleting("Delete")), boundVolume("former", retainedVolume,
				func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeReleased })}, "", false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, append(test.objects, aClass(storagev1.VolumeBindingWaitForFirstConsumer))...)
			w.late()
			if shadow := w.shadow(); shadow != nil && shadow.Status.Phase == v1alpha1.ShadowVolumeClaimLost {
				t.Error("the claim is reported as lost")
			}
			w.settle()
			var phase v1alpha1.ShadowVolumeClaimPhase
			if shadow := w.shadow(); shadow != nil {
				phase = shadow.Status.Phase
			}
			if claim, volume := w.claim() != nil, w.pv() != nil; phase != test.phase || claim != test.claim ||
				volume != test.volume {
				t.Errorf("phase %q, claim %t, volume %t", phase, claim, volume)
			}
		})
	}
}
