// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	federationclient "liqo.io/federation/generated/clientset/versioned/typed/federation/v1alpha1"
	"liqo.io/federation/registry/federation/subresource/subresourcetest"
	"liqo.io/federation/test/integration/framework"
)

// bearerOf creates a PeeringToken and its invitation, and returns a client with the token of the
// invitation.
func bearerOf(t *testing.T, env *framework.Environment, name string) (federationclient.IdentityRequestInterface,
	*v1alpha1.PeeringToken) {
	t.Helper()
	tokens := versioned.NewForConfigOrDie(env.Admin).FederationV1alpha1().PeeringTokens()
	token, err := tokens.Create(t.Context(), &v1alpha1.PeeringToken{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	invitation, err := tokens.CreateInvitation(t.Context(), name, &v1alpha1.Invitation{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := env.Anonymous()
	config.BearerToken = invitation.Status.Peering.Spec.Token
	return versioned.NewForConfigOrDie(config).FederationV1alpha1().IdentityRequests(), token
}

// identityFor returns an IdentityRequest for a certificate with this common name and these
// organizations.
func identityFor(t *testing.T, commonName string, organizations ...string) *v1alpha1.IdentityRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: commonName, Organization: organizations}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &v1alpha1.IdentityRequest{Spec: v1alpha1.IdentityRequestSpec{
		ClusterID: genoaID, ClusterName: "genoa",
		Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
	}}
}

func TestTokenOnce(t *testing.T) {
	env := framework.Get(t)
	env.Kubectl(t, env.Chart(t, "rbac-user-roles.yaml"), "apply", "-f", "-")
	bearer, token := bearerOf(t, env, "once")
	name := "invitation-" + string(token.UID)
	// The binding of the new bearer takes effect with a delay.
	retry(t, func() (any, error) {
		_, err := bearer.Get(t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, err
	})

	_, err := bearer.Create(t.Context(), identityFor(t, genoaID, v1alpha1.PeerGroup), metav1.CreateOptions{})
	expectCause(t, err, "spec.request")
	_, err = bearer.Create(t.Context(), identityFor(t, string(token.UID), v1alpha1.PeerGroup, "system:masters"),
		metav1.CreateOptions{})
	expectCause(t, err, "spec.request")
	if _, err := bearer.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a refused request left something behind: %v", err)
	}

	request := identityFor(t, string(token.UID), v1alpha1.PeerGroup)
	request.Name = "a-name-of-my-choice"
	first, err := bearer.Create(t.Context(), request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if first.Name != name {
		t.Errorf("the request has the name %s, not %s", first.Name, name)
	}
	again, err := bearer.Create(t.Context(), request, metav1.CreateOptions{})
	if err != nil || again.UID != first.UID || again.ResourceVersion != first.ResourceVersion {
		t.Errorf("the same request again is answered with %v, %v", again, err)
	}
	_, err = bearer.Create(t.Context(), identityFor(t, string(token.UID), v1alpha1.PeerGroup), metav1.CreateOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusConflict, "another request")
	if got, err := bearer.Get(t.Context(), name, metav1.GetOptions{}); err != nil || got.UID != first.UID {
		t.Errorf("the bearer cannot read its request: %v", err)
	}

	stranger, _ := bearerOf(t, env, "twice")
	_, err = stranger.Get(t.Context(), name, metav1.GetOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusForbidden, "own request")
	for what, err := range map[string]error{
		"list":   func() error { _, err := stranger.List(t.Context(), metav1.ListOptions{}); return err }(),
		"delete": stranger.Delete(t.Context(), name, metav1.DeleteOptions{}),
		"patch": func() error {
			_, err := stranger.Patch(t.Context(), name, types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "status")
			return err
		}(),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s by a bearer is answered with %v", what, err)
		}
	}

	admins := versioned.NewForConfigOrDie(env.Admin).FederationV1alpha1().IdentityRequests()
	_, err = admins.Create(t.Context(), request, metav1.CreateOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusForbidden, "bearer of an invitation")
	_, err = admins.Patch(t.Context(), "invitation-"+genoaID, types.ApplyPatchType,
		encode(fields{"apiVersion": "federation.liqo.io/v1alpha1", "kind": "IdentityRequest",
			"metadata": fields{"name": "invitation-" + genoaID},
			"spec":     fields{"clusterID": genoaID, "clusterName": "genoa", "request": []byte("x")}}),
		metav1.PatchOptions{FieldManager: "test"})
	subresourcetest.ExpectStatus(t, err, http.StatusNotFound, "invitation")
	_, err = admins.Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"clusterName":"pisa"}}`),
		metav1.PatchOptions{})
	expectCause(t, err, "spec.clusterName")
	_, err = admins.Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"status":{"tenantNamespace":"../kube-system"}}`), metav1.PatchOptions{}, "status")
	expectCause(t, err, "status.tenantNamespace")
	answered, err := admins.Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"status":{"tenantNamespace":"liqo-tenant-genoa"},"spec":{"clusterName":"pisa"}}`),
		metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	if answered.Spec.ClusterName != "genoa" || answered.Status.TenantNamespace != "liqo-tenant-genoa" {
		t.Errorf("the answer is %+v", answered)
	}
	if err := admins.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
