// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
)

// Sum is the sum of what several objects use. It is immutable: Plus and Minus return
// another one. The zero value is nothing.
type Sum[S, T any] interface {
	Plus(T) S
	Minus(T) S
}

// Used is what the objects of one account use.
type Used[S any] struct {
	// Objects is the number of objects that use something, and Sum is what they use.
	Objects int
	Sum     S
	// Over is the number of objects that still exist but no longer use anything.
	Over int
}

// Policy returns the amount that may be reserved for a request at the current usage, or the
// reason for refusing it.
type Policy[Q, T, S any] func(used Used[S], requested Q) (T, error)

// Kind describes the objects that a reservation is made for: Q is what one requests, T what
// is reserved for it, and S the sum of several T.
type Kind[Q, T any, S Sum[S, T]] struct {
	// Objects and Ledgers are the resources that objects and ledgers are stored as.
	Objects, Ledgers string
	// Entry returns what an object uses and in which account, which is empty where the
	// object does not name one. It reports whether the object counts: one that is over
	// only exists.
	Entry func(obj runtime.Object) (account string, uses T, counts bool)
	// Policy returns the policy of an account. It is called in each transaction.
	Policy func(ctx context.Context, account string) (Policy[Q, T, S], error)
	// Keep reports whether the ledger of an account stays while nothing is used.
	Keep func(ctx context.Context, account string) (bool, error)
}
