// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/test/certificates"
	"liqo.io/federation/test/integration/framework"
)

// credential returns the ID of a certificate that audit events have.
func credential(t *testing.T, certificate []byte) string {
	t.Helper()
	block, _ := pem.Decode(certificate)
	if block == nil {
		t.Fatal("no certificate")
	}
	sum := sha256.Sum256(block.Bytes)
	return "X509SHA256=" + hex.EncodeToString(sum[:])
}

// open returns, by credential, the number of a user's requests that have started and not ended,
// such as watches.
func open(events []auditv1.Event) map[string]int {
	began := map[types.UID]string{}
	for _, event := range events {
		if event.Stage == auditv1.StageResponseStarted {
			began[event.AuditID] = framework.Credential(event.User)
		} else {
			delete(began, event.AuditID)
		}
	}
	count := map[string]int{}
	for _, by := range began {
		count[by]++
	}
	return count
}

func TestVirtualKubeletUsesARenewedIdentityAndKeepsStreams(t *testing.T) {
	refresh := transport.CertCallbackRefreshDuration
	transport.CertCallbackRefreshDuration = time.Second
	t.Cleanup(func() { transport.CertCallbackRefreshDuration = refresh })
	o := newOffload(t)
	user := o.peer
	old := o.User(t, user, v1alpha1.PeerGroup)
	o.write(t, "tls.key", old.KeyData)
	o.write(t, "tls.crt", old.CertData)
	o.start(t)
	o.runsOnAKubelet(t, "kept")
	before, err := o.Kube.CoreV1().Pods(o.local).Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	shadow := o.shadow(t, "kept")
	if open(o.Audited(t, user))[credential(t, old.CertData)] == 0 {
		t.Fatalf("nothing is watched with the first certificate: %v", open(o.Audited(t, user)))
	}

	// The shell must stay open when the identity is renewed.
	typed, typing := io.Pipe()
	shown, showing := io.Pipe()
	shell := make(chan error, 1)
	go func() {
		shell <- o.stream(t.Context(), t, "kept", []string{"sh"}, remotecommand.StreamOptions{Stdin: typed, Stdout: showing})
		showing.Close()
	}()
	screen := bufio.NewReader(shown)
	if got, err := screen.ReadString(']'); err != nil || got != "[sh]" {
		t.Fatalf("the shell shows %q, %v", got, err)
	}

	renewed := o.User(t, user, v1alpha1.PeerGroup)
	o.write(t, "tls.key", renewed.KeyData)
	o.write(t, "tls.crt", renewed.CertData)
	until(t, "all open requests to use the renewed certificate", func(context.Context) (bool, error) {
		// The open request of the shell was authenticated with the first certificate.
		now := open(o.Audited(t, user))
		return now[credential(t, old.CertData)] <= 1 && now[credential(t, renewed.CertData)] > 0, nil
	})
	changed := time.Now()
	o.bind(t, o.local, "after", nil)
	o.shadow(t, "after")
	o.exec(t, "kept", "true")
	after := 0
	for _, event := range o.Audited(t, user) {
		if event.RequestReceivedTimestamp.After(changed) {
			after++
			if got := framework.Credential(event.User); got != credential(t, renewed.CertData) {
				t.Errorf("%s %s was sent with %s", event.Verb, event.RequestURI, got)
			}
		}
	}
	if after == 0 {
		t.Error("nothing was sent after the renewal")
	}
	if _, err := io.WriteString(typing, "still open\n"); err != nil {
		t.Error(err)
	}
	if got, err := screen.ReadString('\n'); err != nil || got != "still open\n" {
		t.Errorf("the shell shows %q, %v", got, err)
	}
	typing.Close()
	if err := <-shell; err != nil && !errors.Is(err, io.EOF) {
		t.Errorf("the shell ended with %v", err)
	}
	pod, err := o.Kube.CoreV1().Pods(o.local).Get(t.Context(), "kept", metav1.GetOptions{})
	if err != nil || pod.UID != before.UID || !isReady(pod) {
		t.Errorf("the pod was changed: %v", err)
	}
	if o.shadow(t, "kept").UID != shadow.UID {
		t.Error("the shadow pod was recreated")
	}
}

func TestAConsumerRenewsItsIdentityAndUsesTheNewOne(t *testing.T) {
	b := newPeeringConsumer(t, "renewing")
	// Two thirds of the certificate's lifetime will have passed in five seconds.
	b.certificate(t, 40*time.Minute-5*time.Second, time.Hour)
	// The consumer uses its identity for a ResourceRequest. Without it, the renewal fails.
	requests := b.federation.FederationV1alpha1().ResourceRequests(b.tenant())
	if _, err := requests.Create(t.Context(), &v1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Name: "consumer"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.await(t, "the consumer to have its identity", established)
	uid, _ := naming.InvitationOfAccount(b.request)
	secret := func(ctx context.Context) *corev1.Secret {
		secret, err := b.Kube.CoreV1().Secrets(naming.PeerNamespace(b.name)).Get(ctx, remote.SecretName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	old := credential(t, secret(t.Context()).Data[remote.KeyCertificate])
	identities := b.federation.FederationV1alpha1().IdentityRequests()
	until(t, "the consumer to request another certificate, which is signed", func(ctx context.Context) (bool, error) {
		request, err := identities.Get(ctx, b.request, metav1.GetOptions{})
		if err != nil || request.Generation == 1 {
			return false, err
		}
		request.Status.Certificate = b.Certify(t, request.Spec.Request, time.Now().Add(-time.Minute), time.Hour)
		_, err = identities.UpdateStatus(ctx, request, metav1.UpdateOptions{})
		return err == nil, err
	})
	var renewed string
	until(t, "the consumer to watch with the renewed certificate, and with no other",
		func(ctx context.Context) (bool, error) {
			renewed = credential(t, secret(ctx).Data[remote.KeyCertificate])
			if renewed == old {
				return false, nil
			}
			if err := b.listRequests(ctx); err != nil {
				return false, nil
			}
			events := b.Audited(t, string(uid))
			last := events[len(events)-1]
			return open(events)[old] == 0 && framework.Credential(last.User) == renewed, nil
		})
	b.await(t, "the consumer to report it", established)
}

func TestClientsFollowAnAuthorityThatRotates(t *testing.T) {
	b := newPeeringConsumer(t, "rotating")
	b.certificate(t, time.Minute, time.Hour)
	b.await(t, "the consumer to have its identity", established)
	follows := func(what string) {
		t.Helper()
		until(t, what, func(ctx context.Context) (bool, error) { return b.listRequests(ctx) == nil, nil })
	}
	patch := func(bundle []byte) {
		t.Helper()
		if _, err := b.federation.FederationV1alpha1().ForeignClusters().PatchPeer(t.Context(), b.name, types.MergePatchType,
			encode(fields{"spec": fields{"caBundle": bundle}}), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		until(t, "the identity to have the bundle", func(ctx context.Context) (bool, error) {
			secret, err := b.Kube.CoreV1().Secrets(naming.PeerNamespace(b.name)).Get(ctx, remote.SecretName, metav1.GetOptions{})
			return err == nil && string(secret.Data[remote.KeyCA]) == string(bundle), err
		})
	}
	follows("the provider to answer")
	old := b.AdvertisedAuthority()
	next, err := certificates.NewAuthority("the next one")
	if err != nil {
		t.Fatal(err)
	}
	patch(append(append([]byte{}, old...), next.Bundle...))
	follows("the provider to answer clients with both authorities")
	b.RotateAdvertised(t, next)
	b.proxy.Cut()
	follows("the provider to answer clients with both authorities, by the next one")
	patch(next.Bundle)
	b.proxy.Cut()
	follows("the provider to answer clients with the next authority")

	// With an outdated bundle, the consumer reports the failed verification. With the new bundle, it is
	// connected again.
	late, err := certificates.NewAuthority("too late")
	if err != nil {
		t.Fatal(err)
	}
	b.RotateAdvertised(t, late)
	b.proxy.Cut()
	until(t, "the provider to be untrusted", func(ctx context.Context) (bool, error) {
		return strings.Contains(remote.Describe(b.listRequests(ctx)), "its certificate is not trusted"), nil
	})
	patch(late.Bundle)
	follows("the provider to answer again")
}

func TestAVirtualKubeletFollowsAnAuthorityThatRotates(t *testing.T) {
	o := newOffload(t)
	proxy := o.StartProxy(t)
	o.options.Dial = proxy.Dial
	o.identify(t, byCertificate, map[string]string{"server": framework.AdvertisedServer, "proxy": framework.ProxyURL})
	o.start(t)
	o.runsOnAKubelet(t, "kept")
	shadow := o.shadow(t, "kept")
	next, err := certificates.NewAuthority("the next one")
	if err != nil {
		t.Fatal(err)
	}
	nodeIs := func(status corev1.ConditionStatus, fragment string) {
		t.Helper()
		until(t, "the node is "+string(status)+" ("+fragment+")", func(ctx context.Context) (bool, error) {
			node, err := o.Kube.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			ready := node.Status.Conditions[0]
			return ready.Status == status && strings.Contains(ready.Message, fragment), nil
		})
	}
	old := o.AdvertisedAuthority()
	o.write(t, "ca.crt", append(append([]byte{}, old...), next.Bundle...))
	o.RotateAdvertised(t, next)
	proxy.Cut()
	until(t, "a command runs in the pod", func(ctx context.Context) (bool, error) {
		return o.stream(ctx, t, "kept", []string{"true"}, remotecommand.StreamOptions{Stdout: io.Discard}) == nil, nil
	})
	o.bind(t, o.local, "after", nil)
	o.shadow(t, "after")
	nodeIs(corev1.ConditionTrue, "is reachable")

	// With an outdated bundle, the consumer reports the failed verification. With the new bundle, it is
	// connected again.
	late, err := certificates.NewAuthority("too late")
	if err != nil {
		t.Fatal(err)
	}
	o.RotateAdvertised(t, late)
	proxy.Cut()
	nodeIs(corev1.ConditionFalse, "its certificate is not trusted")
	o.write(t, "ca.crt", late.Bundle)
	nodeIs(corev1.ConditionTrue, "is reachable")
	o.bind(t, o.local, "again", nil)
	o.shadow(t, "again")
	if o.shadow(t, "kept").UID != shadow.UID {
		t.Error("the shadow pod was recreated")
	}
	if pod, err := o.Kube.CoreV1().Pods(o.local).Get(t.Context(), "kept", metav1.GetOptions{}); err != nil ||
		!isReady(pod) {
		t.Errorf("the pod was changed: %v", err)
	}
}
