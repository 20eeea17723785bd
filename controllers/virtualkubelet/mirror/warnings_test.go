// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"

	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

func TestWarningsAreRecordedForTheLocalObject(t *testing.T) {
	rootsThere := translate.ConfigMap(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kube-root-ca.crt"}},
		"shop-rome",
		destination,
	)
	rootsThere.UID = "roots"
	balanced := webService()
	reflected := translate.Service(balanced, "shop-rome", destination)
	reflected.UID = "copy"
	foreign := reflected.DeepCopy()
	foreign.Name, foreign.UID, foreign.Labels = "foreign", "foreign", nil
	left := reflected.DeepCopy()
	left.Name, left.UID = "left", "left"
	about := func(kind, namespace, name string, uid types.UID) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace,
				Name:      "event",
			},
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name, UID: uid},
			Type:           corev1.EventTypeWarning,
			Reason:         "SyncLoadBalancerFailed",
			Message:        "no address is left",
		}
	}
	normal := about("Service", "shop-rome", balanced.Name, "copy")
	normal.Type = corev1.EventTypeNormal
	foreignHere := balanced.DeepCopy()
	foreignHere.Name = "foreign"
	r := newReflecting(
		t,
		[]runtime.Object{
			balanced,
			foreignHere,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kube-root-ca.crt"}},
		},
		[]runtime.Object{reflected, foreign, left, rootsThere},
	)
	// An unreachable provider is not reconciled, so the reflected object without a local one remains.
	r.answers.Store(false)
	r.start(t)
	err := kittest.Poll(t, func(context.Context) (bool, error) {
		for _, one := range r.namespaces["shop"].kinds {
			if !one.synced() {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		event    *corev1.Event
		recorded bool
	}{
		{"reflected object", about("Service", "shop-rome", balanced.Name, "copy"), true},
		{"reflected object with another name", about("ConfigMap", "shop-rome", rootsThere.Name, "roots"), true},
		{"earlier reflected object", about("Service", "shop-rome", balanced.Name, "earlier"), false},
		{"other object", about("Service", "shop-rome", "foreign", "foreign"), false},
		{"reflected object without a local one", about("Service", "shop-rome", "left", "left"), false},
		{"other namespace", about("Service", "other", balanced.Name, "copy"), false},
		{"pod", about("Pod", "shop-rome", balanced.Name, "copy"), false},
		{"normal event", normal, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r.Warnings = flowcontrol.NewTokenBucketPassiveRateLimiter(1e-9, 1)
			r.Warn("shop", test.event)
			r.Warn("shop", test.event)
			recorded := len(r.events.Events)
			if recorded > 1 || (recorded > 0) != test.recorded {
				t.Errorf("%d events, want one", recorded)
			}
			for range recorded {
				if event := <-r.events.Events; event != "Warning SyncLoadBalancerFailed milan: no address is left" {
					t.Errorf("event %q", event)
				}
			}
		})
	}
}
