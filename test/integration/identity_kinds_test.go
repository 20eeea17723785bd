// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/identity"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/provider/admission"
	"liqo.io/federation/controllers/provider/identitysigner"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/test/integration/framework"
)

// changingID is the cluster ID of the consumer whose identity changes between a certificate and a
// token.
const changingID = "33333333-3333-4333-8333-333333333333"

// fastClock is ahead of the real time by a duration that tests change.
type fastClock struct {
	clock.RealClock
	ahead atomic.Int64
}

func (c *fastClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.ahead.Load())) }

func (c *fastClock) Since(then time.Time) time.Duration { return c.Now().Sub(then) }

// changing is a consumer, with the provider's controllers of identities. The test signs
// certificates as the signer of the provider's cluster does.
type changing struct {
	*peeringConsumer
	clock *fastClock
}

func newChanging(t *testing.T, mode identity.Mode) *changing {
	t.Helper()
	c := &changing{makePeeringConsumer(t, "changing"), &fastClock{}}
	// The provider's controller would reconcile the requests of earlier tests, too.
	if err := c.federation.FederationV1alpha1().IdentityRequests().DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	c.outgoing.ClusterID, c.outgoing.ClusterName, c.incoming.Mode = changingID, "changer", mode
	c.peeringConsumer.clock = c.clock
	c.run(t)
	c.Kubectl(t, c.Chart(t, "rbac-controller-manager.yaml", "rbac-identity-signer.yaml"), "apply", "-f", "-")
	// Each controller has only the permissions of its account in the chart.
	runManager(t, c.ServiceAccount(t, framework.Namespace, controllerManager), func(manager ctrl.Manager) error {
		return (&admission.Reconciler{
			Client: manager.GetClient(), Live: manager.GetAPIReader(), ClusterID: thisID, Mode: mode,
		}).SetupWithManager(manager)
	})
	runManager(t, c.ServiceAccount(t, framework.Namespace, signer), func(manager ctrl.Manager) error {
		return (&identitysigner.Reconciler{
			Client: manager.GetClient(), Live: manager.GetAPIReader(), Clock: c.clock, Lifetime: c.outgoing.IdentityLifetime,
		}).SetupWithManager(manager)
	})
	c.invite(t, framework.ProxyURL)
	c.cleanUp(t, "changer")
	return c
}

// awaitSigningRequest waits for an approved CertificateSigningRequest other than last, and returns
// it.
func (c *changing) awaitSigningRequest(t *testing.T,
	last *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	var found *certificatesv1.CertificateSigningRequest
	until(t, "a request to the signer", func(ctx context.Context) (bool, error) {
		c.trigger(ctx, t)
		csrs, err := c.Kube.CertificatesV1().CertificateSigningRequests().List(ctx,
			metav1.ListOptions{LabelSelector: v1alpha1.LabelManagedBy + "=" + v1alpha1.ManagedBy})
		if err != nil {
			return false, err
		}
		for i, csr := range csrs.Items {
			approved := slices.ContainsFunc(csr.Status.Conditions,
				func(c certificatesv1.CertificateSigningRequestCondition) bool {
					return c.Type == certificatesv1.CertificateApproved
				})
			if approved && (last == nil || csr.Name != last.Name) {
				found = &csrs.Items[i]
			}
		}
		return found != nil, nil
	})
	return found
}

// sign issues a certificate with a lifetime of one day, which has been valid for age.
func (c *changing) sign(t *testing.T, csr *certificatesv1.CertificateSigningRequest, age time.Duration) {
	t.Helper()
	csr.Status.Certificate = c.Certify(t, csr.Spec.Request, time.Now().Add(-age), 24*time.Hour)
	if _, err := c.Kube.CertificatesV1().CertificateSigningRequests().UpdateStatus(t.Context(), csr,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// trigger changes an annotation of the ForeignCluster, so that its controller uses the advanced clock.
func (c *changing) trigger(ctx context.Context, t *testing.T) {
	t.Helper()
	patch := encode(fields{"metadata": fields{"annotations": fields{"test/polls": fmt.Sprint(time.Now().UnixNano())}}})
	if _, err := c.federation.FederationV1alpha1().ForeignClusters().Patch(ctx, c.name, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitIdentity waits until the Secret of the identity has data for the key by, and returns its
// data.
func (c *changing) awaitIdentity(t *testing.T, by string) map[string][]byte {
	t.Helper()
	var secret *corev1.Secret
	until(t, "the identity to have the key "+by, func(ctx context.Context) (bool, error) {
		c.trigger(ctx, t)
		var err error
		secret, err = c.Kube.CoreV1().Secrets(naming.PeerNamespace(c.name)).Get(ctx, remote.SecretName, metav1.GetOptions{})
		return err == nil && len(secret.Data[by]) > 0, ignoreNotFound(err)
	})
	return secret.Data
}

// keepsRequesting sends requests to the provider with the current identity until stop is called,
// which fails the test if requests failed.
func (c *changing) keepsRequesting(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	sent := 0
	running.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for ctx.Err() == nil {
			if err := c.listRequests(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("at %s: %v", time.Now().Format(time.TimeOnly), err)
			}
			sent++
			<-ticker.C
		}
	})
	return func() {
		cancel()
		running.Wait()
		if sent < 10 {
			t.Errorf("sent %d requests", sent)
		}
	}
}

func TestIdentityChangesBetweenCertificateAndTokenWithoutAGap(t *testing.T) {
	c := newChanging(t, identity.ModeAuto)
	first := c.awaitSigningRequest(t, nil)
	// The certificate is due for renewal at once. A renewal fails until the consumer has a
	// ResourceRequest.
	c.sign(t, first, 16*time.Hour)
	if data := c.awaitIdentity(t, remote.KeyCertificate); len(data[remote.KeyToken]) > 0 {
		t.Fatal("the identity has a token in addition to the certificate")
	}
	tenant := naming.TenantNamespace("changer")
	must(t)(c.federation.FederationV1alpha1().ResourceRequests(tenant).Create(t.Context(),
		&v1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Name: "changer"}}, metav1.CreateOptions{}))
	until(t, "an answer", func(ctx context.Context) (bool, error) { return c.listRequests(ctx) == nil, nil })
	stop := c.keepsRequesting(t)

	unsigned := c.awaitSigningRequest(t, first)
	// No signer has answered for two minutes, so the provider issues a token.
	c.clock.ahead.Store(int64(2 * time.Minute))
	if data := c.awaitIdentity(t, remote.KeyToken); len(data[remote.KeyCertificate]) > 0 ||
		string(data[remote.KeyAccount]) != "federation-peer" {
		t.Fatalf("the identity is %v", data)
	}
	until(t, "the provider to have no pending request", func(ctx context.Context) (bool, error) {
		csrs, err := c.Kube.CertificatesV1().CertificateSigningRequests().List(ctx,
			metav1.ListOptions{LabelSelector: v1alpha1.LabelManagedBy + "=" + v1alpha1.ManagedBy})
		return err == nil && len(csrs.Items) == 0, err
	})
	c.await(t, "the consumer to report it", established)

	// Two thirds of the lifetime of the token have passed, so it is renewed, now by a certificate.
	c.clock.ahead.Store(int64(41 * time.Minute))
	c.sign(t, c.awaitSigningRequest(t, unsigned), 0)
	data := c.awaitIdentity(t, remote.KeyCertificate)
	if len(data[remote.KeyToken])+len(data[remote.KeyAccount]) > 0 {
		t.Errorf("the identity has a token in addition to the certificate")
	}
	uid, _ := naming.InvitationOfAccount(c.request)
	until(t, "a request to the provider with the certificate", func(context.Context) (bool, error) {
		return slices.ContainsFunc(c.Audited(t, string(uid)), func(event auditv1.Event) bool {
			return framework.Credential(event.User) == credential(t, data[remote.KeyCertificate])
		}), nil
	})
	c.await(t, "the consumer to report it again", established)
	stop()
}
