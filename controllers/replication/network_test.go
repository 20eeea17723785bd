// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"context"
	"slices"
	gosync "sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/generated/informers/externalversions"
	"liqo.io/federation/test/fakes"
)

const peerNamespace, tenantNamespace = "liqo-peer-milan", "liqo-tenant-rome"

// exchange is a consumer, rome, that replicates with its provider, milan.
type exchange struct {
	rome, milan *fake.Clientset
	peers       *remote.Peers
	ctx         context.Context
}

func newExchange(t *testing.T, features ...string) *exchange {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	e := &exchange{rome: fakes.Followed(fake.NewSimpleClientset()), milan: fakes.Followed(fake.NewSimpleClientset()), ctx: ctx}
	request := newRequest("1", 1)
	request.Namespace, request.Status.Features = peerNamespace, features
	if _, err := e.rome.FederationV1alpha1().ResourceRequests(peerNamespace).Create(ctx, request, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.peers = remote.NewPeersWith(func(*remote.Identity) (*remote.Clients, error) {
		return &remote.Clients{Federation: versioned.Interface(e.milan)}, nil
	})
	informers := externalversions.NewSharedInformerFactory(e.rome, 0)
	controller, err := New(e.rome, informers, e.peers, "rome")
	if err != nil {
		t.Fatal(err)
	}
	informers.StartWithContext(ctx)
	informers.WaitForCacheSync(ctx.Done())
	var running gosync.WaitGroup
	running.Go(func() { controller.Run(ctx) })
	t.Cleanup(func() {
		e.peers.Remove("milan")
		cancel()
		running.Wait()
		informers.Shutdown()
	})
	return e
}

func (e *exchange) connect(t *testing.T) {
	t.Helper()
	if err := e.peers.Set(e.ctx, "milan", &remote.Identity{Namespace: tenantNamespace}); err != nil {
		t.Fatal(err)
	}
}

func config(namespace, name, cidr string) *v1alpha1.NetworkConfig {
	return &v1alpha1.NetworkConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1}, Spec: v1alpha1.NetworkConfigSpec{PodCIDRs: []string{cidr}},
	}
}

func (e *exchange) make(t *testing.T, where *fake.Clientset, made *v1alpha1.NetworkConfig) {
	t.Helper()
	if _, err := where.FederationV1alpha1().NetworkConfigs(made.Namespace).Create(e.ctx, made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// await waits until a network configuration is as it should be; nil is gone.
func (e *exchange) await(t *testing.T, what string, where *fake.Clientset, namespace, name string, is func(*v1alpha1.NetworkConfig) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		found, err := where.FederationV1alpha1().NetworkConfigs(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return is == nil, nil
		}
		return err == nil && is != nil && is(found), err
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func answer(t *testing.T, e *exchange, where *fake.Clientset, namespace, name, cidr, mapped string) {
	t.Helper()
	client := where.FederationV1alpha1().NetworkConfigs(namespace)
	found, err := client.Get(e.ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found.Status = v1alpha1.NetworkConfigStatus{ObservedGeneration: 1, CIDRs: []v1alpha1.CIDRMapping{{CIDR: cidr, Mapped: mapped}}}
	if _, err := client.UpdateStatus(e.ctx, found, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestNetworkConfigsGoBothWaysAndTheirAnswersBack(t *testing.T) {
	e := newExchange(t, compatibility.FeatureTunnel)
	e.make(t, e.milan, config(tenantNamespace, v1alpha1.NetworkConfigOfProvider, "10.2.0.0/16"))
	e.connect(t)
	own := config(peerNamespace, v1alpha1.NetworkConfigOfConsumer, "10.1.0.0/16")
	e.make(t, e.rome, own)
	e.await(t, "the consumer's is written there", e.milan, tenantNamespace, v1alpha1.NetworkConfigOfConsumer, func(c *v1alpha1.NetworkConfig) bool {
		return slices.Equal(c.Spec.PodCIDRs, own.Spec.PodCIDRs)
	})
	e.await(t, "the provider's is mirrored", e.rome, peerNamespace, v1alpha1.NetworkConfigOfProvider, func(c *v1alpha1.NetworkConfig) bool {
		return slices.Equal(c.Spec.PodCIDRs, []string{"10.2.0.0/16"})
	})
	answered := func(mapped string) func(*v1alpha1.NetworkConfig) bool {
		return func(c *v1alpha1.NetworkConfig) bool {
			return len(c.Status.CIDRs) == 1 && c.Status.CIDRs[0].Mapped == mapped
		}
	}
	answer(t, e, e.milan, tenantNamespace, v1alpha1.NetworkConfigOfConsumer, "10.1.0.0/16", "10.9.0.0/16")
	e.await(t, "the provider's answer comes back", e.rome, peerNamespace, v1alpha1.NetworkConfigOfConsumer, answered("10.9.0.0/16"))
	answer(t, e, e.rome, peerNamespace, v1alpha1.NetworkConfigOfProvider, "10.2.0.0/16", "10.8.0.0/16")
	e.await(t, "the consumer's answer goes there", e.milan, tenantNamespace, v1alpha1.NetworkConfigOfProvider, answered("10.8.0.0/16"))

	if err := e.rome.FederationV1alpha1().NetworkConfigs(peerNamespace).Delete(e.ctx, v1alpha1.NetworkConfigOfConsumer, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.await(t, "the copy goes with it", e.milan, tenantNamespace, v1alpha1.NetworkConfigOfConsumer, nil)
	e.await(t, "so does the mirror", e.rome, peerNamespace, v1alpha1.NetworkConfigOfProvider, nil)
	if _, err := e.milan.FederationV1alpha1().NetworkConfigs(tenantNamespace).Get(e.ctx, v1alpha1.NetworkConfigOfProvider, metav1.GetOptions{}); err != nil {
		t.Errorf("the provider's own: %v", err)
	}
}

// As when the process ended after it had removed its own, and before the copy.
// Who is of a version without backends keeps none, and still has the same copy: as
// long as it seems another one, no answer is carried back.
func TestACopyThatKeepsNoBackendIsTheSame(t *testing.T) {
	spec := func(cidr string, backend v1alpha1.NetworkBackend) v1alpha1.NetworkConfigSpec {
		return v1alpha1.NetworkConfigSpec{PodCIDRs: []string{cidr}, Backend: backend}
	}
	own := spec("10.0.0.0/16", v1alpha1.BackendWireGuard)
	for name, test := range map[string]struct {
		copied v1alpha1.NetworkConfigSpec
		want   bool
	}{
		"of the same version":     {own, true},
		"of one without backends": {spec("10.0.0.0/16", ""), true},
		"with another backend":    {spec("10.0.0.0/16", "IPsec"), false},
		"of another network":      {spec("10.1.0.0/16", ""), false},
	} {
		if networkKind.same(own, test.copied) != test.want || networkKind.same(test.copied, own) != test.want {
			t.Errorf("%s: it is not told", name)
		}
	}
}

func TestACopyThatWasLeftThereGoesWithTheNextConnection(t *testing.T) {
	e := newExchange(t, compatibility.FeatureTunnel)
	e.make(t, e.milan, config(tenantNamespace, v1alpha1.NetworkConfigOfConsumer, "10.1.0.0/16"))
	e.make(t, e.rome, config(peerNamespace, v1alpha1.NetworkConfigOfProvider, "10.2.0.0/16"))
	e.connect(t)
	e.await(t, "the copy", e.milan, tenantNamespace, v1alpha1.NetworkConfigOfConsumer, nil)
	e.await(t, "the mirror", e.rome, peerNamespace, v1alpha1.NetworkConfigOfProvider, nil)
	for _, action := range e.milan.Actions() {
		if action.GetResource().Resource == "networkconfigs" && (action.GetVerb() == "list" || action.GetVerb() == "watch") {
			t.Errorf("without a tunnel there is a %s", action.GetVerb())
		}
	}
}

func TestAProviderThatKnowsNoTunnelsIsNotAskedForAny(t *testing.T) {
	e := newExchange(t)
	e.make(t, e.rome, config(peerNamespace, v1alpha1.NetworkConfigOfProvider, "10.2.0.0/16"))
	e.connect(t)
	e.await(t, "the mirror goes", e.rome, peerNamespace, v1alpha1.NetworkConfigOfProvider, nil)
	for _, action := range e.milan.Actions() {
		if action.GetResource().Resource == "networkconfigs" {
			t.Errorf("there is a %s of network configurations", action.GetVerb())
		}
	}
}

func TestAnAnswerOfAStrangerIsWholeOrNone(t *testing.T) {
	status := v1alpha1.NetworkConfigStatus{ObservedGeneration: -3, CIDRs: []v1alpha1.CIDRMapping{{CIDR: "10.1.0.0/16", Mapped: "10.9.0.0/16"}, {CIDR: "10.2.0.0/16", Mapped: "0.0.0.0/0"}}}
	networkKind.cleanStatus(&status)
	if status.ObservedGeneration != 0 || status.CIDRs != nil {
		t.Errorf("what is left is %+v", status)
	}
}
