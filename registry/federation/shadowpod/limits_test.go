// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package shadowpod

import (
	"context"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/trust"
	"liqo.io/federation/test/etcd"
)

func TestPodsOfAConsumerAreWithinItsLimits(t *testing.T) {
	s := start(t, etcd.Start(t), true)
	// The offers state no limits, like those of administrators.
	s.offer(t, "siena", "rome", amounts("pods", "10"))
	s.offer(t, "turin", "rome", amounts("pods", "10"))
	s.offer(t, "pisa", "rome", amounts("pods", "10", "memory", "10Gi", "ephemeral-storage", "10Gi"))
	limited := func(pod *federation.ShadowPod) {
		limits := amounts("memory", "1Gi", "ephemeral-storage", "1Gi")
		pod.Spec.Pod.Containers[0].Resources = corev1.ResourceRequirements{Requests: limits, Limits: limits}
	}
	tolerating := func(keys ...string) func(*federation.ShadowPod) {
		return func(pod *federation.ShadowPod) {
			for _, key := range keys {
				pod.Spec.Pod.Tolerations = append(pod.Spec.Pod.Tolerations,
					corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
			}
		}
	}
	for _, test := range []struct {
		name, namespace string
		change, update  func(*federation.ShadowPod)
		// phase is what the consumer writes into the status of its offer before the update; empty if nothing.
		phase federation.NegotiationPhase
		// want is in the error of the last request; empty if it succeeds. A refused request is counted once.
		want string
	}{
		{name: "defaults", namespace: "field"},
		{name: "permitted", namespace: "field", change: tolerating("nvidia.com/gpu")},
		{name: "refused", namespace: "field", change: tolerating("dedicated"), want: "spec.pod.tolerations[0].key"},
		{name: "unlimited", namespace: "lab", change: tolerating("dedicated")},
		{name: "grace", namespace: "field", change: func(pod *federation.ShadowPod) {
			pod.Spec.Pod.TerminationGracePeriodSeconds = ptr.To[int64](301)
		}, want: "spec.pod.terminationGracePeriodSeconds"},
		{name: "updated", namespace: "field", update: tolerating("dedicated"), want: "spec.pod.tolerations[0].key"},
		{name: "updated-permitted", namespace: "field", change: tolerating("nvidia.com/gpu"),
			update: tolerating("nvidia.com/nic")},
		{name: "annotated", namespace: "field", update: func(pod *federation.ShadowPod) {
			pod.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "kube-system/storage"}
		}, want: "metadata.annotations[k8s.v1.cni.cncf.io/networks]"},
		{name: "limited", namespace: "forest", change: limited},
		{name: "without-limits", namespace: "forest",
			want: "spec.pod.containers[0].resources.limits[memory]: Forbidden: the provider requires"},
		{name: "offer-refused", namespace: "field", phase: federation.NegotiationRefused, update: tolerating("dedicated"),
			want: "spec.pod.tolerations[0].key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := refusals(t, trust.RefusedByLimits)
			pod := shadowPod(test.namespace, test.name, nil)
			if test.change != nil {
				test.change(pod)
			}
			ctx := in(t.Context(), test.namespace)
			_, err := s.pods.Create(ctx, pod, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
			if test.update != nil {
				if err != nil {
					t.Fatal(err)
				}
				if test.phase != "" {
					s.offers.Answer(t, "siena", "rome", test.phase)
				}
				_, _, err = s.pods.Update(ctx, test.name, rest.DefaultUpdatedObjectInfo(nil,
					func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
						changed := old.DeepCopyObject().(*federation.ShadowPod)
						test.update(changed)
						return changed, nil
					}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
			}
			if test.want == "" && err != nil || test.want != "" && (!apierrors.IsInvalid(err) ||
				!strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			counted := 0
			if test.want != "" {
				counted = 1
			}
			if got := refusals(t, trust.RefusedByLimits) - before; got != counted {
				t.Errorf("%d refusals were counted, want %d", got, counted)
			}
		})
	}
}

// registry has the metric of refused objects.
var registry = sync.OnceValue(func() metrics.KubeRegistry {
	registry := metrics.NewKubeRegistry()
	trust.RegisterMetrics(registry.MustRegister)
	return registry
})

// refusals returns how many shadow pods were refused for a reason.
func refusals(t *testing.T, reason trust.RefusalReason) int {
	t.Helper()
	families, err := registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	count := 0.0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["resource"] == "shadowpods" && labels["reason"] == string(reason) {
				count += metric.GetCounter().GetValue()
			}
		}
	}
	return int(count)
}
