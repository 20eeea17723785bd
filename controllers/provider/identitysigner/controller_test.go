// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package identitysigner

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/kittest"
)

const (
	peeringUID  = "0b6c1f9e-7d54-4c2a-8f3e-1a2b3c4d5e6f"
	requestName = "invitation-" + peeringUID
)

func consumerName() pkix.Name {
	return pkix.Name{CommonName: peeringUID, Organization: []string{v1alpha1.PeerGroup}}
}

func acceptedRequest(csr []byte) *v1alpha1.IdentityRequest {
	request := &v1alpha1.IdentityRequest{
		ObjectMeta: metav1.ObjectMeta{Name: requestName},
		Spec:       v1alpha1.IdentityRequestSpec{ClusterID: "rome-id", ClusterName: "rome", Request: csr},
		Status:     v1alpha1.IdentityRequestStatus{TenantNamespace: "liqo-tenant-rome", ClusterID: "milan-id"},
	}
	identity.SetCondition(request, v1alpha1.ConditionAccepted, metav1.ConditionTrue, "Accepted", "")
	return request
}

// provider is a cluster with one request, and a signer that tests simulate.
type provider struct {
	*kittest.Cluster
	t          *testing.T
	csr        string
	reconciler *Reconciler
}

func newProvider(t *testing.T, request *v1alpha1.IdentityRequest, objects ...client.Object) *provider {
	cluster := kittest.New(t, append(objects, request)...)
	return &provider{cluster, t, signingName(request), &Reconciler{
		Client: cluster.Controller, Live: cluster, Clock: cluster.Clock, Lifetime: identity.DefaultLifetime,
	}}
}

func (p *provider) pass() {
	p.t.Helper()
	p.Pass(p.reconciler, kit.Request("", requestName))
}

func (p *provider) request() *v1alpha1.IdentityRequest {
	p.t.Helper()
	return kittest.Read(p.Cluster, "", requestName, &v1alpha1.IdentityRequest{})
}

func (p *provider) issued() metav1.Condition {
	p.t.Helper()
	if condition := meta.FindStatusCondition(p.request().Status.Conditions, v1alpha1.ConditionIssued); condition != nil {
		return *condition
	}
	return metav1.Condition{}
}

func (p *provider) signingRequest() *certificatesv1.CertificateSigningRequest {
	p.t.Helper()
	return kittest.Read(p.Cluster, "", p.csr, &certificatesv1.CertificateSigningRequest{})
}

// change changes the CertificateSigningRequest as the signer of the cluster does.
func (p *provider) change(change func(*certificatesv1.CertificateSigningRequest)) {
	p.t.Helper()
	kittest.Change(p.Cluster, "", p.csr, &certificatesv1.CertificateSigningRequest{}, change)
}

// written returns how often a verb was used for a CertificateSigningRequest.
func (p *provider) written(verb string) int {
	number := 0
	for _, write := range p.Writes {
		if write.Verb == verb && write.Kind == "CertificateSigningRequest" {
			number++
		}
	}
	return number
}

func TestAcceptedIdentityIsSignedOnce(t *testing.T) {
	p := newProvider(t, acceptedRequest(kittest.SigningRequest(t, consumerName())))
	p.pass()
	csr := p.signingRequest()
	if p.written("create") != 1 || conditionOf(csr, certificatesv1.CertificateApproved) == nil {
		t.Fatalf("%d signing requests, conditions %v", p.written("create"), csr.Status.Conditions)
	}
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName || *csr.Spec.ExpirationSeconds != 24*3600 {
		t.Errorf("signing request %+v", csr.Spec)
	}
	p.change(func(csr *certificatesv1.CertificateSigningRequest) {
		csr.Status.Certificate = kittest.Certificate(t, csr.Spec.Request, consumerName(), false)
	})
	p.pass()
	if p.issued().Status != metav1.ConditionTrue || len(p.request().Status.Certificate) == 0 || p.written("delete") != 1 {
		t.Fatalf("issued %+v, %d signing requests deleted", p.issued(), p.written("delete"))
	}
	p.pass()
	if p.written("create") != 1 {
		t.Error("an identity was signed twice")
	}
}

func TestProcessThatEndsAfterAnyWriteIsContinuedByTheNext(t *testing.T) {
	for number := range 4 {
		p := newProvider(t, acceptedRequest(kittest.SigningRequest(t, consumerName())))
		p.Kill(number, true)
		for pass := range 6 {
			_, err := p.reconciler.Reconcile(t.Context(), kit.Request("", requestName))
			if err != nil && !errors.Is(err, kittest.ErrKilled) {
				t.Fatalf("killed at write %d: pass %d: %v", number, pass, err)
			}
			if csr := (&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: p.csr}}); p.Has(csr) {
				p.change(func(csr *certificatesv1.CertificateSigningRequest) {
					if conditionOf(csr, certificatesv1.CertificateApproved) != nil && len(csr.Status.Certificate) == 0 {
						csr.Status.Certificate = kittest.Certificate(t, csr.Spec.Request, consumerName(), false)
					}
				})
			}
		}
		left := p.Has(&certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: p.csr}})
		if p.issued().Status != metav1.ConditionTrue || left {
			t.Errorf("killed at write %d: issued %+v, signing request left %v", number, p.issued(), left)
		}
	}
}

func TestNothingIsSignedBeforeTheTenantNamespaceExists(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.IdentityRequest){
		"without an answer":          func(r *v1alpha1.IdentityRequest) { r.Status = v1alpha1.IdentityRequestStatus{} },
		"without a tenant namespace": func(r *v1alpha1.IdentityRequest) { r.Status.TenantNamespace = "" },
		"refused": func(r *v1alpha1.IdentityRequest) {
			identity.SetCondition(r, v1alpha1.ConditionAccepted, metav1.ConditionFalse, "InvitationNotBound", "")
		},
		"renewal that is not accepted": func(r *v1alpha1.IdentityRequest) { r.Generation++ },
		"account": func(r *v1alpha1.IdentityRequest) {
			identity.SetCondition(r, v1alpha1.ConditionAccepted, metav1.ConditionTrue, identity.ReasonKnownByAccount, "")
		},
		"being deleted": func(r *v1alpha1.IdentityRequest) {
			r.DeletionTimestamp, r.Finalizers = &metav1.Time{Time: kittest.Epoch}, []string{"example.com/wait"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			request := acceptedRequest(kittest.SigningRequest(t, consumerName()))
			change(request)
			p := newProvider(t, request)
			p.pass()
			if len(p.Writes) > 0 {
				t.Errorf("wrote %v", p.Writes)
			}
		})
	}
}

// isRefused fails a test if a signing request is sent to the cluster.
func isRefused(t *testing.T, change func(*x509.CertificateRequest)) {
	t.Helper()
	p := newProvider(t, acceptedRequest(kittest.SigningRequest(t, consumerName(), change)))
	p.pass()
	if p.written("create") > 0 {
		t.Fatal("a signing request was created")
	}
	if got := p.issued(); got.Status != metav1.ConditionFalse || got.Reason != ReasonRequestInvalid || got.Message == "" {
		t.Errorf("condition %+v", got)
	}
}

func TestCSRForeignIdentityRejected(t *testing.T) {
	for _, name := range []string{"", "admin", "system:node:milan", "ffffffff-7d54-4c2a-8f3e-1a2b3c4d5e6f",
		peeringUID + " "} {
		t.Run(name, func(t *testing.T) {
			isRefused(t, func(r *x509.CertificateRequest) { r.Subject.CommonName = name })
		})
	}
}

func TestCSRExtraOrgRejected(t *testing.T) {
	for _, groups := range [][]string{
		nil, {"system:masters"}, {v1alpha1.PeerGroup, "system:masters"}, {"system:masters", v1alpha1.PeerGroup},
		{v1alpha1.PeerGroup, v1alpha1.PeerGroup},
	} {
		t.Run(strings.Join(groups, ","), func(t *testing.T) {
			isRefused(t, func(r *x509.CertificateRequest) { r.Subject.Organization = groups })
		})
	}
}

func TestRequestForServerNamesIsRefused(t *testing.T) {
	isRefused(t, func(r *x509.CertificateRequest) { r.DNSNames = []string{"kubernetes.default"} })
}

func TestCSRWrongSignerRejected(t *testing.T) {
	csr := kittest.SigningRequest(t, consumerName())
	other := kittest.SigningRequest(t, consumerName())
	for name, change := range map[string]func(*certificatesv1.CertificateSigningRequest){
		"another signer": func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.SignerName = certificatesv1.KubeletServingSignerName
		},
		"another request": func(c *certificatesv1.CertificateSigningRequest) { c.Spec.Request = other },
		"another usage": func(c *certificatesv1.CertificateSigningRequest) {
			c.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth}
		},
	} {
		t.Run(name, func(t *testing.T) {
			request := acceptedRequest(csr)
			found := newSigningRequest(signingName(request), request, identity.DefaultLifetime)
			found.Spec.Usages = slices.Clone(found.Spec.Usages)
			change(found)
			p := newProvider(t, request, found)
			p.pass()
			if conditionOf(p.signingRequest(), certificatesv1.CertificateApproved) != nil {
				t.Error("the signing request of another client was approved")
			}
			if got := p.issued(); got.Reason != identity.ReasonSigningFailed {
				t.Errorf("condition %+v", got)
			}
		})
	}
}

func TestCertificateThatWasNotRequestedIsNotIssued(t *testing.T) {
	csr := kittest.SigningRequest(t, consumerName())
	for name, certificate := range map[string][]byte{
		"another key":     kittest.Certificate(t, kittest.SigningRequest(t, consumerName()), consumerName(), false),
		"another subject": kittest.Certificate(t, csr, pkix.Name{CommonName: "admin"}, false),
		"an authority":    kittest.Certificate(t, csr, consumerName(), true),
		"no certificate":  []byte("x"),
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, acceptedRequest(csr))
			p.pass()
			p.change(func(csr *certificatesv1.CertificateSigningRequest) { csr.Status.Certificate = certificate })
			p.pass()
			if len(p.request().Status.Certificate) > 0 || p.issued().Reason != identity.ReasonSigningFailed {
				t.Errorf("condition %+v", p.issued())
			}
		})
	}
}

func TestSignerThatDoesNotSignIsReported(t *testing.T) {
	p := newProvider(t, acceptedRequest(kittest.SigningRequest(t, consumerName())))
	p.pass()
	p.change(func(csr *certificatesv1.CertificateSigningRequest) {
		csr.CreationTimestamp = metav1.NewTime(kittest.Epoch)
	})
	p.Clock.Step(2 * signerTimeout)
	p.pass()
	if got := p.issued(); got.Status != metav1.ConditionUnknown ||
		!strings.Contains(got.Message, "kube-controller-manager") {
		t.Errorf("condition %+v", got)
	}
	p.change(func(csr *certificatesv1.CertificateSigningRequest) {
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "Broken",
		})
	})
	p.pass()
	if got := p.issued(); got.Status != metav1.ConditionFalse || got.Reason != identity.ReasonSigningFailed {
		t.Errorf("condition %+v after the signer failed", got)
	}
}

func TestPollingSlowsDownForASignerThatDoesNotSign(t *testing.T) {
	p := newProvider(t, acceptedRequest(kittest.SigningRequest(t, consumerName())))
	p.pass()
	p.change(func(csr *certificatesv1.CertificateSigningRequest) {
		csr.CreationTimestamp = metav1.NewTime(kittest.Epoch)
	})
	for _, test := range []struct{ after, want time.Duration }{{0, pollInterval}, {signerTimeout, retryInterval}} {
		p.Clock.SetTime(kittest.Epoch.Add(test.after))
		result, err := p.reconciler.Reconcile(t.Context(), kit.Request("", requestName))
		if err != nil || result.RequeueAfter != test.want {
			t.Errorf("after %s: requeued after %s, %v", test.after, result.RequeueAfter, err)
		}
	}
}
