// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/trust"
)

func TestWatchesOfAPeerAreLimited(t *testing.T) {
	const limit = 3
	watches, release := &peerWatches{max: limit}, make(chan struct{})
	started, ended := make(chan struct{}), sync.WaitGroup{}
	handler := watches.withLimit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		if info, _ := request.RequestInfoFrom(r.Context()); info.Verb == "watch" {
			started <- struct{}{}
			<-release
		}
	}))
	serve := func(requester user.Info, verb string) int {
		ctx := request.WithUser(request.WithRequestInfo(t.Context(), &request.RequestInfo{Verb: verb}), requester)
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		return recorder.Code
	}
	begin := func(requester user.Info) {
		t.Helper()
		ended.Go(func() { serve(requester, "watch") })
		<-started
	}
	milan := &user.DefaultInfo{Name: "uid-of-milan", Groups: []string{"liqo:peers"}}
	naples := &user.DefaultInfo{Name: "system:serviceaccount:liqo-tenant-naples:federation-peer"}
	controllers := &user.DefaultInfo{Name: "system:serviceaccount:liqo:federation-controller-manager"}
	for _, requester := range []user.Info{milan, naples, controllers, controllers} {
		for range limit {
			begin(requester)
		}
	}
	for _, peer := range []user.Info{milan, naples} {
		if got := serve(peer, "watch"); got != http.StatusTooManyRequests {
			t.Errorf("a watch above the limit of %s: status %d, want 429", peer.GetName(), got)
		}
		if got := serve(peer, "list"); got != http.StatusTeapot {
			t.Errorf("a list of %s: status %d", peer.GetName(), got)
		}
	}
	close(release)
	ended.Wait()
	if len(watches.count) > 0 {
		t.Errorf("watches after the end of all: %v", watches.count)
	}
	release = make(chan struct{})
	close(release)
	begin(milan)
	ended.Wait()
}

// The number of watches of a virtual kubelet is that of TestResourcesWatchedInARemoteNamespace and
// TestResourcesWatchedForReflection. The controller manager of the consumer has the others.
func TestDefaultSufficesForTheWatchesOfTheLargestTenant(t *testing.T) {
	const inTenantNamespace, ofControllers, ofVirtualKubelet = 4, 1, 2
	tenant := &v1alpha1.ForeignCluster{Spec: v1alpha1.ForeignClusterSpec{Trust: v1alpha1.TrustTenant}}
	namespaces := int(trust.MaxRemoteNamespaces(tenant, 0))
	if namespaces == 0 {
		t.Fatal("the number of remote namespaces of a tenant is not limited")
	}
	largest := inTenantNamespace + namespaces*(ofControllers+ofVirtualKubelet*v1alpha1.MaxOfferedNodes)
	// The watches of a lost connection count until they time out.
	if 2*largest > DefaultMaxPeerWatches || DefaultMaxPeerWatches > 4*largest {
		t.Errorf("a tenant has up to %d watches, twice while it reconnects, and the default permits %d",
			largest, DefaultMaxPeerWatches)
	}
}

func TestRequestsWithoutAUserAreNotCounted(t *testing.T) {
	handler := (&peerWatches{}).withLimit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil))
	if recorder.Code != http.StatusTeapot {
		t.Errorf("status %d", recorder.Code)
	}
}
