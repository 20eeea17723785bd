// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	testingclock "k8s.io/utils/clock/testing"

	"liqo.io/federation/apiserver/naming"
)

func TestAConsumerGivesSignsOfLifeAsLongAsItIsConnected(t *testing.T) {
	lease := coordinationv1.Resource("leases")
	for _, test := range []struct {
		name      string
		connected bool
		err       error
		after     time.Duration
	}{
		{"there is no connection", false, nil, 0},
		{"it is heard", true, nil, heartbeatPeriod},
		{"the provider does not answer", true, errors.New("no route to host"), heartbeatRetry},
		{"the provider's API server is ill", true, apierrors.NewInternalError(errors.New("etcd")), heartbeatRetry},
		{"the provider is of an older version", true, apierrors.NewForbidden(lease, naming.HeartbeatLease, errors.New("no")), heartbeatPeriod},
		{"the provider has not made the lease yet", true, apierrors.NewNotFound(lease, naming.HeartbeatLease), heartbeatPeriod},
		{"the provider does not know us any more", true, apierrors.NewUnauthorized("who?"), heartbeatPeriod},
	} {
		t.Run(test.name, func(t *testing.T) {
			sent := ""
			h := &heartbeats{clock: testingclock.NewFakePassiveClock(now), renew: func(_ context.Context, foreignCluster string, patch []byte) (bool, error) {
				sent = foreignCluster + " " + string(patch)
				return test.connected, test.err
			}}
			after, err := h.reconcile(t.Context(), "milan")
			if err != nil || after != test.after {
				t.Errorf("again after %s, %v", after, err)
			}
			if want := `milan {"spec":{"renewTime":"` + now.UTC().Format("2006-01-02T15:04:05.000000Z07:00") + `"}}`; sent != want {
				t.Errorf("sent %s, want %s", sent, want)
			}
		})
	}
}
