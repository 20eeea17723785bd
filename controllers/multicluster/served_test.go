// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// answering is one whose cluster answers with these resources; nil is no such
// group, and an error no answer.
func answering(resources *[]string, err *error) *Served {
	return &Served{
		resources: []string{"serviceexports", "serviceimports"}, clock: clock.RealClock{}, changed: make(chan struct{}),
		ask: func(context.Context, string) (*metav1.APIResourceList, error) {
			if *err != nil {
				return nil, *err
			}
			if *resources == nil {
				return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
			}
			list := &metav1.APIResourceList{}
			for _, name := range *resources {
				list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
			}
			return list, nil
		},
	}
}

func TestWhetherTheAPIIsServedIsFollowed(t *testing.T) {
	var resources []string
	var trouble error
	s := answering(&resources, &trouble)
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
			t.Fatal("nobody was told")
		}
		return call{}
	}
	look := func(wantErr bool) {
		t.Helper()
		if err := s.look(t.Context()); (err != nil) != wantErr {
			t.Fatalf("got %v", err)
		}
	}
	trouble = errors.New("away")
	look(true)
	if s.known {
		t.Fatal("without an answer something is known")
	}
	trouble = nil
	look(false)
	without := next(false)
	resources = []string{"serviceexports"}
	look(false)
	select {
	case <-without.ended:
		t.Fatal("one definition of two is enough")
	default:
	}
	resources = []string{"serviceimports", "serviceexports", "serviceimports/status"}
	look(false)
	<-without.ended
	with := next(true)
	trouble = errors.New("away")
	look(true)
	trouble = nil
	look(false)
	select {
	case <-with.ended:
		t.Fatal("it was told again what it knows")
	default:
	}
	resources = nil
	look(false)
	<-with.ended
	last := next(false)
	cancel()
	<-last.ended
	<-stopped
}
