// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remotens

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// source is an informer whose events the test sends to its handler.
type source struct {
	cache.SharedInformer
	handler cache.ResourceEventHandler
}

func (s *source) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	s.handler = handler
	return nil, nil
}

func TestDeletionThatTheWatchMissedHasTheLastKnownObject(t *testing.T) {
	pod := func(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	var got []string
	var s source
	if _, err := OnChange(&s, func(obj any) { got = append(got, obj.(*corev1.Pod).Name) }); err != nil {
		t.Fatal(err)
	}
	s.handler.OnAdd(pod("added"), true)
	s.handler.OnUpdate(pod("before"), pod("after"))
	s.handler.OnDelete(pod("deleted"))
	s.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "missed", Obj: pod("missed")})
	if diff := cmp.Diff([]string{"added", "after", "deleted", "missed"}, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}
