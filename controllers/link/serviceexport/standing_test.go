// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceexport

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
)

// words returns conditions as type=status reason.
func words(conditions []metav1.Condition) []string {
	var all []string
	for _, c := range conditions {
		all = append(all, c.Type+"="+string(c.Status)+" "+c.Reason)
	}
	return all
}

func TestStandingIsReportedByConditions(t *testing.T) {
	for _, test := range []struct {
		name     string
		standing standing
		before   []metav1.Condition
		want     []string
	}{
		{"a Service is exported", exportable(&corev1.Service{}), nil,
			[]string{"Valid=True Valid", "Ready=True Exported", "Conflict=False NoConflicts"}},
		{
			"one with a load balancer is, too",
			exportable(&corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}), nil,
			[]string{"Valid=True Valid", "Ready=True Exported", "Conflict=False NoConflicts"},
		},
		{"without a Service it waits", exportable(nil), nil, []string{"Valid=False NoService", "Ready=False Pending"}},
		{
			"an alias has no endpoints",
			exportable(&corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName}}), nil,
			[]string{"Valid=False InvalidServiceType", "Ready=False Failed"},
		},
		{"the name is taken", nameTaken, nil, []string{"Valid=True Valid", "Ready=False Failed",
			"Conflict=False NoConflicts"}},
		{
			"an unoffloaded namespace leaves the Service valid", notOffloaded,
			[]metav1.Condition{{Type: "Valid", Status: metav1.ConditionTrue, Reason: "Valid"},
				{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Exported"}},
			[]string{"Valid=True Valid", "Ready=False NotOffloaded"},
		},
		{
			"conditions of others stay", exportable(nil),
			[]metav1.Condition{{Type: "example.com/Seen", Status: metav1.ConditionTrue, Reason: "Seen"}},
			[]string{"example.com/Seen=True Seen", "Valid=False NoService", "Ready=False Pending"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			status := mcsv1alpha1.ServiceExportStatus{Conditions: test.before}
			test.standing.report(&status, 3)
			if diff := cmp.Diff(test.want, words(status.Conditions)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again := *status.DeepCopy()
			test.standing.report(&again, 3)
			if diff := cmp.Diff(status, again); diff != "" {
				t.Errorf("a second report changes it:\n%s", diff)
			}
		})
	}
}
