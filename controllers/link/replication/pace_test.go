// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/remote"
	versionedfake "liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/generated/informers/externalversions"
)

// A provider that changes an offer all the time, or creates and deletes offers, causes a limited number of writes in
// the consumer, and does not delay those of other providers and of other kinds.
func TestLocalWritesOfAProviderAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Replicator{Client: kittest.New(t).Controller, ClusterName: "rome"}
		offers := func(namespace string) localSide[*v1alpha1.ResourceOffer] {
			return localSideOf(r, types.NamespacedName{Namespace: namespace, Name: "offer"}, &v1alpha1.ResourceOffer{})
		}
		// change changes an offer, and reports whether it was written.
		changes := int64(0)
		change := func(namespace string) bool {
			t.Helper()
			changes++
			wanted := &v1alpha1.ResourceOffer{}
			wanted.Name, wanted.Spec.ClusterID = "offer", fmt.Sprintf("milan-%d", changes)
			old, err := offers(namespace).get(t.Context(), "offer")
			switch {
			case apierrors.IsNotFound(err):
				err = offers(namespace).create(t.Context(), wanted)
			case err == nil && changes%3 == 0:
				err = offers(namespace).remove(t.Context(), old)
			case err == nil:
				changed := old.DeepCopy()
				changed.Spec = wanted.Spec
				err = offers(namespace).commit(t.Context(), old, changed)
			}
			if err != nil && !errors.Is(err, errTooOften) {
				t.Fatal(err)
			}
			return err == nil
		}
		written := 0
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for range 30 * 100 {
			<-ticker.C
			if change("liqo-peer-milan") {
				written++
			}
		}
		if want := writesAtOnce + 30; written < want-1 || written > want+1 {
			t.Errorf("%d writes within 30 seconds, want %d", written, want)
		}
		if !change("liqo-peer-naples") {
			t.Error("an offer of another provider is delayed")
		}
		requests := localSideOf(r, types.NamespacedName{Namespace: "liqo-peer-milan"}, &v1alpha1.ResourceRequest{})
		if err := requests.create(t.Context(), newRequest("1", 1)); err != nil {
			t.Errorf("a request is not written: %v", err)
		}
	})
}

// A provider with thousands of offers causes neither local writes nor a message in the log for each of them.
func TestTooManyOffersAreNotCopied(t *testing.T) {
	federation := versionedfake.NewSimpleClientset()
	for i := range maxOffers + 1 {
		offer := &v1alpha1.ResourceOffer{}
		offer.Namespace, offer.Name = tenantNamespace, fmt.Sprintf("offer-%d", i)
		if err := federation.Tracker().Add(offer); err != nil {
			t.Fatal(err)
		}
	}
	peer := &remote.Peer{
		Clients:   &remote.Clients{Federation: federation},
		Namespace: tenantNamespace,
		Informers: externalversions.NewSharedInformerFactory(federation, 0),
	}
	r := &Replicator{Client: kittest.New(t).Controller, ClusterName: "rome"}
	informer := offerPairs{r}.connected(t.Context(), peer)
	peer.Informers.StartWithContext(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the offers are not cached")
	}
	for i := range maxOffers + 1 {
		key := types.NamespacedName{Namespace: peerNamespace, Name: fmt.Sprintf("offer-%d", i)}
		if after, err := (offerPairs{r}).replicate(t.Context(), key, peer, nil); err != nil || after != tooManyRetry {
			t.Errorf("%s: again after %v, error %v; want no error", key, after, err)
		}
	}
	if r.pace.mayReport(peerNamespace) {
		t.Error("more than one message may be logged")
	}
	var copied v1alpha1.ResourceOfferList
	if err := r.Client.List(t.Context(), &copied); err != nil || len(copied.Items) > 0 {
		t.Errorf("%d offers were copied, error %v", len(copied.Items), err)
	}
}
