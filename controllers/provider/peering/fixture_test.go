// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"crypto/x509/pkix"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// provider is the fake cluster milan, which is the provider of the consumer rome.
type provider struct {
	*kittest.Cluster
	*Config
	t *testing.T
	// done are the writes to the API server and the reasons of emitted Warnings, in their order.
	done []string
}

func newProvider(t *testing.T, objects ...client.Object) *provider {
	t.Helper()
	p := &provider{Cluster: kittest.New(t, objects...), t: t}
	p.Fault = func(write kittest.Write, done bool) error {
		if !done {
			return nil
		}
		text := write.String()
		if write.Kind == "RoleBinding" {
			text = fmt.Sprintf("%s in %s", text, write.Namespace)
		}
		p.done = append(p.done, text)
		return nil
	}
	p.Config = &Config{
		Client: p.Controller, Live: p.Cluster, Events: kittest.Reasons{List: &p.done},
		InvitationNamespace: "liqo-invitations",
		Account:             types.NamespacedName{Namespace: "liqo", Name: "federation-controller-manager"},
	}
	return p
}

func rome() *v1alpha1.ForeignCluster {
	return kittest.ForeignCluster("rome", romeID, v1alpha1.PeeringDisabled, v1alpha1.PeeringEnabled)
}

func namespace(name, role string) *corev1.Namespace {
	return kittest.PeeringNamespace(name, role, "rome", "test/stays")
}

func tenantNamespace() *corev1.Namespace { return namespace("liqo-tenant-rome", v1alpha1.RoleTenant) }

func peerName() pkix.Name {
	return pkix.Name{CommonName: peeringUID, Organization: []string{v1alpha1.PeerGroup}}
}

// acceptedRequest returns the accepted IdentityRequest of rome.
func acceptedRequest(csr []byte) *v1alpha1.IdentityRequest {
	request := &v1alpha1.IdentityRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name: "invitation-" + peeringUID, UID: "request-uid",
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(rome(), v1alpha1.SchemeGroupVersion.WithKind("ForeignCluster")),
			},
		},
		Spec:   v1alpha1.IdentityRequestSpec{ClusterID: romeID, ClusterName: "rome", Request: csr},
		Status: v1alpha1.IdentityRequestStatus{TenantNamespace: "liqo-tenant-rome", ClusterID: milanID},
	}
	identity.SetCondition(request, v1alpha1.ConditionAccepted, metav1.ConditionTrue, "Accepted", "")
	return request
}

func inTenant(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: name}
}
