// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
)

func TestAPIServerHasAnAddressForEachProviderWithATunnel(t *testing.T) {
	of := origin{kind: ofAPIServer, key: milan.NamespacedName}
	for name, test := range map[string]struct {
		change func(w *world)
		want   int
	}{
		"nothing changes": {func(*world) {}, 1},
		"no tunnel":       {func(w *world) { w.disconnect("milan") }, 0},
		"mapped without ports by an earlier version": {func(w *world) { w.withoutPorts(of) }, 1},
		"switched off":                       {func(w *world) { w.apiServer.Address = netip.AddrPort{} }, 0},
		"no virtual nodes":                   {func(w *world) { w.withoutNode("milan") }, 0},
		"its ForeignCluster gives no access": {func(w *world) { w.accessed("", v1alpha1.APIAccessDisabled) }, 0},
		"its virtual node gives no access": {func(w *world) {
			w.accessed(v1alpha1.APIAccessDisabled, v1alpha1.APIAccessConsumer)
		}, 0},
		"only its virtual node gives access": {func(w *world) {
			w.accessed(v1alpha1.APIAccessConsumer, v1alpha1.APIAccessDisabled)
		}, 1},
		"upgraded, and the access is not in the status yet": {func(w *world) { w.accessed("", "") }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Pass(w.apiServer, milan)
			if _, writes := w.Pass(w.apiServer, milan); len(writes) > 0 {
				t.Errorf("a pass with nothing to change writes %v", writes)
			}
			test.change(w)
			w.Pass(w.apiServer, milan)
			found, err := w.mappingsOf(t.Context(), of)
			if err != nil || len(found) != test.want {
				t.Fatalf("mapped: %v, error %v", found, err)
			}
			for i := range found {
				want := v1alpha1.AddressMappingSpec{
					ClusterID: milanID, Pool: v1alpha1.ExternalAddressPool, Address: "10.96.0.1", Mapped: "10.70.0.255",
					Ports: []v1alpha1.AddressMappingPort{{Protocol: corev1.ProtocolTCP, Port: 6443}},
				}
				if diff := cmp.Diff(want, found[i].Spec); diff != "" {
					t.Errorf("mapping (-want +got):\n%s", diff)
				}
				if got := originOf(&found[i]); got != of {
					t.Errorf("its origin is %v, want %v", got, of)
				}
			}
		})
	}
}

// accessed sets the access of the virtual node of milan to the API server, and the access in its status.
func (w *world) accessed(access, inherited v1alpha1.APIAccess) {
	kittest.Change(w.Cluster, "liqo-peer-milan", "milan", &v1alpha1.VirtualNode{}, func(node *v1alpha1.VirtualNode) {
		node.Spec.APIAccess, node.Status.APIAccess = access, inherited
	})
}

func TestAPIServerHasNoAddressBeforeTheAccessIsKnown(t *testing.T) {
	w := newWorld(t)
	w.accessed("", "")
	if _, writes := w.Pass(w.apiServer, milan); len(writes) > 0 {
		t.Errorf("writes %v", writes)
	}
}

func TestOnlyAccessOfVirtualNodesChangesTheAddressOfTheAPIServer(t *testing.T) {
	old, given, labelled := &v1alpha1.VirtualNode{}, &v1alpha1.VirtualNode{}, &v1alpha1.VirtualNode{}
	given.Status.APIAccess = v1alpha1.APIAccessConsumer
	labelled.Labels = map[string]string{"a": "b"}
	if !accessChanged.Create(event.CreateEvent{Object: old}) || !accessChanged.Delete(event.DeleteEvent{Object: old}) ||
		accessChanged.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: labelled}) ||
		!accessChanged.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: given}) {
		t.Error("not selected are creations, deletions and changes of the access")
	}
}

func TestMissingAddressOfTheAPIServerIsReportedOnceToTheForeignCluster(t *testing.T) {
	w := newWorld(t)
	w.pool()
	w.Pass(w.apiServer, milan)
	w.Pass(w.apiServer, milan)
	if events := w.Recorded(); len(events) != 1 || !strings.Contains(events[0], ReasonNoExternalAddresses) {
		t.Errorf("events %q, want one with reason %s", events, ReasonNoExternalAddresses)
	}
}

func TestForeignClustersWithATunnelOrAMappingAreReconciledWithThePool(t *testing.T) {
	w := newWorld(t)
	w.Pass(w.apiServer, milan)
	w.disconnect("milan")
	if diff := cmp.Diff([]string{"/milan", "/naples"}, texts(w.apiServer.all(t.Context(), nil))); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
