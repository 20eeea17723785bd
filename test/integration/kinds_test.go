// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/consumer/virtualnode"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/kit/watches"
	"liqo.io/federation/test/integration/framework"
)

// definition returns the manifest of a CustomResourceDefinition whose objects may have any fields.
func definition(plural, scope string) string {
	return strings.NewReplacer("PLURAL", plural, "KIND", strings.ToUpper(plural[:1])+plural[1:], "SCOPE", scope).Replace(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: PLURAL.kinds.example.com
spec:
  group: kinds.example.com
  scope: SCOPE
  names: {kind: KIND, plural: PLURAL}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`)
}

// define applies the manifest of a CustomResourceDefinition, waits until its kind is served, and
// deletes it when the test ends.
func define(t *testing.T, env *framework.Environment, manifest, name string) {
	t.Helper()
	client, err := dynamic.NewForConfig(env.Admin)
	if err != nil {
		t.Fatal(err)
	}
	env.Kubectl(t, manifest, "apply", "-f", "-")
	t.Cleanup(func() {
		definitions := client.Resource(apischema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
			Resource: "customresourcedefinitions"})
		if err := definitions.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	env.Kubectl(t, "", "wait", "--for=condition=Established", "--timeout=1m", "crd/"+name)
}

func kindOf(plural string) metav1.GroupVersionResource {
	return metav1.GroupVersionResource{Group: "kinds.example.com", Version: "v1", Resource: plural}
}

// The status of a virtual node lists the kinds that the provider offers and that both clusters
// serve.
func TestAVirtualNodeFollowsOfferAndDiscovery(t *testing.T) {
	env := framework.Get(t)
	kube, federation := clients(t, env)
	peer := makeNamespaceOf(t, env, peerOf("modena"), v1alpha1.RolePeer, "modena")
	clock := testingclock.NewFakePassiveClock(time.Now())
	offers, nodes := federation.FederationV1alpha1().ResourceOffers(peer),
		federation.FederationV1alpha1().VirtualNodes(peer)
	t.Cleanup(func() {
		ctx := context.Background()
		_, _ = nodes.Patch(ctx, "modena", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{})
		_ = nodes.Delete(ctx, "modena", metav1.DeleteOptions{})
	})
	runManager(t, env.Admin, func(manager ctrl.Manager) error {
		return (&virtualnode.Reconciler{
			Client: manager.GetClient(), Live: manager.GetAPIReader(), Pods: watches.PodsOfNodes(kube),
			Kinds: kit.NewServedKinds(kube.Discovery(), clock), Clock: clock,
			ClusterID: thatID, ClusterName: "rome", Namespace: framework.Namespace,
			// Without an image, the controller creates no Deployment of a virtual kubelet.
			VirtualKubelet: virtualnode.VirtualKubelet{
				PullPolicy: "Never", ReflectedKinds: []string{"gears.v1.kinds.example.com", "planets.v1.kinds.example.com"},
			},
		}).SetupWithManager(manager)
	})

	quantities := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	must(t)(offers.Create(t.Context(), &v1alpha1.ResourceOffer{
		ObjectMeta: metav1.ObjectMeta{Name: "modena"},
		Spec: v1alpha1.ResourceOfferSpec{ClusterID: thisID, Resources: quantities,
			ReflectedKinds: []metav1.GroupVersionResource{kindOf("gears")}},
	}, metav1.CreateOptions{}))
	must(t)(nodes.Create(t.Context(), &v1alpha1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Name: "modena"},
		Spec: v1alpha1.VirtualNodeSpec{
			ClusterID: thisID, NodeName: "liqo-modena", OfferName: "modena", Resources: quantities,
			Reflection: v1alpha1.VirtualNodeReflection{Kinds: []v1alpha1.ReflectedKind{{Group: "kinds.example.com",
				Version: "v1", Resource: "gears"}}},
		},
	}, metav1.CreateOptions{}))
	await := func(reason, fragment string, copied ...metav1.GroupVersionResource) {
		t.Helper()
		var last v1alpha1.VirtualNodeStatus
		defer func() {
			if t.Failed() {
				t.Logf("status %+v", last)
			}
		}()
		until(t, "the virtual node to have the reason "+reason, func(ctx context.Context) (bool, error) {
			node, err := nodes.Get(ctx, "modena", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			last = node.Status
			condition := meta.FindStatusCondition(last.Conditions, v1alpha1.ConditionKindsReflected)
			return condition != nil && condition.Reason == reason && strings.Contains(condition.Message, fragment) &&
				fmt.Sprint(last.ReflectedKinds) == fmt.Sprint(copied), nil
		})
	}
	// later advances the clock by a minute, after which the controller refreshes discovery.
	later := func() {
		t.Helper()
		clock.SetTime(clock.Now().Add(time.Hour))
		must(t)(nodes.Patch(t.Context(), "modena", types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{"now":%q}}}`, clock.Now()), metav1.PatchOptions{}))
	}
	serve := func(plural, scope string) {
		t.Helper()
		define(t, env, definition(plural, scope), plural+".kinds.example.com")
		until(t, plural+" are served", func(context.Context) (bool, error) {
			list, err := kube.Discovery().ServerResourcesForGroupVersion("kinds.example.com/v1")
			return err == nil && strings.Contains(fmt.Sprint(list.APIResources), plural), nil
		})
		later()
	}
	offer := func(plurals ...string) {
		t.Helper()
		var kinds []string
		for _, plural := range plurals {
			kinds = append(kinds, fmt.Sprintf(`{"group":"kinds.example.com","version":"v1","resource":%q}`, plural))
		}
		must(t)(offers.Patch(t.Context(), "modena", types.MergePatchType,
			[]byte(`{"spec":{"reflectedKinds":[`+strings.Join(kinds, ",")+`]}}`), metav1.PatchOptions{}))
	}

	await("NotServed", "gears.v1.kinds.example.com: this cluster does not serve it.")
	serve("gears", "Namespaced")
	await("Reflected", "All kinds", kindOf("gears"))
	serve("planets", "Cluster")
	offer("gears", "planets")
	must(t)(nodes.Patch(t.Context(), "modena", types.MergePatchType, []byte(`{"spec":{"reflection":{"kinds":[
		{"group":"kinds.example.com","version":"v1","resource":"gears"},
		{"group":"kinds.example.com","version":"v1","resource":"planets"}]}}}`), metav1.PatchOptions{}))
	await("NotNamespaced", "planets.v1.kinds.example.com: it is not namespaced.", kindOf("gears"))
	offer()
	await("NotOffered", "gears.v1.kinds.example.com: the provider does not offer it: it must be in the provider's "+
		"policy.reflectedKinds, and the provider must serve it; planets")
	must(t)(nodes.Patch(t.Context(), "modena", types.MergePatchType, []byte(`{"spec":{"reflection":null}}`),
		metav1.PatchOptions{}))
	until(t, "the condition is removed", func(ctx context.Context) (bool, error) {
		node, err := nodes.Get(ctx, "modena", metav1.GetOptions{})
		return err == nil && meta.FindStatusCondition(node.Status.Conditions, v1alpha1.ConditionKindsReflected) == nil, err
	})
}

// A spec with a kind that must not be reflected is refused.
func TestKindsThatAreNotForPeersAreRefused(t *testing.T) {
	env := framework.Get(t)
	namespace := env.MakeNamespace(t)
	for _, test := range []struct{ name, kind, fragment string }{
		{"pods", `{"version":"v1","resource":"pods"}`, `spec.reflection.kinds[0].group: Forbidden: no kind of group "" can be configured`},
		{"roles", `{"group":"rbac.authorization.k8s.io","version":"v1","resource":"roles"}`, "spec.reflection.kinds[0].group: Forbidden"},
		{"a subresource", `{"group":"example.com","version":"v1","resource":"widgets/status"}`, "spec.reflection.kinds[0].resource: Invalid value"},
		{"an unknown policy", `{"version":"v1","resource":"secrets","policy":"Maybe"}`, "spec.reflection.kinds[0].policy: Unsupported value"},
		{"a key of the federation", `{"version":"v1","resource":"secrets","excludedAnnotations":["liqo.io/skip-reflection"]}`, "spec.reflection.kinds[0].excludedAnnotations[0]: Forbidden"},
	} {
		t.Run(test.name, func(t *testing.T) {
			manifest := fmt.Sprintf(`{"apiVersion":"federation.liqo.io/v1alpha1","kind":"VirtualNode",
				"metadata":{"name":"wrong"},"spec":{"clusterID":%q,"nodeName":"liqo-wrong","resources":{"cpu":"1"},
				"reflection":{"kinds":[%s]}}}`, thisID, test.kind)
			output, err := env.TryKubectl(t, manifest, "create", "-n", namespace, "-f", "-")
			if err == nil || !strings.Contains(output, test.fragment) {
				t.Errorf("%v: %s", err, output)
			}
		})
	}
}
