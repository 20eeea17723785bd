// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"crypto/x509/pkix"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/controllers/kit/kittest"
)

const (
	peeringUID = "0b6c1f9e-7d54-4c2a-8f3e-1a2b3c4d5e6f"
	romeID     = "5ad4b6a1-0c9e-4f43-9d0b-0c7b1f3a2e11"
	milanID    = "b7f1c9d2-8a31-4c5e-b3f6-2d9e8c7a6f22"
)

var now = kittest.Epoch

func peerName() pkix.Name {
	return pkix.Name{CommonName: peeringUID, Organization: []string{v1alpha1.PeerGroup}}
}

func acceptedRequest(csr []byte) *v1alpha1.IdentityRequest {
	request := &v1alpha1.IdentityRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "invitation-" + peeringUID},
		Spec:       v1alpha1.IdentityRequestSpec{ClusterID: romeID, ClusterName: "rome", Request: csr},
		Status:     v1alpha1.IdentityRequestStatus{TenantNamespace: "liqo-tenant-rome", ClusterID: milanID},
	}
	identity.SetCondition(request, v1alpha1.ConditionAccepted, metav1.ConditionTrue, "Accepted", "")
	return request
}
