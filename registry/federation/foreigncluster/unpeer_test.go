// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package foreigncluster

import (
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/subresource/subresourcetest"
)

func TestPeerUpdateChangesTheSpec(t *testing.T) {
	w := newWorld()
	if _, err := w.patch(t, func(*federation.Peering) {}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want NotFound", err)
	}
	if _, err := w.post(t, invitation()); err != nil {
		t.Fatal(err)
	}
	answer, err := w.patch(t, func(p *federation.Peering) {
		p.Spec.Outgoing = federation.PeeringDisabled
		p.Status.OutgoingPeering = federation.PeeringEstablished
	})
	if err != nil {
		t.Fatal(err)
	}
	stored, _ := w.clusters.Stored("milan")
	if stored.Spec.Outgoing != federation.PeeringDisabled || answer.Spec.Outgoing != federation.PeeringDisabled {
		t.Errorf("the outgoing peering is still %s", stored.Spec.Outgoing)
	}
	if stored.Status.OutgoingPeering != "" {
		t.Errorf("the subresource wrote the status %s", stored.Status.OutgoingPeering)
	}
}

func TestPeerUpdateReplacesTheToken(t *testing.T) {
	w := newWorld()
	if _, err := w.post(t, invitation()); err != nil {
		t.Fatal(err)
	}
	renew := func(p *federation.Peering) { p.Spec.Token = "renewed" }
	w.clusters.BeforeUpdate = func() error { return apierrors.NewTooManyRequests("etcd is busy", 1) }
	if _, err := w.patch(t, renew); !apierrors.IsTooManyRequests(err) {
		t.Fatalf("got %v, want the error of the store", err)
	}
	if got := w.token(t); got != secretToken {
		t.Errorf("after a failure the Secret holds %q", got)
	}
	w.clusters.BeforeUpdate = nil
	if _, err := w.patch(t, renew); err != nil {
		t.Fatal(err)
	}
	if got := w.token(t); got != "renewed" {
		t.Errorf("the Secret holds %q", got)
	}
}

func TestPeerUpdateRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*federation.Peering)
		apply   bool
		code    int32
		message string
	}{
		"another name": {change: func(p *federation.Peering) { p.Name = "rome" }, code: http.StatusBadRequest,
			message: `"rome"`},
		"another uid": {change: func(p *federation.Peering) { p.UID = types.UID("other") },
			code: http.StatusConflict, message: "uid"},
		"an old resourceVersion": {change: func(p *federation.Peering) { p.ResourceVersion = "0" }, code: http.StatusConflict,
			message: "resourceVersion"},
		"no intent": {change: func(p *federation.Peering) { p.Spec.Outgoing = "" },
			code: http.StatusUnprocessableEntity, message: "spec.outgoing"},
		"another cluster": {change: func(p *federation.Peering) { p.Spec.ClusterID = otherID },
			code: http.StatusUnprocessableEntity, message: "spec.clusterID"},
		"a bad server": {change: func(p *federation.Peering) { p.Spec.Server = "http://milan" },
			code: http.StatusUnprocessableEntity, message: "spec.server"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if _, err := w.post(t, invitation()); err != nil {
				t.Fatal(err)
			}
			before := w.clusters.Writes()
			_, err := w.patch(t, func(p *federation.Peering) {
				p.Spec.Token = "renewed"
				test.change(p)
			})
			subresourcetest.ExpectStatus(t, err, test.code, test.message)
			if w.clusters.Writes() != before || w.token(t) != secretToken {
				t.Error("a refused update wrote an object")
			}
		})
	}
}

func TestPeerRefusesServerSideApply(t *testing.T) {
	w := newWorld()
	_, _, err := w.Update(request(t), "milan", rest.DefaultUpdatedObjectInfo(&federation.Peering{}),
		rest.ValidateAllObjectFunc,
		rest.ValidateAllObjectUpdateFunc, true, &metav1.UpdateOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusMethodNotAllowed, "server-side apply")
}

func TestUnpeer(t *testing.T) {
	for name, test := range map[string]struct {
		incoming federation.PeeringIntent
		options  metav1.DeleteOptions
		deleting bool
		timeout  *int32
	}{
		"a cluster that is only a provider": {incoming: federation.PeeringDisabled, deleting: true},
		"a grace period of 30 s": {incoming: federation.PeeringDisabled,
			options: metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](30)}, deleting: true, timeout: ptr.To[int32](30)},
		"a cluster that is a consumer as well": {incoming: federation.PeeringEnabled,
			options: metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}, timeout: ptr.To[int32](0)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if _, err := w.post(t, invitation()); err != nil {
				t.Fatal(err)
			}
			cluster, _ := w.clusters.Stored("milan")
			cluster = cluster.DeepCopy()
			cluster.Spec.Incoming = test.incoming
			w.clusters.Put(cluster)

			obj, _, err := w.Delete(request(t), "milan", rest.ValidateAllObjectFunc, &test.options)
			if err != nil {
				t.Fatal(err)
			}
			stored, ok := w.clusters.Stored("milan")
			if !ok {
				t.Fatal("the cluster was deleted before it was unpeered")
			}
			if deleting := stored.DeletionTimestamp != nil; deleting != test.deleting {
				t.Errorf("deleting is %v", deleting)
			}
			if !test.deleting && stored.Spec.Outgoing != federation.PeeringDisabled {
				t.Error("the outgoing peering is still enabled")
			}
			if stored.Spec.Incoming != test.incoming {
				t.Error("unpeering changed the incoming peering")
			}
			if got, want := ptr.Deref(stored.Spec.DisconnectTimeoutSeconds, -1), ptr.Deref(test.timeout, -1); got != want {
				t.Errorf("got timeout %d, want %d", got, want)
			}
			if obj.(*federation.Peering).UID != stored.UID {
				t.Error("the answer is not the peering")
			}
		})
	}
}

func TestUnpeerRefuses(t *testing.T) {
	w := newWorld()
	_, _, err := w.Delete(request(t), "milan", rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusNotFound, "milan")
	if _, err := w.post(t, invitation()); err != nil {
		t.Fatal(err)
	}
	before := w.clusters.Writes()
	for name, test := range map[string]struct {
		options  metav1.DeleteOptions
		validate rest.ValidateObjectFunc
		code     int32
	}{
		"another uid":            {options: metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other"))}}, code: http.StatusConflict},
		"an old resourceVersion": {options: metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: ptr.To("0")}}, code: http.StatusConflict},
		"a negative period": {options: metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](-1)},
			code: http.StatusUnprocessableEntity},
		"an endless period": {options: metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](1 << 40)},
			code: http.StatusUnprocessableEntity},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := w.Delete(request(t), "milan", rest.ValidateAllObjectFunc, &test.options)
			subresourcetest.ExpectStatus(t, err, test.code, "milan")
			if w.clusters.Writes() != before {
				t.Error("a refused DELETE wrote an object")
			}
		})
	}
}
