// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/apis/federation/validation"
)

// The local API server must accept every cleaned status of a provider, because a refused status would be sent
// again and again.
func FuzzStatusOfAPeer(f *testing.F) {
	now := metav1.NewTime(time.Unix(1_900_000_000, 0).UTC())
	for _, seed := range []any{
		v1alpha1.ResourceRequestStatus{
			Phase: v1alpha1.NegotiationAccepted, OfferName: "milan", ObservedGeneration: 1,
			Conditions: []metav1.Condition{{Type: "Accepted", Status: metav1.ConditionTrue, Reason: "Accepted", Message: "yes",
				LastTransitionTime: now}},
		},
		v1alpha1.NetworkConfigStatus{ObservedGeneration: 1,
			CIDRs: []v1alpha1.CIDRMapping{{CIDR: "10.244.0.0/16", Mapped: "10.243.0.0/16"}}},
		v1alpha1.NamespaceMapStatus{Namespaces: []v1alpha1.NamespaceMappingStatus{{Name: "a", RemoteName: "b",
			Phase: v1alpha1.NamespaceMappingConflict, Message: "no"}}},
	} {
		encoded, err := json.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Add(
		[]byte(
			`{"observedGeneration":-1,"phase":"x","conditions":[{"type":"\u001b","message":"\u001b[2J"},{"type":"A",` +
				`"status":"?"}],"namespaces":[{"name":"../a"},{"name":"a"},{"name":"a"}]}`,
		),
	)
	meta := metav1.ObjectMeta{Name: "rome", Namespace: "liqo-peer-milan", ResourceVersion: "1"}
	f.Fuzz(func(t *testing.T, status []byte) {
		request := &v1alpha1.ResourceRequest{ObjectMeta: meta}
		if json.Unmarshal(status, &request.Status) == nil {
			requestPairs{}.clean(&request.Status)
			var internal federation.ResourceRequest
			if err := v1alpha1.Convert_v1alpha1_ResourceRequest_To_federation_ResourceRequest(request, &internal,
				nil); err != nil {
				t.Fatal(err)
			}
			expectAccepted(
				t,
				validation.ValidateResourceRequestStatusUpdate(&internal, &federation.ResourceRequest{ObjectMeta: meta}),
			)
		}
		config := &v1alpha1.NetworkConfig{ObjectMeta: meta}
		if json.Unmarshal(status, &config.Status) == nil {
			(&networkPairs{}).clean(&config.Status)
			var internal federation.NetworkConfig
			if err := v1alpha1.Convert_v1alpha1_NetworkConfig_To_federation_NetworkConfig(config, &internal, nil); err != nil {
				t.Fatal(err)
			}
			expectAccepted(
				t,
				validation.ValidateNetworkConfigStatusUpdate(&internal, &federation.NetworkConfig{ObjectMeta: meta}),
			)
		}
		m := &v1alpha1.NamespaceMap{ObjectMeta: meta}
		if json.Unmarshal(status, &m.Status) == nil {
			mapPairs{}.clean(&m.Status)
			var internal federation.NamespaceMap
			if err := v1alpha1.Convert_v1alpha1_NamespaceMap_To_federation_NamespaceMap(m, &internal, nil); err != nil {
				t.Fatal(err)
			}
			expectAccepted(t, validation.ValidateNamespaceMapStatusUpdate(&internal, &federation.NamespaceMap{ObjectMeta: meta}))
		}
	})
}

func expectAccepted(t *testing.T, errs field.ErrorList) {
	t.Helper()
	if len(errs) > 0 {
		t.Errorf("the rest is refused: %v", errs)
	}
}
