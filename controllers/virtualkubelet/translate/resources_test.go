// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/kit/kittest"
)

var list = kittest.Resources

func TestReportedAmountsAreAtMostTheRequestedOnes(t *testing.T) {
	for _, test := range []struct {
		name                              string
		reported, requested, before, want corev1.ResourceList
	}{
		{
			name: "requested amount", reported: list("cpu", "500m"), requested: list("cpu", "500m"),
			want: list("cpu", "500m"),
		},
		{
			name: "smaller amount", reported: list("cpu", "100m"), requested: list("cpu", "500m"),
			want: list("cpu", "100m"),
		},
		{name: "larger amount", reported: list("cpu", "1M"), requested: list("cpu", "500m"), want: list("cpu", "500m")},
		{name: "negative amount", reported: list("cpu", "-1"), requested: list("cpu", "500m")},
		{
			name: "resources that were not requested", reported: list("example.com/gpu", "1", "memory", "1Gi"),
			requested: list("cpu", "1"),
		},
		{
			name: "previous amount after a decrease", reported: list("cpu", "2"), requested: list("cpu", "1"),
			before: list("cpu", "2"), want: list("cpu", "2"),
		},
		{
			name: "more than the previous amount", reported: list("cpu", "3"), requested: list("cpu", "1"),
			before: list("cpu", "2"), want: list("cpu", "2"),
		},
		{name: "nothing", requested: list("cpu", "1")},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, boundedAmounts(test.reported, test.requested, test.before)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAmountsOfAWholePodAreBounded(t *testing.T) {
	local := localPod(scheduled())
	local.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Requests: list("cpu", "500m"),
		Limits:   list("cpu", "1"),
	}
	local.Spec.Containers[1].Resources = corev1.ResourceRequirements{Requests: list("cpu", "250m")}
	reported := runningStatus(0)
	reported.AllocatedResources = list("cpu", "1M")
	reported.Resources = &corev1.ResourceRequirements{
		Requests: list("cpu", "1M"), Limits: list("cpu", "1M"), Claims: []corev1.ResourceClaim{{Name: "gpu"}},
	}
	huge := corev1.ResourceList{}
	for i := range 10_000 {
		huge[corev1.ResourceName(fmt.Sprintf("example.com/%d", i))] = resource.MustParse("1")
	}
	reported.ContainerStatuses[0].AllocatedResources = huge
	reported.ContainerStatuses[0].Resources = &corev1.ResourceRequirements{Requests: list("cpu", "1M"), Limits: huge}

	got := PodStatus(local, &v1alpha1.ShadowPod{}, remotePod("remote", reported), nodeIP, later)
	if diff := cmp.Diff(list("cpu", "750m"), got.AllocatedResources); diff != "" {
		t.Errorf("allocated (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(
		&corev1.ResourceRequirements{Requests: list("cpu", "750m"), Limits: list("cpu", "1")},
		got.Resources,
	); diff != "" {
		t.Errorf("of the pod (-want +got):\n%s", diff)
	}
	app := got.ContainerStatuses[0]
	if diff := cmp.Diff(
		&corev1.ResourceRequirements{Requests: list("cpu", "500m")},
		app.Resources,
	); diff != "" ||
		app.AllocatedResources != nil {
		t.Errorf("of the container (-want +got):\n%s\nallocated %v", diff, app.AllocatedResources)
	}
}
