// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/registry/federation/reservation/addressrange"
	"liqo.io/federation/registry/federation/subresource/subresourcetest"
	"liqo.io/federation/test/concurrent"
	"liqo.io/federation/test/integration/framework"
)

// fastClient returns a client without a rate limit.
func fastClient(t *testing.T, config *rest.Config) versioned.Interface {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	return federationOf(t, config)
}

func makePool(t *testing.T, federation versioned.Interface, name string, cidrs []string, reserved ...string) {
	t.Helper()
	must(t)(federation.FederationV1alpha1().AddressPools().Create(t.Context(), &v1alpha1.AddressPool{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.AddressPoolSpec{CIDRs: cidrs, Reserved: reserved},
	}, metav1.CreateOptions{}))
}

// awaitPool waits until the status of an AddressPool meets a condition.
func awaitPool(t *testing.T, federation versioned.Interface, name string, is func(v1alpha1.AddressPoolStatus) bool) {
	t.Helper()
	until(t, "the status of address pool "+name, func(ctx context.Context) (bool, error) {
		pool, err := federation.FederationV1alpha1().AddressPools().Get(ctx, name, metav1.GetOptions{})
		return err == nil && is(pool.Status), err
	})
}

func addressMapping(name, pool, what string) *v1alpha1.AddressMapping {
	m := &v1alpha1.AddressMapping{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.AddressMappingSpec{ClusterID: thatID, Pool: pool}}
	if strings.Contains(what, "/") {
		m.Spec.CIDR = what
	} else {
		m.Spec.Address = what
		m.Spec.Ports = []v1alpha1.AddressMappingPort{{Port: 443}}
	}
	return m
}

// expectDisjoint fails the test if two AddressMappings overlap, and returns the number of mappings.
func expectDisjoint(t *testing.T, federation versioned.Interface) int {
	t.Helper()
	list, err := federation.FederationV1alpha1().AddressMappings(metav1.NamespaceAll).List(t.Context(),
		metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[netip.Prefix]string{}
	for _, m := range list.Items {
		text := m.Spec.Mapped
		if m.Spec.Address != "" {
			text = netip.PrefixFrom(netip.MustParseAddr(text), netip.MustParseAddr(text).BitLen()).String()
		}
		prefix := netip.MustParsePrefix(text)
		for other, name := range found {
			if other.Overlaps(prefix) {
				t.Errorf("%s has %s, and %s has %s", name, other, m.Name, prefix)
			}
		}
		found[prefix] = m.Name
	}
	return len(found)
}

func TestAddressesAreAllocatedWhenAMappingIsCreated(t *testing.T) {
	env := framework.Get(t)
	federation := admin(t)
	namespace := env.MakeNamespace(t)
	scope := "--namespace=" + namespace
	makePool(t, federation, "bergamo", []string{"10.0.0.0/8", "fd00:10::/32"}, "10.244.0.0/16", "10.96.0.0/12")
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := federation.FederationV1alpha1().AddressPools().Delete(ctx, "bergamo", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if err := federation.FederationV1alpha1().AddressMappings(namespace).DeleteCollection(ctx, metav1.DeleteOptions{},
			metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	})
	manifest := func(name, spec string) string {
		return fmt.Sprintf(
			`{"apiVersion":"federation.liqo.io/v1alpha1","kind":"AddressMapping","metadata":{"name":%q},`+
				`"spec":{"clusterID":%q,"pool":"bergamo",%s}}`, name, thatID, spec)
	}
	mapped := func(name string) string {
		return env.Kubectl(t, "", "get", "am", name, scope, "-o", "jsonpath={.spec.mapped}")
	}

	if got := env.Kubectl(t, manifest("pods", `"cidr":"10.244.0.0/16"`), "create", scope, "-f", "-", "--dry-run=server",
		"-o", "jsonpath={.spec.mapped}"); got != "10.255.0.0/16" {
		t.Errorf("a dry run returns %s", got)
	}
	if got := env.Kubectl(t, "", "get", "am", scope, "-o", "name"); got != "" {
		t.Errorf("a dry run wrote %s", got)
	}
	for _, test := range []struct{ name, spec, want string }{
		{"pods", `"cidr":"10.244.0.0/16"`, "10.255.0.0/16"},
		{"services", `"cidr":"172.30.0.0/16"`, "172.30.0.0/16"},
		{"api", `"address":"192.0.2.1","ports":[{"port":443}]`, "10.254.240.0/20"},
		{"six", `"address":"2001:db8::1","ports":[{"protocol":"UDP","port":53}]`, "fd00:10:ffff:ffff:ffff:ffff:ffff:f000/116"},
	} {
		for range 2 {
			env.Kubectl(t, manifest(test.name, test.spec), "apply", scope, "-f", "-")
			env.Kubectl(t, manifest(test.name, test.spec), "apply", "--server-side", "--force-conflicts", scope, "-f", "-")
			got := mapped(test.name)
			if !within(t, test.want, got) {
				t.Errorf("%s is mapped to %s, not %s", test.name, got, test.want)
			}
			test.want = got
		}
	}
	lines := strings.Split(strings.TrimSpace(env.Kubectl(t, "", "get", "addressmappings", "pods", scope, "-o",
		"wide")), "\n")
	if diff := cmp.Diff([]string{"NAME", "MAPS", "TO", "POOL", "AGE", "PORTS", "CLUSTER ID"},
		columns(lines[0])); diff != "" {
		t.Errorf("the header differs (-want +got):\n%s", diff)
	}
	if cells := columns(lines[1]); len(cells) != 7 || cells[1] != "10.244.0.0/16" || cells[2] != "10.255.0.0/16" ||
		cells[3] != "bergamo" || cells[5] != "<all>" || cells[6] != thatID {
		t.Errorf("the row is %q", cells)
	}
	awaitPool(t, federation, "bergamo", func(status v1alpha1.AddressPoolStatus) bool { return status.Mappings == 4 })
	lines = strings.Split(strings.TrimSpace(env.Kubectl(t, "", "get", "apool", "bergamo", "-o", "wide")), "\n")
	if diff := cmp.Diff([]string{"NAME", "CIDRS", "USED", "MAPPINGS", "AGE", "LARGEST FREE"},
		columns(lines[0])); diff != "" {
		t.Errorf("the header differs (-want +got):\n%s", diff)
	}
	if cells := columns(lines[1]); len(cells) != 6 || cells[2] != "7%,0%" || cells[3] != "4" ||
		cells[5] != "10.128.0.0/10,fd00:10::/33" {
		t.Errorf("the row is %q", cells)
	}
	if got := env.Kubectl(t, "", "get", "am", scope, "--field-selector=spec.pool=bergamo,spec.clusterID="+thatID, "-o",
		"name"); strings.Count(got, "addressmapping.federation") != 4 {
		t.Errorf("selected are %s", got)
	}

	mappings := federation.FederationV1alpha1().AddressMappings(namespace)
	_, err := mappings.Patch(t.Context(), "pods", types.MergePatchType, []byte(`{"spec":{"mapped":"10.1.0.0/16"}}`),
		metav1.PatchOptions{})
	expectCause(t, err, "spec")
	withoutPorts := addressMapping("wrong", "bergamo", "192.0.2.1")
	withoutPorts.Spec.Ports = nil
	for field, m := range map[string]*v1alpha1.AddressMapping{
		"spec.ports":   withoutPorts,
		"spec.cidr":    addressMapping("wrong", "bergamo", "0.0.0.0/0"),
		"spec.address": addressMapping("wrong", "bergamo", "169.254.169.254"),
		"spec.pool":    addressMapping("wrong", "nowhere", "192.0.2.1"),
	} {
		_, err := mappings.Create(t.Context(), m, metav1.CreateOptions{})
		expectCause(t, err, field)
	}
	_, err = mappings.Create(t.Context(), addressMapping("larger", "bergamo", "fd00::/16"), metav1.CreateOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusForbidden,
		"AddressPool bergamo: it has no free IPv6 range of the size /16 left")
	must(t)(nil, mappings.Delete(t.Context(), "pods", metav1.DeleteOptions{}))
	env.Kubectl(t, manifest("others", `"cidr":"10.244.0.0/16"`), "apply", scope, "-f", "-")
	if got := mapped("others"); got != "10.255.0.0/16" {
		t.Errorf("got %s, want the released address", got)
	}
}

func TestTwoServersNeverGiveAnAddressTwice(t *testing.T) {
	env := framework.Get(t)
	etcd := env.StartEtcd(t, 1)
	var federations []versioned.Interface
	for range 2 {
		server := env.StartServer(t, env.MakeDataDir(t), etcd.ServerArgs()...)
		federations = append(federations, fastClient(t, server.Client(env.Admin)))
	}
	namespace := env.MakeNamespace(t)
	makePool(t, federations[0], "default", []string{"10.0.0.0/25"})
	created, refused := concurrent.Create(t, 32, 5, func(w, i int) error {
		mapping := addressMapping(fmt.Sprintf("w%d-%d", w, i), "", "192.0.2.1")
		_, err := federations[(w+i)%2].FederationV1alpha1().AddressMappings(namespace).
			Create(t.Context(), mapping, metav1.CreateOptions{})
		return err
	})
	if created != 128 || refused != 32 {
		t.Errorf("%d are created and %d refused, of 128 addresses", created, refused)
	}
	if n := expectDisjoint(t, federations[1]); n != 128 {
		t.Errorf("%d exist", n)
	}
}

func TestNoAddressIsGivenTwiceOrLostWhenTheServerIsKilled(t *testing.T) {
	env := framework.Get(t)
	server := env.StartServer(t, env.MakeDataDir(t))
	federation := fastClient(t, server.Client(env.Admin))
	namespace := env.MakeNamespace(t)
	mappings := federation.FederationV1alpha1().AddressMappings(namespace)
	const size = 64
	makePool(t, federation, "default", []string{"10.0.0.0/26"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writers sync.WaitGroup
	var turns atomic.Int64
	for w := range 16 {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("w%d-%d", w, i)
				if _, err := mappings.Create(ctx, addressMapping(name, "", "192.0.2.1"),
					metav1.CreateOptions{}); err == nil && i%2 == 0 {
					_ = mappings.Delete(ctx, name, metav1.DeleteOptions{})
				}
				turns.Add(1)
			}
		})
	}
	for range 3 {
		before := turns.Load()
		until(t, "the writers run", func(context.Context) (bool, error) { return turns.Load() > before+10, nil })
		server.Stop(t, syscall.SIGKILL)
		server.Start(t)
	}
	cancel()
	writers.Wait()
	expectDisjoint(t, federation)

	// Reservations of failed requests must be released, so that the remaining addresses can be
	// allocated.
	rest := 0
	until(t, "the pool is exhausted", func(ctx context.Context) (bool, error) {
		_, err := mappings.Create(ctx, addressMapping(fmt.Sprintf("rest-%d", rest), "", "192.0.2.1"), metav1.CreateOptions{})
		rest++
		if err != nil && !apierrors.IsForbidden(err) {
			return false, err
		}
		list, err := mappings.List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == size, err
	})
	expectDisjoint(t, federation)
	_, err := mappings.Create(t.Context(), addressMapping("one-too-many", "", "192.0.2.1"), metav1.CreateOptions{})
	subresourcetest.ExpectStatus(t, err, http.StatusForbidden,
		"AddressPool default: it has no free IPv4 range of the size /32 left")
	awaitPool(t, federation, "default", func(status v1alpha1.AddressPoolStatus) bool {
		return status.Mappings == size && len(status.CIDRs) == 1 && status.CIDRs[0].UsedPercent == 100
	})
}

// within reports whether the CIDR or address got is contained in the CIDR wanted.
func within(t *testing.T, wanted, got string) bool {
	t.Helper()
	around, err := addressrange.Prefix(wanted)
	if err != nil {
		t.Fatal(err)
	}
	prefix, err := addressrange.Prefix(got)
	return err == nil && around.Bits() <= prefix.Bits() && around.Contains(prefix.Addr())
}
