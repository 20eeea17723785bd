// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package naming

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

var (
	namespaceNames = rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`)
	clusterNames   = rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?`)
	clusterIDs     = rapid.StringMatching(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
)

func TestRemoteNamespaceIsAValidName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := UniqueRemoteNamespace(namespaceNames.Draw(t, "namespace"), clusterNames.Draw(t, "cluster"),
			clusterIDs.Draw(t, "id"))
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			t.Fatalf("%q: %v", name, problems)
		}
	})
}

func TestRemoteNamespaceOfAnotherNamespaceOrClusterDiffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type origin struct{ namespace, cluster, id string }
		a := origin{namespaceNames.Draw(t, "namespace"), clusterNames.Draw(t, "cluster"), clusterIDs.Draw(t, "id")}
		b := a
		if rapid.Bool().Draw(t, "other namespace") {
			b.namespace = namespaceNames.Draw(t, "namespace")
		} else {
			b.id = clusterIDs.Draw(t, "id")
		}
		one := UniqueRemoteNamespace(a.namespace, a.cluster, a.id)
		two := UniqueRemoteNamespace(b.namespace, b.cluster, b.id)
		if (one == two) != (a == b) {
			t.Fatalf("%+v → %s, %+v → %s", a, one, b, two)
		}
	})
}

func TestRemoteNamespaceFollowsTheMappingStrategy(t *testing.T) {
	const id = "a6ae4b0c-6d5b-4d4c-8f3a-0123456789ab"
	for _, test := range []struct {
		name      string
		namespace string
		spec      v1alpha1.NamespaceOffloadingSpec
		want      string
	}{
		{"unique by default", "shop", v1alpha1.NamespaceOffloadingSpec{NamespaceMappingStrategy: v1alpha1.DefaultName}, "shop-rome-" + ShortID(id)},
		{"the same with EnforceSameName", "shop", v1alpha1.NamespaceOffloadingSpec{NamespaceMappingStrategy: v1alpha1.EnforceSameName}, "shop"},
		{"another with SelectedName", "shop", v1alpha1.NamespaceOffloadingSpec{NamespaceMappingStrategy: v1alpha1.SelectedName, RemoteNamespaceName: "store"}, "store"},
		{"unique without a strategy", "shop", v1alpha1.NamespaceOffloadingSpec{}, "shop-rome-" + ShortID(id)},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := RemoteNamespace(test.namespace, &test.spec, "rome", id); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestLongRemoteNamespaceKeepsTheBeginning(t *testing.T) {
	namespace := strings.Repeat("a", 63)
	name := UniqueRemoteNamespace(namespace, "rome", "id")
	if len(name) != 63 || !strings.HasPrefix(name, "aaaaaaaa") || !strings.HasSuffix(name, ShortID("id")) {
		t.Errorf("got %s", name)
	}
}

func TestTenantAndPeerNamespacesAreDistinguished(t *testing.T) {
	tenant, peer := TenantNamespace("milan"), PeerNamespace("milan")
	if !IsTenantNamespace(tenant) || IsTenantNamespace(peer) || !IsPeerNamespace(peer) || IsPeerNamespace(tenant) {
		t.Errorf("tenant %s and peer %s are mixed up", tenant, peer)
	}
	for namespace, want := range map[string]string{tenant: "milan", peer: "milan", "shop": "", "liqo": ""} {
		if got := ForeignClusterOf(namespace); got != want {
			t.Errorf("namespace %s is of %q, want %q", namespace, got, want)
		}
	}
}

func TestReservedNamesAreRefused(t *testing.T) {
	for name, refused := range map[string]bool{
		"bakery":                false,
		"shop-of-rome":          false,
		"shop":                  true,
		"com":                   true,
		"org":                   true,
		"io":                    true,
		"uk":                    true,
		"arpa":                  true,
		"np":                    true,
		"ck":                    true,
		"xn--p1ai":              true,
		"xn--new-to-the-list":   true,
		"internal":              true,
		"svc":                   true,
		"local":                 true,
		"github":                false,
		"liqo-demo":             false,
		"defaults":              false,
		"default":               true,
		"kube-system":           true,
		"kube-public-rome-1234": true,
		"openshift-monitoring":  true,
		"liqo":                  true,
		"liqo-tenant-venice":    true,
		"liqo-peer-venice":      true,
		"installed":             true,
		"Shop":                  true,
		"a/b":                   true,
		"..":                    true,
		"":                      true,
		strings.Repeat("a", 64): true,
	} {
		err := errors.Join(RefuseRemoteNamespace(name, "installed"), RefuseDomain(name))
		if (err != nil) != refused {
			t.Errorf("%q: refused is %v, got %v", name, refused, err)
		}
	}
}
