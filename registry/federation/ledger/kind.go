// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
)

// Sum is what several objects take together. It never changes: Plus and Minus
// return another one. The zero value is nothing.
type Sum[S, T any] interface {
	Plus(T) S
	Minus(T) S
}

// Used is what the objects of one account take.
type Used[S any] struct {
	// Objects is how many take something, and Sum is what.
	Objects int
	Sum     S
	// Over is how many take nothing any more, and are still there.
	Over int
}

// Terms say what who asks gets while so much is used, or why nothing.
type Terms[Q, T, S any] func(used Used[S], asked Q) (T, error)

// Kind says what objects take: Q is what one asks for, T is what it gets, and S
// the sum of what several have got.
type Kind[Q, T any, S Sum[S, T]] struct {
	// Objects and Ledgers are the resources that they are stored as.
	Objects, Ledgers string
	// Entry says what an object takes and in which account, which is empty when
	// the object does not say so. It does not count when it is over: then it only
	// is there.
	Entry func(obj runtime.Object) (account string, takes T, counts bool)
	// Terms are read for each transaction.
	Terms func(ctx context.Context, account string) (Terms[Q, T, S], error)
	// Keep tells whether the ledger of an account stays while nothing is used.
	Keep func(ctx context.Context, account string) (bool, error)
}
