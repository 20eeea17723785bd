// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/controllers/kit/kittest"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/generated/clientset/versioned/fake"
	"liqo.io/federation/test/fakes"
)

const peerNamespace, tenantNamespace = "liqo-peer-milan", "liqo-tenant-rome"

// exchange is the fake consumer rome that replicates NetworkConfigs with its provider milan.
type exchange struct {
	rome  *kittest.Cluster
	milan *fake.Clientset
	peers *remote.Peers
	ctx   context.Context
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func newExchange(t *testing.T, features ...string) *exchange {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	request := newRequest("1", 1)
	request.Namespace, request.Status.Features = peerNamespace, features
	e := &exchange{
		rome: kittest.New(t, request), milan: fakes.Followed(fake.NewSimpleClientset()), ctx: ctx,
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()),
	}
	e.peers = remote.NewPeersWith(func(*remote.Identity) (*remote.Clients, error) {
		return &remote.Clients{Federation: versioned.Interface(e.milan)}, nil
	})
	replicator := &Replicator{Client: e.rome.Controller, Peers: e.peers, ClusterName: "rome"}
	reconciler := newReconciler(replicator, newNetworkPairs(replicator))
	reconciler.follow(e)
	changes, err := e.rome.Watch(ctx, &v1alpha1.NetworkConfigList{})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for change := range changes.ResultChan() {
			for _, request := range reconciler.requestsOf(ctx, change.Object.(client.Object)) {
				e.queue.Add(request)
			}
		}
	})
	running.Go(func() { e.reconcile(t, reconciler) })
	t.Cleanup(func() {
		e.peers.Remove("milan")
		cancel()
		changes.Stop()
		e.queue.ShutDown()
		running.Wait()
	})
	return e
}

// Watch starts a source, as the controller does. It implements watcher.
func (e *exchange) Watch(source source.Source) error { return source.Start(e.ctx, e.queue) }

// reconcile reconciles the requests in the queue, as the controller does.
func (e *exchange) reconcile(t *testing.T, reconciler *reconciler) {
	for {
		request, shutDown := e.queue.Get()
		if shutDown {
			return
		}
		result, err := reconciler.Reconcile(e.ctx, request)
		switch {
		case err != nil:
			if !errors.Is(err, context.Canceled) {
				t.Logf("%s: %v", request, err)
			}
			e.queue.AddRateLimited(request)
		case result.RequeueAfter > 0:
			e.queue.AddAfter(request, result.RequeueAfter)
		}
		e.queue.Done(request)
	}
}

func (e *exchange) connect(t *testing.T) {
	t.Helper()
	if err := e.peers.Set(e.ctx, "milan", &remote.Identity{Namespace: tenantNamespace}); err != nil {
		t.Fatal(err)
	}
}

func config(namespace, name, cidr string) *v1alpha1.NetworkConfig {
	return &v1alpha1.NetworkConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1},
		Spec:       v1alpha1.NetworkConfigSpec{PodCIDRs: []string{cidr}},
	}
}

func (e *exchange) createAtRome(t *testing.T, created *v1alpha1.NetworkConfig) {
	t.Helper()
	if err := e.rome.Create(e.ctx, created); err != nil {
		t.Fatal(err)
	}
}

func (e *exchange) createAtMilan(t *testing.T, created *v1alpha1.NetworkConfig) {
	t.Helper()
	if _, err := e.milan.FederationV1alpha1().NetworkConfigs(tenantNamespace).Create(e.ctx, created,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (e *exchange) readAtRome(name string) (*v1alpha1.NetworkConfig, error) {
	found := &v1alpha1.NetworkConfig{}
	return found, e.rome.Get(e.ctx, client.ObjectKey{Namespace: peerNamespace, Name: name}, found)
}

func (e *exchange) readAtMilan(name string) (*v1alpha1.NetworkConfig, error) {
	return e.milan.FederationV1alpha1().NetworkConfigs(tenantNamespace).Get(e.ctx, name, metav1.GetOptions{})
}

// await waits until a network configuration is as expected; nil expects that it does not exist.
func (e *exchange) await(
	t *testing.T,
	what string,
	read func(name string) (*v1alpha1.NetworkConfig, error),
	name string,
	is func(*v1alpha1.NetworkConfig) bool,
) {
	t.Helper()
	err := kittest.Poll(t, func(context.Context) (bool, error) {
		found, err := read(name)
		if apierrors.IsNotFound(err) {
			return is == nil, nil
		}
		return err == nil && is != nil && is(found), err
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// remapping is the status of a network configuration.
func remapping(cidr, mapped string) v1alpha1.NetworkConfigStatus {
	return v1alpha1.NetworkConfigStatus{ObservedGeneration: 1, CIDRs: []v1alpha1.CIDRMapping{{CIDR: cidr, Mapped: mapped}}}
}

func TestNetworkConfigsAreCopiedInBothDirectionsAndTheirStatusBack(t *testing.T) {
	e := newExchange(t, compatibility.FeatureTunnel)
	e.createAtMilan(t, config(tenantNamespace, v1alpha1.NetworkConfigOfProvider, "10.2.0.0/16"))
	e.connect(t)
	own := config(peerNamespace, v1alpha1.NetworkConfigOfConsumer, "10.1.0.0/16")
	e.createAtRome(t, own)
	e.await(
		t,
		"the copy of the consumer's",
		e.readAtMilan,
		v1alpha1.NetworkConfigOfConsumer,
		func(c *v1alpha1.NetworkConfig) bool {
			return slices.Equal(c.Spec.PodCIDRs, own.Spec.PodCIDRs)
		},
	)
	e.await(
		t,
		"the mirror of the provider's",
		e.readAtRome,
		v1alpha1.NetworkConfigOfProvider,
		func(c *v1alpha1.NetworkConfig) bool {
			return slices.Equal(c.Spec.PodCIDRs, []string{"10.2.0.0/16"})
		},
	)
	answered := func(mapped string) func(*v1alpha1.NetworkConfig) bool {
		return func(c *v1alpha1.NetworkConfig) bool {
			return len(c.Status.CIDRs) == 1 && c.Status.CIDRs[0].Mapped == mapped
		}
	}
	copied, err := e.readAtMilan(v1alpha1.NetworkConfigOfConsumer)
	if err != nil {
		t.Fatal(err)
	}
	copied.Status = remapping("10.1.0.0/16", "10.9.0.0/16")
	if _, err := e.milan.FederationV1alpha1().NetworkConfigs(tenantNamespace).UpdateStatus(e.ctx, copied,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.await(t, "the provider's status", e.readAtRome, v1alpha1.NetworkConfigOfConsumer, answered("10.9.0.0/16"))
	kittest.Change(
		e.rome,
		peerNamespace,
		v1alpha1.NetworkConfigOfProvider,
		&v1alpha1.NetworkConfig{},
		func(c *v1alpha1.NetworkConfig) {
			c.Status = remapping("10.2.0.0/16", "10.8.0.0/16")
		},
	)
	e.await(t, "the consumer's status", e.readAtMilan, v1alpha1.NetworkConfigOfProvider, answered("10.8.0.0/16"))

	if err := e.rome.Delete(e.ctx, config(peerNamespace, v1alpha1.NetworkConfigOfConsumer, "")); err != nil {
		t.Fatal(err)
	}
	e.await(t, "the deletion of the copy", e.readAtMilan, v1alpha1.NetworkConfigOfConsumer, nil)
	e.await(t, "the deletion of the mirror", e.readAtRome, v1alpha1.NetworkConfigOfProvider, nil)
	if _, err := e.readAtMilan(v1alpha1.NetworkConfigOfProvider); err != nil {
		t.Errorf("the provider's own: %v", err)
	}
}

// A cluster of a version without the field backend does not store it. That must not count as a difference,
// because no status is copied back while the copies differ.
func TestCopyWithoutBackendIsTheSame(t *testing.T) {
	spec := func(cidr string, backend v1alpha1.NetworkBackend) v1alpha1.NetworkConfigSpec {
		return v1alpha1.NetworkConfigSpec{PodCIDRs: []string{cidr}, Backend: backend}
	}
	own := spec("10.0.0.0/16", v1alpha1.BackendWireGuard)
	networks := newNetworkPairs(nil)
	for name, test := range map[string]struct {
		copied v1alpha1.NetworkConfigSpec
		want   bool
	}{
		"of the same version":     {own, true},
		"of one without backends": {spec("10.0.0.0/16", ""), true},
		"with another backend":    {spec("10.0.0.0/16", "IPsec"), false},
		"of another network":      {spec("10.1.0.0/16", ""), false},
	} {
		if sameSpec(networks, own, test.copied) != test.want || sameSpec(networks, test.copied, own) != test.want {
			t.Errorf("%s: same is not %t", name, test.want)
		}
	}
}

// An earlier process may have ended after it deleted the local object, and before it deleted the copy.
func TestCopyOfAnEarlierProcessIsDeletedAtTheNextConnection(t *testing.T) {
	e := newExchange(t, compatibility.FeatureTunnel)
	left := config(tenantNamespace, v1alpha1.NetworkConfigOfConsumer, "10.1.0.0/16")
	left.UID = "left"
	e.createAtMilan(t, left)
	e.createAtRome(t, config(peerNamespace, v1alpha1.NetworkConfigOfProvider, "10.2.0.0/16"))
	e.connect(t)
	e.await(t, "the deletion of the copy", e.readAtMilan, v1alpha1.NetworkConfigOfConsumer, nil)
	e.await(t, "the deletion of the mirror", e.readAtRome, v1alpha1.NetworkConfigOfProvider, nil)
	for _, action := range e.milan.Actions() {
		if action.GetResource().Resource == "networkconfigs" && (action.GetVerb() == "list" || action.GetVerb() == "watch") {
			t.Errorf("without a tunnel there is a %s", action.GetVerb())
		}
		if deletion, ok := action.(clienttesting.DeleteActionImpl); ok {
			if required := deletion.DeleteOptions.Preconditions; required == nil || *required.UID != left.UID {
				t.Errorf("the deletion requires %v, and not the UID of the copy", required)
			}
		}
	}
}

func TestProviderWithoutTunnelsReceivesNoRequests(t *testing.T) {
	e := newExchange(t)
	e.createAtRome(t, config(peerNamespace, v1alpha1.NetworkConfigOfProvider, "10.2.0.0/16"))
	e.connect(t)
	e.await(t, "the deletion of the mirror", e.readAtRome, v1alpha1.NetworkConfigOfProvider, nil)
	for _, action := range e.milan.Actions() {
		if action.GetResource().Resource == "networkconfigs" {
			t.Errorf("there is a %s of network configurations", action.GetVerb())
		}
	}
}

func TestStatusOfAPeerIsCopiedAsAWhole(t *testing.T) {
	status := v1alpha1.NetworkConfigStatus{
		ObservedGeneration: -3,
		CIDRs: []v1alpha1.CIDRMapping{
			{CIDR: "10.1.0.0/16", Mapped: "10.9.0.0/16"},
			{CIDR: "10.2.0.0/16", Mapped: "0.0.0.0/0"},
		},
	}
	newNetworkPairs(nil).clean(&status)
	if status.ObservedGeneration != 0 || status.CIDRs != nil {
		t.Errorf("the rest is %+v", status)
	}
}
