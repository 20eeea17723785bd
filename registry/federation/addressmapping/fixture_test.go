// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package addressmapping

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/reservation/addressrange"
	"liqo.io/federation/registry/federation/resource"
	"liqo.io/federation/registry/federation/store"
	"liqo.io/federation/test/registrytest"
)

const (
	namespace = "liqo-tenant-milan"
	milanID   = "3f1ad3a5-3c5c-4b8e-9a6e-0b9d6c1f7a11"
)

// server is an API server in a test. Several may use the same etcd.
type server struct {
	mappings  *REST
	pools     *store.REST
	addresses *addressrange.Addresses
	stop      func()
}

func start(t testing.TB, endpoint string, alone bool) *server {
	t.Helper()
	scheme, options := registrytest.Options(endpoint)
	s := &server{}
	var err error
	if s.addresses, err = addressrange.Open(options, alone); err != nil {
		t.Fatal(err)
	}
	var status *store.StatusREST
	if s.pools, status, err = resource.AddressPools.Storage(scheme, options); err != nil {
		t.Fatal(err)
	}
	if s.mappings, err = New(scheme, options, s.addresses); err != nil {
		t.Fatal(err)
	}
	s.stop = registrytest.Run(t, s.addresses, []interface{ Destroy() }{s.mappings, s.pools},
		func(ctx context.Context) { s.addresses.Run(ctx, s.mappings) },
		func(ctx context.Context) { s.addresses.Report(ctx, s.pools, status) })
	return s
}

func (s *server) pool(t testing.TB, name string, cidrs []string, reserved ...string) {
	t.Helper()
	_, err := s.pools.Create(genericapirequest.WithNamespace(t.Context(), metav1.NamespaceNone), &federation.AddressPool{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: federation.AddressPoolSpec{CIDRs: cidrs, Reserved: reserved},
	}, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func mapping(name, what string) *federation.AddressMapping {
	m := &federation.AddressMapping{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       federation.AddressMappingSpec{ClusterID: milanID, Pool: "default", CIDR: what},
	}
	if !strings.Contains(what, "/") {
		m.Spec.CIDR, m.Spec.Address = "", what
		m.Spec.Ports = []federation.AddressMappingPort{{Protocol: corev1.ProtocolTCP, Port: 443}}
	}
	return m
}

func in(ctx context.Context) context.Context {
	return genericapirequest.WithNamespace(ctx, namespace)
}

func (s *server) create(ctx context.Context, m *federation.AddressMapping, dryRun ...string) (string, error) {
	created, err := s.mappings.Create(in(ctx), m, rest.ValidateAllObjectFunc, &metav1.CreateOptions{DryRun: dryRun})
	if err != nil {
		return "", err
	}
	return created.(*federation.AddressMapping).Spec.Mapped, nil
}

// mustMap creates a mapping of what, a CIDR or an address, and returns the range that replaces it. The test fails if
// this range is not within requested.
func (s *server) mustMap(t testing.TB, name, what, requested string) string {
	t.Helper()
	mapped, err := s.create(t.Context(), mapping(name, what))
	if err != nil {
		t.Fatalf("map %s: %v", what, err)
	}
	got, want := prefixOf(t, mapped), prefixOf(t, requested)
	if got.Bits() < want.Bits() || !want.Contains(got.Addr()) {
		t.Fatalf("%s is mapped to %s, want %s", what, mapped, requested)
	}
	return mapped
}

func prefixOf(t testing.TB, text string) netip.Prefix {
	t.Helper()
	prefix, err := addressrange.Prefix(text)
	if err != nil {
		t.Fatal(err)
	}
	return prefix
}

func (s *server) delete(t testing.TB, name string) {
	t.Helper()
	if _, _, err := s.mappings.Delete(in(t.Context()), name, rest.ValidateAllObjectFunc,
		&metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func expectRefusal(t testing.TB, err error, code int32, cause metav1.CauseType, message string) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != code || !strings.Contains(err.Error(), message) {
		t.Fatalf("got %v, want code %d with the message %q", err, code, message)
	}
	if causes := status.Status().Details.Causes; len(causes) != 1 || causes[0].Type != cause || causes[0].Field == "" ||
		causes[0].Message == "" {
		t.Errorf("causes %+v", causes)
	}
}

// all returns the names of all mappings by the ranges that replace the mapped ones. It reports a test error if two of
// these ranges overlap.
func (s *server) all(t testing.TB) map[netip.Prefix]string {
	t.Helper()
	list, err := s.mappings.List(in(t.Context()), &internalversion.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[netip.Prefix]string{}
	for _, m := range list.(*federation.AddressMappingList).Items {
		prefix, err := addressrange.Prefix(m.Spec.Mapped)
		if err != nil {
			t.Fatal(err)
		}
		for other, name := range found {
			if other.Overlaps(prefix) {
				t.Errorf("%s has %s and %s has %s", name, other, m.Name, prefix)
			}
		}
		found[prefix] = m.Name
	}
	return found
}
