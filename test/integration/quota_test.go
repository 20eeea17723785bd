// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/naming"
	"liqo.io/federation/apiserver/quota"
	"liqo.io/federation/generated/clientset/versioned"
	"liqo.io/federation/test/concurrent"
	"liqo.io/federation/test/integration/framework"
)

func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// grant creates the tenant namespace of a consumer with an accepted offer of these resources.
func grant(t *testing.T, env *framework.Environment, federation versioned.Interface, consumer string,
	granted corev1.ResourceList) {
	t.Helper()
	makeNamespaceOf(t, env, naming.TenantNamespace(consumer), v1alpha1.RoleTenant, consumer)
	offerTo(t, federation, consumer, granted)
}

// offerTo creates an offer in the tenant namespace of a consumer, and accepts it.
func offerTo(t *testing.T, federation versioned.Interface, consumer string, granted corev1.ResourceList) {
	t.Helper()
	tenant := naming.TenantNamespace(consumer)
	must(t)(federation.FederationV1alpha1().ResourceOffers(tenant).Create(t.Context(), &v1alpha1.ResourceOffer{
		ObjectMeta: metav1.ObjectMeta{Name: framework.ClusterName},
		Spec:       v1alpha1.ResourceOfferSpec{ClusterID: thisID, Resources: granted},
	}, metav1.CreateOptions{}))
	accept(t, federation, tenant, framework.ClusterName)
}

// accept accepts an offer as its consumer does.
func accept(t *testing.T, federation versioned.Interface, tenant, offer string) {
	t.Helper()
	must(t)(federation.FederationV1alpha1().ResourceOffers(tenant).Patch(t.Context(), offer, types.MergePatchType,
		[]byte(`{"status":{"phase":"Accepted"}}`), metav1.PatchOptions{}, "status"))
}

// grantee is a consumer with a quota and two remote namespaces. It has a federation API server of
// its own.
type grantee struct {
	server     *framework.Server
	federation versioned.Interface
	consumer   string
	namespaces []string
}

func newGrantee(t *testing.T, consumer string, granted corev1.ResourceList) *grantee {
	t.Helper()
	env := framework.Get(t)
	b := &grantee{server: env.StartServer(t, env.MakeDataDir(t)), consumer: consumer}
	b.federation = b.client(t, b.server.Client(env.Admin))
	for i := range 2 {
		b.namespaces = append(b.namespaces,
			makeNamespaceOf(t, env, fmt.Sprintf("%s-remote-%d", consumer, i), v1alpha1.RoleRemoteNamespace, consumer))
	}
	grant(t, env, b.federation, consumer, granted)
	return b
}

func (b *grantee) client(t *testing.T, config *rest.Config) versioned.Interface {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (b *grantee) post(ctx context.Context, namespace int, name, cpu string) error {
	spec := shadowPodSpec()
	spec.Containers[0].Resources.Requests = amounts("cpu", cpu)
	_, err := b.federation.FederationV1alpha1().ShadowPods(b.namespaces[namespace]).Create(ctx, &v1alpha1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ShadowPodSpec{Pod: spec},
	}, metav1.CreateOptions{})
	return err
}

// uses returns the sum of the requests of the consumer's ShadowPods.
func (b *grantee) uses(t *testing.T) corev1.ResourceList {
	t.Helper()
	list, err := b.federation.FederationV1alpha1().ShadowPods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	used := corev1.ResourceList{}
	for i := range list.Items {
		if pod := &list.Items[i]; pod.Status.ForeignCluster == b.consumer && pod.Status.Phase == "" {
			quota.Add(used, quota.Takes(&pod.Spec.Pod, pod.Status.AllocatedResources))
		}
	}
	return used
}

func TestAConsumerGetsNoMoreThanItWasGranted(t *testing.T) {
	granted := amounts("cpu", "2", "pods", "100")
	b := newGrantee(t, "asti", granted)
	created, refused := concurrent.Create(t, 32, 5, func(w, i int) error {
		return b.post(t.Context(), (w+i)%2, fmt.Sprintf("w%d-%d", w, i), "100m")
	})
	if created != 20 || refused != 140 {
		t.Errorf("%d are created and %d refused, want 20 created", created, refused)
	}

	err := b.post(t.Context(), 0, "too-many", "500m")
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusForbidden ||
		!strings.Contains(err.Error(),
			"the quota of consumer asti is exceeded: cpu: 500m requested, 2 of 2 granted used, 0 left") {
		t.Fatalf("one beyond the quota is answered with: %v", err)
	}
	if causes := status.Status().Details.Causes; len(causes) != 1 || causes[0].Type != v1alpha1.CauseQuotaExceeded ||
		causes[0].Field != "cpu" {
		t.Errorf("causes: %+v", causes)
	}
}

func TestGrantsAreKeptWhenTheServerIsKilled(t *testing.T) {
	granted := amounts("cpu", "1", "pods", "100")
	b := newGrantee(t, "verbania", granted)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writers sync.WaitGroup
	acknowledged := sync.Map{}
	var turns atomic.Int64
	for w := range 16 {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("w%d-%d", w, i)
				if b.post(ctx, w%2, name, "10m") == nil {
					acknowledged.Store(name, w%2)
				}
				turns.Add(1)
			}
		})
	}
	for range 3 {
		before := turns.Load()
		until(t, "the writers run", func(context.Context) (bool, error) { return turns.Load() > before+10, nil })
		b.server.Stop(t, syscall.SIGKILL)
		b.server.Start(t)
	}
	cancel()
	writers.Wait()
	if over := quota.Exceeded(granted, b.uses(t)); len(over) > 0 {
		t.Errorf("the usage exceeds the quota: %s", quota.Sentence(over))
	}
	acknowledged.Range(func(name, namespace any) bool {
		if _, err := b.federation.FederationV1alpha1().ShadowPods(b.namespaces[namespace.(int)]).Get(t.Context(),
			name.(string), metav1.GetOptions{}); err != nil {
			t.Errorf("it was acknowledged: %v", err)
		}
		return true
	})

	// Reservations of failed requests must be released, so that the rest of the quota can be used.
	rest := 0
	until(t, "the whole quota is used", func(ctx context.Context) (bool, error) {
		err := b.post(ctx, 0, fmt.Sprintf("rest-%d", rest), "10m")
		rest++
		if err != nil && !apierrors.IsForbidden(err) {
			return false, err
		}
		used := b.uses(t)[corev1.ResourceCPU]
		return used.Cmp(granted[corev1.ResourceCPU]) == 0, nil
	})
}

func TestEndedPodsReleaseQuota(t *testing.T) {
	b := newGrantee(t, "novara", amounts("cpu", "1", "pods", "2"))
	shadows := b.federation.FederationV1alpha1().ShadowPods(b.namespaces[0])
	full := func(name string) {
		t.Helper()
		if err := b.post(t.Context(), 1, name, "1m"); !apierrors.IsForbidden(err) {
			t.Errorf("a third pod: %v", err)
		}
	}
	for _, name := range []string{"a", "b"} {
		must(t)(nil, b.post(t.Context(), 0, name, "100m"))
	}
	full("c")
	must(t)(shadows.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`),
		metav1.PatchOptions{}, "status"))
	must(t)(nil, b.post(t.Context(), 1, "c", "1m"))
	full("d")
	must(t)(nil, shadows.Delete(t.Context(), "b", metav1.DeleteOptions{}))
	// The pod of the deleted ShadowPod may still run, so it still counts.
	full("d")
	must(t)(shadows.Patch(t.Context(), "b", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}))
	must(t)(nil, b.post(t.Context(), 1, "d", "1m"))
	full("e")
}
