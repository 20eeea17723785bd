// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// store stores ledgers. Callers must not modify a returned ledger.
type store[T any] interface {
	// update applies change to the ledger of an account, and creates the ledger if it does not exist and the changed
	// one has reservations. It calls change again if another writer was faster. It fails with the error of change.
	update(ctx context.Context, account string, change func(*Ledger[T]) error) error
	list(ctx context.Context) ([]*Ledger[T], error)
	// remove deletes a listed ledger, unless the ledger changed since it was listed.
	remove(ctx context.Context, ledger *Ledger[T]) error
}

// memory has the ledgers of a server that is alone on its etcd. When the server ends, its reservations are lost, and
// the requests that made them end, too. The next server lists all written objects before it reserves anything.
type memory[T any] struct {
	mutex   sync.Mutex
	ledgers map[string]*Ledger[T] // by account; replaced and never modified
}

func (m *memory[T]) update(ctx context.Context, account string, change func(*Ledger[T]) error) error {
	for {
		m.mutex.Lock()
		was := m.ledgers[account]
		m.mutex.Unlock()
		now := &Ledger[T]{ObjectMeta: metav1.ObjectMeta{Name: account}}
		if was != nil {
			now = was.copy()
		}
		if err := change(now); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if m.replace(account, was, now) {
			return nil
		}
	}
}

// replace stores now as the ledger of an account, and returns true. If the stored ledger differs from was, another
// writer was faster: replace changes nothing and returns false. If was is nil and now has no reservations, it stores
// nothing and returns true.
func (m *memory[T]) replace(account string, was, now *Ledger[T]) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.ledgers[account] != was {
		return false
	}
	if was != nil || len(now.Reservations) > 0 {
		m.ledgers[account] = now
	}
	return true
}

func (m *memory[T]) list(context.Context) ([]*Ledger[T], error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return slices.Collect(maps.Values(m.ledgers)), nil
}

func (m *memory[T]) remove(_ context.Context, ledger *Ledger[T]) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.ledgers[ledger.Name] == ledger {
		delete(m.ledgers, ledger.Name)
	}
	return nil
}

// shared has the ledgers of several servers, in the etcd that they share.
type shared[T any] struct {
	storage storage.Interface
	prefix  string
}

// errNothing ends a transaction that would create a ledger without reservations.
var errNothing = errors.New("there is nothing to write")

func (s *shared[T]) key(account string) string { return s.prefix + "/" + account }

func (s *shared[T]) update(ctx context.Context, account string, change func(*Ledger[T]) error) error {
	err := s.storage.GuaranteedUpdate(ctx, s.key(account), &Ledger[T]{}, true, nil,
		func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			ledger := input.(*Ledger[T]).copy()
			existed := ledger.Name != ""
			ledger.ObjectMeta = metav1.ObjectMeta{Name: account, ResourceVersion: ledger.ResourceVersion}
			if err := change(ledger); err != nil {
				return nil, nil, err
			}
			if !existed && len(ledger.Reservations) == 0 {
				return nil, nil, errNothing
			}
			return ledger, nil, nil
		}, nil)
	if errors.Is(err, errNothing) {
		return nil
	}
	return err
}

func (s *shared[T]) list(ctx context.Context) ([]*Ledger[T], error) {
	list := &List[T]{}
	if err := s.storage.GetList(ctx, s.prefix+"/", storage.ListOptions{Recursive: true, Predicate: storage.Everything},
		list); err != nil {
		return nil, fmt.Errorf("listing the ledgers: %w", err)
	}
	ledgers := make([]*Ledger[T], len(list.Items))
	for i := range list.Items {
		ledgers[i] = &list.Items[i]
	}
	return ledgers, nil
}

func (s *shared[T]) remove(ctx context.Context, ledger *Ledger[T]) error {
	err := s.storage.Delete(ctx, s.key(ledger.Name), &Ledger[T]{},
		&storage.Preconditions{ResourceVersion: &ledger.ResourceVersion},
		func(context.Context, runtime.Object) error { return nil }, nil, storage.DeleteOptions{})
	if storage.IsNotFound(err) || storage.IsConflict(err) || storage.IsInvalidObj(err) {
		return nil
	}
	return err
}
