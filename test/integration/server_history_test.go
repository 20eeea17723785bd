// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	typed "liqo.io/federation/generated/clientset/versioned/typed/federation/v1alpha1"
	"liqo.io/federation/test/integration/framework"
)

const (
	// step is an annotation whose value is different in each state of an object.
	step = "example.com/step"
	// comeback is the maximal time for which a server may be unavailable.
	comeback = time.Minute
)

// history runs concurrent writers while tests disturb the server. Each writer has an object of its
// own. Afterwards all acknowledged writes must exist, a failed write may or may not exist, and
// resource versions must have grown with each write.
type history struct {
	t            *testing.T
	tokens       typed.PeeringTokenInterface
	acknowledged atomic.Int64
	// newest is the highest resource version in any response.
	newest  atomic.Uint64
	writers []*writer
	stop    context.CancelFunc
	ended   sync.WaitGroup
}

// writer creates, updates and deletes one object, which nothing else writes.
type writer struct {
	*history
	name string
	// now is the object after the last acknowledged write. nil means that it does not exist.
	now *v1alpha1.PeeringToken
	n   int
	// late is the state that the last failed write would have caused. Empty means that it was
	// observed or replaced.
	late string
}

// startHistory starts the writers, which run until finish is called.
func startHistory(t *testing.T, config *rest.Config, writers int) *history {
	t.Helper()
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	h := &history{t: t, tokens: client.FederationV1alpha1().PeeringTokens(), stop: stop}
	for i := range writers {
		w := &writer{history: h, name: fmt.Sprintf("history-%d", i)}
		h.writers = append(h.writers, w)
		h.ended.Go(func() {
			for ctx.Err() == nil {
				w.write(context.WithoutCancel(ctx))
			}
		})
	}
	t.Cleanup(func() {
		stop()
		h.ended.Wait()
	})
	return h
}

// reach waits until the server has acknowledged this number of further writes.
func (h *history) reach(more int64) {
	h.t.Helper()
	goal := h.acknowledged.Load() + more
	err := wait.PollUntilContextTimeout(h.t.Context(), 10*time.Millisecond, comeback, true,
		func(context.Context) (bool, error) {
			return h.acknowledged.Load() >= goal, nil
		})
	if err != nil {
		h.t.Fatalf("%d writes were acknowledged, %d missing: %v", h.acknowledged.Load(), goal-h.acknowledged.Load(), err)
	}
}

// finish stops the writers, and fails the test if an object on the server differs from the last
// acknowledged state.
func (h *history) finish() {
	h.t.Helper()
	h.stop()
	h.ended.Wait()
	list, err := h.tokens.List(h.t.Context(), metav1.ListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	if version := parse(h.t, list.ResourceVersion); version < h.newest.Load() {
		h.t.Errorf("the list has the resource version %d, after %d was acknowledged", version, h.newest.Load())
	}
	found := map[string]*v1alpha1.PeeringToken{}
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	for _, w := range h.writers {
		if !same(found[w.name], w.now) {
			h.t.Errorf("%s is %s, and was acknowledged as %s", w.name, state(found[w.name]), state(w.now))
		}
	}
	h.t.Logf("%d writes were acknowledged, the last one as %d", h.acknowledged.Load(), h.newest.Load())
}

// write creates, updates or deletes the object, and checks the result.
func (w *writer) write(ctx context.Context) {
	w.n++
	before := w.now
	var attempt, answer *v1alpha1.PeeringToken
	var err error
	switch {
	case before == nil:
		attempt = newToken(w.name)
		attempt.Annotations = map[string]string{step: strconv.Itoa(w.n)}
		answer, err = w.tokens.Create(ctx, attempt, metav1.CreateOptions{})
	case w.n%5 == 0:
		err = w.tokens.Delete(ctx, w.name, metav1.DeleteOptions{})
	default:
		attempt = before.DeepCopy()
		attempt.Annotations = map[string]string{step: strconv.Itoa(w.n)}
		answer, err = w.tokens.Update(ctx, attempt, metav1.UpdateOptions{})
	}
	if err == nil {
		w.acknowledge(answer)
		return
	}
	// A failed write may have been stored. The object must be in the state before or after it.
	found, err := w.observe(ctx)
	if err != nil {
		w.t.Errorf("%s does not restart: %v", w.name, err)
		w.stop()
		return
	}
	if !same(found, before) && state(found) != w.late &&
		(state(found) != state(attempt) || found != nil && before != nil && found.UID != before.UID) {
		w.t.Errorf("%s is %s, want %s or %s", w.name, state(found), state(before), state(attempt))
	}
	// The failed write may still take effect, for example if one etcd member forwards it to
	// another.
	if w.late = ""; same(found, before) {
		w.late = state(attempt)
	}
	w.now = found
	w.note(found)
}

func (w *writer) acknowledge(answer *v1alpha1.PeeringToken) {
	if answer != nil && w.now != nil && parse(w.t, answer.ResourceVersion) <= parse(w.t, w.now.ResourceVersion) {
		w.t.Errorf("%s went from %s to %s", w.name, state(w.now), state(answer))
	}
	w.now, w.late = answer, ""
	w.note(answer)
	w.acknowledged.Add(1)
}

// note records the highest resource version.
func (w *writer) note(object *v1alpha1.PeeringToken) {
	if object == nil {
		return
	}
	version := parse(w.t, object.ResourceVersion)
	for old := w.newest.Load(); version > old && !w.newest.CompareAndSwap(old, version); old = w.newest.Load() {
	}
}

// observe reads the object. It retries until the server responds, and fails after comeback.
func (w *writer) observe(ctx context.Context) (found *v1alpha1.PeeringToken, err error) {
	waitErr := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, comeback, true,
		func(ctx context.Context) (bool, error) {
			found, err = w.tokens.Get(ctx, w.name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				found, err = nil, nil
			}
			return err == nil, nil
		})
	if waitErr != nil {
		return nil, fmt.Errorf("%w: %w", waitErr, err)
	}
	return found, nil
}

func same(a, b *v1alpha1.PeeringToken) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion && a.Annotations[step] == b.Annotations[step]
}

func state(object *v1alpha1.PeeringToken) string {
	if object == nil {
		return "missing"
	}
	return "at step " + object.Annotations[step]
}

func parse(t *testing.T, resourceVersion string) uint64 {
	t.Helper()
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		t.Errorf("a resource version that is none: %v", err)
	}
	return version
}

// storages returns, by name of a kind of store, a function with the arguments of a server that uses
// it.
func storages(t *testing.T, env *framework.Environment) map[string]func(t *testing.T) []string {
	t.Helper()
	return map[string]func(t *testing.T) []string{
		"in an embedded etcd":                  func(*testing.T) []string { return nil },
		"in an external etcd of three members": func(t *testing.T) []string { return env.StartEtcd(t, 3).ServerArgs() },
	}
}
