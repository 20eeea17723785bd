// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
)

// Ledger is what is stored for one consumer, whose name it has. It is no part
// of the API: nobody but this package reads or writes it.
type Ledger struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Seen is the revision that the shadow pods have to be known at: those whose
	// reservations were taken out because they exist were written by then.
	Seen uint64 `json:"seen,omitempty"`
	// Reservations are for shadow pods that are about to be created, or have
	// just been.
	Reservations []Reservation `json:"reservations,omitempty"`
}

// Reservation is room in a grant for one shadow pod.
type Reservation struct {
	// UID is that of the shadow pod.
	UID types.UID `json:"uid"`
	// Writer is the server that is about to create it.
	Writer string `json:"writer"`
	// Requests is what it takes.
	Requests corev1.ResourceList `json:"requests"`
}

// List is a list of ledgers.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Ledger `json:"items"`
}

// DeepCopyObject copies the ledger.
func (l *Ledger) DeepCopyObject() runtime.Object { return l.copy() }

func (l *Ledger) copy() *Ledger {
	copied := &Ledger{TypeMeta: l.TypeMeta, ObjectMeta: *l.ObjectMeta.DeepCopy(), Seen: l.Seen, Reservations: slices.Clone(l.Reservations)}
	for i := range copied.Reservations {
		copied.Reservations[i].Requests = copied.Reservations[i].Requests.DeepCopy()
	}
	return copied
}

// DeepCopyObject copies the list.
func (l *List) DeepCopyObject() runtime.Object {
	copied := &List{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: make([]Ledger, len(l.Items))}
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].copy()
	}
	return copied
}

// version is what ledgers are stored as. It is served nowhere.
var version = schema.GroupVersion{Group: "ledger.federation.liqo.io", Version: "v1"}

// codec reads and writes what is stored.
var codec = func() runtime.Codec {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(version, &Ledger{}, &List{})
	plain := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{})
	return serializer.NewCodecFactory(scheme).CodecForVersions(plain, plain, version, version)
}()
