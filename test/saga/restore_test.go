// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package saga

import (
	"fmt"
	"maps"
	"math/bits"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
)

var resourceOffers = v1alpha1.SchemeGroupVersion.WithResource("resourceoffers")

// backup returns copies of all objects in a store.
func (s *side) backup() map[key]object {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	kept := map[key]object{}
	for k, o := range s.store.objects {
		kept[k] = o.DeepCopyObject().(object)
	}
	return kept
}

// restore stops the process of a cluster, and replaces the objects in its store by kept. All
// watches end. Later watches receive events for the differences.
func (s *side) restore(kept map[key]object) {
	s.life.Lock()
	defer s.life.Unlock()
	s.life.end()
	<-s.life.ended
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.restored++
	for _, k := range s.store.keys(func(key) bool { return true }) {
		now := s.store.objects[k]
		if then, ok := kept[k]; !ok || then.GetUID() != now.GetUID() {
			s.store.put(watch.Deleted, k, now.DeepCopyObject().(object))
		}
	}
	for k, then := range kept {
		now, ok := s.store.objects[k]
		switch {
		case !ok:
			s.store.put(watch.Added, k, then.DeepCopyObject().(object))
		case !reflect.DeepEqual(content(now), content(then)):
			s.store.put(watch.Modified, k, then.DeepCopyObject().(object))
		}
	}
}

// trigger changes an annotation of a ForeignCluster, so that its controllers reconcile it.
func (s *side) trigger(name string, times int) {
	s.change(name, func(fc *v1alpha1.ForeignCluster) {
		metav1.SetMetaDataAnnotation(&fc.ObjectMeta, "test/looks", fmt.Sprint(times))
	})
}

// identities returns the names of the IdentityRequests in a cluster.
func (s *side) identities() []string {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	var names []string
	for _, k := range s.store.keys(func(k key) bool { return k.resource == identityRequests }) {
		names = append(names, k.name)
	}
	return names
}

func TestRestoredConsumerPeersAgainByItsID(t *testing.T) {
	w := newWorld(t, identity.ModeCertificate)
	before := map[*side][]string{w.rome: w.rome.left(), w.milan: w.milan.left()}
	kept := w.rome.backup()
	w.invite(t, w.milan, w.rome, "a")
	w.start(t)
	w.until(t, "rome is peered with milan", peered(w.rome, w.milan))

	// Creation timestamps have a precision of seconds, and the one of the restored cluster's next
	// objects must be later.
	then := time.Now().Unix()
	w.until(t, "time passes", func() bool { return time.Now().Unix() > then })
	w.rome.restore(kept)
	w.invite(t, w.milan, w.rome, "b", w.rome.id)
	w.until(t, "rome is peered with milan again", peered(w.rome, w.milan))
	w.until(t, "milan has rome's new identity", func() bool {
		return slices.Equal(w.milan.identities(), []string{naming.InvitationAccount(uid("b"))})
	})
	w.rome.unpeer(t, "milan")
	for _, s := range []*side{w.rome, w.milan} {
		w.returns(t, s, before[s])
	}
}

func TestRestoredProviderIsPeeredAgain(t *testing.T) {
	for _, unpeers := range []bool{true, false} {
		t.Run(fmt.Sprintf("unpeers before is %t", unpeers), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, identity.ModeCertificate)
			before := map[*side][]string{w.rome: w.rome.left(), w.milan: w.milan.left()}
			kept := w.milan.backup()
			w.invite(t, w.milan, w.rome, "a")
			w.start(t)
			w.until(t, "rome is peered with milan", peered(w.rome, w.milan))

			w.milan.restore(kept)
			polls := 0
			w.until(t, "rome reports the revoked identity", func() bool {
				// A change at every poll would make the patch of a slow reconcile fail each time.
				if polls++; bits.OnesCount(uint(polls)) == 1 {
					w.rome.trigger("milan", polls)
				}
				_, revoked := identity.RevokedSince(w.rome.foreignCluster("milan"))
				return revoked
			})
			if unpeers {
				w.rome.unpeer(t, "milan")
				w.until(t, "rome deletes milan", func() bool { return w.rome.foreignCluster("milan") == nil })
			}
			w.invite(t, w.milan, w.rome, "b", w.rome.id)
			w.until(t, "rome is peered with milan again", peered(w.rome, w.milan))
			w.rome.unpeer(t, "milan")
			for _, s := range []*side{w.rome, w.milan} {
				w.returns(t, s, before[s])
			}
		})
	}
}

// If a provider changed its name after its last offer, the consumer has a copy of an offer that no
// longer exists. The copy must be deleted.
func TestMirrorOfAMissingOfferIsDeleted(t *testing.T) {
	w := newWorld(t, identity.ModeCertificate)
	namespace := naming.PeerNamespace("milan")
	of := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelForeignCluster: "milan"}
	labels := maps.Clone(of)
	labels[v1alpha1.LabelRole] = v1alpha1.RolePeer
	w.rome.add(t, key{namespaces, "", namespace}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: labels}})
	old := key{resourceOffers, namespace, "an-older-name"}
	w.rome.add(t, old, &v1alpha1.ResourceOffer{
		ObjectMeta: metav1.ObjectMeta{Labels: of}, Spec: v1alpha1.ResourceOfferSpec{ClusterID: w.milan.id},
		// The offer is in the state in which rome has accepted it, so that no controller changes it
		// for another reason.
		Status: v1alpha1.ResourceOfferStatus{Phase: v1alpha1.NegotiationAccepted, ObservedGeneration: 1,
			Conditions: []metav1.Condition{{
				Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: string(v1alpha1.NegotiationAccepted),
				Message: "The offer is accepted.", ObservedGeneration: 1, LastTransitionTime: metav1.Unix(1, 0),
			}}},
	})
	w.start(t)
	// The copy is first reconciled while there is no peering.
	w.invite(t, w.milan, w.rome, "a")
	w.until(t, "rome is peered with milan", peered(w.rome, w.milan))
	w.until(t, "the old offer is deleted", func() bool {
		w.rome.store.mu.Lock()
		defer w.rome.store.mu.Unlock()
		_, ok := w.rome.store.objects[old]
		return !ok
	})
}
