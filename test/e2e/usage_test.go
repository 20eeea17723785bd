// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"path/filepath"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/test/harness"
)

// scalesByUsage checks that a HorizontalPodAutoscaler of rome scales by the usage of pods on milan,
// which the metrics servers of both clusters report, and that kubectl top prints this usage.
func scalesByUsage(t *testing.T) {
	const image = "liqo.io/metrics-server:dev"
	tar := filepath.Join(t.TempDir(), "image.tar")
	if err := playground.Build(t.Context(), "metrics-server"); err != nil {
		t.Fatal(err)
	}
	if err := playground.Image(t.Context(), playground.Bin("metrics-server"), image, tar); err != nil {
		t.Fatal(err)
	}
	if err := playground.Load(t.Context(), tar); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(playground.Root, "test", "e2e", "testdata", "metrics-server.yaml")
	for _, c := range []*harness.Cluster{milan, rome} {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), soon)
			defer cancel()
			if err := c.Kubectl(ctx, "delete", "--ignore-not-found", "-f", manifest).Err; err != nil {
				t.Error(err)
			}
		})
		kubectl(t, c, "apply", "-f", manifest)
	}
	for _, c := range []*harness.Cluster{milan, rome} {
		kubectl(t, c, "wait", "--for=condition=Available", "apiservice/v1beta1.metrics.k8s.io", "--timeout=100s")
	}

	o := offloaded(t, remoteOnly)
	spec := podSpec("burn")
	spec.Containers[0].Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")},
	}
	runDeployment(t, o.namespace, "furnace", 1, spec)
	kubectl(t, rome, "autoscale", "deployment", "furnace", "-n", o.namespace, "--cpu=50%", "--min=1", "--max=2")
	for what, command := range map[string][]string{
		"the pod":          {"top", "pod", "-n", o.namespace, "--no-headers"},
		"the virtual node": {"top", "node", virtualNode, "--no-headers"},
	} {
		eventually(t, 2*soon, "kubectl top to show what "+what+" uses", func(ctx context.Context) (bool, string, error) {
			result := rome.Kubectl(ctx, command...)
			return regexp.MustCompile(` [1-9][0-9]+m +`).MatchString(result.Stdout), result.Stdout + result.Stderr, nil
		})
	}
	eventually(t, 2*soon, "the autoscaler to create another pod", func(ctx context.Context) (bool, string, error) {
		d, err := rome.Kube.AppsV1().Deployments(o.namespace).Get(ctx, "furnace", metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		return d.Status.ReadyReplicas == 2, show(d.Status), nil
	})
}
