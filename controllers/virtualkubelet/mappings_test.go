// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned/fake"
	federationinformers "liqo.io/federation/generated/informers/externalversions/federation/v1alpha1"
)

// mappedNetwork is what was agreed upon, with addresses that milan was given.
func mappedNetwork() *v1alpha1.VirtualNodeNetwork {
	agreed := agreedNetwork()
	agreed.Local = append(agreed.Local, v1alpha1.CIDRMapping{CIDR: "10.70.0.0/24", Mapped: "10.71.0.0/24"})
	return agreed
}

func TestAnAddressThatIsMappedIsCalledByItsMapping(t *testing.T) {
	for name, test := range map[string]struct {
		network *v1alpha1.VirtualNodeNetwork
		mapped  []string
		address string
		want    string
	}{
		"of what runs on another provider":     {mappedNetwork(), []string{"10.70.0.9"}, "10.3.0.1", "10.71.0.9"},
		"which is nothing without a mapping":   {mappedNetwork(), nil, "10.3.0.1", ""},
		"nor while its name is not agreed":     {agreedNetwork(), []string{"10.70.0.9"}, "10.3.0.1", ""},
		"nor by what cannot be read":           {mappedNetwork(), []string{"x"}, "10.3.0.1", ""},
		"the first of several that has a name": {mappedNetwork(), []string{"10.69.0.1", "10.70.0.9"}, "10.3.0.1", "10.71.0.9"},
		"before the range that it is in":       {mappedNetwork(), []string{"10.70.0.9"}, "10.0.1.1", "10.71.0.9"},
		"without a tunnel it is the same":      {nil, []string{"10.70.0.9"}, "10.3.0.1", "10.3.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			vn := &v1alpha1.VirtualNode{Status: v1alpha1.VirtualNodeStatus{Network: test.network}}
			n := &network{virtualNode: func() *v1alpha1.VirtualNode { return vn }, mapped: func(string) []string { return test.mapped }}
			if got, ok := n.there(test.address); ok != (test.want != "") || ok && got != test.want {
				t.Errorf("it is called %s, %v; want %q", got, ok, test.want)
			}
		})
	}
}

func TestMappingsAreFoundByTheirAddress(t *testing.T) {
	mapping := func(name, address, mapped string) *v1alpha1.AddressMapping {
		return &v1alpha1.AddressMapping{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: name}, Spec: v1alpha1.AddressMappingSpec{Address: address, Mapped: mapped}}
	}
	client := fake.NewSimpleClientset(mapping("b", "10.3.0.1", "10.70.0.2"), mapping("a", "10.3.0.1", "10.70.0.1"), mapping("c", "fd00::1", "fd70::1"),
		&v1alpha1.AddressMapping{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "range"}, Spec: v1alpha1.AddressMappingSpec{CIDR: "10.3.0.0/24", Mapped: "10.9.0.0/24"}})
	i := &informers{mappings: federationinformers.NewAddressMappingInformer(client, "liqo", 0, cache.Indexers{byAddress: addressOf})}
	told := make(chan string, 10)
	if _, err := i.mappings.AddEventHandler(onMapping(func(address string) { told <- address })); err != nil {
		t.Fatal(err)
	}
	go i.mappings.Run(t.Context().Done())
	var heard []string
	for range 3 {
		select {
		case address := <-told:
			heard = append(heard, address)
		case <-time.After(10 * time.Second):
			t.Fatalf("only %v are told", heard)
		}
	}
	if slices.Sort(heard); !slices.Equal(heard, []string{"10.3.0.1", "10.3.0.1", "fd00::1"}) {
		t.Errorf("told of %v", heard)
	}
	for address, want := range map[string][]string{"10.3.0.1": {"10.70.0.1", "10.70.0.2"}, "FD00:0::1": {"fd70::1"}, "10.3.0.2": nil, "x": nil} {
		if got := i.mapped(address); !slices.Equal(got, want) {
			t.Errorf("%s is mapped to %v, not %v", address, got, want)
		}
	}
	if (&informers{}).mapped("10.3.0.1") != nil {
		t.Error("where nobody said where they are, there is one")
	}
}

func TestAnEndpointOnAnotherProviderIsSentWhenItHasAnAddress(t *testing.T) {
	slice := webEndpoints()
	slice.Endpoints[0].NodeName, slice.Endpoints[0].Addresses = ptr.To("liqo-naples"), []string{"10.3.0.1"}
	r := newReflecting(t, []runtime.Object{webService(), slice}, nil)
	r.node.Store(networkedNode(metav1.ConditionTrue))
	known := make(chan struct{})
	r.view.Address = func(address string) (string, bool) {
		select {
		case <-known:
			return "10.1.0.1", address == "10.3.0.1"
		default:
			return "", false
		}
	}
	r.start(t)
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		one, ok := r.endpoints().(*endpointSliceObjects)
		return ok && one.synced(), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.awaitEndpoints(t, false)
	close(known)
	r.enqueueEndpoints("10.9.9.9")
	r.enqueueEndpoints("10.3.0.1")
	r.awaitEndpoints(t, true)
}
