// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/remote"
	federationfake "liqo.io/federation/generated/clientset/versioned/fake"
)

// provider is a fake provider that answers each renewal with err, which may be nil, and records the last
// renewal.
type provider struct {
	err  error
	last string
}

func (p *provider) connect(*remote.Identity) (*remote.Clients, error) {
	kube := &kubefake.Clientset{}
	kube.AddReactor("patch", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		p.last = patch.GetNamespace() + "/" + patch.GetName() + " " + string(patch.GetPatch())
		return true, &coordinationv1.Lease{}, p.err
	})
	return &remote.Clients{Kube: kube, Federation: &federationfake.Clientset{}}, nil
}

func TestConsumerRenewsItsHeartbeatAsLongAsItIsConnected(t *testing.T) {
	lease := coordinationv1.Resource("leases")
	for _, test := range []struct {
		name      string
		connected bool
		err       error
		after     time.Duration
	}{
		{"no connection", false, nil, 0},
		{"renewed", true, nil, naming.HeartbeatInterval},
		{"provider that does not answer", true, errors.New("no route to host"), retryInterval},
		{"provider whose API server fails", true, apierrors.NewInternalError(errors.New("etcd")), retryInterval},
		{"provider of an earlier version", true, apierrors.NewForbidden(lease, naming.HeartbeatLease, errors.New("no")),
			naming.HeartbeatInterval},
		{"provider without a Lease yet", true, apierrors.NewNotFound(lease, naming.HeartbeatLease), naming.HeartbeatInterval},
		{"provider that ended the peering", true, apierrors.NewUnauthorized("unknown user"), naming.HeartbeatInterval},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &provider{err: test.err}
			r := &Reconciler{Peers: remote.NewPeersWith(p.connect), Clock: clocktesting.NewFakePassiveClock(kittest.Epoch)}
			want := ""
			if test.connected {
				if err := r.Peers.Set(t.Context(), "milan", &remote.Identity{Namespace: "liqo-tenant-rome"}); err != nil {
					t.Fatal(err)
				}
				want = `liqo-tenant-rome/federation-heartbeat {"spec":{"renewTime":"2026-11-26T12:00:00.000000Z"}}`
			}
			result, err := r.Reconcile(t.Context(), kit.Request("", "milan"))
			if err != nil || result.RequeueAfter != test.after {
				t.Errorf("requeued after %s, %v", result.RequeueAfter, err)
			}
			if p.last != want {
				t.Errorf("sent %s, want %s", p.last, want)
			}
		})
	}
}
