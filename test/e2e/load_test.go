// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

// load writes objects through the federation API of both clusters until it is stopped, and records
// the acknowledged writes.
type load struct {
	cancel  context.CancelFunc
	stopped chan struct{}

	mutex    sync.Mutex
	rounds   int
	refusals int
	last     error
	written  []written
	names    []string
}

// written is an object whose creation was acknowledged. deleted is true if its deletion was
// acknowledged, and unsure if the request for its deletion failed.
type written struct {
	what            string
	uid             types.UID
	deleted, unsure bool
	get             func(context.Context) (metav1.Object, error)
}

// objects are the methods of a generated client that load calls.
type objects[T metav1.Object] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// startLoad starts a load. hasAcknowledgedObjects stops it.
func startLoad(t *testing.T) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel, stopped: make(chan struct{})}
	prefix := namespaceOn(t, rome)
	t.Cleanup(func() { l.cleanUp(t) })
	// A low rate is enough to detect lost writes.
	pace := time.NewTicker(200 * time.Millisecond)
	go func() {
		defer close(l.stopped)
		defer pace.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			<-pace.C
			err := l.round(ctx, fmt.Sprintf("%s-%d", prefix, i), i%2 == 1)
			l.mutex.Lock()
			if err == nil {
				l.rounds++
			} else if ctx.Err() == nil {
				l.refusals++
				l.last = err
			}
			l.mutex.Unlock()
		}
	}()
	return l
}

// round creates one object of each kind. With takeBack, it deletes the objects afterwards.
func (l *load) round(ctx context.Context, name string, takeBack bool) error {
	// The name is recorded before the first write, because an unacknowledged write may have
	// succeeded, and cleanUp has to delete its object.
	l.mutex.Lock()
	l.names = append(l.names, name)
	l.mutex.Unlock()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := rome.Kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	nsof := &v1alpha1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NamespaceOffloadingName}}
	if err := write(ctx, l, "offloading of "+name, rome.Federation.FederationV1alpha1().NamespaceOffloadings(name), nsof,
		takeBack); err != nil {
		return err
	}
	for _, cluster := range []*harness.Cluster{rome, milan} {
		api := cluster.Federation.FederationV1alpha1()
		foreign := &v1alpha1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := write(ctx, l, "foreign cluster "+name+" on "+cluster.Name, api.ForeignClusters(), foreign,
			takeBack); err != nil {
			return err
		}
		token := &v1alpha1.PeeringToken{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := write(ctx, l, "token "+name+" on "+cluster.Name, api.PeeringTokens(), token, takeBack); err != nil {
			return err
		}
	}
	return nil
}

func write[T metav1.Object](ctx context.Context, l *load, what string, client objects[T], object T,
	takeBack bool) error {
	name := object.GetName()
	created, err := client.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	w := written{what: what, uid: created.GetUID(), get: func(ctx context.Context) (metav1.Object, error) {
		return client.Get(ctx, name, metav1.GetOptions{})
	}}
	if takeBack {
		err = client.Delete(ctx, name, metav1.DeleteOptions{})
		w.deleted, w.unsure = err == nil, err != nil
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.written = append(l.written, w)
	return err
}

// reach waits until a number of further rounds were acknowledged.
func (l *load) reach(t *testing.T, more int) {
	t.Helper()
	l.mutex.Lock()
	goal := l.rounds + more
	l.mutex.Unlock()
	eventually(t, soon, fmt.Sprintf("%d more rounds of the writing load", more),
		func(context.Context) (bool, string, error) {
			l.mutex.Lock()
			defer l.mutex.Unlock()
			return l.rounds >= goal, fmt.Sprintf("%d rounds of %d; %d refused, last with %v", l.rounds, goal, l.refusals,
					l.last),
				nil
		})
}

// hasAcknowledgedObjects stops the load. It fails the test unless every object whose creation was
// acknowledged exists with its UID, and every object whose deletion was acknowledged is deleted or
// terminating.
func (l *load) hasAcknowledgedObjects(t *testing.T) {
	t.Helper()
	l.cancel()
	<-l.stopped
	t.Logf("%d writes were acknowledged, %d rounds were refused", len(l.written), l.refusals)
	for _, w := range l.written {
		if w.unsure {
			continue
		}
		object, err := w.get(t.Context())
		switch {
		case w.deleted && apierrors.IsNotFound(err):
		case err != nil:
			t.Errorf("%s was acknowledged: %v", w.what, err)
		case object.GetUID() != w.uid:
			t.Errorf("%s was replaced: uid %s, want %s", w.what, object.GetUID(), w.uid)
		case w.deleted && object.GetDeletionTimestamp() == nil:
			t.Errorf("the deletion of %s was acknowledged, but it still exists", w.what)
		}
	}
}

// cleanUp deletes all objects of the load.
func (l *load) cleanUp(t *testing.T) {
	l.cancel()
	<-l.stopped
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	for _, name := range l.names {
		failures := []error{rome.Kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})}
		for _, cluster := range []*harness.Cluster{rome, milan} {
			api := cluster.Federation.FederationV1alpha1()
			failures = append(failures,
				api.ForeignClusters().Delete(ctx, name, metav1.DeleteOptions{}),
				api.PeeringTokens().Delete(ctx, name, metav1.DeleteOptions{}))
		}
		for _, err := range failures {
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	}
}
