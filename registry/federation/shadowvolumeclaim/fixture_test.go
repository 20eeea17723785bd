// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowvolumeclaim

import (
	"context"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/registry/federation/reservation/storagequota"
	"liqo.io/federation/registry/federation/store"
	"liqo.io/federation/test/registrytest"
)

// consumers has the consumer of each remote namespace. Namespace unlabelled has no label that names its consumer.
// Namespace local, which is not in the map, is not a remote namespace.
var consumers = map[string]string{"web": "milan", "shop": "milan", "lab": "turin", "unlabelled": ""}

func consumerOf(_ context.Context, namespace string) (string, bool, error) {
	consumer, remote := consumers[namespace]
	return consumer, remote, nil
}

func alone(_ context.Context, namespace string) ([]string, error) { return []string{namespace}, nil }

// server is an API server in a test. Several may use the same etcd.
type server struct {
	claims *REST
	status *store.StatusREST
	offers registrytest.Offers
	stop   func()
}

// retained has the volumes that a provider retains, by consumer.
type retained struct {
	mutex   sync.Mutex
	volumes map[string][]corev1.PersistentVolume
	err     error
}

func (r *retained) of(_ context.Context, consumer string) ([]corev1.PersistentVolume, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.volumes[consumer]), r.err
}

// add adds a volume of a consumer.
func (r *retained) add(consumer, name, class, size string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.volumes == nil {
		r.volumes = map[string][]corev1.PersistentVolume{}
	}
	r.volumes[consumer] = append(r.volumes[consumer], corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
		},
	})
}

// set replaces the volumes of all consumers, and the error of reading them.
func (r *retained) set(volumes map[string][]corev1.PersistentVolume, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.volumes, r.err = volumes, err
}

// start starts a server of a provider that retains no volumes. single is true if no other server uses the etcd.
func start(t testing.TB, endpoint string, single bool) *server {
	t.Helper()
	return startWith(t, endpoint, single, &retained{})
}

func startWith(t testing.TB, endpoint string, single bool, volumes *retained) *server {
	t.Helper()
	scheme, options := registrytest.Options(endpoint)
	quotas, err := storagequota.Open(options, single, volumes.of)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{}
	if s.claims, s.status, err = New(quotas, consumerOf, alone)(scheme, options); err != nil {
		t.Fatal(err)
	}
	s.offers = registrytest.NewOffers(t, scheme, options)
	s.stop = registrytest.Run(t, quotas, []interface{ Destroy() }{s.claims, s.offers},
		func(ctx context.Context) { quotas.Run(ctx, s.claims) }, s.claims.Tend)
	return s
}

func in(ctx context.Context, namespace string) context.Context {
	return genericapirequest.WithNamespace(ctx, namespace)
}

func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for pair := range slices.Chunk(pairs, 2) {
		list[corev1.ResourceName(pair[0])] = resource.MustParse(pair[1])
	}
	return list
}

// offer creates a ResourceOffer that the consumer has accepted.
func (s *server) offer(t testing.TB, consumer, name string, storage corev1.ResourceList, classes ...string) {
	t.Helper()
	s.offers.Accepted(t, consumer, name, federation.ResourceOfferSpec{
		Resources: amounts("cpu", "1"), Storage: storage, StorageClasses: classes,
	})
}

func claim(namespace, name, class, size string) *federation.ShadowVolumeClaim {
	return &federation.ShadowVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: federation.ShadowVolumeClaimSpec{
			StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Storage: resource.MustParse(size), DeletionPolicy: federation.VolumeDeletionRetain,
		},
	}
}

func (s *server) create(ctx context.Context, namespace, name, class, size string) error {
	_, err := s.claims.Create(in(ctx, namespace), claim(namespace, name, class, size), rest.ValidateAllObjectFunc,
		&metav1.CreateOptions{})
	return err
}

// resize updates the requested size of a claim.
func (s *server) resize(ctx context.Context, namespace, name, size string, options *metav1.UpdateOptions) error {
	_, _, err := s.claims.Update(in(ctx, namespace), name,
		registrytest.Changed(func(c *federation.ShadowVolumeClaim) { c.Spec.Storage = resource.MustParse(size) }),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, options)
	return err
}

// report updates the status of a claim, like the provider's controller.
func (s *server) report(ctx context.Context, namespace, name string,
	change func(*federation.ShadowVolumeClaimStatus)) error {
	_, _, err := s.status.Update(in(ctx, namespace), name,
		registrytest.Changed(func(c *federation.ShadowVolumeClaim) { change(&c.Status) }),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}

// remove deletes a claim.
func (s *server) remove(ctx context.Context, namespace, name string) error {
	_, _, err := s.claims.Delete(in(ctx, namespace), name, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
	return err
}

// release removes the finalizers of a claim, like the provider's controller.
func (s *server) release(ctx context.Context, namespace, name string) error {
	_, _, err := s.claims.Update(in(ctx, namespace), name,
		registrytest.Changed(func(c *federation.ShadowVolumeClaim) { c.Finalizers = nil }),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}

func (s *server) get(t testing.TB, namespace, name string) *federation.ShadowVolumeClaim {
	t.Helper()
	stored, err := s.claims.Get(in(t.Context(), namespace), name, &metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return stored.(*federation.ShadowVolumeClaim)
}

// uses returns the total usage of a consumer's stored claims.
func (s *server) uses(t testing.TB, consumer string) corev1.ResourceList {
	t.Helper()
	list, err := s.claims.List(in(context.Background(), metav1.NamespaceAll), &internalversion.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	used := corev1.ResourceList{}
	for i := range list.(*federation.ShadowVolumeClaimList).Items {
		if c := &list.(*federation.ShadowVolumeClaimList).Items[i]; c.Status.ForeignCluster == consumer {
			quota.Add(used, storagequota.Uses(c))
		}
	}
	return used
}
