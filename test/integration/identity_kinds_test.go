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

// changingID is the id of a borrower that is known in one way, then in another.
const changingID = "33333333-3333-4333-8333-333333333333"

// fastClock is ahead of time.
type fastClock struct {
	clock.RealClock
	ahead atomic.Int64
}

func (c *fastClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.ahead.Load())) }

func (c *fastClock) Since(then time.Time) time.Duration { return c.Now().Sub(then) }

// changing is a borrower, and the lender that decides what it is known by; the
// test is the signer of the lender's cluster.
type changing struct {
	*borrower
	clock *fastClock
}

func newChanging(t *testing.T, mode identity.Mode) *changing {
	t.Helper()
	c := &changing{makeBorrower(t, "changing"), &fastClock{}}
	// The lender would answer what other tests left.
	if err := c.federation.FederationV1alpha1().IdentityRequests().DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	c.outgoing.ClusterID, c.outgoing.ClusterName, c.incoming.Mode = changingID, "changer", mode
	c.borrower.clock = c.clock
	c.run(t)
	c.Kubectl(t, c.Chart(t, "rbac-controller-manager.yaml", "rbac-identity-signer.yaml"), "apply", "-f", "-")
	// Each has no other rights than those of its account in the chart.
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
	c.forget(t, "changer")
	return c
}

// asked waits until the signer is asked for a certificate for another key than
// the last one.
func (c *changing) asked(t *testing.T, last *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	var found *certificatesv1.CertificateSigningRequest
	until(t, "the signer to be asked", func(ctx context.Context) (bool, error) {
		c.look(ctx, t)
		csrs, err := c.Kube.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelManagedBy + "=" + v1alpha1.ManagedBy})
		if err != nil {
			return false, err
		}
		for i, csr := range csrs.Items {
			approved := slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
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

// sign answers with a certificate that began a while ago and lives for a day.
func (c *changing) sign(t *testing.T, csr *certificatesv1.CertificateSigningRequest, age time.Duration) {
	t.Helper()
	csr.Status.Certificate = c.Certify(t, csr.Spec.Request, time.Now().Add(-age), 24*time.Hour)
	if _, err := c.Kube.CertificatesV1().CertificateSigningRequests().UpdateStatus(t.Context(), csr, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// look has the controllers look: they do not know that the clock is ahead.
func (c *changing) look(ctx context.Context, t *testing.T) {
	t.Helper()
	patch := encode(fields{"metadata": fields{"annotations": fields{"test/looks": fmt.Sprint(time.Now().UnixNano())}}})
	if _, err := c.federation.FederationV1alpha1().ForeignClusters().Patch(ctx, c.name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// known waits until the identity is of one kind, and returns what it consists of.
func (c *changing) known(t *testing.T, by string) map[string][]byte {
	t.Helper()
	var secret *corev1.Secret
	until(t, "the consumer to be known by its "+by, func(ctx context.Context) (bool, error) {
		c.look(ctx, t)
		var err error
		secret, err = c.Kube.CoreV1().Secrets(naming.PeerNamespace(c.name)).Get(ctx, remote.SecretName, metav1.GetOptions{})
		return err == nil && len(secret.Data[by]) > 0, ignoreNotFound(err)
	})
	return secret.Data
}

// keepsAsking asks the lender all the time, and tells afterwards what was not
// answered.
func (c *changing) keepsAsking(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	asked := 0
	running.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for ctx.Err() == nil {
			if err := c.ask(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("at %s: %v", time.Now().Format(time.TimeOnly), err)
			}
			asked++
			<-ticker.C
		}
	})
	return func() {
		cancel()
		running.Wait()
		if asked < 10 {
			t.Errorf("asked %d times", asked)
		}
	}
}

func TestWhatAConsumerIsKnownByChangesBothWaysWithoutAGap(t *testing.T) {
	c := newChanging(t, identity.ModeAuto)
	first := c.asked(t, nil)
	// It is due at once, and fails as long as there is nothing to renew it by.
	c.sign(t, first, 16*time.Hour)
	if data := c.known(t, remote.KeyCertificate); len(data[remote.KeyToken]) > 0 {
		t.Fatal("there is a token beside the certificate")
	}
	tenant := naming.TenantNamespace("changer")
	must(t)(c.federation.FederationV1alpha1().ResourceRequests(tenant).Create(t.Context(), &v1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Name: "changer"}}, metav1.CreateOptions{}))
	until(t, "the lender to answer", func(ctx context.Context) (bool, error) { return c.ask(ctx) == nil, nil })
	stop := c.keepsAsking(t)

	silent := c.asked(t, first)
	// Nobody signs, for two minutes.
	c.clock.ahead.Store(int64(2 * time.Minute))
	if data := c.known(t, remote.KeyToken); len(data[remote.KeyCertificate]) > 0 || string(data[remote.KeyAccount]) != "federation-peer" {
		t.Fatalf("the identity is %v", data)
	}
	until(t, "the lender to wait for no certificate", func(ctx context.Context) (bool, error) {
		csrs, err := c.Kube.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelManagedBy + "=" + v1alpha1.ManagedBy})
		return err == nil && len(csrs.Items) == 0, err
	})
	c.await(t, "the consumer to say so", established)

	// Two thirds of the token's life are over.
	c.clock.ahead.Store(int64(41 * time.Minute))
	c.sign(t, c.asked(t, silent), 0)
	data := c.known(t, remote.KeyCertificate)
	if len(data[remote.KeyToken])+len(data[remote.KeyAccount]) > 0 {
		t.Errorf("there is a token beside the certificate")
	}
	uid, _ := naming.InvitationOfAccount(c.request)
	until(t, "the lender to be asked with the certificate", func(context.Context) (bool, error) {
		return slices.ContainsFunc(c.Audited(t, string(uid)), func(event auditv1.Event) bool {
			return framework.Credential(event.User) == credential(t, data[remote.KeyCertificate])
		}), nil
	})
	c.await(t, "the consumer to say so again", established)
	stop()
}
