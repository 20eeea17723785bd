// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
)

// Ledger is the stored ledger of one account, whose name it has. It is not part of the
// API: only this package reads and writes it.
type Ledger[T any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Seen is the minimum revision of the objects to sum up: those whose reservations were
	// removed because they exist were written by then.
	Seen uint64 `json:"seen,omitempty"`
	// Reservations are the reservations of objects that are about to be created or to grow, or
	// that just were.
	Reservations []Reservation[T] `json:"reservations,omitempty"`
}

// Reservation is what is reserved for one object.
type Reservation[T any] struct {
	// UID is the UID of the new object, or a unique one if the object exists.
	UID types.UID `json:"uid"`
	// Writer is the server that is about to write the object.
	Writer string `json:"writer"`
	// Requests is what a new object uses, or what an existing one uses in addition.
	Requests T `json:"requests"`
	// Of is an existing object that is about to grow, and Since the revision that it was
	// read at: the store accepts no write that was decided from another revision.
	Of    types.UID `json:"of,omitempty"`
	Since uint64    `json:"since,omitempty"`
}

// object returns the UID of the object that a reservation is for.
func (r *Reservation[T]) object() types.UID {
	if r.Of != "" {
		return r.Of
	}
	return r.UID
}

// List is a list of ledgers.
type List[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Ledger[T] `json:"items"`
}

// DeepCopyObject copies the ledger.
func (l *Ledger[T]) DeepCopyObject() runtime.Object { return l.copy() }

// copy returns a copy that shares what was reserved, which is immutable.
func (l *Ledger[T]) copy() *Ledger[T] {
	return &Ledger[T]{TypeMeta: l.TypeMeta, ObjectMeta: *l.ObjectMeta.DeepCopy(), Seen: l.Seen,
		Reservations: slices.Clone(l.Reservations)}
}

// DeepCopyObject copies the list.
func (l *List[T]) DeepCopyObject() runtime.Object {
	copied := &List[T]{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: make([]Ledger[T], len(l.Items))}
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].copy()
	}
	return copied
}

// version is the version that ledgers are stored as. It is not served.
var version = schema.GroupVersion{Group: "ledger.federation.liqo.io", Version: "v1"}

// newCodec returns the codec of stored ledgers.
func newCodec[T any]() runtime.Codec {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(version.WithKind("Ledger"), &Ledger[T]{})
	scheme.AddKnownTypeWithName(version.WithKind("List"), &List[T]{})
	plain := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{})
	return serializer.NewCodecFactory(scheme).CodecForVersions(plain, plain, version, version)
}
