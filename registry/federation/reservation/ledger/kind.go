// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
)

// Sum is the total amount that several objects use. It is immutable: Plus and Minus return a new Sum. The zero value is
// an empty sum.
type Sum[S, T any] interface {
	Plus(T) S
	Minus(T) S
}

// Used is the usage of one account.
type Used[S any] struct {
	// Objects is the number of objects that use an amount, and Sum is the total of these amounts.
	Objects int
	Sum     S
	// Over is the number of objects that exist but use nothing any more, for example finished pods.
	Over int
}

// Policy returns the amount to reserve for a request at the current usage, or the error with which the request is
// refused.
type Policy[Q, T, S any] func(used Used[S], requested Q) (T, error)

// Kind describes the objects for which ledgers reserve amounts. Q is the request of an object, T is the amount that is
// reserved for it, and S is the sum of such amounts.
type Kind[Q, T any, S Sum[S, T]] struct {
	// Objects and Ledgers are the resource names under which objects and ledgers are stored in etcd.
	Objects, Ledgers string
	// Entry returns the account of an object and the amount that the object uses. account is empty if the object names
	// none. counts is false for an object that exists but uses nothing any more.
	Entry func(obj runtime.Object) (account string, uses T, counts bool)
	// Policy returns the current policy of an account. It is called in each transaction with requests, after the usage
	// was computed. So it may add amounts that count from before an object is deleted, which the usage lacks from then on.
	Policy func(ctx context.Context, account string) (Policy[Q, T, S], error)
	// Keep reports whether Repair keeps the ledger of an account without usage. Otherwise Repair deletes such a ledger.
	Keep func(ctx context.Context, account string) (bool, error)
}
