// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mcs

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// discovery is a discovery client that returns resources, or failure. Without resources it returns NotFound, as for an
// API group that is not served.
type discovery struct {
	resources []string
	failure   error
}

func (d *discovery) ServerResourcesForGroupVersionWithContext(
	context.Context,
	string,
) (*metav1.APIResourceList, error) {
	if d.failure != nil {
		return nil, d.failure
	}
	if d.resources == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	}
	list := &metav1.APIResourceList{}
	for _, name := range d.resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list, nil
}

func TestChangesOfTheServedResourcesAreReported(t *testing.T) {
	d := &discovery{}
	s := NewServed(d, clock.RealClock{}, "serviceexports", "serviceimports")
	ctx, cancel := context.WithCancel(t.Context())
	type call struct {
		served bool
		ended  <-chan struct{}
	}
	calls := make(chan call)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.Follow(ctx, func(ctx context.Context, served bool) {
			calls <- call{served, ctx.Done()}
			<-ctx.Done()
		})
	}()
	next := func(want bool) call {
		t.Helper()
		select {
		case got := <-calls:
			if got.served != want {
				t.Fatalf("served: %t, want %t", got.served, want)
			}
			return got
		case <-time.After(10 * time.Second):
			t.Fatal("the function is not called")
		}
		return call{}
	}
	update := func(wantErr bool) {
		t.Helper()
		if err := s.update(t.Context()); (err != nil) != wantErr {
			t.Fatalf("got %v", err)
		}
	}
	d.failure = errors.New("no answer")
	update(true)
	if s.read {
		t.Fatal("a failure counts as read")
	}
	d.failure = nil
	update(false)
	without := next(false)
	d.resources = []string{"serviceexports"}
	update(false)
	select {
	case <-without.ended:
		t.Fatal("one definition of two is enough")
	default:
	}
	d.resources = []string{"serviceimports", "serviceexports", "serviceimports/status"}
	update(false)
	<-without.ended
	with := next(true)
	d.failure = errors.New("no answer")
	update(true)
	d.failure = nil
	update(false)
	select {
	case <-with.ended:
		t.Fatal("a failure ends the call")
	default:
	}
	d.resources = nil
	update(false)
	<-with.ended
	last := next(false)
	cancel()
	<-last.ended
	<-stopped
}

func TestExportsThatAreExcludedOrDeletedAreNotEffective(t *testing.T) {
	skip := func(value string) map[string]string {
		return map[string]string{v1alpha1.AnnotationSkipReflection: value}
	}
	for _, test := range []struct {
		name string
		meta metav1.ObjectMeta
		want bool
	}{
		{"any", metav1.ObjectMeta{}, true},
		{"excluded", metav1.ObjectMeta{Annotations: skip("")}, false},
		{"not excluded", metav1.ObjectMeta{Annotations: skip("false")}, true},
		{"being deleted", metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}},
			false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Exported(&mcsv1alpha1.ServiceExport{ObjectMeta: test.meta}); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
