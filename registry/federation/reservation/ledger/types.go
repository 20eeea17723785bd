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

// Ledger is the stored ledger of the account with the same name. It is not part of the API: only this package reads and
// writes it.
type Ledger[T any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Seen is the minimum revision of the objects from which a server may compute usage. Reservations are removed once
	// their objects are stored, so a server that has not read these objects would compute too little usage.
	Seen uint64 `json:"seen,omitempty"`
	// Reservations are the reservations for objects that are being created or are growing. A reservation may remain for a
	// short time after its object was written.
	Reservations []Reservation[T] `json:"reservations,omitempty"`
}

// Reservation is an amount that is reserved for one object.
type Reservation[T any] struct {
	// UID is the UID of the new object, or a random UID if the object existed before.
	UID types.UID `json:"uid"`
	// Writer is the ID of the server that writes the object.
	Writer string `json:"writer"`
	// Requests is the amount that a new object uses, or that an existing object uses in addition.
	Requests T `json:"requests"`
	// Of is the UID of an existing object that grows, and Since is the revision of the object before the update. The
	// update fails if the object has changed since that revision. Both are empty for a new object.
	Of    types.UID `json:"of,omitempty"`
	Since uint64    `json:"since,omitempty"`
}

// object returns the UID of the object for which the reservation was made.
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

// DeepCopyObject implements runtime.Object.
func (l *Ledger[T]) DeepCopyObject() runtime.Object { return l.copy() }

// copy returns a copy of the ledger. It shares the reserved amounts, which are immutable.
func (l *Ledger[T]) copy() *Ledger[T] {
	return &Ledger[T]{TypeMeta: l.TypeMeta, ObjectMeta: *l.ObjectMeta.DeepCopy(), Seen: l.Seen,
		Reservations: slices.Clone(l.Reservations)}
}

// DeepCopyObject implements runtime.Object.
func (l *List[T]) DeepCopyObject() runtime.Object {
	copied := &List[T]{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: make([]Ledger[T], len(l.Items))}
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].copy()
	}
	return copied
}

// version is the group version of stored ledgers. It is not served.
var version = schema.GroupVersion{Group: "ledger.federation.liqo.io", Version: "v1"}

// newCodec returns the codec of stored ledgers.
func newCodec[T any]() runtime.Codec {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(version.WithKind("Ledger"), &Ledger[T]{})
	scheme.AddKnownTypeWithName(version.WithKind("List"), &List[T]{})
	plain := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{})
	return serializer.NewCodecFactory(scheme).CodecForVersions(plain, plain, version, version)
}
