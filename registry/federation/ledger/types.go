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

// Ledger is what is stored for one account, whose name it has. It is no part
// of the API: nobody but this package reads or writes it.
type Ledger[T any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Seen is the revision that the objects have to be known at: those whose
	// reservations were taken out because they exist were written by then.
	Seen uint64 `json:"seen,omitempty"`
	// Reservations are for objects that are about to be created or to take more,
	// or have just been.
	Reservations []Reservation[T] `json:"reservations,omitempty"`
}

// Reservation is what one object has got.
type Reservation[T any] struct {
	// UID is that of the object, or one of its own if the object is there already.
	UID types.UID `json:"uid"`
	// Writer is the server that is about to write the object.
	Writer string `json:"writer"`
	// Requests is what the object takes, or, if it is there, takes more.
	Requests T `json:"requests"`
	// Of is an object that is there and about to take more, and Since the revision
	// that it was read at: what is written was decided from that, or not at all.
	Of    types.UID `json:"of,omitempty"`
	Since uint64    `json:"since,omitempty"`
}

// object is the UID of the object that a reservation is for.
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

// copy shares what was reserved with the original: it never changes.
func (l *Ledger[T]) copy() *Ledger[T] {
	return &Ledger[T]{TypeMeta: l.TypeMeta, ObjectMeta: *l.ObjectMeta.DeepCopy(), Seen: l.Seen, Reservations: slices.Clone(l.Reservations)}
}

// DeepCopyObject copies the list.
func (l *List[T]) DeepCopyObject() runtime.Object {
	copied := &List[T]{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: make([]Ledger[T], len(l.Items))}
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].copy()
	}
	return copied
}

// version is what ledgers are stored as. It is served nowhere.
var version = schema.GroupVersion{Group: "ledger.federation.liqo.io", Version: "v1"}

// newCodec reads and writes what is stored.
func newCodec[T any]() runtime.Codec {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(version.WithKind("Ledger"), &Ledger[T]{})
	scheme.AddKnownTypeWithName(version.WithKind("List"), &List[T]{})
	plain := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{})
	return serializer.NewCodecFactory(scheme).CodecForVersions(plain, plain, version, version)
}
