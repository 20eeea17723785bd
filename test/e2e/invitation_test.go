// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	federation "liqo.io/federation/generated/clientset/versioned/typed/federation/v1alpha1"
)

// invited has a client configuration whose only credential is an invitation of milan.
type invited struct {
	token  *v1alpha1.PeeringToken
	config *rest.Config
	client federation.FederationV1alpha1Interface
}

// invite creates a PeeringToken on milan, and deletes it when the test ends.
func invite(t *testing.T) invited {
	t.Helper()
	client := milan.Federation.FederationV1alpha1().PeeringTokens()
	token := must(client.Create(t.Context(), &v1alpha1.PeeringToken{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}},
		metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		if err := client.Delete(context.Background(), token.Name, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	peering := invitationFor(t, milan, token.Name).Status.Peering.Spec
	config := &rest.Config{Host: peering.Server, BearerToken: peering.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: peering.CABundle}}
	return invited{token, config, must(versioned.NewForConfig(config))(t).FederationV1alpha1()}
}

func (i invited) request(csr []byte) *v1alpha1.IdentityRequest {
	return &v1alpha1.IdentityRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "invitation-" + string(i.token.UID)},
		Spec:       v1alpha1.IdentityRequestSpec{ClusterID: string(uuid.NewUUID()), ClusterName: "turin", Request: csr},
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

// signingRequest returns a valid certificate signing request for a consumer with this cluster ID,
// after change was applied to it.
func signingRequest(t *testing.T, key *ecdsa.PrivateKey, uid types.UID, change func(*x509.CertificateRequest)) []byte {
	t.Helper()
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: string(uid),
		Organization: []string{v1alpha1.PeerGroup}}}
	if change != nil {
		change(template)
	}
	der := must(x509.CreateCertificateRequest(rand.Reader, template, key))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func tokenOnce(t *testing.T) {
	stranger := invite(t)
	key := newKey(t)
	request := stranger.request(signingRequest(t, key, stranger.token.UID, nil))
	first := must(stranger.client.IdentityRequests().Create(t.Context(), request, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		if err := milan.Federation.FederationV1alpha1().ForeignClusters().Delete(context.Background(), "turin",
			metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	again, err := stranger.client.IdentityRequests().Create(t.Context(), request, metav1.CreateOptions{})
	if err != nil || again.UID != first.UID {
		t.Errorf("the same request again gave uid %v and error %v, want the first answer", again.GetUID(), err)
	}
	var answer *v1alpha1.IdentityRequest
	eventually(t, soon, "the certificate", func(ctx context.Context) (bool, string, error) {
		var err error
		answer, err = stranger.client.IdentityRequests().Get(ctx, request.Name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return meta.IsStatusConditionTrue(answer.Status.Conditions, v1alpha1.ConditionIssued),
			show(answer.Status.Conditions), nil
	})

	other := stranger.request(signingRequest(t, newKey(t), stranger.token.UID, nil))
	other.Spec.ClusterID = request.Spec.ClusterID
	if _, err := stranger.client.IdentityRequests().Create(t.Context(), other, metav1.CreateOptions{}); !refused(err) {
		t.Errorf("a second key for the same token: %v, want it refused", err)
	}
	if _, err := stranger.client.ForeignClusters().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing foreign clusters with an invitation: %v, want it forbidden", err)
	}
	if _, err := stranger.client.IdentityRequests().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing identity requests with an invitation: %v, want it forbidden", err)
	}
	_, err = milan.Federation.FederationV1alpha1().PeeringTokens().CreateInvitation(t.Context(), stranger.token.Name,
		&v1alpha1.Invitation{}, metav1.CreateOptions{})
	if !apierrors.IsConflict(err) {
		t.Errorf("an invitation of a used token: %v, want a conflict", err)
	}

	// The invitation is valid until the new identity is used for the first time.
	identity := rest.AnonymousClientConfig(stranger.config)
	identity.CertData = answer.Status.Certificate
	identity.KeyData = encodeKey(t, key)
	tenant := must(versioned.NewForConfig(identity))(t).FederationV1alpha1().ResourceRequests(
		answer.Status.TenantNamespace)
	eventually(t, soon, "the identity to list its tenant namespace", func(ctx context.Context) (bool, string, error) {
		_, err := tenant.List(ctx, metav1.ListOptions{})
		return err == nil, "", err
	})
	must(tenant.Create(t.Context(), &v1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Name: "turin"}},
		metav1.CreateOptions{}))(t)
	eventually(t, soon, "the token to be invalid", func(ctx context.Context) (bool, string, error) {
		_, err := stranger.client.IdentityRequests().Get(ctx, request.Name, metav1.GetOptions{})
		if apierrors.IsUnauthorized(err) {
			return true, "", nil
		}
		return false, "it still works", err
	})

	if err := milan.Federation.FederationV1alpha1().ForeignClusters().Delete(t.Context(), "turin",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "the revoked consumer to be deleted", func(ctx context.Context) (bool, string, error) {
		_, err := milan.Kube.CoreV1().Namespaces().Get(ctx, answer.Status.TenantNamespace, metav1.GetOptions{})
		if done, saw, err := gone(err); !done {
			return false, "namespace " + answer.Status.TenantNamespace + ": " + saw, err
		}
		_, err = milan.Federation.FederationV1alpha1().IdentityRequests().Get(ctx, request.Name, metav1.GetOptions{})
		return gone(err)
	})
	if _, err := tenant.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing requests with the revoked identity: %v, want it forbidden", err)
	}
}

func encodeKey(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: must(x509.MarshalECPrivateKey(key))(t)})
}

func invitationEndsWithItsToken(t *testing.T) {
	stranger := invite(t)
	if err := milan.Federation.FederationV1alpha1().PeeringTokens().Delete(t.Context(), stranger.token.Name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	request := stranger.request(signingRequest(t, newKey(t), stranger.token.UID, nil))
	eventually(t, soon, "the invitation to be refused", func(ctx context.Context) (bool, string, error) {
		_, err := stranger.client.IdentityRequests().Get(ctx, request.Name, metav1.GetOptions{})
		if apierrors.IsUnauthorized(err) {
			return true, "", nil
		}
		return false, "it is still accepted", err
	})
	if _, err := stranger.client.IdentityRequests().Create(t.Context(), request,
		metav1.CreateOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("a request with the invitation of a deleted token: %v, want it unauthorized", err)
	}
}

func csrForeignIdentityRejected(t *testing.T) {
	other := invite(t)
	isRejected(t, map[string]func(*x509.CertificateRequest){
		"of another invitation": func(r *x509.CertificateRequest) { r.Subject.CommonName = string(other.token.UID) },
		"of an administrator":   func(r *x509.CertificateRequest) { r.Subject.CommonName = "kubernetes-admin" },
		"of a node":             func(r *x509.CertificateRequest) { r.Subject.CommonName = "system:node:milan" },
		"without a name":        func(r *x509.CertificateRequest) { r.Subject.CommonName = "" },
		"with a host name":      func(r *x509.CertificateRequest) { r.DNSNames = []string{"kubernetes.default.svc"} },
		"with an address":       func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} },
		"with a mail address":   func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"root@localhost"} },
		"with a location":       func(r *x509.CertificateRequest) { r.Subject.Locality = []string{"Turin"} },
	})
}

func csrExtraOrgRejected(t *testing.T) {
	isRejected(t, map[string]func(*x509.CertificateRequest){
		"in addition to administrators": func(r *x509.CertificateRequest) {
			r.Subject.Organization = append(r.Subject.Organization, "system:masters")
		},
		"instead of administrators": func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} },
		"in addition to nodes": func(r *x509.CertificateRequest) {
			r.Subject.Organization = append(r.Subject.Organization, "system:nodes")
		},
		"peers twice": func(r *x509.CertificateRequest) {
			r.Subject.Organization = append(r.Subject.Organization, v1alpha1.PeerGroup)
		},
		"none": func(r *x509.CertificateRequest) { r.Subject.Organization = nil },
		"a unit": func(r *x509.CertificateRequest) {
			r.Subject.OrganizationalUnit = []string{"system:masters"}
		},
	})
}

// knownIDsRequireABoundInvitation requests an identity with the cluster ID of rome, which is a consumer of milan
// already, and an invitation that is not bound to this ID. Its holder must not get access to the peering of rome.
func knownIDsRequireABoundInvitation(t *testing.T) {
	peers := milan.Federation.FederationV1alpha1().ForeignClusters()
	before := must(peers.Get(t.Context(), "rome", metav1.GetOptions{}))(t)
	stranger := invite(t)
	request := stranger.request(signingRequest(t, newKey(t), stranger.token.UID, nil))
	request.Spec.ClusterID = before.Spec.ClusterID
	must(stranger.client.IdentityRequests().Create(t.Context(), request, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		if err := milan.Federation.FederationV1alpha1().IdentityRequests().Delete(context.Background(), request.Name,
			metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	eventually(t, soon, "the identity request to be refused", func(ctx context.Context) (bool, string, error) {
		answer, err := stranger.client.IdentityRequests().Get(ctx, request.Name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		if answer.Status.Certificate != nil || answer.Status.TenantNamespace != "" {
			t.Fatalf("the stranger has an identity of rome: %s", show(answer.Status))
		}
		accepted := meta.FindStatusCondition(answer.Status.Conditions, v1alpha1.ConditionAccepted)
		return accepted != nil && accepted.Reason == "InvitationNotBound", show(answer.Status), nil
	})
	after := must(peers.Get(t.Context(), "rome", metav1.GetOptions{}))(t)
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
		t.Errorf("spec of ForeignCluster rome (-before +after):\n%s", diff)
	}
	client := must(versioned.NewForConfig(identityAt(t, milan)))(t).FederationV1alpha1()
	if _, err := client.ResourceRequests("liqo-tenant-rome").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the identity of rome is not valid any more: %v", err)
	}
}

// isRejected requests the identities in changes, which no peer may have. None of them may be
// signed.
func isRejected(t *testing.T, changes map[string]func(*x509.CertificateRequest)) {
	stranger := invite(t)
	key := newKey(t)
	requests := map[string][]byte{
		"no request at all": []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
		"too large":         bytes.Repeat([]byte("A"), 9<<10),
	}
	for name, change := range changes {
		requests[name] = signingRequest(t, key, stranger.token.UID, change)
	}
	forged := signingRequest(t, key, stranger.token.UID, nil)
	block, _ := pem.Decode(forged)
	block.Bytes[len(block.Bytes)-1] ^= 1
	requests["a broken signature"] = pem.EncodeToMemory(block)

	for name, csr := range requests {
		_, err := stranger.client.IdentityRequests().Create(t.Context(), stranger.request(csr), metav1.CreateOptions{})
		if !refused(err) {
			t.Errorf("%s: %v, want it refused", name, err)
		} else if apierrors.IsInvalid(err) && !strings.Contains(err.Error(), "spec.request") {
			t.Errorf("%s: %v does not name the field spec.request", name, err)
		}
	}
	_, err := milan.Federation.FederationV1alpha1().IdentityRequests().Get(t.Context(),
		"invitation-"+string(stranger.token.UID), metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("an identity request is left: %v", err)
	}
	for _, csr := range must(milan.Kube.CertificatesV1().CertificateSigningRequests().List(t.Context(),
		metav1.ListOptions{}))(t).Items {
		if strings.Contains(fmt.Sprint(csr), string(stranger.token.UID)) {
			t.Errorf("a certificate signing request is left: %s", csr.Name)
		}
	}
	token := must(milan.Federation.FederationV1alpha1().PeeringTokens().Get(t.Context(), stranger.token.Name,
		metav1.GetOptions{}))(t)
	if token.Status.Used {
		t.Error("the refused requests invalidated the token")
	}
}

// refused reports whether the server answered with a 4xx.
func refused(err error) bool {
	status, ok := err.(apierrors.APIStatus)
	return ok && status.Status().Code >= 400 && status.Status().Code < 500
}
